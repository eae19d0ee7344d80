"""Guess what the target thought of before: its runner-up candidates behind each token (Token Recycling, 2408.08696).

Every row of a pass, rejected nodes included, says which tokens the target found likeliest behind the row's token. They
are kept, the last say wins, and a tree of them is drafted the next time that the token stands at the end. It starts
empty, needs no text that repeats itself, and learns from passes that were paid for anyway.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from outrider.core.step import Budget, Outcome, View
from outrider.core.types import Draft
from outrider.drafters.growing import grow
from outrider.errors import UsageError

FOLLOWERS = 8  # as in the paper
_UNKNOWN = -1
_LEAST = 0.01  # of chances and of what is drafted: what is never tried could never be found to be right again
# How often the followers of each rank were the next token in answers of the default model at temperature 0, and for
# how many tries these figures count: a sequence soon has its own.
_PRIOR = (0.27, 0.09, 0.05, 0.035, 0.03, 0.02, 0.015, 0.01)
_PRIOR_TRIES = 40.0
_MEMORY = 256.0  # tries after which the old ones count half, for texts change


class RecycleDrafter:
    """Drafts the followers of the last token, theirs, and so on: a chain of the first, or a best-first tree.

    The table [V, 8] of followers is shared by all sequences of the drafter and stays when they end: 1.6 MB for 49,152
    tokens. Give each tenant a drafter of its own: the speed of one answer can tell what another was about.

    Of a sequence it holds how often the follower of each rank was right; score is that share. A step with 6 nodes
    costs about 50 microseconds to draft and 40 to learn from, and the target 10 for each row of the pass.

    vocab: V of the target. Raises UsageError where that is under 1.
    """

    name = "recycle"
    followers = FOLLOWERS

    def __init__(self, vocab: int) -> None:
        if vocab < 1:
            raise UsageError(f"vocab is {vocab}; a vocabulary has at least 1 token")
        self._table = array("i", [_UNKNOWN]) * (vocab * FOLLOWERS)  # [V, 8], best first
        self._ranks: dict[int, _Ranks] = {}

    def begin(self, seq: int, prompt: Sequence[int]) -> None:
        self._ranks[seq] = _Ranks()

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        return [self._guess(view, budget) for view, budget in zip(views, budgets, strict=True)]

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            self._ranks[outcome.seq].learn(outcome.draft, outcome.path)
            for token, followers in outcome.followers:
                self._remember(token, followers)

    def end(self, seq: int) -> None:
        self._ranks.pop(seq, None)

    def _remember(self, token: int, followers: Sequence[int]) -> None:
        entry = array("i", followers[:FOLLOWERS])
        if len(entry) < FOLLOWERS:
            entry.extend([_UNKNOWN] * (FOLLOWERS - len(entry)))
        self._table[token * FOLLOWERS : (token + 1) * FOLLOWERS] = entry

    def _guess(self, view: View, budget: Budget) -> Draft:
        guide = _Table(self._table, self._ranks[view.seq].chances())
        return grow(guide, view.tokens[-1], budget, _LEAST, FOLLOWERS)


class _Table:
    """The guide to drafts from a table of followers (drafters.growing); a place is the token that stands there."""

    __slots__ = ("_chances", "_table")

    def __init__(self, table: array[int], chances: list[float]) -> None:
        self._table = table
        self._chances = chances

    def ahead(self, token: int, most: int) -> list[tuple[int, float]]:
        """The token's followers, at most so many, with the chances of their ranks."""
        first = token * FOLLOWERS
        entry = self._table[first : first + min(most, FOLLOWERS)]
        return [pair for pair in zip(entry, self._chances, strict=False) if pair[0] != _UNKNOWN]

    def after(self, _: int, token: int) -> int:
        return token


class _Ranks:
    """How often the follower of each rank was the target's token, where the target came by."""

    __slots__ = ("_kept", "_tries")

    def __init__(self) -> None:
        self._tries = [_PRIOR_TRIES] * FOLLOWERS
        self._kept = [_PRIOR_TRIES * share for share in _PRIOR]

    def learn(self, draft: Draft, path: Sequence[int]) -> None:
        """Of siblings the first drafted has rank 0: their chances fall."""
        reached = {-1: 0} | dict.fromkeys(path, 0)  # node -> its children so far
        for node, parent in enumerate(draft.parents):
            rank = reached.get(parent)
            if rank is not None:
                reached[parent] = rank + 1
                if rank < FOLLOWERS:
                    self._count(rank, node in reached)

    def chances(self) -> list[float]:
        """By rank, never rising: a higher rank is drafted first, whatever luck a lower one had."""
        least, found = 1.0, []
        for kept, tries in zip(self._kept, self._tries, strict=True):
            least = max(min(least, kept / tries), _LEAST)
            found.append(least)
        return found

    def _count(self, rank: int, kept: bool) -> None:
        if self._tries[rank] >= _MEMORY:
            self._tries[rank] /= 2
            self._kept[rank] /= 2
        self._tries[rank] += 1
        self._kept[rank] += kept
