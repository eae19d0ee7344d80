"""Pass and draft times, corrected by what was measured."""

from __future__ import annotations

import math
import random

import pytest
from tests.policy.worlds import Computing, Stairs

from outrider import _native
from outrider._native import DraftTimes
from outrider.cost.model import StepCost
from outrider.policy.goodput import PRIOR

CONTEXT_BLOCK, FIRST_ASKS, SHAPED_ROWS = 128, 4, 256  # as in native/include/outrider/policy.h


def pass_times(cost: StepCost | None) -> _native.PassTimes:
    return _native.PassTimes((PRIOR if cost is None else cost).seconds, cost is not None)


def one(times: _native.PassTimes, rows: int, sequences: int = 1) -> float:
    return times.table(sequences, rows, 0, 64.0)[0]


def test_without_news_a_profile_is_believed() -> None:
    times = pass_times(Stairs())
    table = times.table(1, 1, 80, 10.0)
    assert table == [Stairs().seconds(1, rows, CONTEXT_BLOCK / 2) for rows in range(1, 82)]


def test_the_level_follows_the_load_of_the_machine() -> None:
    times = pass_times(Stairs())
    for rows in [1, 4, 8] * 30:
        times.learn(1, rows, 64.0, Stairs(2.5).seconds(1, rows, 64.0))
    for rows in (1, 2, 4, 8, 12, 70):
        assert one(times, rows) == pytest.approx(Stairs(2.5).seconds(1, rows, 64.0), rel=0.03)


def test_the_shape_is_learned_without_a_profile() -> None:
    times = pass_times(None)
    for rows in [1, 2, 4, 8, 16] * 40:
        times.learn(1, rows, 64.0, Computing().seconds(1, rows, 64.0))
    for rows in (1, 2, 3, 4, 6, 8, 12, 16):
        assert one(times, rows) == pytest.approx(Computing().seconds(1, rows, 64.0), rel=0.2)


def test_outliers_move_little() -> None:
    times = pass_times(Stairs())
    chance = random.Random(2)
    for _ in range(300):
        seconds = Stairs().seconds(1, 4, 64.0)
        times.learn(1, 4, 64.0, seconds * (30.0 if chance.random() < 0.03 else 1.0))
    assert one(times, 4) == pytest.approx(Stairs().seconds(1, 4, 64.0), rel=0.08)


def test_a_bad_moment_of_one_number_of_rows_shows_in_its_neighbours() -> None:
    """Three rows took no longer, so two cannot: both were measured, and T rises."""
    times = pass_times(None)
    for _ in range(10):
        for rows in (1, 3, 4):
            times.learn(1, rows, 64.0, 0.004)
    times.learn(1, 2, 64.0, 0.008)
    plain, two, three = times.table(1, 1, 2, 64.0)
    assert plain < two < 1.06 * plain
    assert three < 1.08 * plain


@pytest.mark.parametrize("factor", [0.4, 2.5])
def test_a_change_of_the_load_is_not_taken_for_the_shape(factor: float) -> None:
    """It came while only plain passes were done, which may not make drafts look dear, or free, for it."""
    times = pass_times(None)
    for _ in range(20):
        for rows in (1, 2, 3, 4):
            times.learn(1, rows, 64.0, 0.004)
    before = times.table(1, 1, 3, 64.0)
    for _ in range(20):
        times.learn(1, 1, 64.0, factor * 0.004)
    after = times.table(1, 1, 3, 64.0)
    assert after[0] == pytest.approx(factor * before[0], rel=0.1)
    assert after[1] / after[0] == pytest.approx(before[1] / before[0], abs=0.2)


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.inf, math.nan])
def test_what_is_no_time_is_ignored(seconds: float) -> None:
    times, drafts = pass_times(Stairs()), DraftTimes()
    before = one(times, 3)
    times.learn(1, 3, 64.0, seconds)
    assert one(times, 3) == before
    if seconds != 0.0:
        drafts.learn(4, 4, seconds)
        drafts.learn_idle(seconds)
        assert (drafts.asked, drafts.ask_s, drafts.node_s) == (0, 0.0, 0.0)


def test_a_plain_pass_is_due_seldom() -> None:
    times = pass_times(None)
    due = 0
    for step in range(2000):
        rows = 1 + step % 8
        if times.plain_is_due(rows):
            due += 1
            times.learn(1, rows, 64.0, 0.01)
        else:
            times.learn(1, rows + 30, 64.0, 0.02)
    assert 5 < due < 2000 / 100
    assert not pass_times(None).plain_is_due(SHAPED_ROWS + 1)


def test_a_plain_pass_is_due_at_once_under_a_load_that_is_new() -> None:
    """Long alone, so that the next look was far away; then 30 sequences whose drafts hide what a plain pass takes."""
    times = pass_times(None)
    for _ in range(1000):
        rows = 1 if times.plain_is_due(1) else 5
        times.learn(1, rows, 64.0, 0.004 * rows)
    assert times.plain_is_due(30)
    assert times.plain_is_due(30), "it was not learned from"
    times.learn(30, 30, 64.0, 0.03)
    assert not any(times.plain_is_due(rows) for rows in range(25, 36))
    assert times.plain_is_due(50)


def test_a_plain_pass_that_happens_anyway_is_not_due() -> None:
    times = pass_times(Stairs())
    for _ in range(2000):
        assert not times.plain_is_due(1)
        times.learn(1, 1, 64.0, 0.004)


def test_draft_times_are_a_line() -> None:
    drafts = DraftTimes()
    chance = random.Random(3)
    for _ in range(300):
        nodes = chance.randrange(1, 9)
        drafts.learn(8, nodes, 5e-4 + 2e-4 * nodes)
    assert drafts.node_s == pytest.approx(2e-4, rel=0.15)
    assert drafts.ask_s == pytest.approx(5e-4, rel=0.25)
    assert 0.4 < drafts.filled < 0.7


def test_drafts_of_one_length_do_not_make_the_line_wild() -> None:
    drafts = DraftTimes()
    for _ in range(100):
        drafts.learn(16, 0, 3e-5)
    assert drafts.node_s == 0.0
    drafts.learn(16, 1, 3e-5)
    assert drafts.ask_s + 16 * drafts.node_s < 4e-4
    for _ in range(100):
        drafts.learn(8, 8, 8e-3)
    assert drafts.ask_s + 8 * drafts.node_s == pytest.approx(8e-3, rel=0.1)


def test_a_slow_first_call_is_forgiven_and_what_is_spent_anyway_does_not_count() -> None:
    drafts = DraftTimes()
    drafts.learn(4, 4, 0.5)
    for _ in range(FIRST_ASKS):
        drafts.learn(4, 4, 1e-4)
    assert drafts.ask_s + 4 * drafts.node_s == pytest.approx(1e-4)
    for _ in range(50):
        drafts.learn_idle(4e-5)
    assert drafts.ask_s + 4 * drafts.node_s == pytest.approx(6e-5)
