"""The tiny exact model draws a chain in one call as single steps do, and in as many passes."""

from __future__ import annotations

import numpy as np
import pytest

from outrider.backends.base import GREEDY, Chain, ChainDrawer, Draw
from outrider.core import sampling
from outrider.core.types import IntArray
from outrider.drafters.chains import draw_chains, step_by_step
from outrider.errors import BackendError, UsageError
from outrider.testing.table import RandomLaw, TableBackend

VOCAB = 9
IDS: tuple[IntArray | None, ...] = (
    None,
    np.array([3, 1, -1, 0, 8, -1, 40], np.int32),
    np.full(5, -1, np.int32),
)


def backend(context: int = 64) -> TableBackend:
    return TableBackend(RandomLaw(VOCAB, 2, 4), VOCAB, context)


@pytest.mark.parametrize("draw", [GREEDY, Draw(1.0, 7), Draw(0.8, 7, 2, top_k=4, min_p=0.05)])
@pytest.mark.parametrize("ids", IDS, ids=["same", "renamed", "none"])
def test_one_call_equals_single_steps(draw: Draw, ids: IntArray | None) -> None:
    found = []
    for draw_all in (draw_chains, step_by_step):
        table = backend()
        seqs = [table.open() for _ in range(3)]
        items = [
            Chain(seq, [1, 2, 3][: place + 1], count, draw, 20 * place, ids)
            for place, (seq, count) in enumerate(zip(seqs, (1, 6, 3), strict=True))
        ]
        drawn = draw_all(table, items)
        found.append((drawn, [table.cached(seq) for seq in seqs], table.passes))
    assert found[0] == found[1]
    assert isinstance(backend(), ChainDrawer)
    expected = (0, 0, 0) if ids is IDS[2] else (1, 6, 3)
    assert tuple(len(drawn.tokens) for drawn in found[0][0]) == expected


def test_what_is_drawn_and_how_sure_the_model_was() -> None:
    """By the definition: each token from the renamed row at its own position, with the largest log-probability."""
    table, ids, draw = backend(), IDS[1], Draw(0.9, 5)
    (drawn,) = table.chain([Chain(table.open(), [4, 5], 4, draw, 30, ids)])
    assert ids is not None
    text = [4, 5]
    for place, (token, best) in enumerate(zip(drawn.tokens, drawn.best, strict=True)):
        row = sampling.renamed(RandomLaw(VOCAB, 2, 4)(tuple(text)), ids)
        assert token == sampling.token(row, draw, 30 + place)
        assert np.exp(best) == pytest.approx(sampling.law(row, draw).max(), rel=1e-5)
        text.append(int(ids[token]))
    assert len(drawn.tokens) == 4
    assert len(set(drawn.best)) > 1


def test_no_chains_are_no_pass() -> None:
    table = backend()
    assert draw_chains(table, []) == []
    assert table.passes == []


def test_misuse_changes_nothing() -> None:
    table = backend(context=5)
    seq = table.open()
    for item in (Chain(seq, [], 1, GREEDY, 0), Chain(seq, [1], 0, GREEDY, 0), Chain(seq, [VOCAB], 2, GREEDY, 0)):
        with pytest.raises(UsageError):
            table.chain([item])
    with pytest.raises(BackendError, match="context"):
        table.chain([Chain(seq, [1, 2], 5, GREEDY, 0)])
    assert (table.cached(seq), table.passes) == ((), [])
    assert len(table.chain([Chain(seq, [1, 2], 4, GREEDY, 0)])[0].tokens) == 4
