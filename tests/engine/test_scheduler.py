"""Who runs: first come, first served; prompts share their rows, decoding never waits."""

from __future__ import annotations

from tests.engine.worlds import PIECES, VOCAB, world

from outrider.api import Request
from outrider.engine.scheduler import Scheduler
from outrider.engine.sequence import Family, Sequence, World
from outrider.testing.table import RandomLaw
from outrider.testing.text import PieceDetokenizer


def sequences(*lengths: int) -> list[Sequence]:
    shared = World(VOCAB, 999, frozenset(), uses_p=False)
    return [
        Sequence(index, Request((1,) * length), 0, Family(1), shared, PieceDetokenizer(PIECES), None)
        for index, length in enumerate(lengths)
    ]


def rows(scheduler: Scheduler) -> list[tuple[int, int, bool]]:
    return [(turn.sequence.index, turn.rows, turn.decides) for turn in scheduler.plan()]


def test_prompts_share_the_rows_of_a_pass_in_order() -> None:
    scheduler = Scheduler(sequences(5, 1, 9, 4), slots=8, chunk_rows=10)
    assert [newcomer.index for newcomer in scheduler.admit()] == [0, 1, 2, 3]
    assert rows(scheduler) == [(0, 5, True), (1, 1, True), (2, 5, False)]
    for sequence, committed in zip(scheduler.running, (4, 0, 5, 0), strict=True):
        sequence.committed = committed
    assert rows(scheduler) == [(0, 1, True), (1, 1, True), (2, 4, True), (3, 4, True)]


def test_slots_are_filled_as_they_become_free() -> None:
    scheduler = Scheduler(sequences(1, 1, 1), slots=2, chunk_rows=10)
    assert [newcomer.index for newcomer in scheduler.admit()] == [0, 1]
    assert scheduler.admit() == []
    scheduler.drop(scheduler.running[0])
    assert [newcomer.index for newcomer in scheduler.admit()] == [2]
    assert [sequence.index for sequence in scheduler.running] == [1, 2]
    assert scheduler.busy
    for sequence in list(scheduler.running):
        scheduler.drop(sequence)
    assert not scheduler.busy


def test_no_more_sequences_are_open_than_there_are_slots() -> None:
    made = world(RandomLaw(VOCAB, 2, 1), slots=2)
    most = 0
    for _ in made.engine.generate([Request((index % 5,), 4 + index) for index in range(7)]):
        most = max(most, made.backend.sequences)
    assert most == 2
    assert made.backend.sequences == 0
