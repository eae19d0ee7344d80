"""The engine's tokens, laws and log-probabilities are core.sampling's to the last bit, for every instruction set."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.native import models
from tests.native.conftest import Maker

from outrider import _native
from outrider.backends.base import Extend, Want
from outrider.backends.native import NativeBackend
from outrider.backends.native.values import draw_arguments
from outrider.core import maths, noise, sampling
from outrider.core.sampling import GREEDY, Adjust, Draw
from outrider.core.types import FloatArray, WordArray

F = np.float32
INF = float("inf")
MOST = float(np.finfo(F).max)
UGLY = [0.0, -0.0, INF, -INF, float("nan"), MOST, -MOST, 1e-40, -1e-40, 88.0, -87.3, -87.4]
FULL = 49152
FILTERS = {
    "none": Draw(1.0),
    "top_k 1": Draw(1.0, top_k=1),
    "top_k 40": Draw(1.0, top_k=40),
    "top_k 3000": Draw(1.0, top_k=3000),
    "top_p 0.9": Draw(0.7, top_p=0.9),
    "top_p 0.9999": Draw(1.0, top_p=0.9999),
    "top_p of all but rounding": Draw(1.0, top_p=1 - 1e-16),
    "top_p of nothing": Draw(1.0, top_p=1e-12),
    "min_p 0.05": Draw(1.0, min_p=0.05),
    "min_p 1e-30": Draw(1.0, min_p=1e-30),
    "typical_p 0.9": Draw(1.0, typical_p=0.9),
    "typical_p 0.2": Draw(1.0, typical_p=0.2),
    "all": Draw(0.8, 0, 0, 500, 0.97, 0.001, 0.95),
    "hot": Draw(3.0, top_p=0.95),
    "cold": Draw(0.05, 0, 0, 0, 0.95, 0.0, 0.9),
}


def arrays(
    adjust: Adjust | None,
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int32]], FloatArray, FloatArray, WordArray | None] | None:
    return None if adjust is None else (adjust.ids, adjust.divisors, adjust.offsets, adjust.mask)


def assert_equal(isa: str, logits: FloatArray, draw: Draw, position: int, adjust: Adjust | None, top: int = 5) -> None:
    """Token, law, and log-probabilities of both kinds."""
    native, moved, chosen = draw_arguments(draw, len(logits)), arrays(adjust), position % len(logits)
    expected = sampling.token(logits, draw, position, adjust)
    assert _native.kernel_token(isa, logits, native, position, moved) == expected
    law = sampling.law(logits, draw, adjust)
    assert _native.kernel_law(isa, logits, native, moved).tobytes() == law.tobytes()
    for of_draw, of_native in ((None, None), (draw, native)):
        told = sampling.logprobs(logits, chosen, top, of_draw, adjust)
        found = _native.kernel_logprobs(isa, logits, chosen, top, of_native, moved)
        # repr, unlike ==, tells 0 from -0
        assert repr((found[0], tuple(found[1]))) == repr((told.logprob, told.top))


def masked(vocab: int, seed: int, share: float) -> WordArray:
    """Allows about this share of the ids."""
    allowed = np.random.default_rng(seed).random(-(-vocab // 32) * 32) < share
    return np.packbits(allowed, bitorder="little").view(np.uint32)


def adjusting(vocab: int, seed: int, count: int, share: float) -> Adjust:
    chance = np.random.default_rng(seed)
    ids = chance.choice(vocab, count, replace=False).astype(np.int32)
    divisors = chance.choice(np.array([1.0, 1.3, 0.5], F), count)
    offsets = chance.choice(np.array([0.0, -0.5, 4.0, -INF], F), count)
    return Adjust(ids, divisors, offsets, masked(vocab, seed, share) if share < 1 else None)


LOGIT = st.sampled_from(UGLY) | st.integers(-6, 6).map(float) | st.floats(-50, 50, width=32)
DRAW = st.builds(
    Draw,
    st.sampled_from([0.0, 0.01, 0.7, 1.0, 3.0, 1e-45, 1e60]),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0, 0, 1, 2, 5, 40, 2**40]),
    st.sampled_from([1.0, 1.0, 0.9, 0.5, 1e-9, 1 - 1e-16]),
    st.sampled_from([0.0, 0.0, 0.05, 1.0, 1e-30, 1e-50]),
    st.sampled_from([1.0, 1.0, 0.9, 0.3, 1e-9, 1 - 1e-16]),
)


@st.composite
def adjusts(draw: st.DrawFn, vocab: int) -> Adjust | None:
    """Nothing; or some ids moved by ugly amounts, and a mask that may leave many ids, one or none."""
    if draw(st.booleans()):
        return None
    ids = draw(st.lists(st.integers(0, vocab - 1), unique=True, max_size=12))
    divisors = [draw(st.sampled_from([1.0, 1.5, 0.5])) for _ in ids]
    offsets = [draw(st.sampled_from([0.0, 1.0, -2.0, INF, -INF, MOST])) for _ in ids]
    words = draw(st.none() | st.lists(st.sampled_from([0, 0, 1, 2**31, 2**32 - 1]), min_size=1, max_size=9))
    mask = None if words is None else np.resize(np.array(words, np.uint32), -(-vocab // 32))
    return Adjust(np.array(ids, np.int32), np.array(divisors, F), np.array(offsets, F), mask)


@settings(deadline=None, max_examples=300)
@given(st.data(), st.lists(LOGIT, min_size=1, max_size=120), DRAW, st.integers(0, 2**32 - 1), st.integers(0, 130))
def test_any_row(data: st.DataObject, values: list[float], draw: Draw, position: int, top: int) -> None:
    logits = np.array(values, F)
    adjust = data.draw(adjusts(len(values)))
    for isa in _native.isas():
        assert_equal(isa, logits, draw, position, adjust, top)


@settings(deadline=None, max_examples=200)
@given(st.lists(LOGIT, min_size=1, max_size=400), st.integers(0, 40) | st.integers(0, 410))
def test_the_top_of_any_row(values: list[float], count: int) -> None:
    logits = np.array(values, F)
    for isa in _native.isas():
        assert tuple(_native.kernel_top(isa, logits, count)) == sampling.top(logits, count)


@pytest.mark.parametrize("vocab", [1, 15, 16, 17, 127, 128, 129, FULL, FULL + 5])
@pytest.mark.parametrize("count", [1, 8, 100, 3000])
def test_tops_of_full_vocabularies(isa: str, vocab: int, count: int) -> None:
    """As models give them; full of ties; rising, so that every vector beats the bar; an end that is all there is."""
    chance = np.random.default_rng(vocab)
    given = chance.standard_normal(vocab).astype(F) * F(3)
    ends = np.full(vocab, -INF, F)
    ends[-9:] = 1.0
    for logits in (given, np.round(given), np.sort(given), ends, np.full(vocab, np.nan, F)):
        assert tuple(_native.kernel_top(isa, logits, count)) == sampling.top(logits, count)


@pytest.mark.parametrize("draw", FILTERS.values(), ids=FILTERS)
def test_full_vocabularies(isa: str, draw: Draw) -> None:
    """Spreads from a flat law to a peaked one, as models give them; -0.05 makes ids that are neighbours tie."""
    chance = np.random.default_rng(7)
    for number, spread in enumerate((0.3, 2.0, 6.0)):
        logits = chance.standard_normal(FULL).astype(F) * F(spread)
        logits[chance.integers(0, FULL, 3)] += F(5 * number)
        assert_equal(isa, logits, draw, number, None)
        assert_equal(
            isa, np.round(logits * 20) * F(0.05), draw, number, adjusting(FULL, number, 500, (1, 0.5, 0.001)[number])
        )


@pytest.mark.parametrize("draw", [FILTERS["none"], FILTERS["top_k 40"], FILTERS["top_p 0.9"], FILTERS["typical_p 0.2"]])
def test_rows_without_any_order(isa: str, draw: Draw) -> None:
    """Everything ties, nothing is possible, or the largest come last: nothing that a threshold helps with."""
    rising = np.linspace(-20, 20, 5000, dtype=F)
    for logits in (np.zeros(5000, F), np.full(5000, -INF, F), np.full(5000, np.nan, F), rising, rising[::-1].copy()):
        assert_equal(isa, logits, draw, 3, None, 2000)
        assert_equal(isa, logits, draw, 3, adjusting(5000, 1, 50, 0.01), 5)


@pytest.mark.parametrize("share", [0.0, 1e-4])
def test_masks_that_leave_one_id_or_none(isa: str, share: float) -> None:
    logits = np.random.default_rng(1).standard_normal(FULL).astype(F)
    mask = masked(FULL, 3, 0.0)
    if share:
        mask[777] = 1 << 9
    only = Adjust(np.empty(0, np.int32), np.empty(0, F), np.empty(0, F), mask)
    for draw in (GREEDY, FILTERS["none"], FILTERS["all"]):
        assert_equal(isa, logits, draw, 5, only)
        token = _native.kernel_token(isa, logits, draw_arguments(draw, FULL), 5, arrays(only))
        assert token == (777 * 32 + 9 if share else 0)


@pytest.mark.parametrize("draw", [GREEDY, FILTERS["none"], FILTERS["all"]], ids=["greedy", "none", "all"])
def test_adjusting_what_is_not_finite(isa: str, draw: Draw) -> None:
    """NaN moved is NaN, and -inf + inf is: both are ids that cannot be chosen, and spoil no sum."""
    logits = np.array([1, np.nan, -INF, 2, 3], F)
    moved = np.array([1, 2, 3], np.int32)
    adjust = Adjust(moved, np.full(3, 1.5, F), np.array([0.5, INF, 0.5], F), None)
    assert_equal(isa, logits, draw, 4, adjust)
    assert _native.kernel_law(isa, logits, draw_arguments(draw, 5), arrays(adjust)).sum() == pytest.approx(1)


def test_a_bound_of_the_noise_skips_nothing_that_wins(isa: str) -> None:
    """Rows in which one id lifts itself to just under or just over what the noise of the others gives."""
    for position in range(60):
        logits = np.full(700, -2.0, F)
        raised = (97 * position) % 700
        gumbel = noise.gumbel(700, 9, 0, position)
        noisy = logits + gumbel
        noisy[raised] = -INF
        for step in range(-3, 4):
            near = noisy.max() - gumbel[raised]
            logits[raised] = near + step * np.spacing(near)
            draw = Draw(1.0, 9)
            found = _native.kernel_token(isa, logits, draw_arguments(draw, 700), position)
            assert found == sampling.token(logits, draw, position)


def test_exponentials_of_a_whole_row_are_those_of_core(isa: str) -> None:
    logits = np.linspace(-90, 0, 30_001, dtype=F)
    weights = maths.exp(logits - logits.max())
    expected = weights / maths.total(weights)
    assert _native.kernel_law(isa, logits, draw_arguments(Draw(1.0), len(logits))).tobytes() == expected.tobytes()


def test_threads_may_draw_from_one_pass(model: Maker) -> None:
    """Each call has memory of its own, and a row that is drawn twice at once is drawn the same."""
    file = model("plain")
    backend, reference = NativeBackend(file, threads=2), NativeBackend(file, threads=1)
    tokens, draw = models.ids(40, file.spec.vocab), Draw(1.5, 5, 0, 60, 0.95, 0.01, 0.95)
    wants = [Want.LOGITS] * len(tokens)
    adjust = adjusting(file.spec.vocab, 2, 30, 0.7)
    asked = [(row, adjusted) for row in range(len(tokens)) for adjusted in (None, adjust)]
    for _ in range(3):
        scores, alone = (b.extend([Extend(b.open(), tokens, None, wants, draw)]) for b in (backend, reference))
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(scores.token, [0] * 4 * len(asked), *zip(*asked * 4, strict=True)))
            laws = list(pool.map(scores.law, [0] * len(asked), *zip(*asked, strict=True)))
        assert found == [alone.token(0, *ask) for ask in asked] * 4
        for law, ask in zip(laws, asked, strict=True):
            assert law.tobytes() == alone.law(0, *ask).tobytes()


@pytest.mark.parametrize(
    ("ids", "count", "words", "message"),
    [
        ([5], 1, None, "adjusted id 5 is outside the vocabulary of 5"),
        ([-1], 1, None, "adjusted id -1 is outside"),
        ([1, 2], 1, None, "2 ids need as many divisors"),
        ([1], 1, 0, "a mask of 0 words"),
        ([1], 1, 2, "a mask of 2 words"),
    ],
)
def test_bad_adjustments_are_refused(ids: list[int], count: int, words: int | None, message: str) -> None:
    mask = None if words is None else np.ones(words, np.uint32)
    moved = (np.array(ids, np.int32), np.ones(count, F), np.ones(count, F), mask)
    with pytest.raises(ValueError, match=message):
        _native.kernel_token("portable", np.zeros(5, F), draw_arguments(GREEDY, 5), 0, moved)


@pytest.mark.parametrize("draw", [(-1.0, 0, 0, 0, 1.0, 0.0, 1.0), (float("nan"), 0, 0, 0, 1.0, 0.0, 1.0)])
def test_draws_that_are_none_are_refused(draw: tuple[float, int, int, int, float, float, float]) -> None:
    with pytest.raises(ValueError, match="temperature >= 0"):
        _native.kernel_token("portable", np.zeros(5, F), draw, 0)
    with pytest.raises(ValueError, match="top_k >= 0"):
        _native.kernel_token("portable", np.zeros(5, F), (1.0, 0, 0, -1, 1.0, 0.0, 1.0), 0)
