"""A backend that computes nothing and takes, on its own clock, as long as a formula says."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from outrider.api import Logprob
from outrider.backends.base import Adjust, Capabilities, Extend, Phases
from outrider.core.types import FloatArray

Formula = Callable[[int, int, float], float]  # sequences, rows, mean context -> seconds


def formula(sequences: int, rows: int, context: float) -> float:
    """Of the form that cost.model fits."""
    return 1.0 + 0.1 * rows + sequences * (0.05 + 0.001 * context) + 0.0001 * rows * context


class NoScores:
    """Every row has token 0."""

    def token(self, item: int, row: int, adjust: Adjust | None = None) -> int:
        return 0

    def logits(self, item: int, row: int) -> FloatArray:
        return np.zeros(4, np.float32)

    def law(self, item: int, row: int, adjust: Adjust | None = None) -> FloatArray:
        raise NotImplementedError

    def logprobs(
        self, item: int, row: int, chosen: int, top: int, processed: bool, adjust: Adjust | None = None
    ) -> Logprob:
        raise NotImplementedError

    def top(self, item: int, row: int, count: int) -> tuple[int, ...]:
        raise NotImplementedError


class ClockedBackend:
    """Takes down each pass that commits nothing as (rows of each sequence, context), and which sequences are open.

    Forks share memory with what they were forked from; a pass over two that do would be measured wrongly.
    """

    vocab = 1000
    capabilities = Capabilities(row_alone=True, trees=True, isa="clocked", threads=2)

    def __init__(self, seconds: Formula = formula, context: int = 4096) -> None:
        self.now = 0.0
        self.context = context
        self.passes: list[tuple[tuple[int, ...], int]] = []
        self.read = 0
        self._seconds = seconds
        self._lengths: dict[int, int] = {}
        self._memory: dict[int, int] = {}
        self._next = 0

    @property
    def open_sequences(self) -> int:
        return len(self._lengths)

    def clock(self) -> float:
        return self.now

    def open(self) -> int:
        self._next += 1
        self._lengths[self._next] = 0
        self._memory[self._next] = self._next
        return self._next

    def fork(self, seq: int) -> int:
        new = self.open()
        self._lengths[new] = self._lengths[seq]
        self._memory[new] = self._memory[seq]
        return new

    def truncate(self, seq: int, length: int) -> None:
        assert 0 <= length <= self._lengths[seq]
        self._lengths[seq] = length

    def close(self, seq: int) -> None:
        del self._lengths[seq]

    def length(self, seq: int) -> int:
        return self._lengths[seq]

    def extend(self, items: Sequence[Extend]) -> NoScores:
        assert len({self._memory[item.seq] for item in items}) == len(items)
        assert all(0 <= token < self.vocab for item in items for token in item.tokens)
        contexts = [self._lengths[item.seq] for item in items]
        rows = tuple(len(item.tokens) for item in items)
        assert max(context + n for context, n in zip(contexts, rows, strict=True)) <= self.context
        self.now += self._seconds(len(items), sum(rows), sum(contexts) / len(items))
        self._last = rows, contexts[0]
        return NoScores()

    def commit(self, items: Sequence[tuple[int, Sequence[int]]]) -> None:
        kept = sum(len(path) for _, path in items)
        self.read += kept
        if not kept:
            self.passes.append(self._last)
        for seq, path in items:
            self._lengths[seq] += len(path)


class PhasedBackend(ClockedBackend):
    """Tells phases: half of the pass linear, a quarter attention, an eighth head."""

    def time_phases(self, items: Sequence[Extend]) -> Phases:
        start = self.now
        self.extend(items)
        whole = self.now - start
        return Phases(whole / 2, whole / 4, whole / 8, whole / 8)
