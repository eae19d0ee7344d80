"""Guess what the target thought of before: its runner-up candidates behind each token (Token Recycling, 2408.08696).

Every row of a pass, rejected nodes included, says which tokens the target found likeliest behind the row's token. They
are kept, the last say wins, and a tree of them is drafted the next time that the token stands at the end. It starts
empty, needs no text that repeats itself, and learns from passes that were paid for anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

from outrider import _native
from outrider.core.step import Budget, Outcome, View
from outrider.core.types import EMPTY, Draft
from outrider.errors import UsageError

FOLLOWERS = 8  # as in the paper
_LEAST = 0.01  # of what is drafted: what is never tried could never be found to be right again
_MOST_SCOPES = 16  # tables that are kept; the scope that began last longest ago goes first


class RecycleDrafter:
    """Drafts the followers of the last token, theirs, and so on: a chain of the first, or a best-first tree.

    The table [V, 8] of followers is shared by all sequences of a scope (Request.scope) and stays when they end: 1.6 MB
    for 49,152 tokens, of at most 16 scopes.

    Of a sequence it holds how often the follower of each rank was right; score is that share. The target takes about 10
    microseconds for each row of the pass; benchmarks/drafting.py measures the rest.

    vocab: V of the target. Raises UsageError where that is under 1.
    """

    name = "recycle"
    followers = FOLLOWERS
    weight = (0.16, 0.13, -1.17)  # to begin with (drafters.blended)

    def __init__(self, vocab: int) -> None:
        if vocab < 1:
            raise UsageError(f"vocab is {vocab}; a vocabulary has at least 1 token")
        self._vocab = vocab
        self._tables: dict[str, _native.RecycleTable] = {}  # by scope
        self._texts: dict[int, _native.RecycleText] = {}

    def begin(self, seq: int, prompt: Sequence[int]) -> None:
        self._texts[seq] = _native.RecycleText(prompt[-1])

    def source(self, view: View) -> _native.Source:
        """What a sequence that has begun is guessed from (drafters.blended)."""
        text = self._texts[view.seq]
        if not text.entered:
            table = self._tables.pop(view.scope, None) or _native.RecycleTable(self._vocab)
            self._tables[view.scope] = table
            if len(self._tables) > _MOST_SCOPES:
                del self._tables[next(iter(self._tables))]
            text.enter(table)
        return text

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        return [self._guess(view, budget) for view, budget in zip(views, budgets, strict=True)]

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            self._texts[outcome.seq].learn(outcome.tokens, outcome.followers)

    def end(self, seq: int) -> None:
        self._texts.pop(seq, None)

    def _guess(self, view: View, budget: Budget) -> Draft:
        branches = 1 if budget.nodes <= budget.depth else FOLLOWERS
        tokens, parents, score = self.source(view).grow(budget.nodes, budget.depth, branches, _LEAST, budget.floors)
        return Draft(tokens, parents, score=score) if tokens else EMPTY
