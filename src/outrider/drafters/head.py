"""Guess with a drafting head: a small network that reads the target's own states, inside the target's backend.

Cost: about 2 % of a pass of the target for each level of a draft, all sequences together in one call; siblings cost
nothing. Memory: the head's weights, and 3 kB a position of the default model. Source: EAGLE-3 (2503.01840), whose steps
feed on their own states, and Medusa (2401.10774), whose steps are independent. How heads are trained: docs/training.md.

Dimensions: S steps of a chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from outrider.backends.base import GREEDY, Draw, Head, HeadChain, HeadDrawn
from outrider.core import tree
from outrider.core.rules import COUPLED, Rule
from outrider.core.step import Budget, Outcome, View
from outrider.core.types import EMPTY, Draft, Law
from outrider.drafters.growing import grow

WIDTH = 4  # candidates of a level of a tree
# A chain of likeliest tokens ends where it is less likely than this as a whole: even if the head were twice too modest,
# another token would add less than its step and its row cost.
LEAST = 0.03


class HeadDrafter:
    """Drafts chains, and trees where the budget has more nodes than levels.

    A tree of an eagle3 head is its chain with the next best candidates of each level as leaves; of a medusa head, whose
    levels do not depend on one another, any product of candidates. Of both the likeliest nodes are the draft. Scores
    are the head's calibrated chances.

    At temperature 0 the likeliest tokens are taken (law POINT). Above it, under `coupled`, the chain is drawn with the
    target's noise, temperature and filters, so that it agrees as often as possible; a drawn token is trusted as much as
    the likeliest (IID, trees DISTINCT, no q, as drafters.model). Under other rules the likeliest tokens are taken at
    any temperature: a POINT draft needs no q and is exact under every rule.

    A sequence of which the head has not seen every state gets no drafts. Raises what the backend raises.
    """

    def __init__(self, head: Head, rule: Rule = COUPLED, *, trees: bool = True, name: str = "head") -> None:
        self.name = name
        self._head = head
        self._noise = not rule.uses_q
        self._trees = trees and rule.trees
        self._followed: set[int] = set()

    def begin(self, seq: int, prompt: Sequence[int]) -> None:
        if self._head.begin(seq):
            self._followed.add(seq)

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        drafts = [EMPTY] * len(views)
        items: list[HeadChain] = []
        places: list[int] = []
        for place, (view, budget) in enumerate(zip(views, budgets, strict=True)):
            if view.seq in self._followed and budget.nodes > 0 and budget.depth > 0:
                items.append(self._item(view, budget))
                places.append(place)
        if items:
            for place, item, drawn in zip(places, items, self._head.draft(items), strict=True):
                drafts[place] = self._draft(item, drawn, budgets[place])
        return drafts

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Nothing to do: the head hears from its backend what is committed."""

    def end(self, seq: int) -> None:
        if seq in self._followed:
            self._followed.remove(seq)
            self._head.end(seq)

    def _item(self, view: View, budget: Budget) -> HeadChain:
        sampling = view.sampling
        draw, least = GREEDY, LEAST
        if sampling.temperature > 0.0 and self._noise:
            # How likely a drawn token is says little of whether the target's same noise gives it too.
            least = 0.0
            draw = Draw(
                sampling.temperature,
                sampling.seed,
                sampling.sample,
                sampling.top_k,
                sampling.top_p,
                sampling.min_p,
                sampling.typical_p,
            )
        tokens = view.tokens
        steps = min(budget.nodes, budget.depth)
        width = WIDTH if self._branches(budget) else 1
        return HeadChain(view.seq, tokens[-1], steps, draw, len(tokens), width, least)

    def _branches(self, budget: Budget) -> bool:
        return self._trees and budget.nodes > budget.depth

    def _draft(self, item: HeadChain, drawn: HeadDrawn, budget: Budget) -> Draft:
        levels = [_level(token, likely) for token, likely in zip(drawn.tokens, drawn.likely, strict=True)]
        guide = _Levels(levels, drawn.tokens, self._head.independent)
        draft = grow(guide, (0, True), budget, 0.0) if self._branches(budget) else _chain(levels)
        if item.draw is GREEDY or not draft.tokens:
            return draft
        return replace(draft, law=Law.IID if tree.is_chain(draft) else Law.DISTINCT)


class _Levels:
    """What may come at each level; a place is (level, whether it is on the chain), as drafters.growing wants it."""

    def __init__(self, levels: Sequence[Sequence[tuple[int, float]]], chain: Sequence[int], independent: bool) -> None:
        self._levels = levels  # [S]
        self._chain = chain  # [S]
        self._independent = independent

    def ahead(self, place: tuple[int, bool], most: int) -> Sequence[tuple[int, float]]:
        level, known = place
        return self._levels[level][:most] if known and level < len(self._levels) else ()

    def after(self, place: tuple[int, bool], token: int) -> tuple[int, bool]:
        level, known = place
        return level + 1, known and (self._independent or token == self._chain[level])


def _level(token: int, likely: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """The chain's token, as likely as the likeliest, then other candidates, which share what is left of the chance."""
    if not likely:
        return [(token, 0.0)]
    trust = min(likely[0][1], 1.0)
    if token == likely[0][0]:
        return [(token, trust), *likely[1:]]
    rest = 1.0 - dict(likely).get(token, 0.0)
    others = [(other, (1.0 - trust) * chance / rest) for other, chance in likely if other != token and rest > 0.0]
    return [(token, trust), *((other, min(chance, 1.0 - trust)) for other, chance in others)]


def _chain(levels: Sequence[Sequence[tuple[int, float]]]) -> Draft:
    if not levels:
        return EMPTY
    tokens, scores = zip(*(level[0] for level in levels), strict=True)
    return Draft(tokens, tuple(range(-1, len(tokens) - 1)), score=scores)
