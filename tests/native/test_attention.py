"""Attention over a chunk of 256 positions and the merging of chunks: every instruction set, and numpy, byte by byte."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from tests.native import inputs, reference
from tests.native.reference import Attended

from outrider import _native
from outrider.core.types import FloatArray

F = np.float32
DIMS = (16, 64, 80, 128, 256)
Cache = npt.NDArray[np.float16] | FloatArray


@dataclass(frozen=True, slots=True)
class Case:
    """queries [R, d], visible [R], keys and values [256, d] as the cache holds them."""

    queries: FloatArray
    visible: npt.NDArray[np.int64]
    keys: Cache
    values: Cache

    def __getitem__(self, part: slice) -> Case:
        return Case(self.queries[part], self.visible[part], self.keys, self.values)

    def expected(self) -> Attended:
        return reference.attend(self.queries, self.visible, self.keys.astype(F), self.values.astype(F))

    def run(self, isa: str) -> Attended:
        keys = np.ascontiguousarray(self.keys.reshape(16, 16, -1).swapaxes(1, 2))
        seen = self.visible.tolist()
        if self.keys.dtype == F:
            return Attended(*_native.kernel_attend(isa, self.queries, seen, keys.astype(F), self.values.astype(F)))
        bits = np.ascontiguousarray(self.values).view(np.uint16)
        return Attended(*_native.kernel_attend_f16(isa, self.queries, seen, keys.view(np.uint16), bits))


def case(dim: int, visible: list[int], half: bool, seed: int = 0) -> Case:
    chance = np.random.default_rng(seed)
    queries = chance.standard_normal((len(visible), dim), F) * F(dim**-0.5)
    keys, values = chance.standard_normal((2, 256, dim), F) * F(2)
    if half:
        return Case(queries, np.array(visible), keys.astype(np.float16), values.astype(np.float16))
    return Case(queries, np.array(visible), keys, values)


def content(a: Attended) -> tuple[bytes, bytes, bytes]:
    return inputs.canonical(a.top), inputs.canonical(a.sum), inputs.canonical(a.out)


@pytest.mark.parametrize("half", [True, False], ids=["f16", "f32"])
@pytest.mark.parametrize("dim", DIMS)
def test_equals_numpy(isa: str, dim: int, half: bool) -> None:
    chance = np.random.default_rng(dim)
    for visible in ([1], [256], [7, 256, 33], [16, 17, 15, 1, 2, 240, 241, 255], chance.integers(1, 257, 40).tolist()):
        c = case(dim, visible, half, seed=len(visible))
        assert content(c.run(isa)) == content(c.expected()), f"visible {visible}"


@pytest.mark.parametrize("half", [True, False], ids=["f16", "f32"])
def test_every_length_is_seen(isa: str, half: bool) -> None:
    c = case(16, list(range(1, 257)), half)
    got = c.run(isa)
    assert content(got) == content(c.expected())
    assert len({row.tobytes() for row in got.out}) == 256


@pytest.mark.parametrize("half", [True, False], ids=["f16", "f32"])
@pytest.mark.parametrize("dim", [16, 80, 128])
def test_a_query_is_alone(isa: str, dim: int, half: bool) -> None:
    visible = np.random.default_rng(1).integers(1, 257, 40).tolist()
    c = case(dim, visible, half)
    alone = [content(c[q : q + 1].run(isa)) for q in range(40)]
    assert len(set(alone)) == 40
    for count in (*range(2, 20), 40):
        got = c[:count].run(isa)
        parts = [content(Attended(got.top[q : q + 1], got.sum[q : q + 1], got.out[q : q + 1])) for q in range(count)]
        assert parts == alone[:count], f"{count} queries together change one"


@pytest.mark.parametrize("half", [True, False], ids=["f16", "f32"])
@pytest.mark.parametrize("garbage", [np.nan, np.inf, -np.inf, 6e4])
def test_what_is_not_visible_does_not_matter(isa: str, half: bool, garbage: float) -> None:
    for seen in (1, 15, 16, 17, 100, 255):
        c = case(64, [seen, max(1, seen - 1), seen], half)
        clean = content(c.run(isa))
        c.keys[seen:] = garbage
        c.values[seen:] = garbage
        assert content(c.run(isa)) == clean


@pytest.mark.parametrize("nasty", ["zero", "huge", "denormal", "infinite", "nan", "mixed"])
@pytest.mark.parametrize("what", ["queries", "keys", "values"])
def test_nasty_numbers(isa: str, nasty: str, what: str) -> None:
    c = case(64, [1, 5, 16, 200, 256, 31], half=False)
    part = {"queries": c.queries, "keys": c.keys, "values": c.values}[what]
    part[:] = inputs.rows(nasty, len(part), 64)
    assert content(c.run(isa)) == content(c.expected())


def test_equal_scores_share_evenly(isa: str) -> None:
    c = case(16, [256, 64], half=True)
    c.keys[:] = 1
    c.values[:] = 3
    got = c.run(isa)
    assert got.sum.tolist() == [256, 64]
    assert got.out.tolist() == [[768.0] * 16, [192.0] * 16]


def merged(isa: str, a: Attended, b: Attended, row: int) -> Attended:
    first, second = (np.concatenate(([part.top[row], part.sum[row]], part.out[row])).astype(F) for part in (a, b))
    joined = _native.kernel_merge(isa, first, second)
    return Attended(joined[:1], joined[1:2], joined[None, 2:])


@pytest.mark.parametrize("dim", DIMS)
def test_merge_equals_numpy(isa: str, dim: int) -> None:
    a, b = (case(dim, [256, 256, 256, 3], half=True, seed=seed).expected() for seed in (1, 2))
    b.top[1] = a.top[1] + 100  # the first fades out
    b.top[2] = a.top[2] - 100  # the second does
    total = reference.merge(a, b)
    for row in range(4):
        expected = Attended(total.top[row : row + 1], total.sum[row : row + 1], reference.finish(total)[row : row + 1])
        assert content(merged(isa, a, b, row)) == content(expected)


@pytest.mark.parametrize(
    "top", [(np.inf, 0.0), (0.0, np.inf), (-np.inf, 0.0), (-np.inf, -np.inf), (np.nan, 0.0), (0.0, np.nan)]
)
def test_merge_of_what_is_not_finite(isa: str, top: tuple[float, float]) -> None:
    a, b = (case(16, [256], half=True, seed=seed).expected() for seed in (1, 2))
    a.top[0], b.top[0] = top
    total = reference.merge(a, b)
    assert content(merged(isa, a, b, 0)) == content(Attended(total.top, total.sum, reference.finish(total)))


@pytest.mark.parametrize("visible", [[0], [257], [-1], [2**31], [1, 1], []])
def test_misuse_is_refused(visible: list[int]) -> None:
    c = case(16, [1], half=False)
    with pytest.raises((ValueError, TypeError)):
        _native.kernel_attend("portable", c.queries, visible, c.keys.astype(F), c.values.astype(F))


def test_wrong_sizes_are_refused() -> None:
    c = case(16, [1], half=False)
    for some, more in ((c.keys[:255], c.values), (c.keys, c.values[:255])):
        with pytest.raises(ValueError, match="256 positions"):
            _native.kernel_attend("portable", c.queries, [1], some.astype(F), more.astype(F))
    flat, keys, values = c.queries[0], c.keys.astype(F), c.values.astype(F)
    with pytest.raises(ValueError, match=r"\[n, d\]"):
        _native.kernel_attend("portable", flat, [1], keys, values)
    wide = np.zeros((256, 272), F)
    with pytest.raises(ValueError, match="up to 256"):
        _native.kernel_attend("portable", wide[:1], [1], wide, wide)
    for a, b in ((18, 17), (2, 2), (17, 17)):
        with pytest.raises(ValueError, match="2 \\+ d"):
            _native.kernel_merge("portable", np.zeros(a, F), np.zeros(b, F))
