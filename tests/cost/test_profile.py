"""Measuring T(rows, sequences, context) on a backend with a clock of its own."""

from __future__ import annotations

import pytest
from tests.cost.clocked import ClockedBackend, PhasedBackend, formula

from outrider.backends.base import Backend
from outrider.cost.profile import FULL, MOST_ROUNDS, QUICK, Grid, Line, at_context, measure
from outrider.cost.types import Profile
from outrider.errors import BackendError, UsageError

DATE = "2026-11-29 12:00 UTC"
SMALL = Grid((Line(1, 64, (1, 4)), Line(1, 600, (1, 2)), Line(2, 64, (1, 3))), phase_rows=(1, 2), seconds=1e9)


def measured(backend: ClockedBackend, grid: Grid) -> Profile:
    return measure(backend, grid, backend.clock, DATE)


def test_every_point_is_measured_and_its_seconds_are_those_of_the_pass() -> None:
    profile = measured(ClockedBackend(), SMALL)
    points = [(cost.sequences, cost.context, cost.rows) for cost in profile.passes]
    assert points == [(1, 64, 1), (1, 64, 4), (1, 600, 1), (1, 600, 2), (2, 64, 2), (2, 64, 6)]
    for cost in profile.passes:
        assert cost.seconds == pytest.approx(formula(cost.sequences, cost.rows, cost.context))
        assert cost.rounds == MOST_ROUNDS - 1
    assert profile.measured == DATE
    assert profile.contexts == [64, 600]
    assert [cost.rows for cost in profile.one_sequence(64)] == [1, 4]


def test_rounds_are_interleaved_and_nothing_is_kept_or_left_open() -> None:
    backend = ClockedBackend()
    measured(backend, SMALL)
    one_round: list[tuple[tuple[int, ...], int]] = [
        ((1,), 64),
        ((1,), 64),
        ((4,), 64),
        ((1,), 600),
        ((1,), 600),
        ((2,), 600),
    ]
    one_round += [((1, 1), 64), ((1, 1), 64), ((3, 3), 64)]
    assert backend.passes == one_round * MOST_ROUNDS
    assert backend.read == 64 + 536 + 64  # longer contexts grow out of shorter ones; each sequence has its own
    assert backend.open_sequences == 0


def test_the_median_forgives_slow_rounds() -> None:
    backend = ClockedBackend()

    def clock() -> float:
        if len(backend.passes) in (12, 40, 41):
            backend.now += 100
        return backend.now

    profile = measure(backend, SMALL, clock, DATE)
    for cost in profile.passes:
        assert cost.seconds == pytest.approx(formula(cost.sequences, cost.rows, cost.context))


@pytest.mark.parametrize("grid", [FULL, QUICK])
def test_a_fast_machine_measures_the_whole_grid_in_time(grid: Grid) -> None:
    backend = ClockedBackend(lambda sequences, rows, context: 1e-3 + 2e-4 * rows)
    profile = measured(backend, grid)
    assert len(profile.passes) == sum(len(line.rows_each) for line in grid.lines)
    assert min(cost.rounds for cost in profile.passes) >= 5
    assert backend.now < 1.05 * grid.seconds


@pytest.mark.parametrize("slowness", [1, 10, 100])
def test_a_slow_machine_measures_less_in_time(slowness: int) -> None:
    backend = PhasedBackend(lambda sequences, rows, context: slowness * (0.02 + 0.005 * rows))
    profile = measured(backend, FULL)
    assert 0 < len(profile.passes) < sum(len(line.rows_each) for line in FULL.lines)
    assert (profile.passes[0].rows, profile.passes[0].context) == (1, 256)
    longest = slowness * (0.02 + 0.005 * 512)
    assert backend.now < FULL.seconds + 2 * longest
    assert backend.open_sequences == 0


def test_lines_that_do_not_fit_the_context_are_left_out() -> None:
    profile = measured(ClockedBackend(context=300), SMALL)
    assert {(cost.sequences, cost.context) for cost in profile.passes} == {(1, 64), (2, 64)}


@pytest.mark.parametrize("context", [-1, 4096 - 63])
def test_a_first_line_that_does_not_fit_is_refused(context: int) -> None:
    backend = ClockedBackend()
    with pytest.raises(UsageError, match=f"a context of {context} tokens is out of range: .* 0 to 4032"):
        measured(backend, at_context(context))
    assert not backend.passes
    assert backend.open_sequences == 0


def test_phases_are_shares_of_the_whole_pass() -> None:
    profile = measured(PhasedBackend(), SMALL)
    assert [(cost.rows, cost.context) for cost in profile.phases] == [(1, 64), (1, 600), (2, 600)]
    for cost in profile.phases:
        whole = formula(1, cost.rows, cost.context)
        parts = (cost.linear_s, cost.attention_s, cost.head_s, cost.other_s)
        assert parts == pytest.approx([whole / 2, whole / 4, whole / 8, whole / 8])
        assert cost.seconds == pytest.approx(whole)


def test_a_backend_that_tells_no_phases_has_none() -> None:
    assert measured(ClockedBackend(), SMALL).phases == ()


def test_an_error_leaves_nothing_open() -> None:
    backend = ClockedBackend()

    def clock() -> float:
        if len(backend.passes) == 5:
            raise BackendError("out of memory")
        return backend.now

    typed: Backend = backend
    with pytest.raises(BackendError):
        measure(typed, SMALL, clock, DATE)
    assert backend.open_sequences == 0
