"""What a pass costs, measured on the machine at hand: T(rows, sequences, context).

Rounds are interleaved (every point, and again), so that a machine whose speed drifts slows all points alike, and a
point's cost is its median. All of it ends when its time is used up: a slow model is measured in fewer rounds, and
after shorter contexts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from outrider.backends.base import Backend, Extend, PhaseTimer, Want
from outrider.cost.types import PassCost, PhaseCost, Profile
from outrider.errors import UsageError

PREFILL_ROWS = 512
FILL_SHARE = 0.35  # of the time, for reading the contexts; what is left is for passes
PHASES_BY = 0.5
MOST_ROUNDS = 25
PHASE_ROUNDS = 7


@dataclass(frozen=True, slots=True)
class Line:
    """Passes of `sequences`, each with `context` committed tokens of its own, taking so many rows of each."""

    sequences: int
    context: int
    rows_each: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """Which passes to measure, the plainest first, of which sizes to tell the phases, and in how many seconds."""

    lines: tuple[Line, ...]
    phase_rows: tuple[int, ...]
    seconds: float


# Few rows decide how much to draft, so they are measured one by one; many rows take long and tell little more.
FULL = Grid(
    (
        Line(1, 256, (*range(1, 17), 24, 32, 64, 128)),
        Line(1, 64, tuple(range(1, 17))),
        Line(1, 1024, (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 32)),
        Line(1, 2048, (1, 2, 4, 8, 16)),
        Line(2, 256, (1, 2, 4, 8)),
        Line(4, 64, (1, 2, 4)),
        Line(4, 1024, (1, 4)),
        Line(8, 256, (1, 2, 4)),
    ),
    phase_rows=(1, 2, 4, 8, 16, 64),
    seconds=20.0,
)
QUICK = Grid(
    (
        Line(1, 256, (1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 32)),
        Line(1, 64, (1, 4, 8)),
        Line(1, 1024, (1, 4, 8)),
        Line(4, 64, (1, 2)),
    ),
    phase_rows=(1, 4, 8, 16),
    seconds=5.0,
)


def at_context(context: int) -> Grid:
    """One sequence after this context alone, up to 64 rows."""
    return Grid((Line(1, context, (*range(1, 17), 24, 32, 64)),), FULL.phase_rows, 10.0)


@dataclass(frozen=True, slots=True)
class _Point:
    """Sequences ready to be measured, and how many rows of each a pass takes; settles: after an uncounted one."""

    seqs: tuple[int, ...]
    context: int
    rows_each: int
    settles: bool


def measure(backend: Backend, grid: Grid, clock: Callable[[], float], date: str) -> Profile:
    """Measures the grid as far as it fits the backend's context and the time; date says when, for the record.

    The first point of the first line is always measured; of the others, those may be missing for which there was no
    room or no time. clock gives seconds. Raises UsageError where the first line does not fit the context.
    """
    first = grid.lines[0]
    room = backend.context - max(first.rows_each)
    if not 0 <= first.context <= room:
        raise UsageError(f"a context of {first.context} tokens is out of range: this model leaves room for 0 to {room}")
    start = clock()
    shelf = _Shelf(backend)
    try:
        points = _prepared(shelf, grid, backend.context, lambda: clock() - start > FILL_SHARE * grid.seconds)
        phases = tuple(_phases(backend, points, grid, clock, start + PHASES_BY * grid.seconds))
        passes = tuple(_rounds(backend, points, clock, start + grid.seconds))
    finally:
        shelf.close()
    return Profile(passes, phases, date)


class _Shelf:
    """Sequences by their number and context; longer contexts grow out of shorter ones, and all are closed together."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._stems: list[int] = []  # stem i has read the longest context that anybody asked of it
        self._open: list[int] = []

    def take(self, sequences: int, context: int, late: Callable[[], bool]) -> tuple[int, ...] | None:
        """Sequences of exactly this context, each with memory of its own; None where `late` came first."""
        found = []
        for index in range(sequences):
            if index == len(self._stems):
                self._stems.append(self._backend.open())
            stem = self._stems[index]
            while self._backend.length(stem) < context:
                # A context asked for is only given up where there is another one to measure instead.
                if late() and self._open:
                    return None
                self._read(stem, min(PREFILL_ROWS, context - self._backend.length(stem)))
            # Forks share memory with their stem alone, so that sequences of one pass never share any.
            seq = self._backend.fork(stem)
            self._open.append(seq)
            self._backend.truncate(seq, context)
            found.append(seq)
        return tuple(found)

    def close(self) -> None:
        for seq in (*self._open, *self._stems):
            self._backend.close(seq)

    def _read(self, seq: int, rows: int) -> None:
        item = _item(self._backend, seq, rows, Want.NONE)
        self._backend.extend([item])
        self._backend.commit([(seq, range(rows))])


