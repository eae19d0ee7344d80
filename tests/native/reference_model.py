"""A whole pass of a model in numpy, from docs/numerics.md alone: slow, plain, and equal to the engine in every byte.

Dimensions: T positions of one chain, V vocabulary, d elements of a head.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tests.native import reference as ref

from outrider.core.types import FloatArray
from outrider.models.spec import ModelFile

F = np.float32
Doubles = npt.NDArray[np.float64]


def own_exp(x: float) -> float:
    """e ** x in double precision."""
    n = float(round(x * 1.4426950408889634))
    r = x - n * 6.93147180369123816490e-01 - n * 1.90821492927058770002e-10
    term = total = 1.0
    for i in range(1, 20):
        term = term * r / i
        total += term
    return math.ldexp(total, int(n))


def own_log(x: float) -> float:
    """Natural logarithm in double precision: 2 atanh((m - 1) / (m + 1))."""
    m, e = math.frexp(x)
    t = (m - 1.0) / (m + 1.0)
    power, total = t, 0.0
    for i in range(1, 80, 2):
        total += power / i
        power *= t * t
    return 2.0 * total + e * 6.93147180559945286227e-01


def own_sincos(x: Doubles) -> tuple[Doubles, Doubles]:
    """Sine and cosine in double precision."""
    k = np.rint(x * 6.36619772367581382433e-01)
    r = ((x - k * 1.57079632673412561417) - k * 6.07710050630396597660e-11) - k * 2.02226624871116645580e-21
    r2 = r * r
    s, c = np.ones_like(r), np.ones_like(r)
    for i in range(18, 1, -2):
        s = 1.0 - s * r2 / (i * (i + 1))
        c = 1.0 - c * r2 / (i * (i - 1))
    s = s * r
    quarter = k.astype(np.int64) & 3
    return np.choose(quarter, [s, c, -s, -c]), np.choose(quarter, [c, -s, -c, s])


def rope_tables(file: ModelFile, factors: FloatArray | None, count: int) -> tuple[FloatArray, FloatArray]:
    """Cosines and sines [count, d] of the first positions, as `reference.rope` wants them."""
    spec = file.spec
    pairs = range(spec.head_dim // 2)
    log_base = own_log(spec.rope.base)
    frequency = np.array([own_exp(-2.0 * i / spec.head_dim * log_base) for i in pairs]).astype(F)
    frequency = frequency / F(spec.rope.linear_factor)
    if factors is not None:
        frequency = frequency / factors
    angle = np.arange(count, dtype=F)[:, None] * frequency
    s, c = own_sincos(angle.astype(np.float64))
    signed = np.stack((-s.astype(F), s.astype(F)), axis=-1).reshape(count, -1)
    return np.repeat(c.astype(F), 2, axis=1), signed


@dataclass(frozen=True, slots=True)
class Result:
    """logits [T, V]; keys and values [layers, kv_heads, T, d] as cache bytes; states [layers + 1, T, hidden]."""

    logits: FloatArray
    keys: bytes
    values: bytes
    states: FloatArray


class ReferenceModel:
    """The model of a file; dense: float32 weights and cache."""

    def __init__(self, file: ModelFile, dense: bool = False) -> None:
        self._file = file
        self._dense = dense
        self._bytes = file.path.read_bytes()

    def prefill(self, tokens: list[int]) -> Result:
        """One chain from position 0."""
        spec, keys, values = self._file.spec, [], []
        embedding = self._floats("token_embd.weight")
        x = embedding[np.array(tokens)]
        factors = self._vector(spec.rope.factors) if spec.rope.factors else None
        tables = rope_tables(self._file, factors, len(tokens))
        states = []
        for layer in range(spec.layers):
            states.append(x)
            name = f"blk.{layer}."
            h = ref.norm(x, self._vector(name + "attn_norm.weight"), spec.norm_eps)
            q, k, v = (self._linear(f"{name}attn_{part}.weight", h) for part in "qkv")
            key = self._cached(self._rotated(k, tables, 1.0))
            value = self._cached(v.reshape(len(v), -1, spec.head_dim).swapaxes(0, 1))
            keys.append(key)
            values.append(value)
            factor = F(1) / np.sqrt(F(spec.head_dim))
            mixed = self._attention(self._rotated(q, tables, factor), key.astype(F), value.astype(F))
            x = x + self._linear(name + "attn_output.weight", mixed)
            h = ref.norm(x, self._vector(name + "ffn_norm.weight"), spec.norm_eps)
            gate, up = (self._linear(f"{name}ffn_{part}.weight", h) for part in ("gate", "up"))
            x = x + self._linear(name + "ffn_down.weight", ref.silu_mul(gate, up))
        states.append(x)
        h = ref.norm(x, self._vector("output_norm.weight"), spec.norm_eps)
        logits = self._linear("token_embd.weight" if spec.tied_head else "output.weight", h)
        return Result(logits, np.stack(keys).tobytes(), np.stack(values).tobytes(), np.stack(states))

    def _attention(self, queries: FloatArray, keys: FloatArray, values: FloatArray) -> FloatArray:
        """Queries [heads, T, d] over keys and values [kv_heads, T, d], chunk by chunk; returns [T, heads * d]."""
        heads, count, d = queries.shape
        group, out = heads // len(keys), np.zeros((count, heads, d), F)
        room = np.zeros((-count % ref.CHUNK, d), F)
        for head in range(heads):
            k, v = (np.concatenate((part[head // group], room)) for part in (keys, values))
            total: ref.Attended | None = None
            for first in range(0, count, ref.CHUNK):
                visible = np.minimum(np.arange(first, count) - first + 1, ref.CHUNK)
                chunk = slice(first, first + ref.CHUNK)
                part = ref.attend(queries[head, first:], visible, k[chunk], v[chunk])
                if total is None:
                    total = part
                    continue
                # rows before this chunk keep what they have
                later = ref.merge(ref.Attended(total.top[first:], total.sum[first:], total.out[first:]), part)
                total.top[first:], total.sum[first:], total.out[first:] = later.top, later.sum, later.out
            assert total is not None
            out[:, head] = ref.finish(total)
        return out.reshape(count, -1)

    def _rotated(self, x: FloatArray, tables: tuple[FloatArray, FloatArray], factor: float) -> FloatArray:
        heads = x.reshape(len(x), -1, self._file.spec.head_dim).swapaxes(0, 1)
        return ref.rope(heads, tables[0], tables[1], factor)

    def _cached(self, x: FloatArray) -> npt.NDArray[np.float16] | FloatArray:
        if self._dense:
            return np.ascontiguousarray(x)
        return x.astype(np.float16)

    def _source(self, name: str) -> bytes:
        tensor = self._file.tensors[name]
        return self._bytes[tensor.offset : tensor.offset + tensor.nbytes]

    def _vector(self, name: str) -> FloatArray:
        return np.frombuffer(self._source(name), F)

    def _floats(self, name: str) -> FloatArray:
        tensor = self._file.tensors[name]
        return ref.read_floats(tensor.type.value, self._source(name), tensor.shape[0])

    def _linear(self, name: str, x: FloatArray) -> FloatArray:
        tensor = self._file.tensors[name]
        if self._dense:
            return ref.linear_floats(self._floats(name), x)
        return ref.linear(tensor.type.value, self._source(name), tensor.shape[0], x)
