"""docs/numerics.md in numpy: every float32 step in the order that the page states, written from the page.

numpy has no fma, so `fma` gets there through float64. Dimensions: R rows, N outputs, K inputs, B blocks of 32 along K,
d elements of a head.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from outrider.core.types import FloatArray

F = np.float32
LANES, BLOCK, CHUNK = 16, 32, 256
BLOCK_BYTES = {"Q8_0": 34, "Q4_0": 18, "Q4_1": 20}
IntMatrix = npt.NDArray[np.int64]


def fma(a: FloatArray, b: FloatArray, c: FloatArray) -> FloatArray:
    """a * b + c, rounded once.

    The product of two float32 is exact in float64. Its sum with c is rounded to odd there (Boldo and Melquiond,
    Emulation of FMA and correctly rounded sums, 2008), so that the second rounding, to float32, cannot go wrong.
    """
    with np.errstate(all="ignore"):
        product = a.astype(np.float64) * b
        addend = np.broadcast_to(np.asarray(c, np.float64), np.broadcast_shapes(product.shape, np.shape(c)))
        total = np.asarray(product + addend)
        back = total - product
        error = (product - (total - back)) + (addend - back)
        inexact = np.isfinite(total) & (error != 0)
        bits = np.ascontiguousarray(total).view(np.int64)
        toward = np.where((error > 0) == (total > 0), 1, -1)
        odd = np.where(inexact & (bits & 1 == 0), bits + toward, bits).view(np.float64)
        rounded: FloatArray = odd.astype(F)
    return rounded


def fold_add(lanes: FloatArray) -> FloatArray:
    """[..., 16] -> [...]: lane i with i + 8, then + 4, + 2, + 1."""
    while lanes.shape[-1] > 1:
        half = lanes.shape[-1] // 2
        lanes = lanes[..., :half] + lanes[..., half:]
    return lanes[..., 0]


def larger(a: FloatArray, b: FloatArray) -> FloatArray:
    """The first where it is greater, else the second, also where either is NaN."""
    return np.where(a > b, a, b)


def fold_max(lanes: FloatArray) -> FloatArray:
    """[..., 16] -> [...] over the same tree."""
    while lanes.shape[-1] > 1:
        half = lanes.shape[-1] // 2
        lanes = larger(lanes[..., :half], lanes[..., half:])
    return lanes[..., 0]


def exp(x: FloatArray) -> FloatArray:
    """e ** x of any shape: 0 below -87.3, infinity above 88.37."""
    low, high = F(-87.3), F(88.37)
    inside = np.where(np.isnan(x), x, np.minimum(np.maximum(x, low), high))
    n: FloatArray = np.rint(inside * F(1.44269504088896341)).astype(F)
    r: FloatArray = (inside - n * F(0.693359375)) - n * F(-2.12194440e-4)
    y = np.full_like(r, F(1.9875691500e-4))
    for c in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        y = y * r + F(c)
    y = ((y * (r * r)) + r) + F(1)
    whole = np.where(np.isnan(n), F(0), n).astype(np.int32)
    y = y * ((whole + np.int32(127)) << np.int32(23)).view(F)
    return np.where(x < low, F(0), np.where(high < x, F(np.inf), y))


@dataclass(frozen=True, slots=True)
class Codes:
    """Rows quantised to int8. codes [R, K]; scale, sums [R, B]."""

    codes: npt.NDArray[np.int8]
    scale: FloatArray
    sums: IntMatrix


def quantise(x: FloatArray) -> Codes:
    """Rows [R, K] to symmetric int8 in blocks of 32."""
    blocks = np.ascontiguousarray(x).reshape(len(x), -1, BLOCK)
    biggest = (blocks.view(np.int32) & np.int32(0x7FFFFFFF)).max(axis=-1).view(F)
    finite = np.isfinite(biggest)
    used = finite & (biggest >= F(1e-30))
    safe = np.where(used, biggest, F(1))
    scale = np.where(used, safe / F(127), np.where(finite, F(0), F(np.nan)))
    with np.errstate(all="ignore"):
        scaled = np.rint(blocks * (F(127) / safe)[..., None])
    codes = np.where(used[..., None], scaled, 0).astype(np.int8)
    return Codes(codes.reshape(x.shape), scale, codes.astype(np.int64).sum(axis=-1))


@dataclass(frozen=True, slots=True)
class Weights:
    """A quantised matrix as its file has it. codes [N, K] without their offset; scale, least [N, B]."""

    codes: IntMatrix
    scale: FloatArray
    least: FloatArray | None


def read_codes(kind: str, source: bytes, outputs: int) -> Weights:
    """The blocks of a GGUF tensor."""
    raw = np.frombuffer(source, np.uint8).reshape(outputs, -1, BLOCK_BYTES[kind])
    halves = np.ascontiguousarray(raw[..., : 4 if kind == "Q4_1" else 2]).view(np.float16).astype(F)
    body = raw[..., 2 * halves.shape[-1] :]
    if kind == "Q8_0":
        codes = np.ascontiguousarray(body).view(np.int8).astype(np.int64)
    else:
        codes = np.concatenate((body & 15, body >> 4), axis=-1).astype(np.int64) - (8 if kind == "Q4_0" else 0)
    return Weights(codes.reshape(outputs, -1), halves[..., 0], halves[..., 1] if kind == "Q4_1" else None)


def read_floats(kind: str, source: bytes, outputs: int) -> FloatArray:
    """The rows of a tensor as float32 [N, K]: as stored, or scale * code (+ minimum), a rounding each."""
    if kind == "F32":
        return np.frombuffer(source, F).reshape(outputs, -1)
    if kind == "F16":
        return np.frombuffer(source, np.float16).reshape(outputs, -1).astype(F)
    if kind == "BF16":
        return (np.frombuffer(source, np.uint16).astype(np.uint32) << 16).view(F).reshape(outputs, -1)
    weights = read_codes(kind, source, outputs)
    values = weights.codes.astype(F) * np.repeat(weights.scale, BLOCK, axis=1)
    return values if weights.least is None else values + np.repeat(weights.least, BLOCK, axis=1)


def linear(kind: str, source: bytes, outputs: int, x: FloatArray) -> FloatArray:
    """Rows [R, K] times a matrix [N, K]; returns [R, N]."""
    with np.errstate(all="ignore"):
        if kind in BLOCK_BYTES:
            return _linear_codes(read_codes(kind, source, outputs), quantise(x))
        return linear_floats(read_floats(kind, source, outputs), x)


def _linear_codes(w: Weights, x: Codes) -> FloatArray:
    acc = np.zeros((len(x.codes), len(w.codes)), F)
    for b in range(x.scale.shape[1]):
        part = slice(b * BLOCK, (b + 1) * BLOCK)
        dot = x.codes[:, part].astype(np.int64) @ w.codes[:, part].T
        acc = fma(dot.astype(F) * w.scale[:, b], x.scale[:, b, None], acc)
        if w.least is not None:
            acc = fma(w.least[:, b], (x.scale[:, b] * x.sums[:, b].astype(F))[:, None], acc)
    return acc


def linear_floats(w: FloatArray, x: FloatArray) -> FloatArray:
    """One chain of fma an output, k ascending."""
    acc = np.zeros((len(x), len(w)), F)
    for k in range(x.shape[1]):
        acc = fma(w[:, k], x[:, k, None], acc)
    return acc


def norm(x: FloatArray, weight: FloatArray, eps: float) -> FloatArray:
    """RMS norm of rows [R, K]."""
    with np.errstate(all="ignore"):
        lanes = np.zeros((len(x), LANES), F)
        for i in range(0, x.shape[1], LANES):
            part = x[:, i : i + LANES]
            lanes = fma(part, part, lanes)
        mean = fold_add(lanes) / F(x.shape[1])
        inverse = F(1) / np.sqrt(mean + F(eps))
        result: FloatArray = (x * inverse[:, None]) * weight
    return result


def silu_mul(gate: FloatArray, up: FloatArray) -> FloatArray:
    """gate / (1 + exp(-gate)) * up."""
    with np.errstate(all="ignore"):
        return (gate / (F(1) + exp(gate * F(-1)))) * up


def rope(x: FloatArray, cosines: FloatArray, sines: FloatArray, factor: float) -> FloatArray:
    """Pairs (a, b) -> (a cos - b sin, b cos + a sin) * factor; each table value twice, the first sine negated."""
    with np.errstate(all="ignore"):
        swapped = x.reshape(*x.shape[:-1], -1, 2)[..., ::-1].reshape(x.shape)
        return (x * cosines + swapped * sines) * F(factor)


@dataclass(frozen=True, slots=True)
class Attended:
    """One chunk's part: top, sum [R]; out [R, d]."""

    top: FloatArray
    sum: FloatArray
    out: FloatArray


