"""Several drafts in one tree: shared prefixes once, and the budget spent where the target most likely goes.

Best-first growth is optimal for given chances: a node's chance to be kept is the product along its path, which only
falls on the way down, so the n likeliest nodes always hold, with each node, those above it (EAGLE-2, 2406.16858).

Dimensions: n nodes of a draft.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TypeAlias

from outrider.core import tree
from outrider.core.step import Budget
from outrider.core.types import EMPTY, Draft, Law

_BUCKETS = 8  # of scores, and of depths where a draft has none
_PRIOR_WEIGHT = 8.0  # nodes that have to be judged before what was seen outweighs the drafter's own word
_MEMORY = 48.0  # judged nodes after which old ones count half: texts change their character
# What a chain out of prompt and answer kept, by depth, on answers of the default model (issue 5).
_BY_DEPTH = (0.4, 0.6, 0.7, 0.8)

_Place: TypeAlias = tuple[int, int]  # (draft, node of it)


class Record:
    """How often the nodes of one drafter were right in one sequence: its scores, or its depths, calibrated.

    A drawn draft is judged by depth alone, never by what was drawn or depends on it, its length and scores: to leave a
    draft out because of them would change the output under the rules that compare p with q (field notes 1.8).
    """

    __slots__ = ("_judged", "_kept")

    def __init__(self) -> None:
        self._judged = [0.0] * (2 * _BUCKETS)
        self._kept = [0.0] * (2 * _BUCKETS)

    def chances(self, draft: Draft) -> tuple[float, ...]:
        """Of each node [n] the chance that the target keeps it once it has kept the node above."""
        if draft.score is not None and draft.law is Law.POINT:
            return tuple(self._chance(_of_score(score), score) for score in draft.score)
        return tuple(self._at(depth) for depth in tree.depths(draft))

    def value(self, draft: Draft, chances: Sequence[float], budget: Budget) -> float:
        """Tokens that the draft promises; for a drawn one, what any draft of this drafter promises at this budget."""
        if draft.law is Law.POINT:
            return expected(draft.parents, chances)
        longest = min(budget.nodes, budget.depth)
        return expected(range(-1, longest - 1), [self._at(depth) for depth in range(longest)])

    def learn(self, draft: Draft, tokens: Sequence[int]) -> None:
        """tokens are what the target wrote where the draft stood; the draft need not have been in the pass."""
        scores = draft.score if draft.law is Law.POINT else None
        depths = {-1: 0}  # node that the tokens went through -> depth of its children
        for node, (token, parent) in enumerate(zip(draft.tokens, draft.parents, strict=True)):
            depth = depths.get(parent, len(tokens))
            if depth == len(tokens):
                continue
            kept = token == tokens[depth]
            self._count(_of_depth(depth) if scores is None else _of_score(scores[node]), kept)
            if kept:
                depths[node] = depth + 1

    def _count(self, bucket: int, kept: bool) -> None:
        if self._judged[bucket] >= _MEMORY:
            self._judged[bucket] /= 2.0
            self._kept[bucket] /= 2.0
        self._judged[bucket] += 1.0
        self._kept[bucket] += kept

    def _at(self, depth: int) -> float:
        return self._chance(_of_depth(depth), _BY_DEPTH[min(depth, len(_BY_DEPTH) - 1)])

    def _chance(self, bucket: int, prior: float) -> float:
        return (self._kept[bucket] + _PRIOR_WEIGHT * prior) / (self._judged[bucket] + _PRIOR_WEIGHT)


def survival(parents: Sequence[int], chances: Sequence[float]) -> list[float]:
    """Of each node the chance to be kept: the product of chances along its path."""
    kept: list[float] = []
    for parent, chance in zip(parents, chances, strict=True):
        kept.append(chance if parent < 0 else kept[parent] * chance)
    return kept


def expected(parents: Sequence[int], chances: Sequence[float]) -> float:
    """How many nodes the target keeps on average."""
    return sum(survival(parents, chances))


def merge(drafts: Sequence[Draft], chances: Sequence[Sequence[float]], budget: Budget) -> Draft:
    """One POINT tree out of POINT drafts, likeliest nodes first, within the budget; score [n] is the combined chance.

    chances[i] [n] belongs to drafts[i]. A node that several propose gets the chance that at least one of them is right,
    and the name that the surest of them gives it; siblings that together exceed 1 are scaled down to it.
    """
    below = [tree.children(draft) for draft in drafts]
    tokens: list[int] = []
    parents: list[int] = []
    score: list[float] = []
    drafters: list[str] = []
    who = [draft.drafters or ("",) * len(draft) for draft in drafts]
    # (-chance of the whole path, order of arrival, parent, token, chance, depth, places)
    waiting: list[tuple[float, int, int, int, float, int, list[_Place]]] = []
    arrived = 0

    def open_up(places: Sequence[_Place], node: int, depth: int, survival: float) -> None:
        nonlocal arrived
        if depth < budget.depth:
            for token, chance, at in _children(drafts, chances, below, places):
                heapq.heappush(waiting, (-survival * chance, arrived, node, token, chance, depth, at))
                arrived += 1

    open_up([(draft, -1) for draft in range(len(drafts))], -1, 0, 1.0)
    while waiting and len(tokens) < budget.nodes:
        survival, _, parent, token, chance, depth, places = heapq.heappop(waiting)
        tokens.append(token)
        parents.append(parent)
        score.append(chance)
        draft, at = max(places, key=lambda place: chances[place[0]][place[1]])
        drafters.append(who[draft][at])
        open_up(places, len(tokens) - 1, depth + 1, -survival)
    if not tokens:
        return EMPTY
    names = None if any(draft.drafters is None for draft in drafts) else tuple(drafters)
    return Draft(tuple(tokens), tuple(parents), Law.POINT, score=tuple(score), drafters=names)


def share(own: Draft, whole: Draft, path: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The nodes of `own` whose text `whole` has too, in rising order; and those of them on the way of `path`.

    path are nodes of `whole`, root side first. The text of a node is that of the nodes above it and its own. What is
    returned second counts within the first, as a path in that part of `own` does.
    """
    first: dict[_Place, int] = {}  # (node above, token) -> first node of `whole` with this text
    same: list[int] = []  # node of `whole` -> the first with its text
    for node, (token, parent) in enumerate(zip(whole.tokens, whole.parents, strict=True)):
        same.append(first.setdefault((-1 if parent < 0 else same[parent], token), node))
    depth = {same[node]: depth for depth, node in enumerate(path)}
    places: list[int | None] = []
    last, deepest = -1, -1
    for node, (token, parent) in enumerate(zip(own.tokens, own.parents, strict=True)):
        above = -1 if parent < 0 else places[parent]
        place = None if above is None else first.get((above, token))
        places.append(place)
        if place is not None and depth.get(place, -1) > deepest:
            last, deepest = node, depth[place]
    nodes = tuple(node for node, place in enumerate(places) if place is not None)
    return nodes, tuple(nodes.index(node) for node in tree.path(own, last))


