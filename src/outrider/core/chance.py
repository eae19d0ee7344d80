"""Luck for the rules and for drafters that draw, all of it keyed: nothing here has a state.

**Keys.** A number is known by (seed, sample, position of the first drafted token, purpose, node). Every pass adds a
token, so that no two passes of an answer share that position, and no two nodes of a draft share a node: the noise of
each pass is fresh, though it is a function of the seed.

A node's absolute position alone would not do. A pass that rejects a node leaves the positions below it to be drafted
again, and the verdict has read what stood there: in `block` and `traversal` a short prefix is what remains when the
tokens after it failed their trials. Drawn again from the same numbers, those tokens would fail more often than q says,
and the answer would not have the target's law. (`rejection` reads nothing behind the first rejection, so it alone could
bear such keys. tests/core/test_chance.py counts both.) For the same reason a drafter must not draw with the target's
noise under these rules: that is for `coupled`.

Dimensions: V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from outrider.core import noise
from outrider.core.noise import Purpose
from outrider.core.rules import Probabilities
from outrider.core.types import FloatArray


@dataclass(frozen=True, slots=True)
class KeyedChance:
    """rules.Chance of one pass: the same questions get the same answers, whenever they are asked."""

    seed: int  # 0 <= seed < 2**64
    sample: int  # 0 <= sample < 2**32
    position: int  # of the first drafted token

    def accept(self, node: int, probability: Any) -> bool:
        """True with this probability."""
        return bool(noise.number(self.seed, self.sample, self.position, Purpose.ACCEPT, node) < probability)

    def draw(self, node: int, weights: Probabilities) -> int:
        """An id, with probability in proportion to weights [V], for the place after this node."""
        return pick(weights, noise.number(self.seed, self.sample, self.position, Purpose.RECOVER, node))


def pick(weights: Probabilities, unit: float) -> int:
    """The id at the share `unit`, 0 < unit < 1, of the weights [V]; one whose weight is 0 only if all are (then 0)."""
    reached = weights.astype(np.float64)
    np.cumsum(reached, out=reached)
    total = reached[-1]
    if not total > 0.0:
        return 0
    # unit * total may round up to total, where no id is left.
    return int(np.searchsorted(reached, min(unit * total, np.nextafter(total, 0.0)), side="right"))


def draw_node(q: FloatArray, seed: int, sample: int, position: int, node: int) -> int:
    """The token of draft node `node`, drawn from q [V] independently of everything else; position as in KeyedChance."""
    return pick(q, noise.number(seed, sample, position, Purpose.DRAFT, node))


def draw_children(q: FloatArray, count: int, seed: int, sample: int, position: int, parent: int) -> tuple[int, ...]:
    """Up to `count` tokens for children of node `parent` (-1: the root), drawn from q [V] without replacement.

    In the order drawn, for Law.DISTINCT; fewer where q leaves fewer possible. This is Gumbel-top-k (Kool et al.
    1903.06059) as a race: the first to finish among exponential times E / q, which needs no logarithm of q.
    """
    with np.errstate(divide="ignore", over="ignore"):
        times = noise.exponential(len(q), seed, sample, position, Purpose.SIBLINGS, parent) / q.astype(np.float64)
    first: list[int] = []
    for _ in range(min(count, int(np.count_nonzero(np.isfinite(times))))):
        first.append(int(np.argmin(times)))
        times[first[-1]] = np.inf
    return tuple(first)
