"""The engine's token is core.sampling's, for every instruction set: arg-max and keyed draw."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider import _native
from outrider.core import noise, sampling
from outrider.core.sampling import Draw
from outrider.core.types import FloatArray

F = np.float32
MOST = 2**32 - 1
FULL = 49152
SEEDS = (0, 1, MOST, 2**32, 2**63, 2**64 - 1)


def drawn(isa: str, logits: FloatArray, temperature: float, seed: int, sample: int, position: int) -> int:
    inverse = float(sampling.inverse_temperature(temperature)) if temperature else 0.0
    return _native.kernel_draw(isa, logits, inverse, seed, sample, position)


def row(vocab: int, seed: int, spread: float = 1.0) -> FloatArray:
    return np.random.default_rng(seed).standard_normal(vocab).astype(F) * F(spread)


@pytest.mark.parametrize("temperature", [0.0, 0.3, 1.0, 1.7])
def test_every_small_vocabulary(isa: str, temperature: float) -> None:
    found = set()
    for vocab in range(1, 201):
        logits = row(vocab, vocab)
        token = drawn(isa, logits, temperature, vocab, 0, 7)
        assert token == sampling.token(logits, Draw(temperature, vocab, 0), 7), f"vocabulary of {vocab}"
        found.add(token)
    assert len(found) > 50


@pytest.mark.parametrize("temperature", [0.0, 0.05, 1.0, 100.0])
def test_a_large_vocabulary(isa: str, temperature: float) -> None:
    for seed in range(8):
        logits = row(FULL, seed, 3.0)
        assert drawn(isa, logits, temperature, seed, 1, seed) == sampling.token(
            logits, Draw(temperature, seed, 1), seed
        )


def test_extreme_keys(isa: str) -> None:
    logits, found = row(300, 0), set()
    for seed in SEEDS:
        for position in (0, 1, 2**31, MOST):
            for sample in (0, MOST):
                token = drawn(isa, logits, 1.0, seed, sample, position)
                assert token == sampling.token(logits, Draw(1.0, seed, sample), position), (seed, sample, position)
                found.add(token)
    assert len(found) > 20


def test_noise_alone(isa: str) -> None:
    """On flat logits the token is where the noise is largest: any wrong bit of a large Gumbel shows."""
    flat = np.zeros(4096, F)
    for position in range(200):
        expected = int(np.argmax(noise.gumbel(4096, 5, 0, position)))
        assert drawn(isa, flat, 1.0, 5, 0, position) == expected


def test_noise_in_every_bit(isa: str) -> None:
    """Two ids alone: the logit that just loses to the noise of the other, and the one that just wins."""
    for position in range(100):
        g = noise.gumbel(2, 9, 0, position)
        level = F(16)  # at least as coarse as the noise: ties are decided by rounding, the same for both
        for step in range(-3, 4):
            logits = np.array([level + (g[1] - g[0]) + step * np.spacing(level), level], F)
            assert drawn(isa, logits, 1.0, 9, 0, position) == sampling.token(logits, Draw(1.0, 9, 0), position)


def test_the_largest_noise_there_is_can_win(isa: str) -> None:
    """Found by trying: here all 32 bits of an id's noise are 0, so it wins from 22 below the largest logit."""
    seed, position, lucky, likely = 1, 127497, 19734, 3
    assert noise.words(FULL, seed, 0, position)[lucky] == 0
    g, found = noise.gumbel(FULL, seed, 0, position), set()
    assert g[lucky] > 22.87
    for step in range(-3, 4):
        logits = np.full(FULL, g[likely] - g[lucky] + step * np.spacing(F(22)), F)
        logits[likely] = 0
        expected = sampling.token(logits, Draw(1.0, seed), position)
        assert drawn(isa, logits, 1.0, seed, 0, position) == expected
        found.add(expected)
    assert found == {likely, lucky}


def test_ties_go_to_the_lowest_id(isa: str) -> None:
    for vocab in (2, 16, 17, 31, 64, 200, 1000):
        for first in (0, 1, vocab // 2, vocab - 1):
            logits = np.full(vocab, -1, F)
            logits[first:] = 2
            assert drawn(isa, logits, 0.0, 0, 0, 0) == first
    infinite = np.zeros(200, F)
    infinite[[33, 50, 199]] = np.inf
    assert drawn(isa, infinite, 0.0, 0, 0, 0) == 33
    assert drawn(isa, infinite, 1.0, 0, 0, 0) == 33


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_nan_is_never_chosen(isa: str, temperature: float) -> None:
    for vocab in (1, 5, 16, 40, 200):
        for kept in {0, vocab // 2, vocab - 1}:
            logits = np.full(vocab, np.nan, F)
            logits[kept] = -5
            assert drawn(isa, logits, temperature, 3, 0, 1) == kept
        for nothing in (np.nan, -np.inf):
            assert drawn(isa, np.full(vocab, nothing, F), temperature, 3, 0, 1) == 0


def test_zeros_of_both_signs_tie(isa: str) -> None:
    assert drawn(isa, np.array([-0.0, 0.0], F), 0.0, 0, 0, 0) == 0
    assert drawn(isa, np.array([0.0, -0.0], F), 0.0, 0, 0, 0) == 0


LOGIT = st.sampled_from([0.0, -0.0, 1.0, -3e38, 3e38, float("inf"), float("-inf"), float("nan"), 1e-40]) | st.floats(
    -50, 50, width=32
)


@settings(deadline=None, max_examples=150)
@given(
    st.lists(LOGIT, min_size=1, max_size=90),
    st.sampled_from([0.0, 0.01, 0.7, 1.0, 2.0, 50.0]),
    st.integers(0, 2**64 - 1),
    st.integers(0, MOST),
    st.integers(0, MOST),
)
def test_any_row(logits: list[float], temperature: float, seed: int, sample: int, position: int) -> None:
    values = np.array(logits, F)
    expected = sampling.token(values, Draw(temperature, seed, sample), position)
    assert [drawn(isa, values, temperature, seed, sample, position) for isa in _native.isas()] == [expected] * len(
        _native.isas()
    )


@pytest.mark.parametrize(
    ("seed", "sample", "position"), [(-1, 0, 0), (2**64, 0, 0), (0, -1, 0), (0, 2**32, 0), (0, 0, -1), (0, 0, 2**32)]
)
def test_keys_out_of_range_are_refused(seed: int, sample: int, position: int) -> None:
    with pytest.raises(TypeError):
        _native.kernel_draw("portable", np.zeros(4, F), 1.0, seed, sample, position)


def test_an_empty_row_is_refused() -> None:
    for bad in (np.zeros(0, F), np.zeros((2, 2), F)):
        with pytest.raises(ValueError, match="must be"):
            _native.kernel_draw("portable", bad, 1.0, 0, 0, 0)
