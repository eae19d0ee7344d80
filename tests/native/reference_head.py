"""Drafting heads in numpy, from docs/numerics.md alone, equal to the engine in every byte.

Dimensions: n positions that the target has computed, H hidden size, T taps, D draft vocabulary, d elements of a head.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tests.native import reference as ref
from tests.native.reference_model import rope_tables

from outrider.core import sampling
from outrider.core.sampling import Draw
from outrider.core.types import FloatArray
from outrider.models.headfile import HeadFile
from outrider.models.spec import ModelFile

F = np.float32


@dataclass(frozen=True, slots=True)
class Guessed:
    """State as NativeHead.export_state has it; logits [S, D] and the chain's own tokens [S]."""

    state: tuple[bytes, bytes, bytes]
    logits: FloatArray
    tokens: tuple[int, ...]


class ReferenceHead:
    """A head next to the target of a file; dense: float32 weights and cache."""

    def __init__(self, file: ModelFile, head: HeadFile, dense: bool = False) -> None:
        self._head = head
        self._dense = dense
        self._spec = head.spec
        self._file = file
        raw = file.path.read_bytes()
        self._raw = raw
        table = file.tensors["token_embd.weight"]
        source = raw[table.offset : table.offset + table.nbytes]
        self._embedding = ref.read_floats(table.type.value, source, table.shape[0])

    def eagle(self, tokens: list[int], states: FloatArray, steps: int, draw: Draw) -> Guessed:
        """tokens [n + 1], the last behind what is committed; states [n, T * H]."""
        spec, n = self._spec, len(states)
        taps = [
            ref.norm(part, weight, spec.norm_eps)
            for part, weight in zip(
                np.split(states, len(spec.taps), axis=1),
                np.split(self._vector("tap_norm"), len(spec.taps)),
                strict=True,
            )
        ]
        features = self._linear("fc", np.concatenate(taps, axis=1))
        tables = self._tables(n + steps)
        keys, values = self._read(tokens[1:], features, 0, tables)
        state = features.tobytes(), np.stack(keys, 1).tobytes(), np.stack(values, 1).tobytes()
        x, found, chosen = features[-1:], [], [tokens[-1]]
        for step in range(steps):
            position = n - 1 + step
            if step:
                more = self._read(chosen[-1:], x, position, tables)
                keys, values = keys + more[0], values + more[1]
            x = self._layer(chosen[-1], x, position, tables, np.stack(keys, 1), np.stack(values, 1))
            found.append(self._linear("head", ref.norm(x, self._vector("out_norm"), spec.norm_eps))[0])
            chosen.append(self._choose(found[-1], draw, n + 1 + step))
        return Guessed(state, np.stack(found), tuple(chosen[1:]))

    def medusa(self, states: FloatArray, steps: int, draw: Draw) -> Guessed:
        """states [n, H]."""
        spec = self._spec
        u = ref.norm(states, self._vector("tap_norm"), spec.norm_eps)
        found = []
        for k in range(1, min(steps, spec.depth) + 1):
            bent = self._linear(f"heads.{k}", u[-1:])
            found.append(self._linear("head", u[-1:] + ref.silu_mul(bent, np.ones_like(bent)))[0])
        chosen = tuple(self._choose(row, draw, len(states) + 1 + step) for step, row in enumerate(found))
        return Guessed((u.tobytes(), b"", b""), np.stack(found), chosen)

    def chances(self, logits: FloatArray, draw: Draw) -> FloatArray:
        """The calibrated law [D] of a row of logits."""
        factor = sampling.inverse_temperature(self._spec.temperature)
        if draw.temperature:
            factor = factor * min(sampling.inverse_temperature(draw.temperature), np.float32(1.0))
        return sampling.law((logits * factor).astype(F), Draw(1.0))

    def _read(
        self, tokens: list[int], x: FloatArray, first: int, tables: tuple[FloatArray, FloatArray]
    ) -> tuple[list[FloatArray], list[FloatArray]]:
        """Keys and values [kv_heads, d] of positions from `first` on, in the cache's type."""
        z = self._input(tokens, x)
        part = slice(first, first + len(x))
        k, v = (self._linear(name, z).reshape(len(x), -1, self._spec.head_dim) for name in ("k_proj", "v_proj"))
        k = ref.rope(k.swapaxes(0, 1), tables[0][part], tables[1][part], 1.0).swapaxes(0, 1)
        kind = F if self._dense else np.float16
        return list(k.astype(kind)), list(v.astype(kind))

    def _layer(
        self,
        token: int,
        x: FloatArray,
        position: int,
        tables: tuple[FloatArray, FloatArray],
        keys: FloatArray,
        values: FloatArray,
    ) -> FloatArray:
        """One row [1, H] through the decoder layer."""
        spec = self._spec
        q = self._linear("q_proj", self._input([token], x)).reshape(spec.heads, 1, spec.head_dim)
        factor = F(1) / np.sqrt(F(spec.head_dim))
        q = ref.rope(q, tables[0][position : position + 1], tables[1][position : position + 1], factor)
        group = spec.heads // spec.kv_heads
        mixed = [
            _attend(q[head], keys[head // group].astype(F), values[head // group].astype(F))
            for head in range(spec.heads)
        ]
        x = x + self._linear("o_proj", np.concatenate(mixed, axis=1))
        h = ref.norm(x, self._vector("ffn_norm"), spec.norm_eps)
        return x + self._linear("down", ref.silu_mul(self._linear("gate", h), self._linear("up", h)))

    def _input(self, tokens: list[int], x: FloatArray) -> FloatArray:
        eps = self._spec.norm_eps
        e = ref.norm(self._embedding[np.array(tokens)], self._vector("embed_norm"), eps)
        return np.concatenate((e, ref.norm(x, self._vector("state_norm"), eps)), axis=1)

    def _choose(self, logits: FloatArray, draw: Draw, position: int) -> int:
        """The token of core.sampling, of a row of all ids."""
        vocab = self._file.spec.vocab
        places = np.full(vocab, -1, np.int32)
        places[self._head.tensors["ids"]] = np.arange(len(logits))
        return sampling.token(sampling.renamed(logits, places), draw, position)

    def _tables(self, count: int) -> tuple[FloatArray, FloatArray]:
        factors = None
        if self._file.spec.rope.factors:
            tensor = self._file.tensors[self._file.spec.rope.factors]
            factors = np.frombuffer(self._raw[tensor.offset : tensor.offset + tensor.nbytes], F)
        return rope_tables(self._file, factors, count)

    def _vector(self, name: str) -> FloatArray:
        return self._head.tensors[name].astype(F)

    def _linear(self, name: str, x: FloatArray) -> FloatArray:
        kind, tensor = self._spec.types[name], self._head.tensors[name]
        if self._dense:
            return ref.linear_floats(ref.read_floats(kind, tensor.tobytes(), len(tensor)), x)
        return ref.linear(kind, tensor.tobytes(), len(tensor), x)


def _attend(query: FloatArray, keys: FloatArray, values: FloatArray) -> FloatArray:
    """One query [1, d] over all keys and values [n, d], chunk by chunk."""
    room = np.zeros((-len(keys) % ref.CHUNK, keys.shape[1]), F)
    keys, values, count = np.concatenate((keys, room)), np.concatenate((values, room)), len(keys)
    total: ref.Attended | None = None
    for first in range(0, count, ref.CHUNK):
        chunk = slice(first, first + ref.CHUNK)
        visible = np.array([min(count - first, ref.CHUNK)])
        part = ref.attend(query, visible, keys[chunk], values[chunk])
        total = part if total is None else ref.merge(total, part)
    assert total is not None
    return ref.finish(total)