def attend(queries: FloatArray, visible: IntMatrix, keys: FloatArray, values: FloatArray) -> Attended:
    """Queries [R, d] over the first visible[r] of a chunk's keys and values [256, d]."""
    with np.errstate(all="ignore"):
        scores = np.zeros((len(queries), CHUNK), F)
        for e in range(queries.shape[1]):
            scores = fma(keys[:, e], queries[:, e, None], scores)
        seen = np.arange(CHUNK) < visible[:, None]
        scores = np.where(seen, scores, F(-np.inf))
        used = -(-visible // LANES)  # groups of 16 that hold a visible position; only these are looked at
        best, total = np.full((len(queries), LANES), F(-np.inf)), np.zeros((len(queries), LANES), F)
        for g in range(CHUNK // LANES):
            part = scores[:, g * LANES : (g + 1) * LANES]
            best = np.where((g < used)[:, None], larger(best, part), best)
        top = fold_max(best)
        weights = exp(scores - top[:, None])
        for g in range(CHUNK // LANES):
            total = np.where((g < used)[:, None], total + weights[:, g * LANES : (g + 1) * LANES], total)
        out = np.zeros(queries.shape, F)
        for p in range(int(visible.max())):
            out = np.where((p < visible)[:, None], fma(weights[:, p, None], values[p], out), out)
    return Attended(top, fold_add(total), out)


def merge(a: Attended, b: Attended) -> Attended:
    """Folds a later chunk's part into an earlier one's."""
    with np.errstate(all="ignore"):
        top = larger(a.top, b.top)
        first, second = exp(a.top - top), exp(b.top - top)
        out = a.out * first[:, None] + b.out * second[:, None]
        return Attended(top, a.sum * first + b.sum * second, out)


def finish(a: Attended) -> FloatArray:
    """out / sum, as a multiplication with 1 / sum."""
    with np.errstate(all="ignore"):
        result: FloatArray = a.out * (F(1) / a.sum)[:, None]
    return result
