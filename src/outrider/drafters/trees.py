"""Trees of tokens from a model: the likeliest, or drawn independently of the target. Batch first.

A tree grows level by level, one pass for all trees. A pass forgets the uncommitted rows of the one before, so each
reads the whole inner tree again: rows cost little (docs/numerics.md), and in the end the rows of the last pass are all
there to be committed along the path that the target keeps.

Dimensions: V vocabulary of the model, W that of the target.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from outrider.backends.base import Backend, Draw, Extend, Scores, Want
from outrider.core import chance, sampling
from outrider.core.types import Draft, FloatArray, IntArray, Law
from outrider.drafters.chains import softened

_MOST_CHILDREN = 8


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where to draw: below a sequence that first reads `tokens`, at least one.

    position is that of the first drafted token in the target; ids as in backends.base.Chain. At most `nodes` nodes are
    drawn, `depth` of them on a path.
    """

    seq: int
    tokens: Sequence[int]
    draw: Draw
    position: int
    ids: IntArray | None  # [W]
    nodes: int
    depth: int

    def own(self, token: int) -> int:
        """The id that the model reads for a token; -1: it has none."""
        return token if self.ids is None else int(self.ids[token])


@dataclass(frozen=True, slots=True)
class Tree:
    """A drawn tree, after which the `tokens` of its Place are committed.

    rows are its inner nodes in the model's own ids: the uncommitted rows of the sequence's last pass.
    """

    draft: Draft
    rows: Draft


def likely_trees(backend: Backend, places: Sequence[Place]) -> list[Tree]:
    """The nodes that the target most likely keeps, as far as the model can tell; score is that chance.

    A node's worth is the product of the chances down to it. In each level the worthiest few nodes get children; of all
    of them the worthiest `nodes` are the draft (as in EAGLE-2: 2406.16858). At temperature 0 a chance is the model's
    probability, and the law is POINT. Above it the first child is drawn with the target's noise, and trusted as much as
    the likeliest token; the others share the rest. For rule `coupled` alone, so there is no q.
    """
    return _grown(backend, [_Likely(place, _aligned(backend, place)) for place in places])


def drawn_trees(backend: Backend, places: Sequence[Place]) -> list[Tree]:
    """Nodes drawn independently of the target, each with the q [W] that it was drawn from (core.chance).

    A chain of law IID where there are not enough nodes for a second child, else a tree of law DISTINCT. Its shape is
    settled before anything is drawn: to choose by what was drawn would cost the answer its law. So score is the
    largest q.
    """
    return _grown(backend, [_Drawn(place) for place in places])


class _Growing(ABC):
    """One tree as it grows: all nodes seen, parents first. inner are those with a row, in the order of the rows."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.inner: list[int] = []
        self.front = [-1]  # the nodes that get children in this level; -1: the last known token

    @abstractmethod
    def choose(self, candidates: list[int]) -> list[int]:
        """Which of the newest nodes get children, in rising order."""

    @abstractmethod
    def grow(self, scores: Scores, item: int, row: int, parent: int) -> None:
        """Add the children of a node, of which a row of the pass tells."""

    @abstractmethod
    def draft(self) -> Draft:
        """What came out."""

    def add(self, token: int, parent: int) -> None:
        self.tokens.append(token)
        self.parents.append(parent)

    def advance(self) -> bool:
        """Settle the front of the next level; whether there is one."""
        front = set(self.front)
        readable = [
            node
            for node, (token, parent) in enumerate(zip(self.tokens, self.parents, strict=True))
            if parent in front and self.place.own(token) >= 0
        ]
        self.front = self.choose(readable)
        self.inner += self.front
        return bool(self.front)

    def rows(self) -> Draft:
        """The inner nodes in the model's own ids."""
        row_of = {-1: -1} | {node: row for row, node in enumerate(self.inner)}
        return Draft(
            tuple(self.place.own(self.tokens[node]) for node in self.inner),
            tuple(row_of[self.parents[node]] for node in self.inner),
        )


