"""What happens to a row between the matrices, on every instruction set and in numpy, byte by byte."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.native import inputs, reference

from outrider import _native
from outrider.core import maths
from outrider.core.types import FloatArray

F = np.float32
EMPTY = np.zeros(16, F)


@pytest.mark.parametrize("nasty", inputs.NASTY)
@pytest.mark.parametrize("size", [32, 96, 1536])
def test_quantise_equals_numpy(isa: str, nasty: str, size: int) -> None:
    for row in inputs.rows(nasty, 5, size, seed=size):
        codes, scales, offsets = _native.kernel_quantise(isa, row)
        expected = reference.quantise(row[None])
        assert codes.tobytes() == expected.codes[0].tobytes()
        assert inputs.canonical(scales[0]) == inputs.canonical(expected.scale[0])
        with np.errstate(over="ignore"):
            scaled = expected.scale[0] * expected.sums[0].astype(F)
        assert inputs.canonical(scales[1]) == inputs.canonical(scaled)
        assert offsets.tolist() == [(-8 * expected.sums[0]).tolist(), (-128 * expected.sums[0]).tolist()]


def test_quantise_rounds_halves_to_even(isa: str) -> None:
    row = np.zeros(32, F)
    row[:8] = [127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5]
    codes, scales, _ = _native.kernel_quantise(isa, row)
    assert codes[:8].tolist() == [127, 0, 2, 2, 0, -2, -2, 126]
    assert scales[0].tolist() == [1.0]


def test_quantise_under_the_threshold_is_zero(isa: str) -> None:
    row = np.zeros(96, F)
    row[0], row[32], row[64] = 1e-30, np.nextafter(F(1e-30), F(0)), -1e-30
    codes, scales, offsets = _native.kernel_quantise(isa, row)
    assert [codes[0], codes[32], codes[64]] == [127, 0, -127]
    assert scales[0].tolist() == [F(1e-30) / F(127), 0, F(1e-30) / F(127)]
    assert offsets.tolist() == [[-8 * 127, 0, 8 * 127], [-128 * 127, 0, 128 * 127]]


def test_quantise_of_a_block_that_is_not_finite(isa: str) -> None:
    for bad in (np.inf, -np.inf, np.nan):
        row = np.ones(96, F)
        row[40] = bad
        codes, scales, offsets = _native.kernel_quantise(isa, row)
        assert codes.tolist() == [127] * 32 + [0] * 32 + [127] * 32
        assert np.isnan(scales).tolist() == [[False, True, False]] * 2
        assert offsets[:, 1].tolist() == [0, 0]


@pytest.mark.parametrize("nasty", inputs.NASTY)
@pytest.mark.parametrize("size", [16, 64, 576, 1536])
@pytest.mark.parametrize("eps", [1e-5, 0.0])
def test_norm_equals_numpy(isa: str, nasty: str, size: int, eps: float) -> None:
    x, weight = inputs.rows(nasty, 4, size, seed=size), inputs.rows("random", 1, size, seed=9)[0]
    expected = reference.norm(x, weight, eps)
    got = np.stack([_native.kernel_row(isa, "norm", row, weight, eps) for row in x])
    assert inputs.canonical(got) == inputs.canonical(expected)


@pytest.mark.parametrize("nasty", inputs.NASTY)
def test_silu_equals_numpy(isa: str, nasty: str) -> None:
    gate, up = inputs.rows(nasty, 1, 512, seed=1)[0], inputs.rows("random", 1, 512, seed=2)[0]
    got = _native.kernel_row(isa, "silu", gate, up)
    assert inputs.canonical(got) == inputs.canonical(reference.silu_mul(gate, up))


def around(*points: float) -> FloatArray:
    """Each point and its 40 neighbours to either side."""
    bits = np.array(points, F).view(np.int32)[:, None] + np.arange(-40, 40, dtype=np.int32)
    return bits.reshape(-1).view(F)


def test_silu_equals_numpy_where_exp_changes_course(isa: str) -> None:
    halves = [(n + 0.5) * math.log(2) for n in range(-127, 128) if n]  # where the power of two changes
    gate = np.concatenate((around(87.3, -87.3, 88.37, -88.37, *halves), np.linspace(-100, 100, 4001, dtype=F)))
    gate = np.concatenate((gate, np.zeros(-len(gate) % 16, F)))
    up = np.ones_like(gate)
    assert _native.kernel_row(isa, "silu", gate, up).tobytes() == reference.silu_mul(gate, up).tobytes()


def test_exp_is_exp() -> None:
    x = np.concatenate((np.linspace(-87.29, 88.36, 20001, dtype=F), around(1e-3, -1.0, 0.34657359, 87.0, -87.0)))
    true = np.array([math.exp(v) for v in x])
    error = np.abs(reference.exp(x) - true) / np.spacing(true.astype(F))
    assert error.max() < 2
    assert reference.exp(np.array([0.0, -0.0], F)).tolist() == [1, 1]


def test_exp_is_that_of_core() -> None:
    x = np.concatenate((np.linspace(-200, 88, 50001, dtype=F), around(-87.3, 1e-30, -1e-30, 87.9)))
    assert maths.exp(x).tobytes() == reference.exp(x).tobytes()


def test_silu_of_what_is_not_finite(isa: str) -> None:
    gate = np.zeros(16, F)
    gate[:5] = [np.inf, -np.inf, np.nan, -100, 100]
    got = _native.kernel_row(isa, "silu", gate, np.ones(16, F))
    assert got[0] == np.inf
    assert np.isnan(got[1:3]).all()
    assert got[3:5].tobytes() == np.array([-0.0, 100], F).tobytes()


@pytest.mark.parametrize("nasty", inputs.NASTY)
@pytest.mark.parametrize("size", [16, 64, 80, 128])
@pytest.mark.parametrize("factor", [1.0, 0.125, 0.3])
def test_rope_equals_numpy(isa: str, nasty: str, size: int, factor: float) -> None:
    x, angle = inputs.rows(nasty, 1, size)[0], np.linspace(0, 700, size // 2)
    cosines = np.repeat(np.cos(angle), 2).astype(F)
    sines = np.stack((-np.sin(angle), np.sin(angle)), axis=1).reshape(-1).astype(F)
    got = _native.kernel_row(isa, "rope", x, np.concatenate((cosines, sines)), factor)
    assert inputs.canonical(got) == inputs.canonical(reference.rope(x, cosines, sines, factor))
    if nasty == "random" and factor == 1.0:
        a, b = x[0::2].astype(np.float64), x[1::2].astype(np.float64)
        turned = np.stack((a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)), axis=1)
        assert np.abs(got - turned.reshape(-1)).max() < 1e-5


def halves_of(isa: str, x: FloatArray) -> FloatArray:
    """The kernel's halves of x, as float32."""
    padded = np.concatenate((x, np.zeros(-len(x) % 16, F)))
    bits = _native.kernel_row(isa, "f16", padded, padded).view(np.uint16)[: len(x)]
    return bits.view(np.float16).astype(F)


