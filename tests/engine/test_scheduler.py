"""Who runs: first come, first served; prompts share their rows, decoding never waits."""

from __future__ import annotations

from tests.engine.worlds import PIECES, VOCAB, world

from outrider.api import Request
from outrider.engine.memory import Memory
from outrider.engine.scheduler import Scheduler
from outrider.engine.sequence import Family, Sequence, World
from outrider.testing.table import RandomLaw, TableBackend
from outrider.testing.text import PieceDetokenizer


def sequences(*lengths: int) -> list[Sequence]:
    shared = World(VOCAB, 999, frozenset(), uses_p=False)
    return [
        Sequence(index, Request((1,) * length), 0, Family(1), shared, PieceDetokenizer(PIECES), None)
        for index, length in enumerate(lengths)
    ]


def scheduler_of(*lengths: int, slots: int, chunk_rows: int, beside_rows: int | None = None) -> Scheduler:
    backend = TableBackend(RandomLaw(VOCAB, 1, 1), VOCAB)
    scheduler = Scheduler(Memory(backend), slots, chunk_rows, chunk_rows if beside_rows is None else beside_rows)
    scheduler.add(sequences(*lengths))
    return scheduler


def admitted(scheduler: Scheduler) -> list[int]:
    return [newcomer.index for newcomer in scheduler.admit()]


def rows(scheduler: Scheduler) -> list[tuple[int, int, bool]]:
    return [(turn.sequence.index, turn.rows, turn.decides) for turn in scheduler.plan()]


def test_prompts_share_the_rows_of_a_pass() -> None:
    """Whoever came first has half of them at least, the others in the order of what they need."""
    scheduler = scheduler_of(5, 1, 9, 4, slots=8, chunk_rows=10)
    assert admitted(scheduler) == [0, 1, 2, 3]
    assert rows(scheduler) == [(0, 5, True), (1, 1, True), (2, 1, False), (3, 4, True)]
    for sequence, committed in zip(scheduler.running, (4, 0, 5, 0), strict=True):
        sequence.committed = committed
    assert rows(scheduler) == [(0, 1, True), (1, 1, True), (2, 4, True), (3, 4, True)]


def test_a_prompt_alone_takes_every_row_and_fewer_beside_one_that_decodes() -> None:
    scheduler = scheduler_of(99, slots=8, chunk_rows=10, beside_rows=6)
    assert admitted(scheduler) == [0]
    assert rows(scheduler) == [(0, 10, False)]
    scheduler.add(sequences(1))
    assert admitted(scheduler) == [0]
    assert rows(scheduler) == [(0, 6, False), (0, 1, True)]


def test_a_long_prompt_holds_a_short_one_up_for_a_bounded_time() -> None:
    """Case of fairness: 10 rows behind 900 and beside 500 are read in 2 * 10 / 8 passes."""
    scheduler = scheduler_of(900, 500, 10, 1, slots=8, chunk_rows=100, beside_rows=8)
    assert admitted(scheduler) == [0, 1, 2, 3]
    short = scheduler.running[2]
    passes = 0
    while short.pending > 1:
        for turn in scheduler.plan():
            assert turn.rows > 0
            if not turn.decides or turn.sequence is short:
                turn.sequence.committed += turn.rows
        passes += 1
    assert passes == 3
    # And the long ones were read meanwhile: 12 rows and what the short one left.
    assert [sequence.committed for sequence in scheduler.running] == [12, 2, 10, 0]


def test_slots_are_filled_as_they_become_free() -> None:
    scheduler = scheduler_of(1, 1, 1, slots=2, chunk_rows=10)
    assert admitted(scheduler) == [0, 1]
    assert admitted(scheduler) == []
    scheduler.drop(scheduler.running[0])
    assert admitted(scheduler) == [2]
    assert [sequence.index for sequence in scheduler.running] == [1, 2]
    assert scheduler.busy
    for sequence in list(scheduler.running):
        scheduler.drop(sequence)
    assert not scheduler.busy


def test_a_paused_sequence_goes_before_those_that_came_later() -> None:
    scheduler = scheduler_of(1, 1, 1, 1, slots=3, chunk_rows=10)
    assert admitted(scheduler) == [0, 1, 2]
    scheduler.pause(scheduler.running[1])
    assert [sequence.index for sequence in scheduler.waiting] == [1, 3]
    scheduler.drop(scheduler.running[0])
    assert admitted(scheduler) == [1, 3]
    assert [sequence.index for sequence in scheduler.running] == [1, 2, 3]


def test_a_withdrawn_request_is_nowhere() -> None:
    scheduler = scheduler_of(1, 1, 1, slots=2, chunk_rows=10)
    assert admitted(scheduler) == [0, 1]
    first, last = scheduler.running[0], scheduler.waiting[0]
    assert scheduler.withdraw(first.family) == [first]
    assert scheduler.withdraw(last.family) == []
    assert [sequence.index for sequence in scheduler.running] == [1]
    assert scheduler.waiting == []


def test_no_more_sequences_are_open_than_there_are_slots() -> None:
    made = world(RandomLaw(VOCAB, 2, 1), slots=2)
    most = 0
    for _ in made.engine.generate([Request((index % 5,), 4 + index) for index in range(7)]):
        most = max(most, made.backend.sequences)
    assert most == 2
    assert made.backend.sequences == 0
