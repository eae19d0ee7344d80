"""Whole passes: equal to numpy, on every instruction set and any number of threads, logits and cache, in every byte."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from tests.native import inputs, models
from tests.native.conftest import Maker
from tests.native.reference_model import ReferenceModel

from outrider import _native
from outrider.backends.base import Draw, Extend, Want
from outrider.backends.native import NativeBackend
from outrider.models.spec import ModelFile
from outrider.testing import backend_suite

DENSE = pytest.mark.parametrize("dense", [False, True], ids=["codes", "dense"])
MODEL = pytest.mark.parametrize("name", list(models.MAKERS))


@pytest.mark.parametrize("check", backend_suite.CHECKS, ids=lambda check: str(check.__name__))
@pytest.mark.parametrize("dense", [False, True], ids=["codes", "dense"])
def test_conformance(check: object, model: Maker, isa: str, dense: bool) -> None:
    assert callable(check)
    check(lambda: NativeBackend(model("mixed"), isa=isa, threads=2, dense=dense))


@MODEL
@DENSE
def test_equals_numpy(model: Maker, isa: str, name: str, dense: bool) -> None:
    file = model(name)
    tokens = models.ids(21, file.spec.vocab)
    expected = ReferenceModel(file, dense).prefill(tokens)
    rows, cache = models.fresh(NativeBackend(file, isa=isa, threads=2, dense=dense), tokens)
    assert b"".join(rows) == expected.logits.tobytes()
    assert cache == (expected.keys, expected.values)
    assert len({row.argmax() for row in expected.logits}) > 5


@DENSE
def test_equals_numpy_over_two_chunks(model: Maker, dense: bool) -> None:
    file = model("plain")
    tokens = models.ids(262, file.spec.vocab)
    expected = ReferenceModel(file, dense).prefill(tokens)
    for isa in _native.isas():
        rows, cache = models.fresh(NativeBackend(file, isa=isa, threads=1, dense=dense), tokens)
        assert b"".join(rows) == expected.logits.tobytes()
        assert cache == (expected.keys, expected.values)


@pytest.mark.slow
@MODEL
@DENSE
def test_equals_numpy_over_two_chunks_in_every_shape(model: Maker, name: str, dense: bool) -> None:
    file = model(name)
    tokens = models.ids(270, file.spec.vocab, seed=1)
    expected = ReferenceModel(file, dense).prefill(tokens)
    rows, cache = models.fresh(NativeBackend(file, dense=dense), tokens)
    assert b"".join(rows) == expected.logits.tobytes()
    assert cache == (expected.keys, expected.values)


@MODEL
@DENSE
def test_instruction_sets_and_threads_agree(model: Maker, name: str, dense: bool) -> None:
    file = model(name)
    tokens = models.ids(280, file.spec.vocab, seed=2)
    found = set()
    for isa in _native.isas():
        for threads in (1, 2, 3):
            backend = NativeBackend(file, isa=isa, threads=threads, dense=dense)
            assert (backend.capabilities.isa, backend.capabilities.threads) == (isa, threads)
            whole = models.fresh(backend, tokens)
            seq = backend.open()
            cut = models.read_chunks(backend, seq, tokens, [1, 3, 16, 17, 100, 4, 9, 15])
            assert (cut, backend.export_cache(seq)) == whole
            found.add(whole)
    assert len(found) == 1


def test_more_threads_than_work(model: Maker) -> None:
    file = model("plain")
    tokens = models.ids(20, file.spec.vocab)
    many = NativeBackend(file, threads=40)
    assert models.fresh(many, tokens) == models.fresh(NativeBackend(file, threads=1), tokens)
    scores = many.extend([Extend(many.open(), tokens, None, [Want.TOKEN] * 20)])
    one = NativeBackend(file, threads=1)
    again = one.extend([Extend(one.open(), tokens, None, [Want.TOKEN] * 20)])
    assert [scores.token(0, i) for i in range(20)] == [again.token(0, i) for i in range(20)]


def test_dense_is_near_the_codes_and_not_the_same(model: Maker) -> None:
    file = model("plain")
    tokens = models.ids(30, file.spec.vocab)
    codes, dense = (
        np.frombuffer(b"".join(models.fresh(NativeBackend(file, dense=dense), tokens)[0]), np.float32)
        for dense in (False, True)
    )
    difference = np.abs(codes - dense)
    assert 0 < difference.max() < 0.3 * np.abs(dense).max()


def test_a_batch_is_its_items_alone(plain: NativeBackend) -> None:
    """Items with few rows and with many share a pass: attention is cut in other ways, results are not."""
    vocab = plain.vocab
    prompts = [models.ids(count, vocab, seed=count) for count in (300, 1, 5, 17, 40)]
    seqs = [plain.open() for _ in prompts]
    models.read_chunks(plain, seqs[1], models.ids(290, vocab), [290])
    before = plain.length(seqs[1])
    scores = plain.extend(
        [Extend(seq, p, None, [Want.LOGITS] * len(p), Draw(1.0, 3)) for seq, p in zip(seqs, prompts, strict=True)]
    )
    together = [
        tuple(scores.logits(item, r).tobytes() for r in range(len(prompt))) for item, prompt in enumerate(prompts)
    ]
    plain.commit([(seq, range(len(p))) for seq, p in zip(seqs, prompts, strict=True)])
    for item, prompt in enumerate(prompts):
        whole = models.ids(290, vocab) + prompt if item == 1 else prompt
        rows, cache = models.fresh(plain, whole)
        assert together[item] == rows[before if item == 1 else 0 :]
        assert plain.export_cache(seqs[item]) == cache
    for seq in seqs:
        plain.close(seq)


def test_logits_stay_while_they_are_held(plain: NativeBackend) -> None:
    seq = plain.open()
    held = []
    for i in range(6):
        tokens = models.ids(1 + 3 * i, plain.vocab, seed=i)
        scores = plain.extend([Extend(seq, tokens, None, [Want.LOGITS] * len(tokens), Draw(1.0, i))])
        views = [scores.logits(0, row) for row in range(len(tokens))]
        # the scores of every second pass are let go of, their views are not
        held.append((views, [v.tobytes() for v in views], scores if i % 2 else None))
        del scores
        plain.commit([(seq, range(len(tokens)))])
    for views, content, kept in held:
        assert [v.tobytes() for v in views] == content
        if kept is not None:
            assert [kept.logits(0, row).tobytes() for row in range(len(views))] == content
    plain.close(seq)
    assert [v.tobytes() for v in held[-1][0]] == held[-1][1]


def test_wanting_less_changes_nothing(plain: NativeBackend) -> None:
    tokens = models.ids(50, plain.vocab)
    rows, cache = models.fresh(plain, tokens)
    for wanted in ({49}, {0}, {3, 17, 18, 40}, set()):
        seq = plain.open()
        want = [Want.LOGITS if row in wanted else Want.NONE for row in range(50)]
        scores = plain.extend([Extend(seq, tokens, None, want)])
        assert {row: scores.logits(0, row).tobytes() for row in wanted} == {row: rows[row] for row in wanted}
        plain.commit([(seq, range(50))])
        assert plain.export_cache(seq) == cache
        plain.close(seq)


def broken_embedding(file: ModelFile, folder: Path, token: int) -> ModelFile:
    """The same model with an infinite scale in the embedding of one token."""
    tensor = file.tensors["token_embd.weight"]
    content = bytearray(file.path.read_bytes())
    at = tensor.offset + token * (tensor.nbytes // tensor.shape[0])
    content[at : at + 2] = b"\x00\x7c"
    path = folder / "broken.gguf"
    path.write_bytes(content)
    return dataclasses.replace(file, path=path)


def test_a_row_that_is_not_finite_harms_nobody(model: Maker, tmp_path: Path) -> None:
    file = model("plain")
    broken = broken_embedding(file, tmp_path, 7)
    good = [t for t in models.ids(60, file.spec.vocab) if t != 7]
    found = set()
    for isa in _native.isas():
        clean = NativeBackend(broken, isa=isa, threads=2)
        expected = models.fresh(clean, good)
        backend = NativeBackend(broken, isa=isa, threads=2)
        sick, well = backend.open(), backend.open()
        items = [Extend(seq, t, None, [Want.LOGITS] * len(t)) for seq, t in ((sick, [*good, 7, 1]), (well, good))]
        scores = backend.extend(items)
        assert [scores.logits(1, row).tobytes() for row in range(len(good))] == [*expected[0]]
        rows = [scores.logits(0, row) for row in range(len(good) + 2)]
        assert [row.tobytes() for row in rows[:-2]] == [*expected[0]]
        assert np.isnan(rows[-2]).all()
        assert [scores.token(0, len(good) + row) for row in (0, 1)] == [0, 0]
        found.add(b"".join(inputs.canonical(row) for row in rows))
        backend.commit([(sick, range(len(good) + 2)), (well, range(len(good)))])
        assert backend.export_cache(well) == expected[1]
        backend.truncate(sick, 30)  # the places of the bad rows are used again
        assert models.read(backend, sick, good[30:]) == expected[0][30:]
    assert len(found) == 1
