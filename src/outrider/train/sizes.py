"""The sizes of a head follow from its target and a few options. Needs no torch."""

from __future__ import annotations

from outrider.models.headfile import HeadKind, HeadSpec
from outrider.models.spec import ModelSpec
from outrider.train.types import Kind, TrainOptions


def default_taps(kind: Kind, layers: int) -> tuple[int, ...]:
    """The states that a head reads where nobody says otherwise; docs/training.md compares them."""
    if kind is Kind.MEDUSA:
        return (layers,)
    low, middle = max(1, round(layers * 0.2)), max(2, round(layers * 0.6))
    return tuple(sorted({min(low, layers), min(middle, layers), layers}))


def head_spec(options: TrainOptions, model: ModelSpec) -> HeadSpec:
    """The sizes of the head that these options make, its story still empty."""
    eagle = options.kind is Kind.EAGLE3
    taps = options.taps or default_taps(options.kind, model.layers)
    return HeadSpec(
        kind=HeadKind(options.kind.value),
        target_name=model.name,
        fingerprint="",
        taps=taps,
        hidden=model.hidden,
        draft_vocab=min(options.draft_vocab, model.vocab),
        norm_eps=model.norm_eps,
        depth=options.depth,
        types={},
        heads=model.heads if eagle else 0,
        kv_heads=model.kv_heads if eagle else 0,
        head_dim=model.head_dim if eagle else 0,
        feed_forward=model.feed_forward if eagle else 0,
    )
