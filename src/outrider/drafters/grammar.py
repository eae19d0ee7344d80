"""Guess what a constraint leaves no choice about: the keys, quotes and brackets of a schema come for free.

Where the constraint's mask leaves one token, the guess is certain. Elsewhere only the text is certain, and how the
target cuts it up is a guess like any other. A view without a constraint is the inner drafter's alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from outrider.core.step import Budget, Outcome, View
from outrider.core.types import EMPTY, Draft
from outrider.drafters.base import Drafter, ask, may_guess, named, names

# How often forced tokens were kept on the default model (benchmarks/structured.py): 96 of 96; but of the last ones of a
# draft, behind which the text may go on within a token, 39 of 50.
_CERTAIN, _LAST = 0.99, 0.78
_NAME = "grammar"


class GrammarDrafter:
    """Forced tokens first; another drafter's guess where nothing is forced, or where it begins with them and goes on.

    inner may be None. It is asked and told about every sequence; a draft of its own that was not used is reported to
    it as EMPTY.
    """

    def __init__(self, inner: Drafter | None) -> None:
        self.name = _NAME if inner is None else f"{_NAME}+{inner.name}"
        self._others = () if inner is None else names(inner)
        self.names = tuple(dict.fromkeys((*self._others, _NAME)))
        self._inner = inner
        self._unused: set[int] = set()  # sequences whose present draft is not the inner drafter's

    @property
    def followers(self) -> int:
        """As many as the inner drafter asks for."""
        return int(getattr(self._inner, "followers", 0))

    def begin(self, seq: int, prompt: Sequence[int]) -> None:
        if self._inner is not None:
            self._inner.begin(seq, prompt)

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        drafts = [EMPTY] * len(views) if self._inner is None else ask(self._inner, self._others, views, budgets)
        if all(view.forced is None for view in views):
            return drafts
        return [
            self._forced_first(view.seq, view.forced(_length(budget)), draft)
            if view.forced is not None and may_guess((_NAME,), view)
            else draft
            for view, budget, draft in zip(views, budgets, drafts, strict=True)
        ]

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        if self._inner is None:
            return
        if self._unused:
            outcomes = [
                replace(outcome, draft=EMPTY, path=()) if outcome.seq in self._unused else outcome
                for outcome in outcomes
            ]
            self._unused.difference_update(outcome.seq for outcome in outcomes)
        self._inner.observe(outcomes)

    def end(self, seq: int) -> None:
        self._unused.discard(seq)
        if self._inner is not None:
            self._inner.end(seq)

    def _forced_first(self, seq: int, forced: tuple[int, ...], draft: Draft) -> Draft:
        count = len(forced)
        self._unused.discard(seq)
        if count == 0:
            return draft
        score = (_CERTAIN,) * (count - 1) + (_LAST,)
        if draft.tokens[:count] == forced and draft.parents[:count] == tuple(range(-1, count - 1)):
            rest = named(draft, self._others[0]).drafters or ()
            drafters = (_NAME,) * count + rest[count:]
            return replace(draft, forced=count, score=draft.score and score + draft.score[count:], drafters=drafters)
        if draft.tokens:
            self._unused.add(seq)
        return replace(Draft.chain(forced, forced=count), score=score, drafters=(_NAME,) * count)


def _length(budget: Budget) -> int:
    return min(budget.nodes, budget.depth)
