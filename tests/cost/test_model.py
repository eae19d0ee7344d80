"""The fitted cost of a pass: right where it was measured and between, never falling, sane beyond."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cost.clocked import ClockedBackend, formula

from outrider.cost.model import FittedCost, StepCost, fit
from outrider.cost.profile import FULL, measure
from outrider.cost.types import PassCost
from outrider.errors import UsageError


def roofline(sequences: int, rows: int, context: float) -> float:
    """Flat while the weights come from memory, then linear; keys and values beside it."""
    return max(4e-3, 1e-3 + 7e-4 * rows) + sequences * (2e-5 + 1e-6 * context) + 3e-7 * rows * context


def grid(seconds: object = roofline, noise: float = 0.0, seed: int = 0) -> list[PassCost]:
    """The full grid as a machine that behaves like `seconds` would measure it, each point off by up to `noise`."""
    chance = random.Random(seed)
    assert callable(seconds)
    found = []
    for line in FULL.lines:
        for each in line.rows_each:
            rows = each * line.sequences
            time = seconds(line.sequences, rows, line.context) * (1 + chance.uniform(-noise, noise))
            found.append(PassCost(rows, line.sequences, line.context, time, 9))
    return found


def test_what_has_the_form_is_found_exactly() -> None:
    cost = fit(grid(formula))
    for sequences, rows, context in ((1, 1, 0), (1, 7, 100), (1, 100, 3000), (3, 20, 512), (16, 64, 4096)):
        assert cost.seconds(sequences, rows, context) == pytest.approx(formula(sequences, rows, context), rel=1e-6)


def test_a_profile_measured_on_a_clock_is_fitted_exactly() -> None:
    backend = ClockedBackend(lambda sequences, rows, context: 1e-3 * formula(sequences, rows, context))
    cost = fit(measure(backend, FULL, backend.clock, "").passes)
    assert cost.seconds(1, 5, 300) == pytest.approx(1e-3 * formula(1, 5, 300), rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_a_bent_and_noisy_machine_is_predicted_within_15_percent(seed: int) -> None:
    cost = fit(grid(noise=0.08, seed=seed))
    for rows in (*range(1, 17), 20, 28, 48, 96):
        for context in (32, 128, 512, 1500, 2048):
            assert cost.seconds(1, rows, context) == pytest.approx(roofline(1, rows, context), rel=0.15)
    assert cost.seconds(8, 24, 256) == pytest.approx(roofline(8, 24, 256), rel=0.15)


def test_beyond_the_last_rows_it_goes_on_in_a_line() -> None:
    cost = fit(grid())
    assert cost.seconds(1, 1024, 256) == pytest.approx(roofline(1, 1024, 256), rel=0.02)
    assert cost.seconds(1, 2048, 256) - cost.seconds(1, 1024, 256) == pytest.approx(
        1024 * (7e-4 + 3e-7 * 256), rel=0.02
    )
    assert cost.row_s == pytest.approx(7e-4, rel=0.02)


costs = st.lists(
    st.builds(
        PassCost,
        rows=st.integers(8, 64),
        sequences=st.integers(1, 8),
        context=st.integers(0, 4096),
        seconds=st.floats(1e-5, 10.0),
        rounds=st.just(3),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=100, deadline=None)
@given(costs, st.integers(1, 8), st.integers(8, 300), st.integers(0, 5000))
def test_it_never_falls_whatever_was_measured(found: list[PassCost], sequences: int, rows: int, context: int) -> None:
    cost = fit(found)
    here = cost.seconds(sequences, rows, context)
    assert here >= 0.0
    tolerance = 1e-12 + 1e-12 * here
    assert cost.seconds(sequences, rows + 1, context) >= here - tolerance
    assert cost.seconds(sequences, rows, context + 1) >= here - tolerance
    assert cost.seconds(min(sequences + 1, rows), rows, context) >= here - tolerance
    assert np.isfinite(cost.seconds(sequences, 100_000, 1_000_000))


@settings(max_examples=60, deadline=None)
@given(costs)
def test_no_other_coefficients_fit_better(found: list[PassCost]) -> None:
    """Small steps from the solution, those that keep every coefficient at 0 or above, never lessen the squares."""
    cost = fit(found)
    told = cost.coefficients
    best = float((cost.errors(found) ** 2).sum())
    for name, step in (("per_sequence", 1e-4), ("per_key", 1e-7), ("per_score", 1e-8)):
        if name == "per_sequence" and len({one.sequences for one in found}) == 1:
            continue
        if name == "per_key" and len({one.context for one in found}) == 1:
            continue
        if name == "per_score" and (len({one.context for one in found}) == 1 or len({one.rows for one in found}) == 1):
            continue
        for moved in (told[name] + step, max(0.0, told[name] - step)):
            other = FittedCost(**{**told, name: moved})
            assert float((other.errors(found) ** 2).sum()) >= best * (1 - 1e-6) - 1e-9


def test_many_is_seconds() -> None:
    cost = fit(grid())
    rows = np.array([1, 2, 7, 8, 40, 200, 500])
    found = cost.many(1, rows, 300.0)
    assert found.tolist() == pytest.approx([cost.seconds(1, int(n), 300.0) for n in rows], rel=1e-12)
    assert cost.many([[1], [4]], 8, [0, 10, 20]).shape == (2, 3)


def test_it_is_a_step_cost() -> None:
    cost: StepCost = fit(grid())
    assert cost.seconds(1, 1, 0) > 0.0


def test_one_pass_alone_says_what_each_row_costs() -> None:
    cost = fit([PassCost(4, 1, 256, 0.02, 1)])
    assert cost.seconds(1, 4, 256) == pytest.approx(0.02)
    assert cost.seconds(1, 2, 0) == pytest.approx(0.02)
    assert cost.seconds(1, 8, 9999) == pytest.approx(0.04)


def test_one_context_alone_says_nothing_of_others() -> None:
    cost = fit([PassCost(n, 1, 512, 0.01 * n, 3) for n in (1, 2, 4)])
    assert cost.seconds(1, 4, 0) == cost.seconds(1, 4, 512) == pytest.approx(0.04)
    assert cost.coefficients["per_key"] == cost.coefficients["per_score"] == 0.0


@pytest.mark.parametrize(
    ("sequences", "rows", "context"), [(0, 1, 0.0), (2, 1, 0.0), (1, 0, 0.0), (1, 1, -1.0), (-1, 1, 0.0)]
)
def test_passes_that_cannot_be_are_refused(sequences: int, rows: int, context: float) -> None:
    cost = fit(grid())
    with pytest.raises(UsageError, match="cannot be"):
        cost.seconds(sequences, rows, context)
    with pytest.raises(UsageError, match="at least a row for each"):
        cost.many(sequences, rows, context)


@pytest.mark.parametrize(
    ("knots", "base"), [((), ()), ((1, 1), (1.0, 2.0)), ((1, 2), (1.0,)), ((1, 2), (2.0, 1.0)), ((1,), (-1.0,))]
)
def test_coefficients_that_fall_are_refused(knots: tuple[int, ...], base: tuple[float, ...]) -> None:
    with pytest.raises(UsageError):
        FittedCost(knots, base, 0.0, 0.0, 0.0)


def test_nothing_measured_cannot_be_fitted() -> None:
    with pytest.raises(UsageError, match="nothing was measured"):
        fit([])
