"""Many users at once: ids under any load are those of the request alone; requests join and leave at any step."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from tests.engine.naive import LanguageMatcher
from tests.engine.serving import Heard, contents, hall
from tests.engine.worlds import EOS, PIECES, VOCAB, Answer, world

from outrider.api import (
    Chunk,
    Constraint,
    ConstraintKind,
    Drafted,
    Failed,
    FailureKind,
    FinishReason,
    LiveState,
    Request,
    Sampling,
)
from outrider.backends.base import Extend
from outrider.core.step import Budget, View
from outrider.core.types import Draft
from outrider.drafters.hybrid import First
from outrider.drafters.ngram import NgramDrafter
from outrider.drafters.predicted import PredictedDrafter
from outrider.drafters.suffix import SuffixDrafter
from outrider.engine.engine import Engine
from outrider.engine.service import Service
from outrider.errors import BackendError, Draining, Overloaded, UsageError
from outrider.policy.goodput import Goodput
from outrider.testing import drafters
from outrider.testing.drafters import FunctionDrafter
from outrider.testing.table import RandomLaw, TableBackend, TableScores
from outrider.testing.text import PieceDetokenizer

LAW = RandomLaw(VOCAB, 2, seed=12)
STRINGS = "abcab|abca|bcabc\nab|bc bc bc|cabx"


def alone(request: Request) -> list[Answer]:
    # Plainly: a prediction is for a drafter, and there is none.
    return world(LAW, matchers=LanguageMatcher).answer(replace(request, prediction=()))


def mixed(count: int, seed: int = 1) -> list[Request]:
    """Requests of every kind, several of them with a beginning in common."""
    chance = random.Random(seed)
    system = tuple(chance.randrange(VOCAB - 1) for _ in range(13))
    kinds = (
        Request((), 20),
        Request((), 30, Sampling(1.0, 5), ignore_eos=True),
        Request((), 12, Sampling(0.7, 6, top_k=5, repetition_penalty=1.3, frequency_penalty=0.2)),
        Request((), 40, constraint=Constraint(ConstraintKind.REGEX, STRINGS)),
        Request((), 25, Sampling(1.0, 7), stop=("ab", "c a"), ignore_eos=True),
        Request((), 10, Sampling(1.2, 8), n=3),
        Request((), 8, logprobs=2, prompt_logprobs=1, n=2),
        Request((), 16, ignore_eos=True, speculate=False),
        Request((), 24, ignore_eos=True, prediction=(1, 2, 3, 4), scope="ann"),
    )
    requests = []
    for index in range(count):
        own = tuple(chance.randrange(VOCAB - 1) for _ in range(chance.choice((1, 3, 9, 30))))
        prompt = (*system, *own) if chance.random() < 0.5 else own
        kind = kinds[index % len(kinds)]
        requests.append(replace(kind, prompt=prompt, sampling=replace(kind.sampling, seed=index)))
    return requests


@pytest.mark.parametrize("blocks", [23, 1000], ids=["little memory", "much memory"])
def test_64_mixed_requests_get_what_each_gets_alone(blocks: int) -> None:
    requests = mixed(64)
    drafter = First([PredictedDrafter(), SuffixDrafter(1 << 20), NgramDrafter()])
    made = hall(LAW, drafter, blocks=blocks, slots=24, chunk_rows=32, beside_rows=12)
    chance = random.Random(2)
    heard: list[Heard] = []
    cancelled: set[int] = set()
    for index, request in enumerate(requests):
        ticket, one = made.submit(request)
        heard.append(one)
        for _ in range(chance.choice((0, 0, 1, 3))):
            made.service.step()
        if chance.random() < 0.2 and not one.ended:
            made.service.cancel(ticket)
            cancelled.add(index)
    made.run()
    assert 5 < len(cancelled) < 30
    assert not any(heard[index].ended for index in cancelled)
    for index in set(range(64)) - cancelled:
        assert contents(heard[index].answers) == contents(alone(requests[index])), requests[index]
    taken = made.service.snapshot()
    assert taken.accepted > 20
    assert taken.drafted > taken.accepted
    assert sum(taken.accepted_by_position) == taken.accepted
    assert sum(taken.drafted_by_position) == taken.drafted
    assert taken.prefix_hits_tok > 50
    if blocks == 23:
        assert taken.preemptions > 3
    made.check_nothing_is_left()


def test_requests_join_and_leave_at_any_step() -> None:
    """One that decodes gives a token with every step, whoever comes and goes."""
    made = hall(LAW, beside_rows=4)
    _, first = made.submit(Request((1, 2), 60, ignore_eos=True))
    made.service.step()
    tickets = []
    for step in range(50):
        if step % 3 == 0:
            tickets.append(made.submit(Request((step % 7,) * 11, 9, ignore_eos=True))[0])
        if step % 7 == 0:
            made.service.cancel(tickets.pop(0))
        before = len(first.chunks)
        made.service.step()
        assert len(first.chunks) == before + 1
    made.run()
    assert contents(first.answers) == contents(alone(Request((1, 2), 60, ignore_eos=True)))
    made.check_nothing_is_left()


def test_a_long_prompt_holds_a_short_request_up_for_a_bounded_time() -> None:
    made = hall(LAW, beside_rows=8, chunk_rows=16)
    long = Request(tuple(index % 5 for index in range(200)), 3, ignore_eos=True)
    made.submit(long)
    made.submit(long)
    _, short = made.submit(Request((1, 2, 3, 4, 5, 6), 2, ignore_eos=True))
    made.service.step()
    assert len(short.chunks) == 1
    made.run()
    made.check_nothing_is_left()


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_a_cancelled_request_is_gone_within_a_step(steps: int) -> None:
    drafter = drafters.uniform(VOCAB, 3)
    made = hall(LAW, drafter, slots=2)
    ticket, heard = made.submit(Request((1, 2, 3), 50, Sampling(1.0, 2), ignore_eos=True, n=4))
    for _ in range(steps):
        made.service.step()
    count = len(heard.chunks)
    assert (count > 0) == (steps > 0)
    made.service.cancel(ticket)
    made.service.cancel(ticket)
    made.service.cancel(ticket + 99)
    made.service.step()
    assert len(heard.chunks) == count
    assert made.service.snapshot().sequences == 0
    assert made.backend.blocks_used == made.service.snapshot().kv_blocks_cached
    made.check_nothing_is_left()


def test_a_full_queue_says_when_to_come_again() -> None:
    now = [0.0]
    made = hall(LAW, slots=1, queue=2, clock=lambda: now[0])
    request = Request((1,), 4, ignore_eos=True)
    for _ in range(2):
        made.submit(request)
    with pytest.raises(Overloaded, match="2 requests wait already, as many as may; try again in 1 seconds"):
        made.submit(request)
    made.service.step()  # one of them runs now
    made.submit(request)
    for _ in range(8):
        made.service.step()
        now[0] += 2.5
    made.submit(request)
    made.submit(request)
    with pytest.raises(Overloaded) as refused:
        made.submit(request)
    assert 5.0 < refused.value.retry_after_s < 20.0
    now[0] += 1e6
    with pytest.raises(Overloaded) as refused:
        made.submit(request)
    assert refused.value.retry_after_s == 60.0
    made.run()
    made.check_nothing_is_left()


def test_a_bad_request_is_refused_at_once_and_harms_nobody() -> None:
    made = hall(LAW)
    _, heard = made.submit(Request((1,), 4, ignore_eos=True))
    with pytest.raises(UsageError, match="temperature is -1"):
        made.submit(Request((1,), sampling=Sampling(-1.0)))
    with pytest.raises(UsageError, match="which nothing satisfies"):
        made.submit(Request((1,), constraint=Constraint(ConstraintKind.REGEX, "!")))
    with pytest.raises(UsageError, match="scope is 7; give a text"):
        made.submit(Request((1,), scope=7))  # type: ignore[arg-type]
    made.run()
    assert heard.answers[0].finish is FinishReason.LENGTH
    made.check_nothing_is_left()


def test_a_listener_that_raises_is_abandoned_alone(caplog: pytest.LogCaptureFixture) -> None:
    made = hall(LAW)
    _, heard = made.submit(Request((1,), 20, ignore_eos=True))
    calls: list[object] = []

    def broken(what: Chunk | Failed) -> None:
        calls.append(what)
        raise RuntimeError("this listener is broken on purpose")

    made.service.submit(Request((2,), 20, ignore_eos=True), broken)
    made.run()
    assert len(calls) == 1
    assert len(heard.answers[0].ids) == 20
    assert "the listener of request 2 raised" in caplog.text
    made.check_nothing_is_left()


def test_a_listener_may_cancel_and_submit() -> None:
    made = hall(LAW)
    later = Heard(1)
    tickets: list[int] = []

    def once(what: Chunk | Failed) -> None:
        made.service.cancel(tickets[0])
        made.service.submit(Request((3,), 5, ignore_eos=True), later)

    tickets.append(made.service.submit(Request((2,), 20, ignore_eos=True), once))
    made.run()
    assert len(later.answers[0].ids) == 5
    made.check_nothing_is_left()


class Complex(LanguageMatcher):
    """Gives up behind the third token, as a grammar that becomes too complex does."""

    def push(self, token: int) -> bool:
        if len(self._tokens) == 3:
            raise BackendError("the constraint's grammar became too complex after 3 tokens; simplify it")
        return super().push(token)


@pytest.mark.parametrize("gamma", [0, 4])
def test_a_constraint_that_fails_in_the_middle_ends_its_request_alone(gamma: int) -> None:
    made = hall(LAW, NgramDrafter() if gamma else None, matchers=Complex)
    fine = Request((1, 2), 20, ignore_eos=True)
    _, heard = made.submit(fine)
    _, failed = made.submit(Request((1, 2), 9, n=2, constraint=Constraint(ConstraintKind.REGEX, "aaaaaaa")))
    made.run()
    assert failed.failed == Failed(
        0, "the constraint's grammar became too complex after 3 tokens; simplify it", FailureKind.USAGE
    )
    assert contents(heard.answers) == contents(alone(fine))
    made.check_nothing_is_left()


def test_a_detokenizer_that_fails_ends_its_request_alone() -> None:
    class Odd:
        def push(self, token: int) -> str:
            if token == 3:
                raise ValueError("no text for 3")
            return PIECES[token]

        def flush(self) -> str:
            return ""

    made = hall(LAW, detokenizer=Odd)
    heard = {token: made.submit(Request((1, 2), 9, Sampling(allowed_token_ids=(token,))))[1] for token in (3, 4)}
    made.run()
    assert heard[3].failed == Failed(
        0, "an internal error ended this answer (ValueError: no text for 3)", FailureKind.INTERNAL
    )
    assert heard[4].answers[0].ids == (4,) * 9
    made.check_nothing_is_left()


def test_draining_finishes_what_it_has_and_refuses_the_rest() -> None:
    made = hall(LAW)
    _, heard = made.submit(Request((1,), 5, ignore_eos=True))
    assert not made.service.drain(0.0)
    assert made.service.snapshot().state is LiveState.DRAINING
    with pytest.raises(Draining, match="takes no new requests"):
        made.submit(Request((1,)))
    made.run()
    assert made.service.drain(0.0)
    assert len(heard.answers[0].ids) == 5
    made.check_nothing_is_left()
    assert made.service.snapshot().state is LiveState.CLOSED


def test_close_tells_every_listener() -> None:
    made = hall(LAW, slots=2)
    heard = [made.submit(Request((index,), 50, ignore_eos=True))[1] for index in range(5)]
    made.service.step()
    made.service.close()
    made.service.close()
    assert [one.failed is not None and one.failed.kind for one in heard] == [FailureKind.OVERLOAD] * 5
    assert [len(one.chunks) for one in heard] == [1, 1, 0, 0, 0]
    assert made.backend.sequences == made.backend.blocks_used == 0
    with pytest.raises(Draining):
        made.submit(Request((1,)))


def test_the_numbers_of_a_snapshot() -> None:
    law_says = world(LAW).answer(Request((1, 2), 9, ignore_eos=True))[0].ids
    made = hall(LAW, drafters.oracle({(1, 2): law_says}, EOS), blocks=50)
    made.submit(Request((1, 2), 9, ignore_eos=True))
    made.submit(Request((1, 2, 3, 4, 5), 1, ignore_eos=True, speculate=False))
    waiting = made.service.snapshot()
    assert (waiting.running, waiting.waiting, waiting.passes) == (0, 2, 0)
    made.service.step()
    taken = made.service.snapshot()
    assert (taken.state, taken.running, taken.waiting, taken.sequences) == (LiveState.READY, 1, 0, 1)
    assert (taken.passes, taken.rows, taken.tokens, taken.budget) == (1, 2 + 4 + 5, 5 + 1, 2.0)
    assert (taken.kv_blocks_used, taken.kv_blocks_cached, taken.kv_blocks_total, taken.kv_bytes_total) == (
        3,
        1,
        50,
        200,
    )
    made.run()
    taken = made.service.snapshot()
    assert (taken.passes, taken.tokens, taken.drafted, taken.accepted) == (2, 10, 7, 7)
    assert taken.drafted_by_position == taken.accepted_by_position == (2, 2, 2, 1)
    assert taken.drafters == (Drafted("oracle", 7, 7, (2, 2, 2, 1), (2, 2, 2, 1)),)
    assert taken.pass_rows_histogram == (0, 0, 1, 0, 1)
    assert taken.prefix_misses_tok == 7
    assert taken.goodput_tok_s > 0.0


class Clocked(TableBackend):
    """Its clock goes on with each pass, by what a machine would need for which rows are not free."""

    now_s = 0.0

    def extend(self, items: Sequence[Extend]) -> TableScores:
        rows = sum(len(item.tokens) for item in items)
        self.now_s += 1e-3 * (4.0 + 0.1 * min(rows, 8) + 1.0 * max(rows - 8, 0))
        return super().extend(items)


def test_goodput_drafts_less_as_rows_fill_the_pass() -> None:
    """Alone, drafts that come true three times in five are worth their rows; beside 30 others they are not."""
    chance = random.Random(3)

    def guess(view: View, budget: Budget) -> Draft:
        rows, known, tokens = LAW, list(view.tokens), []
        for _ in range(budget.depth):
            known.append(int(np.argmax(rows(tuple(known)))))
            tokens.append(known[-1] if chance.random() < 0.6 else 10)
        return Draft.chain(tuple(tokens))

    backend = Clocked(LAW, VOCAB, 512, block_tokens=4)
    engine = Engine(
        backend,
        FunctionDrafter("three in five", guess),
        Goodput(),
        lambda: PieceDetokenizer(PIECES),
        frozenset({EOS}),
        clock=lambda: backend.now_s,
    )
    service = Service(engine, 4 * 5000)

    def drafted(streams: int) -> float:
        before = service.snapshot()
        for index in range(streams):
            service.submit(Request((index % 11,), 150, ignore_eos=True), Heard(1))
        while service.busy:
            service.step()
        after = service.snapshot()
        return (after.drafted - before.drafted) / (after.tokens - before.tokens)

    assert drafted(1) > 0.5
    assert drafted(31) < 0.1
    assert drafted(1) > 0.5
    service.close()
