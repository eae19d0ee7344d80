"""The C++ engine as a Backend: translates values and errors, computes nothing.

A row is alone: its result never depends on the other rows, on tiles, chunks or threads (docs/numerics.md).
Dimensions: n rows of one item, V vocabulary, T tapped states, H hidden size.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from outrider import _native
from outrider.api import Logprob
from outrider.backends.base import Adjust, Capabilities, Chain, Drawn, Extend, Phases
from outrider.backends.native.head import NativeHead, head_arguments
from outrider.backends.native.values import DrawArguments, draw_arguments, translated
from outrider.core.types import FloatArray
from outrider.errors import BackendError, ModelFileError, UsageError
from outrider.models.fingerprint import fingerprint
from outrider.models.headfile import HeadFile
from outrider.models.spec import ModelFile, ModelSpec, RopeKind

ISA_VARIABLE = "OUTRIDER_ISA"  # forces an instruction set, for tests and for comparing

# seq, tokens [n], parents [n] or none, want [n], draw
_Item: TypeAlias = tuple[int, Sequence[int], Sequence[int], Sequence[int], DrawArguments]


class NativeScores:
    """The results of one pass; see backends.base.Scores."""

    __slots__ = ("_scores",)

    def __init__(self, scores: _native.Scores) -> None:
        self._scores = scores

    def token(self, item: int, row: int, adjust: Adjust | None = None) -> int:
        """The target's token after this row. Raises UsageError where the row did not want one, or for a bad adjust."""
        if adjust is None:
            return translated(self._scores.token, item, row)
        return translated(self._scores.token, item, row, _arrays(adjust))

    def logits(self, item: int, row: int) -> FloatArray:
        """The row's logits [V], a read-only view. Raises UsageError where the row did not want them."""
        return translated(self._scores.logits, item, row)

    def law(self, item: int, row: int, adjust: Adjust | None = None) -> FloatArray:
        """p [V] after this row. Raises UsageError where the row did not want its logits, or for a bad adjust."""
        return translated(self._scores.law, item, row, _arrays(adjust))

    def logprobs(
        self, item: int, row: int, chosen: int, top: int, processed: bool, adjust: Adjust | None = None
    ) -> Logprob:
        """Log-probabilities after this row. Raises UsageError where the row did not want its logits.

        Also where `chosen` is no id, `top` is negative or adjust is bad.
        """
        own, best = translated(self._scores.logprobs, item, row, chosen, top, processed, _arrays(adjust))
        return Logprob(chosen, own, tuple(best))

    def top(self, item: int, row: int, count: int) -> tuple[int, ...]:
        """The ids of the largest logits, best first. Raises UsageError where the row wanted nothing, or count < 0."""
        return tuple(translated(self._scores.top, item, row, count))

    def states(self, item: int) -> FloatArray:
        """The tapped states of an item's rows; see backends.base.StateTaps. Raises UsageError where none were kept."""
        return translated(self._scores.states, item)


