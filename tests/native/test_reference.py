"""The numpy reference's own foundation: its fma rounds once, which fractions confirm."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.native import reference, reference_model

F = np.float32
WIDE = st.floats(width=32, allow_nan=False, allow_infinity=False)
BITS = st.integers(0, 2**24 - 1)


def nearest(x: Fraction) -> np.float32:
    """The float32 next to a number other than zero, ties to even."""
    exponent = abs(x).numerator.bit_length() - abs(x).denominator.bit_length()
    exponent = max(exponent - 25, -149)
    while abs(x) >= Fraction(2) ** (exponent + 24):
        exponent += 1
    while exponent > -149 and abs(x) < Fraction(2) ** (exponent + 23):
        exponent -= 1
    whole = round(x / Fraction(2) ** exponent)  # Fraction rounds halves to even
    with np.errstate(over="ignore"):
        return F(np.ldexp(np.float64(whole), exponent))


def check(a: float, b: float, c: float) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    got = reference.fma(np.array([a], F), np.array([b], F), np.array([c], F))[0]
    if exact:
        assert got.tobytes() == nearest(exact).tobytes(), (a, b, c)
    else:
        assert got == 0


@settings(deadline=None, max_examples=200)
@given(WIDE, WIDE, WIDE)
def test_fma_of_anything(a: float, b: float, c: float) -> None:
    check(a, b, c)


@settings(deadline=None, max_examples=300)
@given(BITS, BITS, BITS, st.integers(-60, 30), st.booleans())
def test_fma_where_rounding_twice_would_err(a: int, b: int, c: int, shift: int, minus: bool) -> None:
    check(float(a), float(-b if minus else b), float(np.ldexp(F(c), shift)))


def test_fma_at_a_known_trap() -> None:
    # 1 + 2**-24 lies between two float32; what decides is 2**-80, which float64 loses
    args = np.array([1.0], F), np.array([2.0**-80], F), np.array([1.0], F)
    assert reference.fma(*args)[0] == 1
    half = np.array([F(1) + F(2.0**-23)], F)
    scaled = reference.fma(half, np.array([F(2.0**-24) * (F(1) + F(2.0**-23))], F), np.array([1.0], F))
    assert scaled[0] == F(1) + F(2.0**-23)


def test_fold_order() -> None:
    lanes = np.array([2.0**24, 1, 1, 1, 1, 1, 1, 1, -(2.0**24), 1, 1, 1, 1, 1, 1, 1], F)
    assert reference.fold_add(lanes) == 14
    assert np.add.accumulate(lanes)[-1] != 14


def test_non_finite_fma() -> None:
    inf, one = np.array([np.inf], F), np.array([1.0], F)
    assert np.isnan(reference.fma(inf, np.array([0.0], F), one)[0])
    assert reference.fma(inf, one, one)[0] == np.inf
    assert np.isnan(reference.fma(inf, one, -inf)[0])


def test_rotation_tables_are_sine_and_cosine() -> None:
    """The series behind the tables, up to the largest context, against the library's functions."""
    x = np.concatenate((np.linspace(0, 10, 2001), np.random.default_rng(0).uniform(0, 2**20, 5000)))
    sine, cosine = reference_model.own_sincos(x)
    assert np.abs(sine - [math.sin(v) for v in x]).max() < 1e-15
    assert np.abs(cosine - [math.cos(v) for v in x]).max() < 1e-15
    for base in (100.0, 10000.0, 500000.0, 1e7):
        assert abs(reference_model.own_log(base) - math.log(base)) < 1e-14 * math.log(base)
    for power in np.linspace(-20, 0, 101):
        assert abs(reference_model.own_exp(power) / math.exp(power) - 1) < 1e-14