def _children(
    drafts: Sequence[Draft],
    chances: Sequence[Sequence[float]],
    below: Sequence[dict[int, tuple[int, ...]]],
    places: Sequence[_Place],
) -> list[tuple[int, float, list[_Place]]]:
    """What the drafts propose next at a place of the tree: (token, combined chance, where it stands in the drafts)."""
    if len(places) == 1:
        ((draft, node),) = places
        only = below[draft].get(node, ())
        if len(only) < 2:  # most nodes, and then there is nothing to weigh
            return [(drafts[draft].tokens[child], chances[draft][child], [(draft, child)]) for child in only]
    wrong: dict[int, float] = {}  # token -> the chance that all who propose it are wrong
    where: dict[int, list[_Place]] = {}
    said: dict[_Place, float] = {}  # (draft, token) -> so that a draft that repeats a sibling has one voice
    for draft, node in places:
        for child in below[draft].get(node, ()):
            token = drafts[draft].tokens[child]
            where.setdefault(token, []).append((draft, child))
            chance = chances[draft][child]
            before = said.get((draft, token), 0.0)
            if chance > before:
                rest = 1.0 - before
                wrong[token] = wrong.get(token, 1.0) * ((1.0 - chance) / rest if rest > 0.0 else 0.0)
                said[draft, token] = chance
    total = sum(1.0 - wrong.get(token, 1.0) for token in where)
    share = 1.0 / total if total > 1.0 else 1.0
    return [(token, (1.0 - wrong.get(token, 1.0)) * share, at) for token, at in where.items()]


def _of_score(score: float) -> int:
    return min(int(score * _BUCKETS), _BUCKETS - 1)


def _of_depth(depth: int) -> int:
    return _BUCKETS + min(depth, _BUCKETS - 1)
