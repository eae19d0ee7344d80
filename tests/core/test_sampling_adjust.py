"""Penalties, bias and masks, and log-probabilities, stated again in plain Python with float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.api import Logprob
from outrider.core import sampling
from outrider.core.sampling import GREEDY, Adjust, Draw
from outrider.core.types import FloatArray
from outrider.errors import UsageError

NAN, INF = float("nan"), float("inf")
MOST = float(np.finfo(np.float32).max)
VALUES = st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=80)


def floats(*values: float) -> FloatArray:
    return np.array(values, np.float32)


def moving(ids: list[int], divisor: float = 1.0, offset: float = 0.0) -> Adjust:
    count = len(ids)
    return Adjust(np.array(ids, np.int32), floats(*[divisor] * count), floats(*[offset] * count), None)


def masking(vocab: int, allowed: set[int]) -> Adjust:
    words = [sum(1 << bit for bit in range(32) if 32 * word + bit in allowed) for word in range(-(-vocab // 32))]
    return Adjust(np.empty(0, np.int32), floats(), floats(), np.array(words, np.uint32))


@settings(deadline=None)
@given(VALUES, st.data())
def test_single_logits_move_and_others_stay(values: list[float], data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, len(values) - 1), unique=True))
    divisors = [data.draw(st.floats(0.5, 2.0, width=32)) for _ in ids]
    offsets = [data.draw(st.floats(-9.0, 9.0, width=32)) for _ in ids]
    found = sampling.adjusted(
        floats(*values), Adjust(np.array(ids, np.int32), floats(*divisors), floats(*offsets), None)
    )
    exact = list(values)
    for i, divisor, offset in zip(ids, divisors, offsets, strict=True):
        exact[i] = (values[i] / divisor if values[i] > 0 else values[i] * divisor) + offset
    np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-5)
    untouched = [i for i in range(len(values)) if i not in ids]
    assert [found[i] for i in untouched] == [np.float32(values[i]) for i in untouched]


@settings(deadline=None)
@given(VALUES, st.data())
def test_masks_leave_what_they_allow(values: list[float], data: st.DataObject) -> None:
    allowed = data.draw(st.sets(st.integers(0, len(values) - 1)))
    found = sampling.adjusted(floats(*values), masking(len(values), allowed))
    assert found.tolist() == [np.float32(x) if i in allowed else -INF for i, x in enumerate(values)]


def test_a_repetition_penalty_makes_less_likely_on_both_sides_of_zero() -> None:
    found = sampling.adjusted(floats(2.0, -2.0, 0.0, -0.0), moving([0, 1, 2, 3], divisor=2.0))
    assert found.tolist() == [1.0, -4.0, 0.0, 0.0]


def test_the_mask_has_the_last_word() -> None:
    forced = moving([0, 1], offset=INF)
    both = Adjust(forced.ids, forced.divisors, forced.offsets, np.array([0b10], np.uint32))
    assert sampling.adjusted(floats(5.0, 1.0, 9.0), both).tolist() == [-INF, INF, -INF]


def test_what_is_not_finite() -> None:
    found = sampling.adjusted(floats(NAN, INF, -INF, MOST, NAN), moving([1, 2, 3, 4], divisor=0.5, offset=-INF))
    assert found.tolist() == [-INF, -INF, -INF, -INF, -INF]
    found = sampling.adjusted(floats(NAN, -INF, MOST, -MOST), moving([0, 1, 2, 3], divisor=0.5))
    assert found.tolist() == [-INF, -INF, INF, -MOST / 2]
    assert sampling.adjusted(floats(NAN, 1.0), None).tolist() == [-INF, 1.0]


def test_tokens_and_laws_see_the_adjusted_row() -> None:
    logits = floats(1.0, 2.0, 3.0)
    assert sampling.token(logits, GREEDY, 0, moving([2], offset=-2.5)) == 1
    assert sampling.token(logits, GREEDY, 0, masking(3, {0})) == 0
    assert {sampling.token(logits, Draw(9.0, seed), 0, masking(3, {0, 1})) for seed in range(100)} == {0, 1}
    assert sampling.law(logits, Draw(1.0), masking(3, {1})).tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("adjust", "message"),
    [
        (moving([3]), "adjusted id 3 is outside the vocabulary of 3"),
        (moving([0, -1]), "adjusted id -1 is outside"),
        (Adjust(np.array([1], np.int32), floats(), floats(0.0), None), "1 ids need as many"),
        (Adjust(np.array([1], np.int32), floats(1.0), floats(0.0, 0.0), None), "1 ids need as many"),
        (Adjust(np.array([], np.int32), floats(), floats(), np.ones(2, np.uint32)), r"mask of shape \(2,\)"),
    ],
)
def test_bad_adjustments_are_refused(adjust: Adjust, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        sampling.token(floats(1.0, 2.0, 3.0), GREEDY, 0, adjust)


@settings(deadline=None)
@given(VALUES, st.integers(0, 90), st.data())
def test_logprobs_are_those_of_the_softmax(values: list[float], top: int, data: st.DataObject) -> None:
    chosen = data.draw(st.integers(0, len(values) - 1))
    best = max(values)
    normal = best + math.log(math.fsum(math.exp(value - best) for value in values))
    told = sampling.logprobs(floats(*values), chosen, top, None)
    assert told.id == chosen
    assert told.logprob == pytest.approx(values[chosen] - normal, abs=1e-5)
    order = sorted(range(len(values)), key=lambda i: (-np.float32(values[i]), i))[:top]
    assert [i for i, _ in told.top] == order
    assert [x for _, x in told.top] == pytest.approx([values[i] - normal for i in order], abs=1e-5)
    assert all(x == told.logprob for i, x in told.top if i == chosen)


def test_raw_logprobs_know_nothing_of_the_draw() -> None:
    logits, adjust = floats(1.0, 2.0, 3.0), masking(3, {0})
    assert sampling.logprobs(logits, 2, 3, None, adjust) == sampling.logprobs(logits, 2, 3, None)


def test_processed_logprobs_are_the_logarithm_of_p() -> None:
    logits = np.random.default_rng(3).normal(0.0, 2.0, 60).astype(np.float32)
    draw, adjust = Draw(0.8, 0, 0, 30, 0.95, 0.01, 0.97), moving(list(range(0, 60, 3)), 1.3, -0.5)
    p = sampling.law(logits, draw, adjust)
    told = sampling.logprobs(logits, 0, 60, draw, adjust)
    for i, logprob in told.top:
        assert math.exp(logprob) == pytest.approx(float(p[i]), rel=1e-5)
    assert {i for i, logprob in told.top if logprob == -INF} == set(np.flatnonzero(p == 0).tolist())


def test_processed_logprobs_where_one_token_is_certain() -> None:
    logits = floats(1.0, 2.0, -INF, 2.0)
    certain = Logprob(1, 0.0, ((1, 0.0), (0, -INF), (2, -INF)))
    assert sampling.logprobs(logits, 1, 3, GREEDY) == certain
    assert sampling.logprobs(logits, 3, 0, GREEDY) == Logprob(3, -INF, ())
    assert sampling.logprobs(floats(1.0, INF, 0.0, 2.0), 1, 3, Draw(1.0)) == certain
    assert sampling.logprobs(floats(1.0, NAN, 0.0), 2, 1, Draw(1.0), masking(3, set())) == Logprob(2, -INF, ((0, 0.0),))


@pytest.mark.parametrize(("chosen", "top"), [(-1, 0), (3, 0), (0, -1)])
def test_bad_questions_are_refused(chosen: int, top: int) -> None:
    with pytest.raises(UsageError, match=f"id {chosen} and the top {top}"):
        sampling.logprobs(floats(1.0, 2.0, 3.0), chosen, top, None)