class _Likely(_Growing):
    def __init__(self, place: Place, aligned: bool) -> None:
        super().__init__(place)
        self._aligned = aligned
        self._width = min(_MOST_CHILDREN, max(2, -(-place.nodes // place.depth)))
        self._chances: list[float] = []
        self._worth: list[float] = []
        self._level = 0

    def choose(self, candidates: list[int]) -> list[int]:
        self._level += 1
        # A node outside the best so far cannot be in the draft, nor can what hangs below it.
        best = set(self._best(self.place.nodes))
        worthy = sorted((node for node in candidates if node in best), key=lambda node: -self._worth[node])
        return sorted(worthy[: self._width])

    def grow(self, scores: Scores, item: int, row: int, parent: int) -> None:
        worth = 1.0 if parent < 0 else self._worth[parent]
        for token, chance_of in self._children(scores, item, row):
            self.add(token, parent)
            self._chances.append(chance_of)
            self._worth.append(worth * chance_of)

    def _children(self, scores: Scores, item: int, row: int) -> list[tuple[int, float]]:
        place = self.place
        if place.ids is None:
            top = scores.logprobs(item, row, 0, self._width, True).top
        else:
            logits = sampling.renamed(scores.logits(item, row), place.ids)
            top = sampling.logprobs(logits, 0, self._width, softened(place.draw)).top
        likely = {token: min(math.exp(logprob), 1.0) for token, logprob in top if logprob > -math.inf}
        if place.draw.temperature == 0.0 or not likely:
            return list(likely.items())
        drawn, trust = self._drawn(scores, item, row), max(likely.values())
        rest = 1.0 - likely.pop(drawn, 0.0)
        others = [(token, (1.0 - trust) * share / rest) for token, share in likely.items() if rest > 0.0]
        return [(drawn, trust), *((token, min(share, 1.0 - trust)) for token, share in others)]

    def _drawn(self, scores: Scores, item: int, row: int) -> int:
        """The token that the target's noise gives here."""
        if self._aligned:
            return scores.token(item, row)
        logits = sampling.renamed(scores.logits(item, row), self.place.ids)
        return sampling.token(logits, self.place.draw, self.place.position + self._level)

    def draft(self) -> Draft:
        # A child is worth no more than its parent and comes after it, so no node is chosen without those above it.
        chosen = sorted(self._best(self.place.nodes))
        node_of = {-1: -1} | {seen: node for node, seen in enumerate(chosen)}
        return Draft(
            tuple(self.tokens[seen] for seen in chosen),
            tuple(node_of[self.parents[seen]] for seen in chosen),
            Law.POINT if self.place.draw.temperature == 0.0 else Law.DISTINCT,
            score=tuple(self._chances[seen] for seen in chosen),
        )

    def _best(self, count: int) -> list[int]:
        return sorted(range(len(self.tokens)), key=lambda node: -self._worth[node])[:count]


class _Drawn(_Growing):
    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._branching = _branching(place.nodes, place.depth)
        self._law = Law.DISTINCT if max(self._branching) > 1 else Law.IID
        self._q: list[FloatArray] = []
        self._level = 0

    def choose(self, candidates: list[int]) -> list[int]:
        self._level += 1
        return candidates if self._level < len(self._branching) else []

    def grow(self, scores: Scores, item: int, row: int, parent: int) -> None:
        place, draw, count = self.place, self.place.draw, self._branching[self._level]
        if place.ids is None:
            q = scores.law(item, row)
        else:
            q = sampling.law(sampling.renamed(scores.logits(item, row), place.ids), draw)
        if self._law is Law.IID:
            tokens: tuple[int, ...] = (chance.draw_node(q, draw.seed, draw.sample, place.position, parent + 1),)
        else:
            tokens = chance.draw_children(q, count, draw.seed, draw.sample, place.position, parent)
        for token in tokens:
            self.add(token, parent)
            self._q.append(q)

    def draft(self) -> Draft:
        score = tuple(min(float(q.max()), 1.0) for q in self._q)
        return Draft(tuple(self.tokens), tuple(self.parents), self._law, tuple(self._q), score=score)


def _branching(nodes: int, depth: int) -> tuple[int, ...]:
    """Children of each node, level by level: more near the root, where most drafts fail."""
    counts = [1] * min(depth, nodes)
    level = 0
    while level < len(counts):
        wider = [*counts[:level], counts[level] + 1, *counts[level + 1 :]]
        if sum(math.prod(wider[: below + 1]) for below in range(len(wider))) > nodes:
            break
        counts = wider
        level = (level + 1) % len(counts)
    return tuple(counts)


def _grown(backend: Backend, trees: Sequence[_Growing]) -> list[Tree]:
    """Grow all trees level by level, each as deep as its place allows."""
    for level in range(max((tree.place.depth for tree in trees), default=0)):
        growing = [tree for tree in trees if level < tree.place.depth and (level == 0 or tree.advance())]
        if not growing:
            break
        scores = backend.extend([_roots(tree.place) if level == 0 else _below(tree) for tree in growing])
        for item, tree in enumerate(growing):
            first = (len(tree.place.tokens) if level == 0 else len(tree.inner)) - len(tree.front)
            for row, parent in enumerate(tree.front, first):
                tree.grow(scores, item, row, parent)
        if level == 0:
            backend.commit([(tree.place.seq, range(len(tree.place.tokens))) for tree in growing])
    return [Tree(tree.draft(), tree.rows()) for tree in trees]


def _aligned(backend: Backend, place: Place) -> bool:
    """Whether the backend's own positions are the target's, so that it draws with the noise of the right ones."""
    return place.ids is None and backend.length(place.seq) + len(place.tokens) == place.position


def _roots(place: Place) -> Extend:
    want = [Want.NONE] * (len(place.tokens) - 1) + [Want.LOGITS]
    return Extend(place.seq, place.tokens, None, want, softened(place.draw))


def _below(tree: _Growing) -> Extend:
    rows = tree.rows()
    want = [Want.NONE] * (len(rows) - len(tree.front)) + [Want.LOGITS] * len(tree.front)
    return Extend(tree.place.seq, rows.tokens, rows.parents, want, softened(tree.place.draw))
