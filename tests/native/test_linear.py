"""Rows times matrices: every instruction set, every format, every number of rows, and numpy, in every byte."""

from __future__ import annotations

import numpy as np
import pytest
from tests.native import inputs, reference

from outrider import _native
from outrider.core.types import FloatArray

F = np.float32
COUNTS = (*range(1, 21), 33)


def product(isa: str, kind: str, source: bytes, x: FloatArray, outputs: int, add: bool = False) -> FloatArray:
    """[R, outputs]; the kernel's own result has whole panels."""
    return _native.kernel_linear(isa, kind, source, x, outputs, add)[:, :outputs]


@pytest.mark.parametrize("kind", inputs.KINDS)
def test_a_row_is_alone(isa: str, kind: str) -> None:
    source, x = inputs.matrix(kind, 40, 96), inputs.rows("random", 33, 96)
    alone = [inputs.canonical(product(isa, kind, source, row[None], 40)) for row in x]
    assert len(set(alone)) == 33
    for count in COUNTS:
        together = product(isa, kind, source, x[:count], 40)
        assert [inputs.canonical(row) for row in together] == alone[:count], f"{count} rows together change one"


@pytest.mark.parametrize("kind", inputs.KINDS)
@pytest.mark.parametrize("k", [32, 64, 160, 1536])
def test_equals_numpy(isa: str, kind: str, k: int) -> None:
    for outputs, count in ((1, 3), (15, 16), (16, 1), (17, 21), (49, 5)):
        source, x = inputs.matrix(kind, outputs, k, seed=outputs), inputs.rows("random", count, k, seed=count)
        expected = reference.linear(kind, source, outputs, x)
        assert np.isfinite(expected).any()
        got = product(isa, kind, source, x, outputs)
        assert inputs.canonical(got) == inputs.canonical(expected), f"{outputs} outputs, {count} rows"


@pytest.mark.parametrize("kind", inputs.KINDS)
@pytest.mark.parametrize("nasty", inputs.NASTY)
def test_nasty_rows(isa: str, kind: str, nasty: str) -> None:
    source, x = inputs.matrix(kind, 33, 320, seed=1), inputs.rows(nasty, 6, 320, seed=2)
    expected = inputs.canonical(reference.linear(kind, source, 33, x))
    assert inputs.canonical(product(isa, kind, source, x, 33)) == expected


@pytest.mark.parametrize("kind", inputs.KINDS)
@pytest.mark.parametrize("nasty", ["random", "zero", "mixed"])
def test_broken_weights(isa: str, kind: str, nasty: str) -> None:
    source, x = inputs.matrix(kind, 33, 320, seed=3, broken=True), inputs.rows(nasty, 6, 320, seed=4)
    expected = reference.linear(kind, source, 33, x)
    assert np.isnan(expected).any()
    assert inputs.canonical(product(isa, kind, source, x, 33)) == inputs.canonical(expected)


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q4_1"])
def test_a_block_that_is_not_finite_makes_its_row_nan_and_no_other(isa: str, kind: str) -> None:
    source, x = inputs.matrix(kind, 20, 96), inputs.rows("random", 5, 96)
    good = product(isa, kind, source, x, 20)
    for bad in (np.inf, -np.inf, np.nan):
        y = x.copy()
        y[2, 40] = bad
        got = product(isa, kind, source, y, 20)
        assert np.isnan(got[2]).all()
        assert got[[0, 1, 3, 4]].tobytes() == good[[0, 1, 3, 4]].tobytes()


@pytest.mark.parametrize("kind", inputs.KINDS)
def test_adding_adds_the_finished_sum(isa: str, kind: str) -> None:
    source, x = inputs.matrix(kind, 40, 64), inputs.rows("random", 19, 64)
    plain = product(isa, kind, source, x, 40)
    got = _native.kernel_linear(isa, kind, source, x, 40, True, 0.37)[:, :40]
    assert inputs.canonical(got) == inputs.canonical(F(0.37) + plain)
    assert (got != plain).any()


def test_largest_dots_are_exact(isa: str) -> None:
    x = np.full((2, 64), 127, F)
    x[1] = -127
    for kind, block, value in (
        ("Q8_0", b"\x00\x3c" + b"\x80" * 32, -128.0),
        ("Q8_0", b"\x00\x3c" + b"\x7f" * 32, 127.0),
        ("Q4_0", b"\x00\x3c" + b"\x00" * 16, -8.0),
        ("Q4_0", b"\x00\x3c" + b"\xff" * 16, 7.0),
        ("Q4_1", b"\x00\x3c\x00\x00" + b"\xff" * 16, 15.0),
    ):
        expected = np.repeat(np.array([[127 * 64 * value], [-127 * 64 * value]], F), 17, axis=1)
        assert product(isa, kind, block * 34, x, 17).tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("kind", "size", "shape", "outputs"),
    [
        ("Q5_K", 34, (1, 32), 1),
        ("Q8_0", 33, (1, 32), 1),
        ("Q8_0", 34, (1, 31), 1),
        ("Q8_0", 34, (1, 0), 1),
        ("Q8_0", 34, (0, 32), 1),
        ("Q8_0", 34, (1, 32), 0),
        ("Q8_0", 34, (1, 32), -1),
        ("Q8_0", 34, (32,), 1),
    ],
)
def test_misuse_is_refused(kind: str, size: int, shape: tuple[int, ...], outputs: int) -> None:
    with pytest.raises((ValueError, TypeError)):
        _native.kernel_linear("portable", kind, bytes(size), np.zeros(shape, F), outputs)


def test_unknown_instruction_set_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'sse9'.*it has: .*portable"):
        _native.kernel_quantise("sse9", np.zeros(32, F))
