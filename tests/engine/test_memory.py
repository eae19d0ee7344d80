"""Memory by the block: pauses and evictions never show in an answer, nothing leaks, what cannot fit is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.engine.naive import LanguageMatcher
from tests.engine.serving import BLOCK, Hall, Heard, contents, hall
from tests.engine.worlds import EOS, VOCAB, Answer, world

from outrider.api import Constraint, ConstraintKind, FailureKind, Request, Sampling
from outrider.backends.base import Extend
from outrider.core.step import Budget, View
from outrider.core.types import Draft
from outrider.drafters.ngram import NgramDrafter
from outrider.engine.memory import Budgeted
from outrider.errors import BackendError, UsageError
from outrider.policy.fixed import Fixed
from outrider.testing import drafters
from outrider.testing.drafters import FunctionDrafter
from outrider.testing.table import RandomLaw, TableBackend, TableScores

LAW = RandomLaw(VOCAB, 2, seed=21)
FREE = Request((1, 2, 3), 30, ignore_eos=True)
REQUESTS = [
    FREE,
    Request((4, 5), 33, Sampling(1.0, 3), ignore_eos=True),
    Request(
        (1, 2, 3, 4, 5, 6, 7), 25, Sampling(0.8, 4, repetition_penalty=1.5, frequency_penalty=0.5), ignore_eos=True
    ),
    Request((6,), 30, constraint=Constraint(ConstraintKind.REGEX, "abcabcabcabcabc|abcabcabcabcx|bcabcabc")),
    Request((2, 2), 20, Sampling(1.0, 5), stop=("ab",), ignore_eos=True),
    Request((3,) * 11, 12, logprobs=1, prompt_logprobs=2, ignore_eos=True),
    Request((5,) * 9, 8, Sampling(1.1, 9), n=4, ignore_eos=True),
]


def alone(request: Request) -> list[Answer]:
    return world(LAW, matchers=LanguageMatcher).answer(request)


@pytest.mark.parametrize("drafter", ["none", "ngram", "trees"])
@pytest.mark.parametrize("blocks", [9, 10, 13, 20, 40])
def test_answers_do_not_tell_how_little_memory_there_was(blocks: int, drafter: str) -> None:
    known = {tuple(request.prompt): alone(request)[0].ids for request in REQUESTS}
    makers = {"none": None, "ngram": NgramDrafter(), "trees": drafters.trees(known, EOS, VOCAB, 2)}
    made = hall(LAW, makers[drafter], blocks=blocks, slots=5, chunk_rows=8, beside_rows=5)
    found = made.ask(*REQUESTS)
    for request, answers in zip(REQUESTS, found, strict=True):
        assert contents(answers) == contents(alone(request)), request
    taken = made.service.snapshot()
    assert (taken.preemptions > 0) == (blocks < 40)
    if drafter != "none":
        assert taken.accepted > 0
    made.check_nothing_is_left()


def test_a_paused_answer_goes_on_where_it_was() -> None:
    """What its drafter is told and its listener hears is one answer, and its bill counts each token once."""
    made = hall(LAW, drafters.uniform(VOCAB, 1), blocks=10, slots=2)
    older, younger = made.submit(FREE)[1], made.submit(replace(FREE, prompt=(7, 7, 7)))[1]
    paused: list[int] = []
    while made.service.busy:
        made.service.step()
        paused.append(made.service.snapshot().paused)
        assert made.backend.blocks_used <= 10
    assert set(paused) == {0, 1}
    for heard, prompt in ((older, (1, 2, 3)), (younger, (7, 7, 7))):
        (answer,) = heard.answers
        (plain,) = alone(replace(FREE, prompt=prompt))
        assert answer.ids == plain.ids
        assert answer.usage.plain_passes == plain.usage.passes
        assert answer.usage.completion_tokens == answer.usage.passes + answer.usage.accepted
    made.check_nothing_is_left()


def test_the_youngest_pauses_and_the_oldest_never_does() -> None:
    made = hall(LAW, blocks=10, slots=3)
    heard = [made.submit(replace(FREE, prompt=(index,) * 3))[1] for index in range(3)]
    while not heard[0].ended:
        before = len(heard[0].chunks)
        made.service.step()
        assert len(heard[0].chunks) == before + 1
    made.run()
    ends = [len(one.chunks) for one in heard]
    assert ends == [30, 30, 30]
    assert made.service.snapshot().preemptions > 0
    made.check_nothing_is_left()


def test_a_newcomer_leaves_a_block_for_each_that_runs() -> None:
    """Else it would be paused as soon as one of them grows, and be read twice."""
    made = hall(LAW, blocks=7)
    older = made.submit(Request((1,) * 12, 6, ignore_eos=True))[1]
    made.service.step()
    made.submit(Request((2,) * 9, 3, ignore_eos=True))
    while not older.ended:
        made.service.step()
        assert made.service.snapshot().waiting == 1
    made.run()
    assert made.service.snapshot().preemptions == 0
    made.check_nothing_is_left()


def test_a_prompt_whose_reading_was_given_up_tells_its_logprobs_once() -> None:
    older = [replace(FREE, prompt=(index,) * 3, max_tokens=37) for index in range(2)]
    reader = Request(tuple(range(11)) * 2, 2, prompt_logprobs=1, ignore_eos=True)
    given_up = 0
    for blocks in range(11, 20):
        made = hall(LAW, blocks=blocks, beside_rows=1)
        for request in older:
            made.submit(request)
        made.service.step()
        _, heard = made.submit(reader)
        while not heard.chunks:
            made.service.step()
        given_up += made.service.snapshot().preemptions
        made.run()
        assert contents(heard.answers) == contents(alone(reader))
        made.check_nothing_is_left()
    assert given_up


def test_a_drafter_that_was_left_out_stays_out_after_a_pause() -> None:
    made = hall(LAW, FunctionDrafter("bad", lambda view, budget: Draft.chain((VOCAB,))), blocks=10, slots=2)
    with pytest.warns(RuntimeWarning, match="malformed draft") as warned:
        made.ask(FREE, FREE)
    assert made.service.snapshot().preemptions > 0
    assert len(warned) == 2
    made.check_nothing_is_left()


def test_what_can_never_fit_is_refused_with_the_numbers() -> None:
    made = hall(LAW, blocks=10)
    with pytest.raises(
        UsageError,
        match=r"8 prompt tokens and max_tokens 33 need 11 blocks of 4 tokens \(44 bytes\), but keys and values may "
        r"take 10 \(40 bytes\); ask for at most 40 tokens in all, or start with more kv_bytes",
    ):
        made.submit(Request((1,) * 8, 33))
    assert made.ask(Request((1,) * 8, 32, ignore_eos=True, n=3))[0][2].usage.completion_tokens == 32
    # max_tokens over what the context leaves is what the context leaves.
    assert len(hall(LAW, blocks=64).ask(Request((1,) * 8, 2**40, ignore_eos=True))[0][0].ids) == 248
    made.check_nothing_is_left()


def test_a_budget_needs_blocks_that_can_be_counted() -> None:
    backend = TableBackend(LAW, VOCAB, block_tokens=BLOCK)
    with pytest.raises(UsageError, match="kv_bytes is 3; one block takes 4"):
        Budgeted(backend, 3)

    class Plain:
        pass

    with pytest.raises(UsageError, match="this backend does not count its blocks"):
        Budgeted(Plain(), 1 << 30)  # type: ignore[arg-type]


def test_a_beginning_in_common_is_computed_once() -> None:
    """A system prompt, also while the first that has it still runs; and the turns of a chat."""
    made = hall(LAW)
    system = tuple(index * 5 % VOCAB for index in range(40))
    first = Request((*system, 1, 2), 12, ignore_eos=True)
    made.submit(first)
    made.service.step()
    before = sum(made.backend.passes)
    made.submit(Request((*system, 3, 4), 1, ignore_eos=True))
    made.service.step()
    assert sum(made.backend.passes) - before == 1 + 2  # the first's token, and what is new
    made.run()
    (answer,) = alone(first)
    chat = Request((*system, 1, 2, *answer.ids, 9, 9), 10, ignore_eos=True)
    before, hits = sum(made.backend.passes), made.service.snapshot().prefix_hits_tok
    assert contents(made.ask(chat)[0]) == contents(alone(chat))
    # 53 tokens of the first request and its answer are in the cache: 13 whole blocks.
    assert made.service.snapshot().prefix_hits_tok - hits == 52
    assert sum(made.backend.passes) - before == len(chat.prompt) - 52 + 9
    made.check_nothing_is_left()


def test_no_scope_reads_anothers_cache() -> None:
    made = hall(LAW)
    prompt = (1, 2, 3, 4, 5, 6, 7, 8, 9)
    for scope, hits in (("ann", 0), ("bob", 0), ("", 0), ("ann", 8), ("", 16)):
        made.ask(Request(prompt, 2, ignore_eos=True, scope=scope))
        assert made.service.snapshot().prefix_hits_tok == hits
    made.check_nothing_is_left()


def test_logprobs_of_a_prompt_are_computed_though_it_is_kept() -> None:
    made = hall(LAW)
    request = Request((1, 2, 3, 4, 5, 6, 7, 8, 9), 2, prompt_logprobs=3, ignore_eos=True)
    made.ask(replace(request, prompt_logprobs=None))
    assert contents(made.ask(request)[0]) == contents(alone(request))
    assert made.service.snapshot().prefix_hits_tok == 0
    made.check_nothing_is_left()


def test_samples_share_their_prompt_and_read_it_again_where_memory_is_short() -> None:
    request = Request((1,) * 17, 3, Sampling(1.0, 1), n=6, ignore_eos=True)
    made = hall(LAW)
    assert contents(made.ask(request)[0]) == contents(alone(request))
    assert sum(made.backend.passes) == 17 + 5 + 6 * 2
    made.check_nothing_is_left()
    # Of 18 the last block is shared in part, and copied when the next token is written.
    for asked in (request, *(replace(request, prompt=(1,) * 18, max_tokens=most) for most in (1, 2))):
        for blocks, slots in ((5, 1), (5, 32), (6, 1), (6, 32), (7, 32), (8, 32), (10, 32)):
            made = hall(LAW, blocks=blocks, slots=slots)
            assert contents(made.ask(asked)[0]) == contents(alone(asked))
            made.check_nothing_is_left()


def test_drafts_go_no_further_than_memory_does() -> None:
    deepest: list[int] = []

    def guess(view: View, budget: Budget) -> Draft:
        deepest.append(budget.depth)
        return Draft.chain((1,) * budget.depth)

    made = hall(LAW, FunctionDrafter("deep", guess), Fixed(30), blocks=10)
    request = Request((1,) * 8, 32, ignore_eos=True)
    assert contents(made.ask(request)[0]) == contents(alone(request))
    assert max(deepest) < 8
    made.check_nothing_is_left()


class Failing(TableBackend):
    """Its passes raise while `broken` says so of their items."""

    broken: Sequence[int] | None = None  # tokens of which a pass must not have one
    rows: int | None = None  # the most rows of a pass

    def extend(self, items: Sequence[Extend]) -> TableScores:
        if self.rows is not None and sum(len(item.tokens) for item in items) > self.rows:
            raise BackendError("out of memory; use shorter prompts or fewer sequences at once")
        if self.broken is not None and any(token in self.broken for item in items for token in item.tokens):
            raise RuntimeError("this pass is broken on purpose")
        return super().extend(items)


def failing() -> tuple[Failing, Hall]:
    backend = Failing(LAW, VOCAB, 256, block_tokens=BLOCK)
    return backend, hall(LAW, backend=backend)


def test_a_pass_that_is_too_large_for_the_machine_is_made_smaller() -> None:
    backend, made = failing()
    backend.rows = 7
    requests = [replace(FREE, prompt=(index,) * 3) for index in range(5)]
    found = made.ask(*requests)
    assert [contents(answers) for answers in found] == [contents(alone(request)) for request in requests]
    made.check_nothing_is_left()


def test_who_breaks_every_pass_ends_and_the_others_go_on() -> None:
    backend, made = failing()
    backend.broken = (8,)
    allowed = Sampling(banned_token_ids=(8,))
    fine = [replace(FREE, prompt=(index,), sampling=allowed) for index in range(3)]
    heard = [made.submit(request)[1] for request in (fine[0], replace(fine[0], prompt=(8, 8)), fine[1], fine[2])]
    made.run()
    bad = heard.pop(1)
    assert bad.failed is not None
    assert bad.failed.kind is FailureKind.INTERNAL
    assert "RuntimeError: this pass is broken on purpose" in bad.failed.message
    assert [contents(one.answers) for one in heard] == [contents(alone(request)) for request in fine]
    made.check_nothing_is_left()


def test_a_backend_that_never_works_fails_every_request_and_then_serves_again() -> None:
    backend, made = failing()
    backend.rows = 0
    heard = [made.submit(replace(FREE, n=2))[1] for _ in range(3)]
    made.run()
    assert [one.failed is not None and one.failed.kind for one in heard] == [FailureKind.OVERLOAD] * 3
    backend.rows = None
    assert contents(made.ask(FREE)[0]) == contents(alone(FREE))
    made.check_nothing_is_left()


def test_a_commit_that_raises_ends_those_of_the_pass_alone() -> None:
    backend, made = failing()
    commit, calls = backend.commit, iter(range(4))

    def broken(items: Sequence[tuple[int, Sequence[int]]]) -> None:
        if next(calls, None) == 3:
            raise BackendError("no")
        commit(items)

    backend.commit = broken  # type: ignore[method-assign]
    heard = [made.submit(replace(FREE, prompt=(index,)))[1] for index in range(2)]
    made.run()
    assert [one.failed is not None for one in heard] == [True, True]
    assert contents(made.ask(FREE)[0]) == contents(alone(FREE))
    made.check_nothing_is_left()


class Serving(RuleBasedStateMachine):
    """Any interleaving of submit, step and cancel over little memory: everybody gets what he gets alone, once."""

    def __init__(self) -> None:
        super().__init__()
        self.made = hall(LAW, NgramDrafter(), blocks=11, slots=3, chunk_rows=9, beside_rows=4)
        self.asked: dict[int, tuple[Request, Heard]] = {}

    @rule(
        base=st.sampled_from(REQUESTS),
        length=st.integers(1, 14),
        most=st.integers(1, 24),
        seed=st.integers(0, 3),
        scope=st.sampled_from(["", "ann"]),
    )
    def submit(self, base: Request, length: int, most: int, seed: int, scope: str) -> None:
        prompt = tuple((index * index + (seed if index > 8 else 0)) % VOCAB for index in range(length))
        request = replace(base, prompt=prompt, max_tokens=most, scope=scope)
        ticket, heard = self.made.submit(request)
        self.asked[ticket] = request, heard

    @rule(count=st.integers(1, 8))
    def step(self, count: int) -> None:
        for _ in range(count):
            self.made.service.step()

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from(sorted(self.asked)))
        heard = self.asked[ticket][1]
        if not heard.ended:
            del self.asked[ticket]
            self.made.service.cancel(ticket)
            told = len(heard.chunks)
            self.made.service.step()
            assert len(heard.chunks) == told

    @invariant()
    def memory_is_kept_to(self) -> None:
        assert self.made.backend.blocks_used <= 11

    def teardown(self) -> None:
        self.made.run()
        for request, heard in self.asked.values():
            assert contents(heard.answers) == contents(alone(request)), request
        self.made.check_nothing_is_left()


Serving.TestCase.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
TestServing = Serving.TestCase
