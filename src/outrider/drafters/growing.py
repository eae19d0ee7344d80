"""Grow a draft from a guide that knows, at each place, which tokens may come next and how likely they are."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Protocol, TypeVar

from outrider.core.step import Budget
from outrider.core.types import EMPTY, Draft

Place = TypeVar("Place")
MOST_BRANCHES = 4  # children of a node; a fifth is hardly ever likely enough to be reached


class Guide(Protocol[Place]):
    """Where a drafter stands is a place of its own kind."""

    def ahead(self, place: Place, most: int) -> Sequence[tuple[int, float]]:
        """At most so many (token, chance that the target keeps it if it comes here), best first."""
        ...

    def after(self, place: Place, token: int) -> Place:
        """The place behind one of these tokens."""
        ...


def grow(guide: Guide[Place], start: Place, budget: Budget, least: float, most_branches: int = MOST_BRANCHES) -> Draft:
    """A POINT draft of the nodes that are likeliest to be kept: best first by the product of scores down from the root.

    A chain of best guesses, unless the budget has more nodes than depth; then a tree. Nodes whose product is below
    `least` are left out. Time: O(n log n) for n nodes, and what the guide takes.
    """
    if budget.nothing:
        return EMPTY
    branches = 1 if budget.nodes <= budget.depth else most_branches
    tokens: list[int] = []
    parents: list[int] = []
    scores: list[float] = []
    # (-product, order found, parent, depth, token, score, the parent's place); the order decides between equals.
    waiting: list[tuple[float, int, int, int, int, float, Place]] = []
    order = count()

    def look(node: int, depth: int, product: float, place: Place) -> None:
        for token, score in guide.ahead(place, branches):
            if product * score >= least:
                heappush(waiting, (-product * score, next(order), node, depth, token, score, place))

    look(-1, 0, 1.0, start)
    while waiting and len(tokens) < budget.nodes:
        negative, _, parent, depth, token, score, place = heappop(waiting)
        node = len(tokens)
        tokens.append(token)
        parents.append(parent)
        scores.append(score)
        if depth + 1 < budget.depth and len(tokens) < budget.nodes:
            look(node, depth + 1, -negative, guide.after(place, token))
    return Draft(tuple(tokens), tuple(parents), score=tuple(scores)) if tokens else EMPTY
