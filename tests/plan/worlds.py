"""The real engine over a table of laws, on a clock that passes and nothing else move: every time can be known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from outrider.api import Generator
from outrider.backends.base import Extend
from outrider.drafters.base import Drafter
from outrider.drafters.ngram import NgramDrafter
from outrider.engine.engine import Engine
from outrider.policy.fixed import Fixed
from outrider.testing.table import LogitsOf, RandomLaw, TableBackend, TableScores
from outrider.testing.text import PieceDetokenizer

VOCAB = 12
EOS = 11
PIECES = (*"abcdefghijk", "<eos>")
LAW = RandomLaw(VOCAB, 2, seed=5)  # so few states that every answer soon repeats itself


class TimedBackend(TableBackend):
    """A table whose pass of n rows takes seconds(n) on its own clock."""

    def __init__(self, law: LogitsOf, seconds: Callable[[int], float], context: int = 256) -> None:
        super().__init__(law, VOCAB, context)
        self.now = 0.0
        self._seconds = seconds

    def clock(self) -> float:
        return self.now

    def extend(self, items: Sequence[Extend]) -> TableScores:
        self.now += self._seconds(sum(len(item.tokens) for item in items))
        return super().extend(items)


def engine(backend: TimedBackend, drafter: Drafter | None, gamma: int) -> Engine:
    return Engine(
        backend, drafter, Fixed(gamma), lambda: PieceDetokenizer(PIECES), frozenset({EOS}), clock=backend.clock
    )


def generators(backend: TimedBackend) -> Callable[[int], Generator]:
    """By draft length; 0 is plain decoding."""
    return lambda gamma: engine(backend, NgramDrafter() if gamma else None, gamma)


def prompts(count: int) -> list[list[int]]:
    return [[(7 * i + 3 * j * j + i * j) % (VOCAB - 1) for j in range(6 + i % 5)] for i in range(count)]
