"""Hybrids with a member that fails: it is left out, and the others go on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import pytest
from tests.drafters.test_hybrid import ask

from outrider.api import Sampling
from outrider.core.step import Budget, Outcome, Tokens, View
from outrider.core.types import Draft
from outrider.drafters.base import Drafter
from outrider.drafters.hybrid import Best, First, Merged
from outrider.testing.drafters import FunctionDrafter, constant, raising


def nonsense(draft: object) -> FunctionDrafter:
    return FunctionDrafter("nonsense", lambda view, budget: draft)  # type: ignore[arg-type, return-value]


BROKEN: list[tuple[str, Callable[[], FunctionDrafter], str]] = [
    ("raises", lambda: raising(0), "drafter raising: RuntimeError: this drafter is broken on purpose"),
    ("parents", lambda: nonsense(Draft((1, 2), (-1, 5))), "draft node 1 has parent 5"),
    ("too long", lambda: nonsense(Draft.chain((1,) * 9)), "a draft of 9 nodes is over its budget"),
    ("too deep", lambda: nonsense(Draft.chain((1,) * 6)), "over its budget Budget"),
    ("negative", lambda: nonsense(Draft.chain((-1,))), "draft node 0 has token id -1"),
    ("none", lambda: nonsense(None), "drafter nonsense: AttributeError"),
    ("scores", lambda: nonsense(Draft((1,), (-1,), score=(2.0,))), "has the scores"),
]


@pytest.mark.parametrize(("make", "says_"), [broken[1:] for broken in BROKEN], ids=[broken[0] for broken in BROKEN])
@pytest.mark.parametrize("hybrid", [First, Best, Merged])
def test_a_broken_member_is_left_out_and_the_others_go_on(
    hybrid: Callable[[Sequence[Drafter]], Drafter], make: Callable[[], FunctionDrafter], says_: str
) -> None:
    bad, good = make(), constant(5)
    drafter = hybrid([bad, good])
    tokens = [0]
    view = View(1, Tokens(tokens), Sampling())
    drafter.begin(1, (0,))
    with pytest.warns(RuntimeWarning, match="the others draft on without it") as caught:
        (draft,) = drafter.propose([view], [Budget(8, 4)])
    assert says_ in str(caught[0].message)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            assert draft.tokens == (5, 5, 5, 5)
            tokens += [5, 7]
            drafter.observe([Outcome(1, draft, (0,), (5, 7))])
            (draft,) = drafter.propose([view], [Budget(8, 4)])
        drafter.end(1)
    assert len(good.outcomes) == 3
    assert bad.outcomes == []
    assert (bad.sequences, good.sequences) == (0, 0), "also the broken one was told of the end"


def test_a_member_is_left_out_of_the_sequences_concerned_only() -> None:
    def guess(view: View, budget: Budget) -> Draft:
        return Draft.chain((9,) * 20) if view.seq == 1 else Draft.chain((4,))

    drafter = First([FunctionDrafter("picky", guess), constant(5)])
    views = [View(seq, Tokens([0]), Sampling()) for seq in (1, 2)]
    for view in views:
        drafter.begin(view.seq, (0,))
    with pytest.warns(RuntimeWarning, match="drafter picky"):
        drafter.propose(views, [Budget(2, 2)] * 2)
    drafts = drafter.propose(views, [Budget(2, 2)] * 2)
    assert [draft.tokens for draft in drafts] == [(5, 5), (4,)]
    drafter.end(1)
    drafter.begin(1, (0,))
    with pytest.warns(RuntimeWarning, match="drafter picky"):
        drafter.propose(views, [Budget(2, 2)] * 2)


class Failing(FunctionDrafter):
    """Fails in one verb."""

    def __init__(self, verb: str) -> None:
        super().__init__("failing", lambda view, budget: Draft.chain((1,)))
        self._verb = verb

    def begin(self, seq: int, prompt: Sequence[int]) -> None:
        self._fail("begin")
        super().begin(seq, prompt)

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        self._fail("observe")
        super().observe(outcomes)

    def end(self, seq: int) -> None:
        super().end(seq)
        self._fail("end")

    def _fail(self, verb: str) -> None:
        if verb == self._verb:
            raise RuntimeError(f"no {verb} today")


def live(drafter: Drafter) -> None:
    """A sequence of three steps, from its begin to its end."""
    tokens = [0]
    view = View(1, Tokens(tokens), Sampling())
    drafter.begin(1, (0,))
    for _ in range(3):
        (draft,) = drafter.propose([view], [Budget(2, 2)])
        tokens.append(7)
        drafter.observe([Outcome(1, draft, (), (7,))])
    drafter.end(1)


@pytest.mark.parametrize("verb", ["begin", "observe", "end"])
def test_every_verb_may_fail(verb: str) -> None:
    bad, good = Failing(verb), constant(5)
    drafter = Merged([bad, good])
    with pytest.warns(RuntimeWarning, match=f"drafter failing: RuntimeError: no {verb} today"):
        live(drafter)
    assert len(good.outcomes) == 3
    assert (bad.sequences, good.sequences) == (0, 0)


def test_a_wrong_number_of_drafts_leaves_a_member_out() -> None:
    class Short(FunctionDrafter):
        def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
            return super().propose(views, budgets)[1:]

    drafter = First([Short("short", lambda view, budget: Draft.chain((1,))), constant(5)])
    with pytest.warns(RuntimeWarning, match="drafter short: UsageError: 0 drafts for 1 sequences"):
        assert ask(drafter, Budget(1, 1)).tokens == (5,)
