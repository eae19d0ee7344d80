"""Our log, exp and sum: close to the truth, and exactly the stated operations."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from outrider.core import maths
from outrider.core.types import FloatArray


def ulps(found: FloatArray, exact: npt.NDArray[np.float64]) -> float:
    assert found.dtype == np.float32
    return float(np.max(np.abs(found.astype(np.float64) - exact) / np.spacing(np.abs(exact).astype(np.float32))))


def test_log_is_accurate_over_all_exponents_and_near_one() -> None:
    chance = np.random.default_rng(1)
    wide = np.exp(chance.uniform(-87.0, 88.0, 200_000)).astype(np.float32)
    near = chance.uniform(0.5, 2.0, 200_000).astype(np.float32)
    for x in (wide, near, np.array([2.0**-126, 1.0, 3.4e38], np.float32)):
        assert ulps(maths.log(x), np.log(x.astype(np.float64))) <= 4.0


def test_log_one_minus_is_accurate_where_one_minus_v_is_not() -> None:
    chance = np.random.default_rng(2)
    tiny = np.exp(chance.uniform(np.log(2.0**-33), 0.0, 200_000)).astype(np.float32)
    for v in (np.minimum(tiny, np.float32(1 - 2.0**-24)), np.array([2.0**-33, 1 - 2.0**-24], np.float32)):
        assert ulps(maths.log_one_minus(v), np.log1p(-v.astype(np.float64))) <= 4.0


def test_exp_is_accurate_and_stated_at_the_edges() -> None:
    x = np.random.default_rng(3).uniform(-87.3, 88.0, 200_000).astype(np.float32)
    assert ulps(maths.exp(x), np.exp(x.astype(np.float64))) <= 4.0
    edges = maths.exp(np.array([-np.inf, -88.0, -87.31, 0.0, 1000.0, np.inf], np.float32))
    assert edges[:3].tolist() == [0.0, 0.0, 0.0]
    assert edges[3] == 1.0
    assert edges[4] == edges[5] == maths.exp(np.array([88.0], np.float32))[0]


def log_by_hand(x: np.float32) -> np.float32:
    """The definition, one float32 operation at a time."""
    f32 = np.float32
    bits = int(np.array(x).view(np.int32))
    exponent = (bits - 0x3F3504F3) >> 23
    f = f32(np.array(bits - (exponent << 23), np.int32).view(np.float32) - f32(1))
    z, y = f32(f * f), f32(7.0376836292e-2)
    for c in (
        -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1,
        -2.4999993993e-1, 3.3333331174e-1,
    ):  # fmt: skip
        y = f32(f32(y * f) + f32(c))
    y, e = f32(f32(y * f) * z), f32(exponent)
    y = f32(y + f32(e * f32(-2.12194440e-4)))
    y = f32(y + f32(f32(-0.5) * z))
    return f32(f32(f + y) + f32(e * f32(0.693359375)))


def test_log_is_the_stated_sequence_of_operations() -> None:
    x = np.exp(np.random.default_rng(4).uniform(-20.0, 20.0, 500)).astype(np.float32)
    np.testing.assert_array_equal(maths.log(x), np.array([log_by_hand(value) for value in x]))


def test_total_adds_sixteen_lanes_in_stride_order() -> None:
    x = np.random.default_rng(5).uniform(0.0, 1.0, 1003).astype(np.float32)
    lanes = [np.float32(0)] * 16
    for index, value in enumerate(x):
        lanes[index % 16] = np.float32(lanes[index % 16] + value)
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [np.float32(low + high) for low, high in zip(lanes[:half], lanes[half:], strict=True)]
    assert maths.total(x) == lanes[0]
    assert maths.total(x[:3]) == np.float32(np.float32(x[0] + x[2]) + x[1])
