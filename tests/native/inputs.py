"""Inputs that hurt, and the comparison of results byte by byte."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from tests.native.reference import BLOCK_BYTES

from outrider.core.types import FloatArray

F = np.float32
KINDS = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1")
NASTY = ("random", "zero", "huge", "denormal", "tiny", "edge", "infinite", "nan", "mixed")
# zero, minus zero, the smallest and largest subnormal, the smallest normal, one, largest, minus largest
_SCALES = np.array([0x0000, 0x8000, 0x0001, 0x03FF, 0x0400, 0x3C00, 0x7BFF, 0xFBFF], np.uint16)
_BROKEN = np.array([0x7C00, 0xFC00, 0x7E00], np.uint16)  # infinities and NaN


def canonical(x: FloatArray) -> bytes:
    """The bytes, with every NaN made the same: payloads are not promised, everything else is."""
    return np.where(np.isnan(x), F(np.nan), x).astype(F).tobytes()


def rows(kind: str, count: int, size: int, seed: int = 0) -> FloatArray:
    """[count, size] of one kind of NASTY."""
    chance = np.random.default_rng(seed)
    x = chance.standard_normal((count, size), F)
    if kind == "zero":
        x = np.copysign(F(0), x)
    elif kind == "huge":
        x *= F(1e30)
        x[:, ::7] = np.copysign(np.finfo(F).max, x[:, ::7])  # the largest there is
    elif kind == "denormal":
        x *= F(1e-39)
    elif kind == "tiny":
        x *= F(1e-31)
    elif kind == "edge":  # block maxima on both sides of 1e-30, and codes that fall on halves
        x = np.round(x * 4) / F(2)
        x[:, 0] = 127
        x[1::3] *= F(1e-30) / F(127)
        x[2::3] *= np.nextafter(F(1e-30), F(0)) / F(127)
    elif kind == "infinite":
        x[:, 5 % size] = np.where(np.arange(count) % 2, F(np.inf), F(-np.inf))
    elif kind == "nan":
        x[:, 3 % size] = np.nan
    elif kind == "mixed":
        x = np.concatenate([rows(k, count, 32, seed + i) for i, k in enumerate(NASTY[:-1])] * (size // 256 + 1), axis=1)
        x = x[:, :size]
    return np.ascontiguousarray(x, F)


def matrix(kind: str, outputs: int, inputs: int, seed: int = 0, broken: bool = False) -> bytes:
    """A GGUF tensor whose codes and scales take every extreme (`broken`: infinite and NaN ones as well)."""
    chance = np.random.default_rng(seed)
    if kind in BLOCK_BYTES:
        raw = chance.integers(0, 256, (outputs, inputs // 32, BLOCK_BYTES[kind]), np.uint8)
        codes = raw[..., 4 if kind == "Q4_1" else 2 :]
        codes[::3, ::2] = chance.choice(np.array([0x00, 0xFF, 0x80, 0x7F, 0x0F, 0xF0], np.uint8), codes[::3, ::2].shape)
        codes[1::5] = codes[1::5, :, :1]  # the same code all along: the largest sums
        places = 2 if kind == "Q4_1" else 1
        halves = _halves(chance, (outputs, inputs // 32, places), broken)
        raw[..., : 2 * places] = halves.view(np.uint8)
        return raw.tobytes()
    values = chance.standard_normal((outputs, inputs), F)
    values[::4, ::3] *= F(1e30) if kind != "F16" else F(1e4)
    values[1::4, ::3] *= F(1e-38) if kind != "F16" else F(1e-6)
    values[2::4] = 0
    if broken:
        values[::5, 1] = np.inf
        values[3::5, 2] = np.nan
    return as_stored(kind, values)


def as_stored(kind: str, values: FloatArray) -> bytes:
    """Floats as a tensor of F32, F16 or BF16 (cut, not rounded)."""
    if kind == "F32":
        return values.tobytes()
    if kind == "F16":
        return values.astype(np.float16).tobytes()
    return (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()


def _halves(chance: np.random.Generator, shape: tuple[int, ...], broken: bool) -> npt.NDArray[np.uint16]:
    ordinary = (chance.standard_normal(shape) * 0.05).astype(np.float16).view(np.uint16)
    extreme = chance.choice(np.concatenate((_SCALES, _BROKEN)) if broken else _SCALES, shape)
    return np.where(chance.random(shape) < 0.3, extreme, ordinary)
