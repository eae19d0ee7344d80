"""A drafting head inside the C++ engine, so that the states of committed rows never travel through Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from outrider import _native
from outrider.backends.base import HeadChain, HeadDrawn
from outrider.backends.native.values import draw_arguments, translated
from outrider.core import sampling
from outrider.models.headfile import HeadFile, HeadKind, HeadSpec, matrices, vectors
from outrider.models.safetensors import Array

_Config: TypeAlias = dict[str, int | float | bool | Sequence[int]]
_Tensor: TypeAlias = tuple[str, str, int, int, Array]  # name, type, rows, cols (0: a vector), data


class NativeHead:
    """See backends.base.Head. Made by NativeBackend.attach; it works while its backend exists, and dies with it."""

    def __init__(self, engine: _native.Engine, head: _native.Head, spec: HeadSpec, vocab: int) -> None:
        self._engine = engine
        self._head = head
        self._vocab = vocab
        self.spec = spec

    @property
    def independent(self) -> bool:
        """Whether a step's candidates do not depend on the tokens of the steps before."""
        return self.spec.kind is HeadKind.MEDUSA

    @property
    def weight_bytes(self) -> int:
        """Memory of the packed weights."""
        return self._head.weight_bytes

    @property
    def share(self) -> float:
        """Its weights over those that a pass of the target reads, in bytes."""
        return self._head.weight_bytes / self._engine.weight_bytes

    @property
    def sequences(self) -> int:
        """Sequences that something is kept of."""
        return self._head.sequences

    def begin(self, seq: int) -> bool:
        """Follow a sequence. Raises BackendError where it is not open."""
        return translated(self._engine.follow, self._head, seq)

    def end(self, seq: int) -> None:
        """Follow it no more."""
        translated(self._engine.unfollow, self._head, seq)

    def draft(self, items: Sequence[HeadChain]) -> list[HeadDrawn]:
        """The guesses for all items. Raises UsageError for malformed items, BackendError where the context is full."""
        arguments = [
            (
                item.seq,
                item.last,
                item.steps,
                draw_arguments(item.draw, self._vocab),
                item.position,
                item.width,
                item.least,
            )
            for item in items
        ]
        drawn = translated(self._engine.draft, self._head, arguments)
        return [HeadDrawn(tuple(tokens), tuple(map(tuple, likely))) for tokens, likely in drawn]

    def export_state(self, seq: int) -> tuple[bytes, bytes, bytes]:
        """Fused features [n, H], keys and values [kv_heads, m, d] of the positions that have them, as bytes."""
        return translated(self._engine.export_head, self._head, seq)


def head_arguments(head: HeadFile) -> tuple[_Config, list[_Tensor]]:
    """A head as the engine takes it."""
    spec = head.spec
    config: _Config = {
        "chain": spec.kind is HeadKind.EAGLE3,
        "taps": spec.taps,
        "hidden": spec.hidden,
        "heads": spec.heads,
        "kv_heads": spec.kv_heads,
        "head_dim": spec.head_dim,
        "feed_forward": spec.feed_forward,
        "draft_vocab": spec.draft_vocab,
        "depth": spec.depth,
        "norm_eps": spec.norm_eps,
        "inverse_temperature": float(sampling.inverse_temperature(spec.temperature)),
    }
    tensors: list[_Tensor] = [("ids", "I32", spec.draft_vocab, 0, head.tensors["ids"])]
    tensors += [(name, "F32", size, 0, head.tensors[name]) for name, size in vectors(spec).items()]
    tensors += [
        (name, spec.types[name], rows, cols, head.tensors[name]) for name, (rows, cols) in matrices(spec).items()
    ]
    return config, tensors
