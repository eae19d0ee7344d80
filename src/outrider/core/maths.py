"""log, exp and a float32 sum whose bits are the same on every machine; the C++ engine computes the very same.

Multiplications and additions only, each rounded to float32 in the order written, never fused: numpy's own functions
change their last bits with the processor, and a seed must mean the same tokens everywhere. Polynomials and the split of
log 2 are those of Cephes (logf, expf).

Dimensions: n any number of values, V vocabulary.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from outrider.core.types import FloatArray

_F = np.float32
_LOG = tuple(
    map(
        _F,
        (
            7.0376836292e-2,
            -1.1514610310e-1,
            1.1676998740e-1,
            -1.2420140846e-1,
            1.4249322787e-1,
            -1.6668057665e-1,
            2.0000714765e-1,
            -2.4999993993e-1,
            3.3333331174e-1,
        ),
    )
)
_EXP = tuple(
    map(_F, (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1))
)
_LN2_HIGH, _LN2_LOW, _LOG2E = _F(0.693359375), _F(-2.12194440e-4), _F(1.44269504088896341)
_SQRT_HALF_BITS = np.int32(0x3F3504F3)
_EXP_LOWEST, _EXP_HIGHEST = _F(-87.3), _F(88.0)
_LANES = 16


def log(x: FloatArray) -> FloatArray:
    """Natural logarithm of positive normal values [n], within 2 units in the last place."""
    exponent, mantissa = _split(x)
    return _finish_log(mantissa - _F(1.0), exponent)


def log_one_minus(v: FloatArray) -> FloatArray:
    """log(1 - v) for 0 < v <= 1 - 2**-24 [n]; keeps all digits where v is tiny, because 1 - v never enters there."""
    exponent, mantissa = _split(_F(1.0) - v)
    return _finish_log(np.where(exponent == 0, -v, mantissa - _F(1.0)), exponent)


def exp(x: FloatArray) -> FloatArray:
    """e**x [n]: 0 below -87.3 (no denormal results), e**88 above 88, within 2 units in the last place between."""
    inside = np.minimum(np.maximum(x, _EXP_LOWEST), _EXP_HIGHEST)
    n = np.rint(inside * _LOG2E)
    r = (inside - n * _LN2_HIGH) - n * _LN2_LOW
    z = r * r
    y = np.full_like(r, _EXP[0])
    for coefficient in _EXP[1:]:
        y = y * r + coefficient
    y = ((y * z) + r) + _F(1.0)
    power = ((n.astype(np.int32) + np.int32(127)) << np.int32(23)).view(np.float32)
    return np.where(x < _EXP_LOWEST, _F(0.0), y * power)


def total(x: FloatArray) -> np.float32:
    """Sum of x [n]: 16 lanes in stride order, then folded 16, 8, 4, 2, 1."""
    rows = -(-len(x) // _LANES)
    padded = np.zeros(rows * _LANES, np.float32)
    padded[: len(x)] = x
    lanes: FloatArray = np.add.reduce(padded.reshape(rows, _LANES), axis=0, dtype=np.float32)
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = lanes[:half] + lanes[half:]
    return np.float32(lanes[0])


def _split(x: FloatArray) -> tuple[npt.NDArray[np.int32], FloatArray]:
    """x = mantissa * 2**exponent with the mantissa in [sqrt(1/2), sqrt(2))."""
    bits = np.ascontiguousarray(x, np.float32).view(np.int32)
    exponent = (bits - _SQRT_HALF_BITS) >> np.int32(23)
    return exponent, (bits - (exponent << np.int32(23))).view(np.float32)


def _finish_log(f: FloatArray, exponent: npt.NDArray[np.int32]) -> FloatArray:
    """log((1 + f) * 2**exponent)."""
    z = f * f
    y = np.full_like(f, _LOG[0])
    for coefficient in _LOG[1:]:
        y = y * f + coefficient
    y = (y * f) * z
    e = exponent.astype(np.float32)
    y = y + e * _LN2_LOW
    y = y + _F(-0.5) * z
    return (f + y) + e * _LN2_HIGH
