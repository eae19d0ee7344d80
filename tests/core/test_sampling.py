"""p and the draw agree, and edge inputs have their stated results."""

from __future__ import annotations

import numpy as np
import pytest

from outrider.core import sampling
from outrider.core.sampling import GREEDY, Adjust, Draw
from outrider.core.types import FloatArray
from outrider.errors import UsageError

NAN, INF = float("nan"), float("inf")
MOST = float(np.finfo(np.float32).max)
DRAWS = 3_000
CHI_SQUARE = {2: 41.45, 3: 44.84, 4: 47.79, 5: 50.56, 7: 55.88}  # degrees of freedom: exceeded once in 1e9
LOGITS = (0.0, 1.0, -1.0, 0.5, 2.0, -0.5, 0.2, 1.5)


def row(*values: float) -> FloatArray:
    return np.array(values, np.float32)


def nothing_moved(mask: int) -> Adjust:
    none = np.empty(0, np.float32)
    return Adjust(np.empty(0, np.int32), none, none, np.array([mask], np.uint32))


@pytest.mark.parametrize(
    ("draw", "adjust", "possible"),
    [
        (Draw(0.6), None, 8),
        (Draw(1.7), None, 8),
        (Draw(1.0, top_k=4), None, 4),
        (Draw(1.0, top_p=0.8), None, 4),
        (Draw(1.3, min_p=0.25), None, 5),
        (Draw(1.0, typical_p=0.6), None, 3),
        (Draw(1.5, top_k=7, top_p=0.95, min_p=0.3, typical_p=0.8), None, 4),
        (Draw(1.5, top_p=0.9), nothing_moved(0b11111010), 5),
    ],
    ids=["0.6", "1.7", "top_k", "top_p", "min_p", "typical_p", "all", "mask"],
)
def test_draws_follow_p(draw: Draw, adjust: Adjust | None, possible: int) -> None:
    """Chi-square of the tokens of many seeds against p; a right draw fails once in 1e9 runs."""
    logits = row(*LOGITS)
    p = sampling.law(logits, draw, adjust).astype(np.float64)
    kept = np.flatnonzero(p)
    assert len(kept) == possible
    tokens = [
        sampling.token(logits, Draw(draw.temperature, seed, 0, *_filters(draw)), 3, adjust) for seed in range(DRAWS)
    ]
    counts = np.bincount(tokens, minlength=8)
    assert counts.sum() == counts[kept].sum()
    counts, p = counts[kept], p[kept]
    assert DRAWS * p.min() > 5
    assert np.sum((counts - DRAWS * p) ** 2 / (DRAWS * p)) < CHI_SQUARE[possible - 1]
    wrong = np.roll(p, 1)
    assert np.sum((counts - DRAWS * wrong) ** 2 / (DRAWS * wrong)) > CHI_SQUARE[possible - 1]


def _filters(draw: Draw) -> tuple[int, float, float, float]:
    return draw.top_k, draw.top_p, draw.min_p, draw.typical_p


def test_p_is_the_softmax() -> None:
    logits = np.random.default_rng(1).normal(0.0, 5.0, 1000).astype(np.float32)
    exact = np.exp((logits.astype(np.float64) - logits.max()) / 0.7)
    np.testing.assert_allclose(sampling.law(logits, Draw(0.7)), exact / exact.sum(), rtol=2e-5, atol=1e-12)


@pytest.mark.parametrize(
    "draw", [GREEDY, Draw(1.0, 7), Draw(1.0, 7, 0, 2, 0.5, 0.1, 0.5)], ids=["greedy", "drawn", "all"]
)
@pytest.mark.parametrize(
    ("logits", "expected"),
    [
        (row(NAN, -5.0, NAN), 1),
        (row(NAN, NAN, NAN), 0),
        (row(-INF, -INF), 0),
        (row(NAN, -INF, NAN), 0),
        (row(0.0, INF, INF, 9.0), 1),
    ],
)
def test_rows_with_one_possible_token(logits: FloatArray, expected: int, draw: Draw) -> None:
    assert sampling.token(logits, draw, 1) == expected
    assert int(np.argmax(sampling.law(logits, draw))) == expected
    assert sampling.law(logits, draw).sum() == 1.0


