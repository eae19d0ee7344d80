"""What one pass costs, by its number of rows, measured on the machine at hand: T(n).

Dimensions: n rows of a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from outrider.backends.base import Backend, Extend, Want
from outrider.errors import UsageError

ROWS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 32, 64)
ROUNDS = 15
PREFILL_ROWS = 512


@dataclass(frozen=True, slots=True)
class PassCost:
    """The median time of one pass of n rows."""

    n: int
    seconds: float


def measure(
    backend: Backend,
    context: int,
    clock: Callable[[], float],
    rows: Sequence[int] = ROWS,
    rounds: int = ROUNDS,
) -> list[PassCost]:
    """Times passes of each number of rows that follow `context` committed tokens; every row's token is asked for.

    The rounds are interleaved (1, 2, 3, ... rows, and again), so that a machine whose speed drifts slows all sizes
    alike; one more round before them warms up. clock gives seconds. Raises UsageError when the longest pass does not
    fit the backend's context.
    """
    room = backend.context - max(rows)
    if not 0 <= context <= room:
        raise UsageError(f"a context of {context} tokens is out of range: this model leaves room for 0 to {room}")
    seq = backend.open()
    try:
        _fill(backend, seq, context)
        seconds: dict[int, list[float]] = {n: [] for n in rows}
        for round_ in range(rounds + 1):
            for n in rows:
                spent = _time_pass(backend, seq, context, n, clock)
                if round_:
                    seconds[n].append(spent)
    finally:
        backend.close(seq)
    return [PassCost(n, median(seconds[n])) for n in rows]


def _token(position: int, vocab: int) -> int:
    # Spread over the vocabulary, so that no embedding row stays warm in a cache that real text would not keep warm.
    return position * 7919 % vocab


def _fill(backend: Backend, seq: int, context: int) -> None:
    for start in range(0, context, PREFILL_ROWS):
        n = min(PREFILL_ROWS, context - start)
        tokens = [_token(start + i, backend.vocab) for i in range(n)]
        backend.extend([Extend(seq, tokens, None, [Want.NONE] * n)])
        backend.commit([(seq, range(n))])


def _time_pass(backend: Backend, seq: int, context: int, n: int, clock: Callable[[], float]) -> float:
    item = Extend(seq, [_token(context + i, backend.vocab) for i in range(n)], None, [Want.TOKEN] * n)
    start = clock()
    scores = backend.extend([item])
    for row in range(n):
        scores.token(0, row)
    spent = clock() - start
    backend.commit([(seq, ())])
    return spent
