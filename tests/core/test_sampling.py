"""p and the draw agree, and edge inputs have their stated results."""

from __future__ import annotations

import numpy as np
import pytest

from outrider.core import sampling

NAN, INF = float("nan"), float("inf")
CHI_SQUARE_7 = 55.88  # a chi-square variable with 7 degrees of freedom exceeds this once in 1e9


def row(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(values, np.float32)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
def test_draws_follow_p(temperature: float) -> None:
    """Chi-square of 8,000 seeds against p; a right draw fails once in 1e9 runs."""
    logits = row(0.0, 1.0, -1.0, 0.5, 2.0, -0.5, 0.2, 1.5)
    p = sampling.law(logits, temperature).astype(np.float64)
    draws = 8_000
    counts = np.bincount([sampling.token(logits, temperature, seed, 0, 3) for seed in range(draws)], minlength=8)
    assert draws * p.min() > 5
    assert np.sum((counts - draws * p) ** 2 / (draws * p)) < CHI_SQUARE_7
    wrong = np.roll(p, 1)
    assert np.sum((counts - draws * wrong) ** 2 / (draws * wrong)) > CHI_SQUARE_7


def test_p_is_the_softmax() -> None:
    logits = np.random.default_rng(1).normal(0.0, 5.0, 1000).astype(np.float32)
    exact = np.exp((logits.astype(np.float64) - logits.max()) / 0.7)
    np.testing.assert_allclose(sampling.law(logits, 0.7), exact / exact.sum(), rtol=2e-5, atol=1e-12)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
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
def test_rows_with_one_possible_token(
    logits: np.ndarray[tuple[int], np.dtype[np.float32]], expected: int, temperature: float
) -> None:
    assert sampling.token(logits, temperature, 7, 0, 1) == expected
    assert int(np.argmax(sampling.law(logits, temperature))) == expected
    assert sampling.law(logits, temperature).sum() == 1.0


def test_greedy_takes_the_lowest_id_on_ties() -> None:
    assert sampling.token(row(1.0, 3.0, 3.0), 0.0, 0, 0, 0) == 1
    assert sampling.token(row(0.0, -0.0), 0.0, 0, 0, 0) == 0
    assert sampling.law(row(1.0, 3.0, 3.0), 0.0).tolist() == [0.0, 1.0, 0.0]


def test_an_impossible_token_is_never_drawn() -> None:
    logits = row(-INF, 0.0, NAN, 0.0)
    assert {sampling.token(logits, 100.0, seed, 0, 0) for seed in range(200)} == {1, 3}


def test_huge_logits_and_tiny_temperatures_stay_defined() -> None:
    assert sampling.token(row(3e38, -3e38, 0.0), 1e-6, 1, 0, 0) == 0
    assert sampling.token(row(-3e38, 1e-30, 0.0), 1e-6, 1, 0, 0) in (1, 2)


def test_seed_sample_and_position_each_change_the_draw() -> None:
    logits = np.zeros(1000, np.float32)
    base = sampling.token(logits, 1.0, 1, 2, 3)
    assert base == sampling.token(logits, 1.0, 1, 2, 3)
    assert len({base, *(sampling.token(logits, 1.0, *key) for key in ((2, 2, 3), (1, 3, 3), (1, 2, 4)))}) > 2