def test_greedy_takes_the_lowest_id_on_ties_and_never_filters() -> None:
    assert sampling.token(row(1.0, 3.0, 3.0), GREEDY, 0) == 1
    assert sampling.token(row(0.0, -0.0), GREEDY, 0) == 0
    assert sampling.token(row(-0.0, 0.0), Draw(0.0, 0, 0, 1, 0.1, 1.0, 0.1), 0) == 0
    assert sampling.law(row(1.0, 3.0, 3.0), GREEDY).tolist() == [0.0, 1.0, 0.0]
    # the likeliest token is not among the typical ones here, which greedy does not care about
    peaked = np.append(row(3.0), np.zeros(60, np.float32))
    assert sampling.law(peaked, Draw(1.0, typical_p=0.3))[0] == 0.0
    assert sampling.token(peaked, Draw(0.0, typical_p=0.3), 0) == 0


def test_an_impossible_token_is_never_drawn() -> None:
    logits = row(-INF, 0.0, NAN, 0.0)
    assert {sampling.token(logits, Draw(100.0, seed), 0) for seed in range(200)} == {1, 3}


def test_a_row_without_a_possible_token_is_id_0() -> None:
    empty = nothing_moved(0)
    for draw in (GREEDY, Draw(1.0), Draw(1.0, 0, 0, 1, 0.5, 0.5, 0.5)):
        assert sampling.token(row(1.0, 2.0), draw, 0, empty) == 0
        assert sampling.law(row(1.0, 2.0), draw, empty).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("temperature", [5e-324, 1e-45, 1e-6])
def test_huge_logits_and_tiny_temperatures_stay_defined(temperature: float) -> None:
    draw = Draw(temperature, 1)
    assert sampling.token(row(MOST, -MOST, 0.0), draw, 0) == 0
    assert sampling.token(row(0.0, 1.0, -1.0), draw, 0) == 1
    assert sampling.token(row(-MOST, -1.0, -0.5), draw, 0) == 2
    assert np.isfinite(sampling.law(row(0.0, 1.0, -1.0), Draw(temperature, top_p=0.5))).all()


def test_a_huge_temperature_is_a_flat_law() -> None:
    for temperature in (1e30, 1e60, MOST * 1e10):
        assert sampling.law(row(-100.0, 0.0, 100.0, 50.0), Draw(temperature)).tolist() == [0.25] * 4
    assert sampling.law(row(-INF, 0.0), Draw(1e60)).tolist() == [0.0, 1.0]


def test_rows_as_wide_as_floats_are() -> None:
    logits = row(MOST, -MOST, 0.0, MOST)
    for draw in (Draw(1.0), Draw(1.0, 0, 0, 3, 0.99, 0.01, 0.99)):
        assert sampling.law(logits, draw).tolist() == [0.5, 0.0, 0.0, 0.5]
        assert sampling.logprobs(logits, 1, 4, draw).logprob == -INF


def test_seed_sample_and_position_each_change_the_draw() -> None:
    logits = np.zeros(1000, np.float32)
    base = sampling.token(logits, Draw(1.0, 1, 2), 3)
    assert base == sampling.token(logits, Draw(1.0, 1, 2), 3)
    others = [
        sampling.token(logits, Draw(1.0, seed, sample), at) for seed, sample, at in ((2, 2, 3), (1, 3, 3), (1, 2, 4))
    ]
    assert len({base, *others}) > 2


def test_logits_are_left_alone() -> None:
    logits = row(*LOGITS)
    logits.flags.writeable = False
    for draw in (GREEDY, Draw(0.7, 1, 0, 5, 0.9, 0.1, 0.9)):
        sampling.token(logits, draw, 0, nothing_moved(0b1010))
        sampling.law(logits, draw, nothing_moved(0b1010))
    assert logits.tolist() == row(*LOGITS).tolist()


def test_the_likeliest_ids() -> None:
    """Ties by rising id, -0 and 0 tie, and what is impossible or NaN comes last."""
    logits = row(0.0, 2.0, NAN, -0.0, 2.0, -INF, INF)
    assert sampling.top(logits, 9) == (6, 1, 4, 0, 3, 2, 5)
    assert sampling.top(logits, 3) == (6, 1, 4)
    assert sampling.top(logits, 0) == ()
    with pytest.raises(UsageError, match="count is -1"):
        sampling.top(logits, -1)
