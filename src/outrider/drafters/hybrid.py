"""Drafters made of drafters: the first that has a guess, the best guess by score, or all guesses in one tree.

Every member sees every sequence from begin to end and learns from its own drafts, so members may keep what state they
like. Cost: that of the members asked, and about 2 microseconds a node for judging and merging their drafts.

Dimensions: n nodes of a draft.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from outrider.core.step import Budget, Outcome, View
from outrider.core.types import EMPTY, Draft, Law
from outrider.drafters.base import Drafter
from outrider.drafters.merge import expected, merge
from outrider.drafters.team import Team

ENOUGH = 2.0  # tokens that a cheap guess has to promise for the dear drafters to be left alone
_SURE = 0.8  # or, where the budget is smaller than that, this share of it
# Members of a tree guess trees themselves where the budget is larger; so few nodes are best spent in depth.
_CHAIN_NODES = 4


class _Hybrid:
    """What all have in common: whatever happens to a sequence happens to every member."""

    def __init__(self, kind: str, members: Sequence[Drafter]) -> None:
        self._team = Team(members)
        self.name = f"{kind}({self._team.listed})"
        self.names = self._team.names
        self.followers = self._team.followers

    def begin(self, seq: int, prompt: Sequence[int]) -> None:
        self._team.begin(seq, prompt)

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        self._team.observe(outcomes)

    def end(self, seq: int) -> None:
        self._team.end(seq)


class First(_Hybrid):
    """The guess of the first member that has one; later members are not asked then. No members: UsageError."""

    def __init__(self, members: Sequence[Drafter]) -> None:
        super().__init__("first", members)

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        drafts = [EMPTY] * len(views)
        for number in range(len(self._team)):
            places = [place for place, draft in enumerate(drafts) if not draft.tokens]
            if not places:
                break
            found = self._team.propose(number, [views[place] for place in places], [budgets[place] for place in places])
            for place, draft in zip(places, found, strict=True):
                drafts[place] = draft
        return drafts


class Best(_Hybrid):
    """The guess that promises the most kept tokens, by its scores or by what its drafter kept so far.

    The dear members are asked, in turn, only while no guess promises `enough` tokens. No members: UsageError.
    """

    def __init__(self, cheap: Sequence[Drafter], dear: Sequence[Drafter] = (), enough: float = ENOUGH) -> None:
        super().__init__("best", [*cheap, *dear])
        self._asking = _Asking(self._team, len(cheap), enough)

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        return [_best(guesses) for guesses in self._asking.ask(views, budgets, budgets)]


class Merged(_Hybrid):
    """All guesses in one tree, the likeliest nodes first; needs a backend and a rule that judge trees.

    The dear members are asked, in turn, only while no guess promises `enough` tokens. A draft that was drawn from a law
    cannot be merged: it stands alone, where it promises more than the tree. No members: UsageError.
    """

    def __init__(self, cheap: Sequence[Drafter], dear: Sequence[Drafter] = (), enough: float = ENOUGH) -> None:
        super().__init__("merged", [*cheap, *dear])
        self._asking = _Asking(self._team, len(cheap), enough)

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        asked = self._asking.ask(views, budgets, [_branching(budget) for budget in budgets])
        return [_merged(guesses, budget) for guesses, budget in zip(asked, budgets, strict=True)]


def auto(cheap: Sequence[Drafter], model: Drafter | None = None, trees: bool = True) -> Drafter:
    """A sound hybrid of what there is: of drafters that cost next to nothing, and of a draft model.

    trees: whether backend and rule judge trees; without, the best of the chains is taken. Raises UsageError where there
    is nothing to choose from.
    """
    dear = [] if model is None else [model]
    if len(cheap) + len(dear) == 1:
        (only,) = (*cheap, *dear)
        return only
    return Merged(cheap, dear) if trees else Best(cheap, dear)


@dataclass(frozen=True, slots=True)
class _Guess:
    """A draft, the chance of each node [n] to be kept after the one above, and the tokens that it promises."""

    draft: Draft
    chances: tuple[float, ...]
    value: float


@dataclass(frozen=True, slots=True)
class _Asking:
    """Who is asked: the first `cheap` members always, the others while nobody promises `enough`."""

    team: Team
    cheap: int
    enough: float

    def ask(
        self, views: Sequence[View], budgets: Sequence[Budget], cheap_budgets: Sequence[Budget]
    ) -> list[list[_Guess]]:
        """For each view the guesses that there are; the first members have budgets of their own, within the others."""
        found: list[list[_Guess]] = [[] for _ in views]
        bounds = [min(self.enough, _SURE * min(budget.nodes, budget.depth)) for budget in budgets]
        for number in range(len(self.team)):
            places = [
                place
                for place, guesses in enumerate(found)
                if number < self.cheap or all(guess.value < bounds[place] for guess in guesses)
            ]
            given = cheap_budgets if number < self.cheap else budgets
            drafts = self.team.propose(number, [views[place] for place in places], [given[place] for place in places])
            for place, draft in zip(places, drafts, strict=True):
                if draft is not EMPTY:
                    record = self.team.record(number, views[place].seq)
                    chances = record.chances(draft)
                    found[place].append(_Guess(draft, chances, record.value(draft, chances, budgets[place])))
        return found


def _branching(budget: Budget) -> Budget:
    """A budget with more nodes than depth, which drafters that can branch take for a wish to."""
    return budget if budget.nodes <= _CHAIN_NODES else Budget(budget.nodes, min(budget.depth, budget.nodes - 1))


def _best(guesses: Sequence[_Guess]) -> Draft:
    """The draft that promises most, with the chances as its scores."""
    best = max(guesses, key=lambda guess: guess.value, default=None)
    if best is None:
        return EMPTY
    return replace(best.draft, score=best.chances) if best.draft.law is Law.POINT else best.draft


def _merged(guesses: Sequence[_Guess], budget: Budget) -> Draft:
    points = [guess for guess in guesses if guess.draft.law is Law.POINT]
    alone = [guess for guess in guesses if guess.draft.law is not Law.POINT]
    if not alone and len(points) == 1:
        return _best(points)
    if not points:
        return _best(alone)
    together = merge([guess.draft for guess in points], [guess.chances for guess in points], budget)
    return _best([*alone, _Guess(together, together.score or (), expected(together.parents, together.score or ()))])
