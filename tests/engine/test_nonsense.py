"""Bad drafters, bad requests, early ends: the answer stays right and nothing stays behind."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from tests.engine.worlds import EOS, PIECES, VOCAB, world

from outrider.api import Request, Sampling
from outrider.core import rules
from outrider.core.step import Budget, Load, View
from outrider.core.types import Draft, Law
from outrider.drafters.base import Drafter
from outrider.drafters.ngram import NgramDrafter
from outrider.engine.engine import Engine
from outrider.errors import BackendError, UsageError
from outrider.policy.fixed import Fixed
from outrider.testing import drafters
from outrider.testing.drafter_suite import held
from outrider.testing.drafters import FunctionDrafter
from outrider.testing.table import RandomLaw, TableBackend
from outrider.testing.text import PieceDetokenizer

LAW = RandomLaw(VOCAB, 2, seed=4)
REQUEST = Request((1, 2, 3), 60, ignore_eos=True)
DRAWN = Request((1, 2, 3), 60, Sampling(1.0, 4), ignore_eos=True)

MALFORMED: dict[str, Callable[[View, Budget], object]] = {
    "negative id": lambda view, budget: Draft.chain((-1,)),
    "id outside the vocabulary": lambda view, budget: Draft.chain((VOCAB,)),
    "parent below its node": lambda view, budget: Draft((1, 1), (-1, 1)),
    "parents missing": lambda view, budget: Draft((1, 1), (-1,)),
    "too long": lambda view, budget: Draft.chain((1,) * (budget.nodes + 1)),
    "too deep": lambda view, budget: Draft.chain((1,) * (budget.depth + 1)),
    "lists": lambda view, budget: Draft(cast(Any, [1]), cast(Any, [-1])),
    "no draft": lambda view, budget: None,
    "somebody else's name": lambda view, budget: replace(Draft.chain((1,)), drafters=("else",)),
    "a name too few": lambda view, budget: replace(Draft.chain((1,)), drafters=()),
    "a name that is no text": lambda view, budget: replace(Draft.chain((1,)), drafters=cast(Any, ([],))),
    "not a draft": lambda view, budget: (1, 2),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_drafts_are_dropped_with_one_warning_for_each_request(kind: str) -> None:
    """Case 25: ids out of range and malformed trees never reach the target."""
    drafter = FunctionDrafter("odd", cast(Any, MALFORMED[kind]))
    made = world(LAW, drafter)
    with pytest.warns(RuntimeWarning, match="drafter odd: malformed draft .*the answer goes on without it") as warned:
        found = made.answer(REQUEST, DRAWN)
    assert len(warned) == 2
    assert [answer.ids for answer in found] == [answer.ids for answer in world(LAW).answer(REQUEST, DRAWN)]
    assert found[0].usage.drafted == 0
    assert drafter.sequences == 0


def test_the_wrong_number_of_drafts_is_dropped() -> None:
    class Short(FunctionDrafter):
        def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
            return super().propose(views, budgets)[1:]

    with pytest.warns(RuntimeWarning, match=r"malformed draft \(1 drafts for 2 sequences\)"):
        found = world(LAW, Short("short", lambda view, budget: Draft.chain((1,)))).answer(REQUEST, DRAWN)
    assert [answer.ids for answer in found] == [answer.ids for answer in world(LAW).answer(REQUEST, DRAWN)]


@pytest.mark.parametrize("wrong", [None, 7, iter(())], ids=["None", "a number", "a generator"])
def test_what_is_no_list_of_drafts_is_dropped(wrong: object) -> None:
    class Odd(FunctionDrafter):
        def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
            return cast(list[Draft], wrong)

    with pytest.warns(RuntimeWarning, match="malformed draft .* for a list of drafts"):
        found = world(LAW, Odd("odd", lambda view, budget: Draft.chain((1,)))).answer(REQUEST, DRAWN)
    assert [answer.ids for answer in found] == [answer.ids for answer in world(LAW).answer(REQUEST, DRAWN)]


def test_one_bad_draft_does_not_hurt_the_others_of_its_batch() -> None:
    answers: drafters.Answers = {(1, 2, 3): world(LAW).answer(REQUEST)[0].ids}
    other = Request((5,), 60, ignore_eos=True)
    with pytest.warns(RuntimeWarning, match="token id -1"):
        good, bad = world(LAW, drafters.oracle(answers, -1)).answer(REQUEST, other)
    assert good.usage.accepted > 30
    assert bad.usage.accepted == 0
    assert bad.ids == world(LAW).answer(other)[0].ids


@pytest.mark.parametrize("after", [0, 1, 7])
def test_a_drafter_that_raises_is_left_out(after: int) -> None:
    drafter = drafters.raising(after)
    made = world(LAW, drafter)
    with pytest.warns(
        RuntimeWarning, match="drafter raising: it raised RuntimeError: this drafter is broken"
    ) as warned:
        found = made.answer(REQUEST, DRAWN)
    assert len(warned) == 1
    assert [answer.ids for answer in found] == [answer.ids for answer in world(LAW).answer(REQUEST, DRAWN)]
    assert drafter.sequences == 0
    # Left out for those requests only: the next one asks it again.
    with pytest.warns(RuntimeWarning, match="it raised RuntimeError"):
        assert made.answer(REQUEST)[0].ids == found[0].ids


@pytest.mark.parametrize("verb", ["begin", "observe", "end"])
def test_every_verb_of_a_drafter_may_raise(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("broken")

    drafter = NgramDrafter()
    monkeypatch.setattr(drafter, verb, broken)
    made = world(LAW, drafter)
    with pytest.warns(RuntimeWarning, match="it raised ValueError: broken"):
        answer = made.answer(REQUEST)[0]
    assert answer.ids == world(LAW).answer(REQUEST)[0].ids
    assert made.backend.sequences == 0


def test_a_late_drafter_is_left_out_for_that_request() -> None:
    """One that takes longer for a draft than the target took for everything so far."""
    now = 0.0

    def clock() -> float:
        return now

    def slow(view: View, budget: Budget) -> Draft:
        nonlocal now
        now += 100.0
        return Draft.chain((1,))

    with pytest.warns(
        RuntimeWarning, match=r"drafter slow: it took 100\.00 s to draft, longer than the target"
    ) as warned:
        answer = world(LAW, FunctionDrafter("slow", slow), clock=clock).answer(REQUEST)[0]
    assert len(warned) == 1
    assert answer.usage.drafted == 1
    assert answer.ids == world(LAW).answer(REQUEST)[0].ids


def test_requests_may_do_without_or_with_less() -> None:
    drafter = drafters.uniform(VOCAB, 3)
    made = world(LAW, drafter, gamma=4)
    free, without, none, two = made.answer(
        REQUEST, replace(REQUEST, speculate=False), replace(REQUEST, max_draft=0), replace(REQUEST, max_draft=2)
    )
    assert len({answer.ids for answer in (free, without, none, two)}) == 1
    assert max(len(story.drafted) for story in free.stories) == 4
    assert without.usage.drafted == none.usage.drafted == 0
    assert max(len(story.drafted) for story in two.stories) == 2
    assert drafter.sequences == 0


def test_the_policy_may_cut_only_what_may_be_left_out() -> None:
    class Half(Fixed):
        def admit(self, views: Sequence[View], given: Sequence[Draft], load: Load) -> list[Draft]:
            return [Draft.chain(draft.tokens[:2], draft.law) for draft in given]

    q = np.full(VOCAB, 1 / VOCAB, np.float32)

    def drawn(view: View, budget: Budget) -> Draft:
        return Draft.chain((1,) * budget.depth, Law.IID, (q,) * budget.depth)

    for rule, most in (("coupled", 2), ("rejection", 4)):
        backend = TableBackend(LAW, VOCAB)
        detokenizer = lambda: PieceDetokenizer(PIECES)  # noqa: E731
        engine = Engine(
            backend, FunctionDrafter("drawn", drawn), Half(4), detokenizer, frozenset(), rule=rules.find(rule)
        )
        stories = [chunk.story for chunk in engine.generate([DRAWN]) if chunk.story is not None]
        assert max(len(story.drafted) for story in stories) == most


def test_a_drafter_gets_the_followers_that_it_asks_for() -> None:
    drafter = FunctionDrafter("curious", lambda view, budget: Draft.chain((1, 2)[: budget.depth]))
    cast(Any, drafter).followers = 3
    answer = world(LAW, drafter).answer(REQUEST)[0]
    known = (*REQUEST.prompt, *answer.ids)
    start = len(REQUEST.prompt)
    for outcome in drafter.outcomes:
        assert len(outcome.followers) == 1 + len(outcome.draft)
        token, best = outcome.followers[0]
        assert token == known[start - 1]
        assert best == tuple(np.argsort(-LAW(known[:start]), kind="stable")[:3])
        start += len(outcome.tokens)


def test_a_drafter_cannot_change_what_is_known() -> None:
    def meddle(view: View, budget: Budget) -> Draft:
        cast(Any, view.tokens)[0] = 9
        return Draft.chain((1,))

    with pytest.warns(RuntimeWarning, match="it raised TypeError"):
        assert world(LAW, FunctionDrafter("rude", meddle)).answer(REQUEST)[0].ids == world(LAW).answer(REQUEST)[0].ids


def test_a_drafter_cannot_change_the_prompt() -> None:
    class Rude(FunctionDrafter):
        def begin(self, seq: int, prompt: Sequence[int]) -> None:
            cast(Any, prompt).append(9)

    with pytest.warns(RuntimeWarning, match="it raised AttributeError"):
        answer = world(LAW, Rude("rude", lambda view, budget: Draft.chain((1,)))).answer(REQUEST)[0]
    assert answer.ids == world(LAW).answer(REQUEST)[0].ids


def test_trees_are_dropped_where_the_backend_has_none() -> None:
    backend = TableBackend(LAW, VOCAB, trees=False)
    fork = FunctionDrafter("fork", lambda view, budget: Draft((1, 2), (-1, -1)))
    engine = Engine(backend, fork, Fixed(4), lambda: PieceDetokenizer(PIECES), frozenset({EOS}))
    with pytest.warns(RuntimeWarning, match="branches, which this backend cannot verify"):
        ids = [token for chunk in engine.generate([REQUEST]) for token in chunk.token_ids]
    assert tuple(ids) == world(LAW).answer(REQUEST)[0].ids


def test_empty_drafts_cost_nothing_and_leave_nothing() -> None:
    """Case 11: text without repeats; the passes are those of plain decoding, row for row."""
    nothing = FunctionDrafter("nothing", lambda view, budget: Draft((), ()))
    request = Request((1,), 250, Sampling(2.0, 1), ignore_eos=True)
    made, baseline = world(LAW, nothing, context=300), world(LAW, context=300)
    assert made.answer(request)[0].ids == baseline.answer(request)[0].ids
    assert made.backend.passes == baseline.backend.passes == [1] * 250
    assert nothing.sequences == 0


def test_gamma_zero_never_asks_the_drafter() -> None:
    drafter = drafters.raising(0)
    assert world(LAW, drafter, gamma=0).answer(REQUEST)[0].ids == world(LAW).answer(REQUEST)[0].ids


@pytest.mark.parametrize("steps", [0, 1, 3])
@pytest.mark.parametrize("how", ["close", "abandon", "interrupt"])
def test_an_abandoned_answer_leaves_nothing_behind(steps: int, how: str) -> None:
    drafter = NgramDrafter()
    empty = held(drafter)
    made = world(LAW, drafter, slots=2)
    stream = made.engine.generate([REQUEST, DRAWN, REQUEST])
    for _ in range(steps):
        next(stream)
    if how == "close":
        cast(Any, stream).close()
    elif how == "interrupt":
        with pytest.raises(KeyboardInterrupt):
            cast(Any, stream).throw(KeyboardInterrupt())
    else:
        del stream
        gc.collect()
    assert made.backend.sequences == 0
    assert held(drafter) == empty
    assert made.answer(REQUEST)[0].ids == world(LAW).answer(REQUEST)[0].ids


@pytest.mark.parametrize("verb", ["extend", "commit", "open", "close"])
def test_a_backend_that_fails_leaves_nothing_behind(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drafter = NgramDrafter()
    empty = held(drafter)
    made = world(LAW, drafter)
    healthy = getattr(made.backend, verb)
    calls = iter(range(1 if verb in ("open", "close") else 4))

    def fail(*arguments: object) -> object:
        if next(calls, None) is None:
            if verb == "close":
                healthy(*arguments)
            raise BackendError("out of order")
        return healthy(*arguments)

    monkeypatch.setattr(made.backend, verb, fail)
    with pytest.raises(BackendError, match="out of order"):
        made.answer(REQUEST, DRAWN)
    assert made.backend.sequences == 0
    assert held(drafter) == empty


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Request(()), "prompt has no tokens"),
        (Request((VOCAB,)), r"prompt token 0 is 12; ids of this model lie in 0\.\.11"),
        (Request((1, -1)), "prompt token 1 is -1"),
        (Request((1,), 0), r"max_tokens is 0; it may be a whole number from 1 to 2\*\*63 - 1"),
        (Request((1,), cast(Any, 2.5)), "max_tokens is 2.5"),
        (Request((1, cast(Any, 2.0))), "prompt token 1 is 2.0"),
        (Request((1,), sampling=Sampling(-0.5)), r"temperature is -0.5; it may be 0 \(the arg-max\) or 1e-06 to 100"),
        (Request((1,), sampling=Sampling(float("nan"))), "temperature is nan"),
        (Request((1,), sampling=Sampling(float("inf"))), "temperature is inf"),
        (Request((1,), sampling=Sampling(1e-30)), "temperature is 1e-30"),
        (Request((1,), sampling=Sampling(1.0, -1)), r"seed is -1; it may be a whole number from 0 to 2\*\*64 - 1"),
        (Request((1,), sampling=Sampling(cast(Any, "hot"))), "temperature is 'hot'"),
        (Request((1,), sampling=Sampling(1.0, cast(Any, 1.5))), "seed is 1.5"),
        (Request((1,), sampling=Sampling(1.0, 2**64)), "seed is 18446744073709551616"),
        (Request((1,), sampling=Sampling(1.0, 1, 2**32)), "sample is 4294967296"),
        (Request((1,), stop=("a", "")), "stop contains ''"),
        (Request((1,), stop=("a",) * 17), "stop has 17 strings; give at most 16"),
    ],
)
def test_requests_that_cannot_be_answered_are_refused_at_once(request_: Request, words: str) -> None:
    made = world(LAW)
    with pytest.raises(UsageError, match=words):
        made.engine.generate([REQUEST, request_])
    assert made.backend.passes == []


def test_what_was_checked_is_what_runs() -> None:
    prompt = [1, 2, 3]
    stream = world(LAW).engine.generate([Request(prompt, 5, ignore_eos=True)])
    prompt[:] = [-1] * 999
    ids = tuple(token for chunk in stream for token in chunk.token_ids)
    assert ids == world(LAW).answer(Request((1, 2, 3), 5, ignore_eos=True))[0].ids


def test_no_requests_no_chunks() -> None:
    assert world(LAW).answer() == []


@pytest.mark.parametrize(("slots", "chunk_rows"), [(0, 1), (1, 0)])
def test_an_engine_without_room_is_refused(slots: int, chunk_rows: int) -> None:
    with pytest.raises(UsageError, match="must be at least 1"):
        world(LAW, slots=slots, chunk_rows=chunk_rows)


def test_the_drafter_protocol_is_what_the_test_drafters_are() -> None:
    made: list[Drafter] = [NgramDrafter(), drafters.constant(1), drafters.uniform(3, 1)]
    assert [drafter.name for drafter in made] == ["ngram", "constant", "random"]
