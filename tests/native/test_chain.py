"""A chain drawn in one native call is the one that single steps draw, in ids, cache and log-probabilities."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from tests.native import models
from tests.native.conftest import Maker

from outrider import _native
from outrider.backends.base import GREEDY, Chain, ChainDrawer, Draw, Drawn, Extend, Want
from outrider.backends.native import NativeBackend
from outrider.core.types import IntArray
from outrider.drafters.chains import step_by_step
from outrider.errors import BackendError, UsageError

DRAWS = (GREEDY, Draw(1.0, 3), Draw(0.7, 5, 1, top_k=20, top_p=0.9, min_p=0.02, typical_p=0.95))
COUNTS = (1, 7, 4)


def renamings(vocab: int) -> dict[str, IntArray | None]:
    """Vocabularies to draw from: the same ids, others, some of them missing, fewer, more, and ids that are none."""
    order = random.Random(1).sample(range(vocab), vocab)
    return {
        "same": None,
        "permuted": np.array(order, np.int32),
        "partly": np.array([-1 if own % 3 == 0 else own for own in order], np.int32),
        "fewer": np.arange(vocab // 2, dtype=np.int32),
        "more": np.array([*range(vocab), *[-1] * 17], np.int32),
        "outside": np.array([5, vocab, -7, 2**31 - 1, -(2**31), 9], np.int32),
    }


@pytest.mark.parametrize("name", ["plain", "mixed"])
@pytest.mark.parametrize("draw", DRAWS, ids=["greedy", "drawn", "filtered"])
def test_equals_single_steps(model: Maker, name: str, draw: Draw) -> None:
    file = model(name)
    backend = NativeBackend(file, threads=2)
    assert isinstance(backend, ChainDrawer)
    lengths = set()
    for ids in renamings(backend.vocab).values():
        found = []
        for draw_all in (backend.chain, lambda items: step_by_step(backend, items)):
            seqs = [backend.open() for _ in COUNTS]
            models.read_chunks(backend, seqs[1], models.ids(70, backend.vocab, 9), [70])
            drawn = draw_all(
                [
                    Chain(seq, models.ids(3 + 40 * place, backend.vocab, place), count, draw, 100 + place, ids)
                    for place, (seq, count) in enumerate(zip(seqs, COUNTS, strict=True))
                ]
            )
            found.append((drawn, [backend.export_cache(seq) for seq in seqs]))
            for seq in seqs:
                backend.close(seq)
        assert found[0] == found[1]
        lengths |= {len(chain.tokens) for chain in found[0][0]}
    assert lengths == set(COUNTS)
    assert backend.open_sequences == 0


def test_every_instruction_set_and_number_of_threads(model: Maker) -> None:
    file = model("plain")
    found = []
    for isa in _native.isas():
        for threads in (1, 2):
            backend = NativeBackend(file, isa=isa, threads=threads)
            ids = renamings(backend.vocab)["partly"]
            found.append(backend.chain([Chain(backend.open(), [1, 2, 3], 12, DRAWS[2], 3, ids)]))
    assert found.count(found[0]) == len(found)
    assert len(set(found[0][0].tokens)) > 3


def test_the_draws_are_those_of_plain_decoding(plain: NativeBackend) -> None:
    prompt, draw = [4, 5, 6], Draw(0.9, 11)
    seq = plain.open()
    (drawn,) = plain.chain([Chain(seq, prompt, 9, draw, len(prompt))])
    plain.close(seq)
    seq, expected, unread = plain.open(), [], prompt
    for _ in range(9):
        scores = plain.extend([Extend(seq, unread, None, [Want.TOKEN] * len(unread), draw)])
        expected.append(scores.token(0, len(unread) - 1))
        plain.commit([(seq, range(len(unread)))])
        unread = [expected[-1]]
    plain.close(seq)
    assert drawn.tokens == tuple(expected)


def test_what_was_read_is_committed(plain: NativeBackend) -> None:
    prompt = models.ids(20, plain.vocab)
    seq = plain.open()
    (drawn,) = plain.chain([Chain(seq, prompt, 5, GREEDY, 20)])
    assert plain.length(seq) == 24
    whole = [*prompt, *drawn.tokens[:-1]]
    assert plain.export_cache(seq) == models.fresh(plain, whole)[1]
    plain.truncate(seq, 22)
    (again,) = plain.chain([Chain(seq, [drawn.tokens[2]], 2, GREEDY, 23)])
    assert again.tokens == drawn.tokens[3:]
    plain.close(seq)


def test_nothing_is_drawn_where_no_id_is_known(plain: NativeBackend) -> None:
    seq = plain.open()
    nothing = np.full(12, -1, np.int32)
    assert plain.chain([Chain(seq, [1, 2], 4, DRAWS[1], 2, nothing)]) == [Drawn((), ())]
    assert plain.length(seq) == 2
    plain.close(seq)


USAGE: dict[str, tuple[Callable[[int], list[Chain]], str]] = {
    "no chains": (lambda seq: [], "at least one chain"),
    "no tokens to read": (lambda seq: [Chain(seq, [], 3, GREEDY, 0)], "no rows"),
    "nothing to draw": (lambda seq: [Chain(seq, [1], 0, GREEDY, 0)], "draw at least 1"),
    "count below 0": (lambda seq: [Chain(seq, [1], -5, GREEDY, 0)], "draw at least 1"),
    "id outside": (lambda seq: [Chain(seq, [320], 3, GREEDY, 0)], "token id 320"),
    "twice": (lambda seq: [Chain(seq, [1], 3, GREEDY, 0)] * 2, "twice"),
    "no ids": (lambda seq: [Chain(seq, [1], 3, GREEDY, 0, np.empty(0, np.int32))], "ids is empty"),
    "ids of two dimensions": (lambda seq: [Chain(seq, [1], 3, GREEDY, 0, np.zeros((2, 2), np.int32))], "incompatible"),
    "position below 0": (lambda seq: [Chain(seq, [1], 3, GREEDY, -1)], "incompatible"),
    "huge count": (lambda seq: [Chain(seq, [1], 2**40, GREEDY, 0)], "incompatible"),
}


@pytest.mark.parametrize("name", USAGE)
def test_misuse_is_refused_and_changes_nothing(plain: NativeBackend, name: str) -> None:
    make, message = USAGE[name]
    seq = plain.open()
    models.read_chunks(plain, seq, [7, 8, 9], [3])
    before = plain.export_cache(seq)
    with pytest.raises(UsageError, match=message):
        plain.chain(make(seq))
    assert plain.export_cache(seq) == before
    plain.close(seq)


def test_the_context_is_a_limit(model: Maker) -> None:
    backend = NativeBackend(model("plain"), threads=1)
    full = backend.context
    seq, other = backend.open(), backend.open()
    models.read_chunks(backend, seq, models.ids(full - 4, backend.vocab), [full])
    before = backend.export_cache(seq)
    fits = Chain(seq, [1], 4, GREEDY, full - 3)
    with pytest.raises(BackendError, match=f"position {full} does not fit the context of {full}"):
        backend.chain([Chain(other, [1], 1, GREEDY, 0), Chain(seq, [1], 5, GREEDY, full - 3)])
    assert (backend.length(other), backend.export_cache(seq)) == (0, before)
    assert [len(drawn.tokens) for drawn in backend.chain([fits])] == [4]
    assert backend.length(seq) == full
    with pytest.raises(BackendError, match="is not open"):
        backend.chain([Chain(99, [1], 1, GREEDY, 0)])
