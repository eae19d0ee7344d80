"""Drafting heads: equal to numpy in every byte, on every instruction set, and a row of a head is alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.native import heads, models
from tests.native.conftest import Maker
from tests.native.reference_head import Guessed, ReferenceHead

from outrider import _native
from outrider.backends.base import GREEDY, Draw, HeadDrawn, HeadHost
from outrider.backends.native import NativeBackend
from outrider.backends.native.values import draw_arguments
from outrider.core import sampling
from outrider.models.headfile import HeadFile
from outrider.models.spec import ModelFile

F = np.float32
HOT = Draw(0.8, seed=5, sample=2)
EAGLES = {"plain": False, "mixed": False, "thirds": True, "fours": False, "ones": True}


def check(found: HeadDrawn, expected: Guessed, reference: ReferenceHead, head: HeadFile, draw: Draw) -> None:
    """Tokens, and the three likeliest with their chances, to the last bit."""
    ids = head.tensors["ids"]
    assert found.tokens == expected.tokens
    for likely, logits in zip(found.likely, expected.logits, strict=True):
        law = reference.chances(logits, draw)
        order = np.argsort(-law, kind="stable")[:3]
        assert [token for token, _ in likely] == ids[order].tolist()
        assert np.array([chance for _, chance in likely], F).tobytes() == law[order].tobytes()


def expect_eagle(
    file: ModelFile, head: HeadFile, tokens: list[int], steps: int, draw: Draw, dense: bool = False
) -> tuple[Guessed, ReferenceHead]:
    reference = ReferenceHead(file, head, dense)
    return reference.eagle(tokens, heads.states(file, tokens[:-1], head.spec.taps, dense), steps, draw), reference


@pytest.mark.parametrize("name", EAGLES)
def test_eagle_equals_numpy(model: Maker, name: str) -> None:
    file = model(name)
    head = heads.eagle(file, mixed=EAGLES[name], temperature=1.3)
    tokens = models.ids(71, file.spec.vocab)
    for draw in (GREEDY, HOT):
        expected, reference = expect_eagle(file, head, tokens, 5, draw)
        for isa in _native.isas():
            for threads in (1, 2, 3):
                backend = NativeBackend(file, threads=threads, isa=isa)
                assert isinstance(backend, HeadHost)
                found, state = heads.fresh(backend, backend.attach(head), tokens, 5, draw)
                check(found, expected, reference, head, draw)
                assert state == expected.state, (isa, threads)


def test_eagle_equals_numpy_over_two_chunks(model: Maker) -> None:
    """Of 256 positions, with steps on both sides of the edge."""
    file = model("plain")
    head = heads.eagle(file)
    tokens = models.ids(255, file.spec.vocab)
    expected, reference = expect_eagle(file, head, tokens, 6, GREEDY)
    backend = NativeBackend(file, threads=2)
    found, state = heads.fresh(backend, backend.attach(head), tokens, 6)
    check(found, expected, reference, head, GREEDY)
    assert state == expected.state


def test_eagle_equals_numpy_in_dense_mode(model: Maker) -> None:
    file = model("plain")
    head = heads.eagle(file, mixed=True)
    tokens = models.ids(20, file.spec.vocab)
    expected, reference = expect_eagle(file, head, tokens, 3, GREEDY, dense=True)
    backend = NativeBackend(file, threads=2, dense=True)
    found, state = heads.fresh(backend, backend.attach(head), tokens, 3)
    check(found, expected, reference, head, GREEDY)
    assert state == expected.state
    coded = NativeBackend(file, threads=2)
    assert heads.fresh(coded, coded.attach(head), tokens, 3)[1] != state


@pytest.mark.parametrize("kind", ["Q4_1", "F32"])
def test_medusa_equals_numpy(model: Maker, isa: str, kind: str) -> None:
    file = model("thirds")
    head = heads.medusa(file, kind=kind, temperature=0.7)
    reference = ReferenceHead(file, head)
    tokens = models.ids(70, file.spec.vocab)
    states = heads.states(file, tokens[:-1], head.spec.taps)
    for draw in (GREEDY, HOT):
        expected = reference.medusa(states, 3, draw)
        for threads in (1, 2):
            backend = NativeBackend(file, threads=threads, isa=isa)
            found, state = heads.fresh(backend, backend.attach(head), tokens, 5, draw)
            assert len(found.tokens) == 3  # its depth
            check(found, expected, reference, head, draw)
            assert state == expected.state


@pytest.mark.parametrize("make", [heads.eagle, heads.medusa])
def test_a_row_of_a_head_is_alone(model: Maker, make: type) -> None:
    """Twenty sequences at once, of all lengths, depths and ways to draw: each is drafted for as it is alone."""
    file = model("thirds")
    backend = NativeBackend(file, threads=2)
    head = backend.attach(make(file))
    texts = [models.ids(2 + 7 * index % 90, file.spec.vocab, index) for index in range(20)]
    draws = [GREEDY, HOT, Draw(1.0, seed=1, top_k=5), Draw(1.2, top_p=0.7), Draw(0.5, min_p=0.1)]
    seqs, items = [], []
    for index, tokens in enumerate(texts):
        seqs.append(backend.open())
        assert head.begin(seqs[-1])
        heads.feed(backend, seqs[-1], tokens[:-1], [1 + index, 5])
        items.append(heads.ask(seqs[-1], tokens, 1 + index % 6, draws[index % 5], 1 + index % 3))
    together = head.draft(items)
    for seq, tokens, item, found in zip(seqs, texts, items, together, strict=True):
        drawn, state = heads.fresh(backend, head, tokens, item.steps, item.draw, item.width)
        assert found == drawn
        assert len(found.tokens) == (min(item.steps, 3) if head.independent else item.steps)
        assert head.export_state(seq) == state
    assert head.draft(items[::-1]) == together[::-1]
    assert head.draft([]) == []


def test_the_width_only_says_how_many(model: Maker) -> None:
    file = model("plain")
    backend = NativeBackend(file, threads=1)
    head = backend.attach(heads.eagle(file, draft_vocab=9))
    tokens = models.ids(12, file.spec.vocab)
    whole = heads.fresh(backend, head, tokens, 4, GREEDY, 20)[0]
    for row in whole.likely:
        assert len(row) == 9
        assert sum(chance for _, chance in row) == pytest.approx(1.0, abs=1e-5)
        assert [chance for _, chance in row] == sorted((chance for _, chance in row), reverse=True)
    for width in (1, 2, 7):
        found = heads.fresh(backend, head, tokens, 4, GREEDY, width)[0]
        assert found.tokens == whole.tokens
        assert found.likely == tuple(row[:width] for row in whole.likely)


@pytest.mark.parametrize("filters", [Draw(0.9), Draw(0.9, top_k=7), Draw(0.9, top_p=0.6), Draw(0.9, min_p=0.05)])
def test_the_chain_is_drawn_with_the_noise_of_the_target(isa: str, filters: Draw) -> None:
    """What core.sampling draws from the row of all ids in which those that the head lacks are -inf."""
    chance = np.random.default_rng(3)
    different = 0
    for seed in range(150):
        vocab = int(chance.integers(40, 600))
        ids = np.sort(chance.choice(vocab, int(chance.integers(1, 40)), replace=False)).astype(np.int32)
        logits = (chance.standard_normal(len(ids)) * 3).astype(F)
        draw = Draw(filters.temperature, seed, 1, filters.top_k, filters.top_p, filters.min_p)
        places = np.full(vocab, -1, np.int32)
        places[ids] = np.arange(len(ids))
        expected = sampling.token(sampling.renamed(logits, places), draw, 77)
        place = _native.kernel_place(isa, logits, ids, draw_arguments(draw, vocab), 77)
        assert ids[place] == expected
        different += expected != ids[logits.argmax()]
    assert different > 10


def test_attaching_changes_nothing_of_a_pass(model: Maker) -> None:
    file = model("mixed")
    tokens = models.ids(40, file.spec.vocab)
    plain = NativeBackend(file, threads=2)
    rows, cache = models.fresh(plain, tokens)
    backend = NativeBackend(file, threads=2)
    head = backend.attach(heads.eagle(file))
    seq = backend.open()
    head.begin(seq)
    assert models.read_chunks(backend, seq, tokens, [7, 20, 1]) == rows
    assert backend.export_cache(seq) == cache


@pytest.mark.parametrize("make", [heads.eagle, heads.medusa])
def test_chains_that_stop_early(model: Maker, make: type) -> None:
    """Each at its own step, while others go on: what there is of it is what the whole chain has."""
    file = model("plain")
    backend = NativeBackend(file, threads=2)
    head = backend.attach(make(file))
    tokens = models.ids(30, file.spec.vocab)
    seqs = [backend.open() for _ in range(6)]
    for seq in seqs:
        assert head.begin(seq)
        heads.feed(backend, seq, tokens[:-1], [29])
    whole = heads.fresh(backend, head, tokens, 7)[0]
    chances = np.cumprod([row[0][1] for row in whole.likely])
    leasts = [0.0, 2.0, *(float(chance) * 1.01 for chance in chances[:2]), float(chances[1]) * 0.99, 0.0]
    asked = [replace(heads.ask(seq, tokens, 7), least=least) for seq, least in zip(seqs, leasts, strict=True)]
    lengths = []
    for found in head.draft(asked):
        lengths.append(len(found.tokens))
        assert found.tokens == whole.tokens[: lengths[-1]]
        assert found.likely == whole.likely[: lengths[-1]]
    full = len(whole.tokens)
    assert lengths == [full, 1, 1, 2, 3, full]
