"""One tree out of everything that can be looked up: the words of several sources weighed against each other.

Best-first growth, as for one source, but a node's chance comes from all of them: a logistic mixture of the log-odds
that each gives the token (Mahoney 2005, as in the PAQ compressors). In each sequence its weights start from those that
were fitted on the default model's answers to questions of its own (benchmarks/blending.py) and follow what comes true,
so that a source that does not fit the text is heard less in time. All of it is native
(native/src/drafting/growing.cpp).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from outrider import _native
from outrider.core.step import Budget, Outcome, View
from outrider.core.types import EMPTY, Draft
from outrider.drafters.base import Drafter, may_guess, names_of_all
from outrider.drafters.merge import survival
from outrider.drafters.worth import Worth
from outrider.errors import UsageError

MOST_MEMBERS = 6
_BIAS, _BIAS_BESIDE = -1.92, -1.43
_RATE = 0.01  # of learning: a weight follows some hundreds of judged candidates
_BRANCHES = 8  # children of a node
PROMISING = 0.08  # of the chance to be kept: likelier nodes are what a draft promises, others are seldom worth a row
_RUN, _ENOUGH = 4, 1.5  # tokens: a pass brought so many, and the others promise so many more: the text stands somewhere
LEAST = 0.04  # of the chance to be kept; the policy decides, but sees no node below


class Sourced(Drafter, Protocol):
    """A drafter that guesses from a native source."""

    @property
    def weight(self) -> tuple[float, float, float]:
        """What its word is worth: of the log-odds of its chance, of naming the token at all, of naming only others.

        Where there is an attribute `beside`, it is that beside a member that is asked.
        """
        ...

    def source(self, view: View) -> _native.Source:
        """The source of a sequence that has begun; the same until its end."""
        ...


@runtime_checkable
class Looking(Sourced, Protocol):
    """One whose source knows nothing of a draft before it was asked for it, which costs."""

    @property
    def price(self) -> float:
        """What asking costs for one sequence, of a pass of the target, on average of late."""
        ...

    def follows(self, seq: int) -> bool:
        """Whether it can be asked for a sequence."""
        ...

    def look(self, views: Sequence[View], budgets: Sequence[Budget]) -> None:
        """Ask for these sequences; what is found holds until their text goes on."""
        ...


class BlendedDrafter:
    """Drafts the nodes that its members together find likeliest: a chain, unless trees may be judged.

    Members that have to be asked (Looking) are asked in sequences where that is expected to add more than it costs
    (worth.py), but not while the others are sure of a run: where there are any, it `weighs` by itself what its parts
    cost, and a policy need not (policy.goodput).

    trees: whether backend and rule judge trees; then a draft branches wherever a second guess is worth more than a
    deeper first one. Score is the chance that a node is kept; of the members that named its token it bears the name of
    the one whose word added most to that chance. Where a view names drafters, the others are not heard for it.
    benchmarks/drafting.py measures the cost.

    Raises UsageError where there are no members, or more than 6.
    """

    def __init__(self, members: Sequence[Sourced], trees: bool = True) -> None:
        if not 1 <= len(members) <= MOST_MEMBERS:
            raise UsageError(f"a blend has {len(members)} members; give it 1 to {MOST_MEMBERS}")
        self.name = f"blended({', '.join(member.name for member in members)})"
        self.names = names_of_all(members)
        self.followers = max(int(getattr(member, "followers", 0)) for member in members)
        self._members = tuple(members)
        self._branches = _BRANCHES if trees else 1
        self._asked = [(member, Worth()) for member in members if isinstance(member, Looking)]
        self.weighs = bool(self._asked)
        self._blends: dict[int, _Heard] = {}

    def begin(self, seq: int, prompt: Sequence[int]) -> None:
        for member in self._members:
            member.begin(seq, prompt)

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        runs = self._runs(views, budgets)
        compared: list[tuple[int, Worth, float]] = []
        for member, worth in self._asked:
            asked = [
                place
                for place, (view, budget) in enumerate(zip(views, budgets, strict=True))
                if not budget.nothing
                and may_guess((member.name,), view)
                and member.follows(view.seq)
                and (place not in runs or _promised(runs[place]) < _ENOUGH)
                and worth.pays(view.seq, member.price)
            ]
            for place in asked:
                without = runs.pop(place, None)
                if worth.compares(views[place].seq):
                    draft = self._guess(views[place], budgets[place]) if without is None else without
                    compared.append((place, worth, _promised(draft)))
            member.look([views[place] for place in asked], [budgets[place] for place in asked])
        drafts = [
            runs[place] if place in runs else self._guess(view, budget)
            for place, (view, budget) in enumerate(zip(views, budgets, strict=True))
        ]
        for place, worth, promised in compared:
            worth.learn(views[place].seq, promised, _promised(drafts[place]))
        return drafts

    def _runs(self, views: Sequence[View], budgets: Sequence[Budget]) -> dict[int, Draft]:
        """By place, the drafts without those who have to be asked, where the last pass looks like part of a run."""
        found: dict[int, Draft] = {}
        if self._asked:
            for place, (view, budget) in enumerate(zip(views, budgets, strict=True)):
                heard = self._blends.get(view.seq)
                if heard is not None and heard.brought >= _RUN:
                    found[place] = self._guess(view, budget)
        return found

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            heard = self._blends.get(outcome.seq)
            if heard is not None:
                heard.blend.learn(outcome.tokens)
                heard.brought = len(outcome.tokens)
        for member in self._members:
            member.observe(outcomes)

    def end(self, seq: int) -> None:
        self._blends.pop(seq, None)
        for _, worth in self._asked:
            worth.end(seq)
        for member in self._members:
            member.end(seq)

    def _guess(self, view: View, budget: Budget) -> Draft:
        heard = self._blends.get(view.seq)
        if heard is None:
            members = [member for member in self._members if may_guess((member.name,), view)]
            if not members:
                return EMPTY
            sources = [member.source(view) for member in members]
            # What can be looked up says less where a head speaks, which knows much of it.
            asked = any(isinstance(member, Looking) for member in members)
            weights = [getattr(member, "beside", member.weight) if asked else member.weight for member in members]
            blend = _native.Blend(sources, weights, _BIAS_BESIDE if asked else _BIAS, _RATE)
            heard = self._blends[view.seq] = _Heard(blend, tuple(member.name for member in members))
        tokens, parents, score, loudest = heard.blend.grow(
            budget.nodes, budget.depth, self._branches, LEAST, budget.floors
        )
        if not tokens:
            return EMPTY
        return Draft(tokens, parents, score=score, drafters=tuple(map(heard.names.__getitem__, loudest)))


@dataclass(slots=True)
class _Heard:
    """The members that are heard for one sequence."""

    blend: _native.Blend
    names: tuple[str, ...]
    brought: int = 0  # tokens of the last pass


def _promised(draft: Draft) -> float:
    """Tokens that the nodes which may be worth a row are expected to bring."""
    return sum(chance for chance in survival(draft.parents, draft.score or ()) if chance >= PROMISING)
