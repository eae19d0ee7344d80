"""What a run needs before its first step: the target's parts, texts, a head, its optimiser.

Dimensions: V vocabulary, H hidden, D draft vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from outrider.backends.native import NativeBackend
from outrider.errors import UsageError
from outrider.models.fingerprint import fingerprint
from outrider.train import checkpoint, corpus, data, origin
from outrider.train.batch import Batcher
from outrider.train.corpus import Corpus, Ids
from outrider.train.features import Extractor, Kept
from outrider.train.medusa import MedusaHead
from outrider.train.model import EagleHead, Shape
from outrider.train.origin import Origin
from outrider.train.sizes import default_taps
from outrider.train.states import StateFolder
from outrider.train.target import Target
from outrider.train.types import Kind, TrainOptions

Head = EagleHead | MedusaHead


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    """All of it."""

    options: TrainOptions
    target: Target
    fingerprint: str
    corpus: Corpus
    ids: Ids  # [D]
    coverage: float
    taps: tuple[int, ...]
    head: Head
    batcher: Batcher
    kept: Kept
    threads: int

    def identity(self) -> dict[str, object]:
        """What must not change between the parts of a run: all that its result depends on."""
        options = self.options
        return {
            "target": self.fingerprint,
            "data": self.corpus.digest,
            "kind": options.kind.value,
            "taps": list(self.taps),
            **{name: getattr(options, name) for name in ("draft_vocab", "depth", "learning_rate", "batch_tokens")},
            **{name: getattr(options, name) for name in ("soft", "lk", "seed", "epochs", "minutes", "held_out")},
            "precision": str(self.head.half),
        }


def prepare(options: TrainOptions) -> Setup:
    """Read everything and make the head. Raises what run raises."""
    target = Target(options.target)
    spec = target.spec
    texts = corpus.split(data.dialogues(options.data, target.file), target.file.tokenizer.eos, options.held_out)
    ids, coverage = corpus.draft_vocabulary(texts.train, options.draft_vocab, spec.vocab)
    whose = fingerprint(target.file).hex()
    going_on = checkpoint.load(options.out) if options.resume else None  # needs nothing more of where it started from
    start = origin.read(options.start) if options.start is not None and going_on is None else None
    taps = options.taps or _taps_of(options.kind, going_on, start) or default_taps(options.kind, spec.layers)
    if options.kind is Kind.MEDUSA and len(taps) != 1:
        raise UsageError(f"taps are {taps}; a medusa head reads one state")
    if start is not None:
        start.check(whose, options.kind, taps, options.depth)
    options = replace(options, taps=taps)
    device = _device(options.device)
    head = _head(options, target, ids, len(taps), device)
    if start is not None:
        head.load_state_dict({**start.weights, "head": start.rows(ids, head.head.detach().cpu())})
    backend = NativeBackend(target.file, threads=options.threads)
    width = len(taps) * spec.hidden
    shelf = None if options.states is None else StateFolder(options.states, whose, taps, width)
    kept = Kept(Extractor(backend, taps, spec.hidden, spec.norm_eps), options.memory_bytes, shelf)
    kept.expect(texts.train)
    return Setup(
        options=options,
        target=target,
        fingerprint=whose,
        corpus=texts,
        ids=ids,
        coverage=coverage,
        taps=taps,
        head=head,
        batcher=Batcher(ids, spec.vocab, device),
        kept=kept,
        threads=backend.capabilities.threads,
    )


def _taps_of(kind: Kind, going_on: Mapping[str, Any] | None, start: Origin | None) -> tuple[int, ...]:
    """The states that this run read so far, or the one that it starts from; () where neither is of the kind."""
    if going_on is not None:
        return tuple(going_on["identity"]["taps"]) if going_on["identity"]["kind"] == kind.value else ()
    return start.taps if start is not None and start.kind is kind else ()


def _head(options: TrainOptions, target: Target, ids: Ids, taps: int, device: torch.device) -> Head:
    spec = target.spec
    generator = torch.Generator().manual_seed(options.seed)
    rows = torch.from_numpy(target.output_rows(ids.astype(np.int64)))
    norm = torch.from_numpy(target.output_norm())
    half = precision(device)
    head: Head
    if options.kind is Kind.MEDUSA:
        head = MedusaHead(spec.hidden, len(ids), options.depth, half)
    else:
        sizes = (spec.hidden, taps, spec.heads, spec.kv_heads, spec.head_dim, spec.feed_forward, len(ids))
        embedding = torch.from_numpy(target.embedding())
        head = EagleHead(Shape(*sizes, spec.norm_eps), embedding, torch.from_numpy(target.frequencies()), half)
    head.initialise(rows, norm, generator)
    head.to(device)
    return head


def precision(device: torch.device) -> torch.dtype:
    """What products are computed in: bfloat16 where the device has instructions for it, else float32."""
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
    # On a processor without them torch emulates bfloat16, several times slower than float32.
    return torch.bfloat16 if torch.cpu._is_avx512_bf16_supported() else torch.float32


def _device(name: str) -> torch.device:
    there = torch.cuda.is_available()
    if name == "cuda" and not there:
        raise UsageError("device is 'cuda', but torch finds no CUDA device here; use cpu or auto")
    return torch.device("cuda" if name != "cpu" and there else "cpu")
