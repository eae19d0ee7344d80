"""Heads for the tiny models of these tests, and how a sequence with a head is read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tests.native.reference_model import ReferenceModel

from outrider.backends.base import GREEDY, Draw, Extend, HeadChain, HeadDrawn
from outrider.backends.native import NativeBackend
from outrider.backends.native.head import NativeHead
from outrider.core.types import FloatArray
from outrider.models.fingerprint import fingerprint
from outrider.models.headfile import HeadFile
from outrider.models.spec import ModelFile
from outrider.testing.heads import eagle_spec, medusa_spec, random_head

MIXED = {
    "fc": "F32",
    "q_proj": "Q8_0",
    "k_proj": "F32",
    "v_proj": "Q4_0",
    "o_proj": "Q8_0",
    "gate": "F32",
    "head": "Q4_0",
}


def eagle(file: ModelFile, *, mixed: bool = False, draft_vocab: int = 100, temperature: float = 1.0) -> HeadFile:
    """An eagle3 head of the model's own sizes; its vocabulary fills no whole panel."""
    spec = file.spec
    found = eagle_spec(
        fingerprint(file).hex(),
        hidden=spec.hidden,
        heads=spec.heads,
        kv_heads=spec.kv_heads,
        head_dim=spec.head_dim,
        feed_forward=96,
        draft_vocab=draft_vocab,
        taps=(spec.layers, 0, 1)[: spec.layers + 1],  # any order
        types=MIXED if mixed else None,
        temperature=temperature,
    )
    return random_head(found, spec.vocab, seed=spec.hidden)


def medusa(file: ModelFile, *, kind: str = "Q4_1", draft_vocab: int = 100, temperature: float = 1.0) -> HeadFile:
    spec = file.spec
    found = medusa_spec(
        fingerprint(file).hex(),
        hidden=spec.hidden,
        draft_vocab=draft_vocab,
        tap=spec.layers,
        kind=kind,
        temperature=temperature,
    )
    return random_head(found, spec.vocab, seed=1)


def states(file: ModelFile, tokens: Sequence[int], taps: Sequence[int], dense: bool = False) -> FloatArray:
    """What the head gets of these positions [n, T * H], by numpy."""
    found = ReferenceModel(file, dense).prefill(list(tokens)).states
    return np.concatenate([found[tap] for tap in taps], axis=1)


def feed(backend: NativeBackend, seq: int, tokens: Sequence[int], sizes: Sequence[int]) -> None:
    """The tokens in passes of the given sizes (the last is repeated), each committed."""
    start, turn = 0, 0
    while start < len(tokens):
        part = tokens[start : start + sizes[min(turn, len(sizes) - 1)]]
        backend.extend([Extend(seq, part, None, [0] * len(part))])
        backend.commit([(seq, range(len(part)))])
        start, turn = start + len(part), turn + 1


def ask(seq: int, tokens: Sequence[int], steps: int = 4, draw: Draw = GREEDY, width: int = 3) -> HeadChain:
    """A draft behind tokens of which all but the last are committed."""
    return HeadChain(seq, tokens[-1], steps, draw, len(tokens), width)


def fresh(
    backend: NativeBackend, head: NativeHead, tokens: Sequence[int], steps: int = 4, draw: Draw = GREEDY, width: int = 3
) -> tuple[HeadDrawn, tuple[bytes, bytes, bytes]]:
    """The draft, and the head's state, of a new sequence that reads all tokens but the last at once."""
    seq = backend.open()
    assert head.begin(seq)
    feed(backend, seq, tokens[:-1], [len(tokens)])
    (drawn,) = head.draft([ask(seq, tokens, steps, draw, width)])
    state = head.export_state(seq)
    backend.close(seq)
    return drawn, state
