"""What a pass costs, as a function: StepCost, and the one that is fitted to a profile.

The form of the fit, for n rows spread over s sequences that have c committed tokens each:

    T(s, n, c) = f(n) + s * (per_sequence + per_key * c) + per_score * n * c

f is piecewise linear between the measured numbers of rows and rises (the weights' way from memory, then arithmetic);
per_key is the way of a sequence's keys and values from memory, once a pass however many rows look at them; per_score
is attention's arithmetic. No coefficient is below zero, so T never falls when any of its arguments grows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from outrider.cost.types import PassCost
from outrider.errors import UsageError

Seconds: TypeAlias = npt.NDArray[np.float64]

_TABLE_ROWS = 256  # up to here f(n) is looked up


class StepCost(Protocol):
    """The cost of a pass, as policies and the planner ask for it."""

    def seconds(self, sequences: int, rows: int, context: float) -> float:
        """One pass of `rows` rows, spread over `sequences` that have `context` committed tokens each (or on average).

        Rises, or stays, with each argument.
        """
        ...


class FittedCost:
    """A StepCost from its coefficients (see the top of the file); `fit` finds them.

    knots: numbers of rows, ascending; base_s: f at each knot. Below the first knot f is what it is there, above the
    last it goes on as it rose over its last half, where arithmetic sets the pace.
    """

    __slots__ = ("_base_s", "_knots", "_per_key", "_per_score", "_per_sequence", "_slope", "_table")

    def __init__(
        self, knots: Sequence[int], base_s: Sequence[float], per_sequence: float, per_key: float, per_score: float
    ) -> None:
        if not knots or len(knots) != len(base_s) or any(b <= a for a, b in pairwise(knots)):
            raise UsageError(
                f"knots are {list(knots)} with {len(base_s)} values; give ascending rows with one value each"
            )
        if any(b < a for a, b in pairwise(base_s)) or min(base_s[0], per_sequence, per_key, per_score) < 0.0:
            raise UsageError("a pass cannot cost less for more rows, sequences or context; give coefficients that rise")
        self._knots = list(knots)
        self._base_s = list(base_s)
        self._per_sequence = per_sequence
        self._per_key = per_key
        self._per_score = per_score
        half = max(0, bisect_right(knots, knots[-1] / 2) - 1)
        # One number of rows says nothing of others: then each row costs the same.
        alone = len(knots) == 1
        self._slope = base_s[0] / knots[0] if alone else (base_s[-1] - base_s[half]) / (knots[-1] - knots[half])
        self._table = [self._rows_s(rows) for rows in range(_TABLE_ROWS)]

    def seconds(self, sequences: int, rows: int, context: float) -> float:
        """T(s, n, c). Raises UsageError for negative arguments, and for fewer rows than sequences."""
        if rows < sequences or sequences < 1 or context < 0:
            raise UsageError(
                f"a pass of {rows} rows of {sequences} sequences after {context} tokens cannot be: each has a row"
            )
        base = self._table[rows] if rows < _TABLE_ROWS else self._rows_s(rows)
        per_sequence = self._per_sequence + self._per_key * context
        return base + sequences * per_sequence + self._per_score * rows * context

    def many(self, sequences: npt.ArrayLike, rows: npt.ArrayLike, context: npt.ArrayLike) -> Seconds:
        """`seconds` for arrays, broadcast against each other."""
        s, n, c = np.broadcast_arrays(*(np.asarray(given, np.float64) for given in (sequences, rows, context)))
        if ((n < s) | (s < 1) | (c < 0)).any():
            raise UsageError("every pass needs at least a row for each of its sequences, and no context below 0")
        last = self._knots[-1]
        base = np.interp(n, self._knots, self._base_s) + self._slope * np.maximum(n - last, 0.0)
        return np.asarray(base + s * (self._per_sequence + self._per_key * c) + self._per_score * n * c)

    def errors(self, passes: Sequence[PassCost]) -> Seconds:
        """Predicted / measured - 1 of each pass."""
        found = [self.seconds(cost.sequences, cost.rows, cost.context) / cost.seconds - 1.0 for cost in passes]
        return np.array(found, np.float64)

    @property
    def row_s(self) -> float:
        """What a row adds to a pass behind the last knot, where arithmetic sets the pace."""
        return self._slope

    @property
    def coefficients(self) -> dict[str, Any]:
        """What it was made from, by name, in seconds."""
        return {
            "knots": list(self._knots),
            "base_s": list(self._base_s),
            "per_sequence": self._per_sequence,
            "per_key": self._per_key,
            "per_score": self._per_score,
        }

    def _rows_s(self, rows: int) -> float:
        knots, base = self._knots, self._base_s
        right = bisect_right(knots, rows)
        if right == 0:
            return base[0]
        if right == len(knots):
            return base[-1] + self._slope * (rows - knots[-1])
        share = (rows - knots[right - 1]) / (knots[right] - knots[right - 1])
        return base[right - 1] + share * (base[right] - base[right - 1])


def fit(passes: Sequence[PassCost]) -> FittedCost:
    """The FittedCost with the least squared relative errors; a coefficient that nothing measured tells of is 0.

    Raises UsageError where nothing was measured.
    """
    if not passes:
        raise UsageError("nothing was measured, so there is nothing to fit; give at least one pass")
    n, s, c, seconds = (
        np.array([getattr(cost, name) for cost in passes], np.float64)
        for name in ("rows", "sequences", "context", "seconds")
    )
    knots = sorted({cost.rows for cost in passes})
    columns = [np.ones(len(passes))]
    columns += [np.clip((n - low) / (high - low), 0.0, 1.0) for low, high in pairwise(knots)]  # each rise of f
    several = (len(set(s)) > 1, len(set(c)) > 1, len(set(c)) > 1 and len(knots) > 1)
    columns += [
        column if told else np.zeros(len(passes)) for column, told in zip((s, s * c, n * c), several, strict=True)
    ]
    matrix = np.stack(columns, axis=1) / seconds[:, None]
    found = _nonnegative(matrix, np.ones(len(passes)))
    base = np.cumsum(found[: len(knots)])
    return FittedCost(knots, base.tolist(), *found[len(knots) :].tolist())


def _nonnegative(matrix: Seconds, target: Seconds) -> Seconds:
    """The least-squares solution without negative entries (Lawson and Hanson 1974, chapter 23: active sets)."""
    scale = np.maximum(np.linalg.norm(matrix, axis=0), 1e-300)
    matrix = matrix / scale
    found = np.zeros(matrix.shape[1])
    free = np.zeros(matrix.shape[1], bool)
    for _ in range(10 * len(found)):  # it ends by itself long before, but for rounding
        pull = matrix.T @ (target - matrix @ found)
        pull[free] = -np.inf
        if pull.max() <= 1e-9:
            break
        free[int(pull.argmax())] = True
        while True:
            trial = np.zeros(len(found))
            trial[free] = np.linalg.lstsq(matrix[:, free], target, rcond=None)[0]
            below = free & (trial <= 0.0)
            if not below.any():
                break
            step = (found[below] / (found[below] - trial[below] + 1e-300)).min()
            found += step * (trial - found)
            free &= found > 1e-12
            found[~free] = 0.0
        found = trial
    return np.asarray(found / scale)
