"""The tiny models of these tests, each with another shape, and how a sequence is read."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from outrider.backends.base import Extend, Want
from outrider.backends.native import NativeBackend
from outrider.models import gguf
from outrider.models.spec import ModelFile, TensorType
from outrider.testing.gguf_maker import tiny_llama

T = TensorType
_MIXED = {
    "blk.0.attn_q.weight": T.F16,
    "blk.0.attn_k.weight": T.Q4_0,
    "blk.0.attn_v.weight": T.BF16,
    "blk.0.attn_output.weight": T.Q8_0,
    "blk.0.ffn_gate.weight": T.Q4_0,
    "blk.0.ffn_up.weight": T.F32,
    "blk.0.ffn_down.weight": T.Q4_1,
    "blk.1.attn_q.weight": T.Q8_0,
    "blk.1.attn_k.weight": T.F32,
    "blk.1.attn_v.weight": T.Q4_1,
    "blk.1.attn_output.weight": T.F16,
    "blk.1.ffn_gate.weight": T.BF16,
    "blk.1.ffn_up.weight": T.Q8_0,
    "blk.1.ffn_down.weight": T.F16,
}


def _plain(path: Path) -> Path:
    return tiny_llama(path, context=700)


def _mixed(path: Path) -> Path:  # every tensor type, an untied head, factors, a vocabulary of no full panel
    return tiny_llama(
        path, vocab=261, types=_MIXED, tied=False, rope_factors=True, embedding_type=T.Q4_1, context=300, seed=1
    )


def _thirds(path: Path) -> Path:  # three query heads a key head, linear scaling
    return tiny_llama(
        path, vocab=277, hidden=96, heads=6, kv_heads=2, head_dim=32, rope_linear_factor=2.5, layer_type=T.Q4_0, seed=2
    )


def _fours(path: Path) -> Path:  # four query heads a key head, heads wider than the rows
    return tiny_llama(
        path, hidden=64, heads=4, kv_heads=1, head_dim=64, layer_type=T.Q8_0, embedding_type=T.Q4_0, tied=False, seed=3
    )


def _ones(path: Path) -> Path:  # as many key heads as query heads, 80 elements: no multiple of 32 or 64
    return tiny_llama(
        path, hidden=64, heads=2, kv_heads=2, head_dim=80, layer_type=T.BF16, embedding_type=T.F16, layers=1, seed=4
    )


def _floats(path: Path) -> Path:
    return tiny_llama(path, layer_type=T.F32, embedding_type=T.BF16, rope_base=500000.0, seed=5)


MAKERS: dict[str, Callable[[Path], Path]] = {
    "plain": _plain,
    "mixed": _mixed,
    "thirds": _thirds,
    "fours": _fours,
    "ones": _ones,
    "floats": _floats,
}


def make(name: str, folder: Path) -> ModelFile:
    """Writes the named model into the folder and reads its header."""
    return gguf.read(MAKERS[name](folder / f"{name}.gguf"))


def ids(count: int, vocab: int, seed: int = 0) -> list[int]:
    """Random ids, the same for the same seed."""
    chance = random.Random(seed)
    return [chance.randrange(vocab) for _ in range(count)]


def read(
    backend: NativeBackend, seq: int, tokens: Sequence[int], parents: Sequence[int] | None = None
) -> tuple[bytes, ...]:
    """One pass; the logits of every row as bytes. Nothing is committed."""
    scores = backend.extend([Extend(seq, tokens, parents, [Want.LOGITS] * len(tokens))])
    return tuple(scores.logits(0, row).tobytes() for row in range(len(tokens)))


def read_chunks(backend: NativeBackend, seq: int, tokens: Sequence[int], sizes: Sequence[int]) -> tuple[bytes, ...]:
    """The tokens in passes of the given sizes (the last is repeated), each committed; the logits of every row."""
    found: list[bytes] = []
    start = 0
    for i in range(len(tokens)):
        if start >= len(tokens):
            break
        part = tokens[start : start + sizes[min(i, len(sizes) - 1)]]
        found += read(backend, seq, part)
        backend.commit([(seq, range(len(part)))])
        start += len(part)
    return tuple(found)


def fresh(backend: NativeBackend, tokens: Sequence[int]) -> tuple[tuple[bytes, ...], tuple[bytes, bytes]]:
    """A new sequence that reads the tokens at once: the logits of every row, and the cache."""
    seq = backend.open()
    rows = read_chunks(backend, seq, tokens, [len(tokens)]) if tokens else ()
    cache = backend.export_cache(seq)
    backend.close(seq)
    return rows, cache
