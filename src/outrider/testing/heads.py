"""Random heads of any size, for tests that need one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import gguf
import numpy as np

from outrider.core.types import FloatArray
from outrider.models.headfile import HeadFile, HeadKind, HeadSpec, matrices, vectors
from outrider.models.safetensors import Array


def quantised(values: FloatArray, kind: str) -> Array:
    """A matrix as headfile keeps it."""
    if kind == "F32":
        return values
    packed: Array = gguf.quants.quantize(values, gguf.GGMLQuantizationType[kind])
    return packed


def random_head(spec: HeadSpec, vocab: int, seed: int = 0, ids: Sequence[int] | None = None) -> HeadFile:
    """Random weights of a sensible size, the same for the same seed; ids are random ones below `vocab` unless given."""
    chance = np.random.default_rng(seed)
    tensors: dict[str, Array] = {}
    for name, size in vectors(spec).items():
        tensors[name] = (1 + 0.1 * chance.standard_normal(size)).astype(np.float32)
    for name, (rows, cols) in matrices(spec).items():
        gain = 2.0 if name == "head" else 1.0
        values = (chance.standard_normal((rows, cols)) * gain / cols**0.5).astype(np.float32)
        tensors[name] = quantised(values, spec.types[name])
    chosen = chance.choice(vocab, spec.draft_vocab, replace=False) if ids is None else np.array(ids)
    tensors["ids"] = np.sort(chosen).astype(np.int32)
    return HeadFile(spec, tensors)


def eagle_spec(
    fingerprint: str = "00",
    *,
    hidden: int = 64,
    heads: int = 4,
    kv_heads: int = 2,
    head_dim: int = 16,
    feed_forward: int = 96,
    draft_vocab: int = 100,
    taps: tuple[int, ...] = (0, 1, 2),
    kind: str = "Q4_1",
    types: Mapping[str, str] | None = None,
    temperature: float = 1.0,
) -> HeadSpec:
    """The spec of an eagle3 head whose matrices are of one type, or of those that `types` names."""
    spec = HeadSpec(
        HeadKind.EAGLE3, "tiny", fingerprint, taps, hidden, draft_vocab, 1e-5, 4, {}, temperature,
        heads, kv_heads, head_dim, feed_forward,
    )  # fmt: skip
    return _typed(spec, kind, types)


def medusa_spec(
    fingerprint: str = "00",
    *,
    hidden: int = 64,
    draft_vocab: int = 100,
    tap: int = 2,
    depth: int = 3,
    kind: str = "Q4_1",
    types: Mapping[str, str] | None = None,
    temperature: float = 1.0,
) -> HeadSpec:
    """The spec of a medusa head."""
    spec = HeadSpec(HeadKind.MEDUSA, "tiny", fingerprint, (tap,), hidden, draft_vocab, 1e-5, depth, {}, temperature)
    return _typed(spec, kind, types)


def _typed(spec: HeadSpec, kind: str, types: Mapping[str, str] | None) -> HeadSpec:
    return replace(spec, types={**dict.fromkeys(matrices(spec), kind), **(types or {})})