class NativeBackend:
    """A model file on this machine's processor.

    threads: how many compute a pass (default: the cores this process may use). isa: an instruction set by name
    (default: the environment variable OUTRIDER_ISA, else the best this machine has). dense: float32 weights and
    cache, to compare with a reference, not for speed.

    Raises ModelFileError where the file needs what the engine cannot do or is cut, UsageError for bad arguments,
    BackendError where memory runs out.
    """

    def __init__(
        self, model: ModelFile, *, threads: int | None = None, isa: str | None = None, dense: bool = False
    ) -> None:
        self._file = model
        self._spec = model.spec
        _check_supported(model.spec)
        count = _thread_count(threads)
        name = isa if isa is not None else os.environ.get(ISA_VARIABLE, "")
        if name and name not in _native.isas():
            raise UsageError(
                f"instruction set {name!r} is unknown or missing here; this machine has: {', '.join(_native.isas())}"
            )
        tensors = [(t.name, t.type.value, t.shape, t.offset) for t in model.tensors.values()]
        try:
            self._engine = _native.Engine(_config(model.spec, dense), os.fspath(model.path), tensors, name, count)
        except (ValueError, RuntimeError) as error:
            raise ModelFileError(f"{model.path}: {error}") from None
        except MemoryError:
            raise BackendError(f"{model.path}: out of memory; use a smaller model") from None

    @property
    def vocab(self) -> int:
        """V."""
        return self._spec.vocab

    @property
    def context(self) -> int:
        """Positions that a sequence may have."""
        return self._spec.context

    @property
    def capabilities(self) -> Capabilities:
        """Rows are alone, trees are computed."""
        return Capabilities(row_alone=True, trees=True, isa=self._engine.isa, threads=self._engine.threads)

    @property
    def open_sequences(self) -> int:
        """Sequences not yet closed."""
        return self._engine.open_sequences

    @property
    def block_tokens(self) -> int:
        """Positions of one block of keys and values."""
        return self._engine.block_tokens

    @property
    def block_bytes(self) -> int:
        """Memory of one block."""
        return self._engine.block_bytes

    @property
    def blocks_used(self) -> int:
        """Blocks that open sequences hold, each counted once; waits for a pass that is under way."""
        return self._engine.blocks_used

    @property
    def weight_bytes(self) -> int:
        """Memory of the packed weights."""
        return self._engine.weight_bytes

    def open(self) -> int:
        """A new, empty sequence."""
        return self._engine.open()

    def fork(self, seq: int) -> int:
        """A new sequence with the same committed positions; memory is shared until one of them writes."""
        return translated(self._engine.fork, seq)

    def truncate(self, seq: int, length: int) -> None:
        """Forget the positions from `length` on, and uncommitted rows."""
        translated(self._engine.truncate, seq, length)

    def close(self, seq: int) -> None:
        """Give the sequence's memory back."""
        translated(self._engine.close, seq)

    def length(self, seq: int) -> int:
        """Committed positions."""
        return translated(self._engine.length, seq)

    def extend(self, items: Sequence[Extend]) -> NativeScores:
        """One pass over the rows of all items. Raises UsageError or BackendError; what is committed stays."""
        return NativeScores(translated(self._engine.extend, self._arguments(items)))

    def time_phases(self, items: Sequence[Extend]) -> Phases:
        """A pass like `extend`, whose results nobody reads: where its time went. Raises what extend raises."""
        return Phases(*translated(self._engine.phase_seconds, self._arguments(items)))

    def commit(self, items: Sequence[tuple[int, Sequence[int]]]) -> None:
        """Keep each sequence's path of rows of the last pass; an empty path drops them all."""
        translated(self._engine.commit, items)

    def chain(self, items: Sequence[Chain]) -> list[Drawn]:
        """Draw all chains in one call, without the GIL; see backends.base.ChainDrawer. Raises what extend raises."""
        widths = [self.vocab if item.ids is None else len(item.ids) for item in items]
        arguments = [
            (item.seq, item.tokens, item.count, draw_arguments(item.draw, width), item.position, item.ids)
            for item, width in zip(items, widths, strict=True)
        ]
        drawn = translated(self._engine.chain, arguments)
        return [Drawn(tuple(tokens), tuple(best)) for tokens, best in drawn]

    def tap(self, layers: Sequence[int]) -> None:
        """Which states passes keep from now on; see backends.base.StateTaps. Raises UsageError for an unknown layer."""
        translated(self._engine.tap, layers)

    @cached_property
    def fingerprint(self) -> bytes:
        """Which model it is (models.fingerprint)."""
        return fingerprint(self._file)

    def attach(self, head: HeadFile) -> NativeHead:
        """Load a drafting head; see backends.base.HeadHost. Raises UsageError where it is not for this model."""
        own = self.fingerprint.hex()
        if head.spec.fingerprint != own:
            raise UsageError(
                f"the head was trained for {head.spec.target_name} ({head.spec.fingerprint[:12]}), and the model is "
                f"{self._spec.name} ({own[:12]}): give the head of this very file, or train one"
            )
        return NativeHead(self._engine, translated(self._engine.attach, *head_arguments(head)), head.spec, self.vocab)

    def export_cache(self, seq: int) -> tuple[bytes, bytes]:
        """The committed keys and values [layers, kv_heads, positions, d] as the cache's own bytes."""
        return translated(self._engine.export_cache, seq)

    def _arguments(self, items: Sequence[Extend]) -> list[_Item]:
        return [
            (
                item.seq,
                item.tokens,
                () if item.parents is None else item.parents,
                item.want,
                draw_arguments(item.draw, self.vocab),
            )
            for item in items
        ]


def _arrays(
    adjust: Adjust | None,
) -> tuple[npt.NDArray[np.int32], FloatArray, FloatArray, npt.NDArray[np.uint32] | None] | None:
    return None if adjust is None else (adjust.ids, adjust.divisors, adjust.offsets, adjust.mask)


def _thread_count(threads: int | None) -> int:
    if threads is None:
        return _native.usable_cores()
    if not 1 <= threads <= 256:
        raise UsageError(f"threads is {threads}; it must be between 1 and 256")
    return threads


def _check_supported(spec: ModelSpec) -> None:
    unsupported = {
        "attention biases": spec.attention_bias,
        "query/key norms": spec.qk_norm,
        "a sliding window": spec.window is not None,
        "attention soft caps": spec.attention_softcap is not None,
        "logit soft caps": spec.logit_softcap is not None,
        "experts": spec.experts > 0,
        "rotation of halves": spec.rope.kind is not RopeKind.INTERLEAVED,
        "rotation of a part of the head": spec.rope.dims != spec.head_dim,
    }
    missing = [name for name, asked in unsupported.items() if asked]
    if missing:
        raise ModelFileError(f"the native backend cannot run {spec.name}: it needs {', '.join(missing)}")


def _config(spec: ModelSpec, dense: bool) -> dict[str, int | float | str | bool]:
    return {
        "layers": spec.layers,
        "hidden": spec.hidden,
        "heads": spec.heads,
        "kv_heads": spec.kv_heads,
        "head_dim": spec.head_dim,
        "feed_forward": spec.feed_forward,
        "vocab": spec.vocab,
        "context": spec.context,
        "norm_eps": spec.norm_eps,
        "rope_base": spec.rope.base,
        "rope_linear_factor": spec.rope.linear_factor,
        "rope_factors": spec.rope.factors or "",
        "tied_head": spec.tied_head,
        "dense": dense,
    }