def _prepared(shelf: _Shelf, grid: Grid, room: int, late: Callable[[], bool]) -> list[_Point]:
    """The points of the lines that fit and whose contexts could be read in time."""
    found = []
    for line in grid.lines:
        if line.context + max(line.rows_each) <= room:
            seqs = shelf.take(line.sequences, line.context, late)
            if seqs is not None:
                # The first pass after other sequences finds other caches than it would while decoding.
                found += [_Point(seqs, line.context, rows, rows == line.rows_each[0]) for rows in line.rows_each]
    return found


def _rounds(
    backend: Backend, points: Sequence[_Point], clock: Callable[[], float], deadline: float
) -> Iterator[PassCost]:
    """Interleaved rounds until the deadline; the first one warms up, and counts only where there were few others."""
    seconds: list[list[float]] = [[] for _ in points]
    for point, found in (each for _ in range(MOST_ROUNDS) for each in zip(points, seconds, strict=True)):
        if clock() > deadline and seconds[0]:
            break
        if point.settles:
            _time(backend, point, clock)
        found.append(_time(backend, point, clock))
    for point, found in zip(points, seconds, strict=True):
        times = found[1:] if len(found) > 2 else found
        if times:
            rows = len(point.seqs) * point.rows_each
            yield PassCost(rows, len(point.seqs), point.context, median(times), len(times))


def _time(backend: Backend, point: _Point, clock: Callable[[], float]) -> float:
    """Seconds of one pass, each row's token taken; nothing of it is kept."""
    items = [_item(backend, seq, point.rows_each, Want.TOKEN) for seq in point.seqs]
    start = clock()
    scores = backend.extend(items)
    for item in range(len(items)):
        for row in range(point.rows_each):
            scores.token(item, row)
    spent = clock() - start
    backend.commit([(seq, ()) for seq in point.seqs])
    return spent


def _phases(
    backend: Backend, points: Sequence[_Point], grid: Grid, clock: Callable[[], float], deadline: float
) -> Iterator[PhaseCost]:
    """Medians of the phases, for one sequence, after the shortest and the longest context that could be read."""
    if not isinstance(backend, PhaseTimer):
        return
    single = [point for point in points if len(point.seqs) == 1 and point.rows_each in grid.phase_rows]
    contexts = [point.context for point in single]
    for point in single:
        if point.context in (min(contexts), max(contexts)) and clock() <= deadline:
            yield _phase_cost(backend, backend, point, clock)


def _phase_cost(backend: Backend, timer: PhaseTimer, point: _Point, clock: Callable[[], float]) -> PhaseCost:
    """The clock around a pass gives what the backend does not see: its own call is part of everything else."""
    (seq,) = point.seqs
    item = _item(backend, seq, point.rows_each, Want.TOKEN)
    linear, attention, head, whole = [], [], [], []
    for _ in range(PHASE_ROUNDS):
        start = clock()
        phases = timer.time_phases([item])
        whole.append(clock() - start)
        backend.commit([(seq, ())])
        linear.append(phases.linear_s)
        attention.append(phases.attention_s)
        head.append(phases.head_s)
    named = (median(linear), median(attention), median(head))
    return PhaseCost(point.rows_each, point.context, *named, max(0.0, median(whole) - sum(named)))


def _item(backend: Backend, seq: int, rows: int, want: Want) -> Extend:
    start = backend.length(seq)
    # Spread over the vocabulary, so that no embedding row stays warm in a cache that real text would not keep warm.
    tokens = [(start + row) * 7919 % backend.vocab for row in range(rows)]
    return Extend(seq, tokens, None, [want] * rows)