def test_half_of_every_half_and_of_every_boundary(isa: str) -> None:
    every = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(F)
    finite = np.sort(every[np.isfinite(every)])
    middle = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(F)
    last = F(65520)  # half way between the largest half and 65536: rounds to infinity
    x = np.concatenate(
        (
            every,
            middle,
            np.nextafter(middle, F(np.inf)),
            np.nextafter(middle, F(-np.inf)),
            around(65520, -65520, 65504, 65536, 2**-24, 2**-25, -(2**-25), 2**-14, 6.1e-5),
            inputs.rows("huge", 1, 64)[0],
            inputs.rows("denormal", 1, 64)[0],
        )
    )
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16).astype(F)
    assert inputs.canonical(halves_of(isa, x)) == inputs.canonical(expected)
    assert halves_of(isa, np.array([last, np.nextafter(last, F(0)), 2.0**-25], F)).tolist() == [np.inf, 65504, 0]


@pytest.mark.parametrize("kind", ["F16", "BF16"])
def test_every_stored_half_is_read_exactly(isa: str, kind: str) -> None:
    weights = np.zeros((2**16, 32), np.uint16)
    weights[:, 0] = np.arange(2**16)
    unit = np.zeros((1, 32), F)
    unit[0, 0] = 1
    got = _native.kernel_linear(isa, kind, weights.tobytes(), unit, 2**16)[0]
    stored = reference.read_floats(kind, weights.tobytes(), 2**16)[:, 0]
    with np.errstate(invalid="ignore"):
        expected = stored + F(0)  # the sum starts at plus zero
    assert inputs.canonical(got) == inputs.canonical(expected)


@pytest.mark.parametrize(
    ("name", "x", "y"),
    [
        ("softmax", EMPTY, EMPTY),
        ("norm", np.zeros(15, F), np.zeros(15, F)),
        ("norm", EMPTY, np.zeros(32, F)),
        ("rope", EMPTY, EMPTY),
        ("silu", np.zeros(0, F), np.zeros(0, F)),
        ("f16", np.zeros((2, 16), F), np.zeros(32, F)),
    ],
)
def test_misuse_is_refused(name: str, x: FloatArray, y: FloatArray) -> None:
    with pytest.raises(ValueError, match=r"must be|wrong size|no row kernel"):
        _native.kernel_row("portable", name, x, y)


def test_quantise_refuses_a_part_of_a_block() -> None:
    for bad in (np.zeros(31, F), np.zeros((1, 32), F)):
        with pytest.raises(ValueError, match="multiple of 32"):
            _native.kernel_quantise("portable", bad)
