"""Bad arguments are refused with a sentence, and nothing has changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from tests.native import models
from tests.native.conftest import Maker

from outrider import _native
from outrider.backends.base import GREEDY, Draw, Extend, Want
from outrider.backends.native import NativeBackend
from outrider.errors import BackendError, ModelFileError, UsageError
from outrider.models.spec import ModelSpec, RopeKind

WANT = [Want.TOKEN]
HUGE = 2**40
PROMPT = [1, 2, 3]


class Bench:
    """Two sequences: one that read PROMPT and has an uncommitted tree, one closed."""

    def __init__(self, backend: NativeBackend) -> None:
        self.backend = backend
        self.seq, self.closed = backend.open(), backend.open()
        backend.close(self.closed)
        models.read_chunks(backend, self.seq, PROMPT, [3])
        models.read(backend, self.seq, [4, 5, 6], [-1, 0, 0])

    def extend(
        self,
        tokens: Sequence[int],
        parents: Sequence[int] | None = None,
        want: Sequence[int] = WANT,
        draw: Draw = GREEDY,
    ) -> None:
        self.backend.extend([Extend(self.seq, tokens, parents, want, draw)])

    def commit(self, path: Sequence[int]) -> None:
        self.backend.commit([(self.seq, path)])


@pytest.fixture
def bench(plain: NativeBackend) -> Iterator[Bench]:
    """Checks afterwards that everything is as it was, uncommitted rows included."""
    opened = plain.open_sequences
    found = Bench(plain)
    cache = plain.export_cache(found.seq)
    yield found
    assert plain.length(found.seq) == len(PROMPT)
    assert plain.export_cache(found.seq) == cache
    plain.commit([(found.seq, (0, 2))])
    assert models.read(plain, found.seq, [7]) == models.fresh(plain, [*PROMPT, 4, 6, 7])[0][-1:]
    plain.close(found.seq)
    assert plain.open_sequences == opened


WRONG = cast(list[int], [1.5])
USAGE: dict[str, Callable[[Bench], object]] = {
    "negative id": lambda b: b.extend([-1]),
    "id of the vocabulary's size": lambda b: b.extend([320]),
    "huge id": lambda b: b.extend([HUGE]),
    "hugely negative id": lambda b: b.extend([-HUGE]),
    "id that is no integer": lambda b: b.extend(WRONG),
    "no ids at all": lambda b: b.extend(cast(list[int], None)),
    "text for ids": lambda b: b.extend(cast(list[int], "ab"), None, WANT * 2),
    "no rows": lambda b: b.extend([], None, []),
    "no items": lambda b: b.backend.extend([]),
    "own parent": lambda b: b.extend([1], [0]),
    "later parent": lambda b: b.extend([1, 2], [1, -1], WANT * 2),
    "cycle": lambda b: b.extend([1, 2], [1, 0], WANT * 2),
    "parent under -1": lambda b: b.extend([1], [-2]),
    "huge parent": lambda b: b.extend([1], [HUGE]),
    "parents too few": lambda b: b.extend([1, 2], [-1], WANT * 2),
    "parents too many": lambda b: b.extend([1], [-1, 0]),
    "wants too few": lambda b: b.extend([1, 2], None, WANT),
    "wants too many": lambda b: b.extend([1], None, WANT * 2),
    "want unknown": lambda b: b.extend([1], None, [3]),
    "want negative": lambda b: b.extend([1], None, [-1]),
    "want huge": lambda b: b.extend([1], None, [256]),
    "sequence twice": lambda b: b.backend.extend([Extend(b.seq, [1], None, WANT)] * 2),
    "seed negative": lambda b: b.extend([1], draw=Draw(1.0, -1)),
    "seed huge": lambda b: b.extend([1], draw=Draw(1.0, 2**64)),
    "sample negative": lambda b: b.extend([1], draw=Draw(1.0, 0, -1)),
    "sample huge": lambda b: b.extend([1], draw=Draw(1.0, 0, 2**32)),
    "sequence number huge": lambda b: b.backend.extend([Extend(HUGE, [1], None, WANT)]),
    "path to no row": lambda b: b.commit([3]),
    "negative path": lambda b: b.commit([-1]),
    "huge path": lambda b: b.commit([HUGE]),
    "path without its root": lambda b: b.commit([1]),
    "path that jumps": lambda b: b.commit([0, 1, 2]),
    "path backwards": lambda b: b.commit([1, 0]),
    "path with a row twice": lambda b: b.commit([0, 0]),
    "commit twice": lambda b: b.backend.commit([(b.seq, [0]), (b.seq, [0])]),
    "commit good and bad": lambda b: b.backend.commit([(b.seq, [0]), (b.backend.open(), [0])]),
    "truncate negative": lambda b: b.backend.truncate(b.seq, -1),
    "truncate longer": lambda b: b.backend.truncate(b.seq, 4),
    "truncate huge": lambda b: b.backend.truncate(b.seq, HUGE),
    "length of a huge number": lambda b: b.backend.length(HUGE),
}
BACKEND: dict[str, Callable[[Bench], object]] = {
    "closed: extend": lambda b: b.backend.extend([Extend(b.closed, [1], None, WANT)]),
    "closed: good and bad": lambda b: (
        b.backend.extend([Extend(s, [1], None, WANT) for s in (b.seq, b.closed)]) and None
    ),
    "closed: commit": lambda b: b.backend.commit([(b.seq, [0]), (b.closed, [])]),
    "closed: truncate": lambda b: b.backend.truncate(b.closed, 0),
    "closed: fork": lambda b: b.backend.fork(b.closed),
    "closed: close": lambda b: b.backend.close(b.closed),
    "closed: length": lambda b: b.backend.length(b.closed),
    "closed: cache": lambda b: b.backend.export_cache(b.closed),
    "negative sequence": lambda b: b.backend.length(-1),
    "never opened": lambda b: b.backend.length(2**31 - 1),
    "position outside the context": lambda b: b.extend([1] * 698, None, WANT * 698),
    "deep tree outside the context": lambda b: b.extend([1] * 699, [-1, -1, *range(1, 698)], WANT * 699),
}


@pytest.mark.parametrize("what", USAGE)
def test_usage_errors(bench: Bench, what: str) -> None:
    opened = bench.backend.open_sequences
    with pytest.raises(UsageError):
        USAGE[what](bench)
    if bench.backend.open_sequences > opened:  # the case opened one of its own
        bench.backend.close(bench.closed + 1)


@pytest.mark.parametrize("what", BACKEND)
def test_backend_errors(bench: Bench, what: str) -> None:
    with pytest.raises(BackendError):
        BACKEND[what](bench)


def test_errors_say_what_is_wrong(bench: Bench) -> None:
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: bench.extend([320]), r"token id 320 is outside the vocabulary of 320"),
        (lambda: bench.extend([1], [0]), r"row 0 has parent 0; a parent is an earlier row or -1"),
        (lambda: bench.commit([1]), r"path is not connected at row 1"),
        (lambda: bench.backend.truncate(bench.seq, 9), r"of length 3 to 9"),
    ]
    for call, message in refused:
        with pytest.raises(UsageError, match=message):
            call()
    with pytest.raises(BackendError, match=r"position 700 does not fit the context of 700"):
        bench.extend([1] * 698, None, WANT * 698)
    with pytest.raises(BackendError, match=f"sequence {bench.closed} is not open"):
        bench.backend.length(bench.closed)


@pytest.mark.parametrize(("item", "row"), [(1, 0), (-1, 0), (0, 3), (0, -1), (HUGE, 0), (0, HUGE), (0, 2)])
def test_scores_refuse_rows_that_are_not_there(bench: Bench, item: int, row: int) -> None:
    other = bench.backend.open()
    scores = bench.backend.extend([Extend(other, [1, 2, 3], None, [Want.TOKEN, Want.LOGITS, Want.NONE])])
    for ask in (scores.token, scores.logits):
        with pytest.raises(UsageError):
            ask(item, row)
    with pytest.raises(UsageError, match="row 0 did not want its logits"):
        scores.logits(0, 0)
    bench.backend.close(other)


def test_numpy_integers_and_ranges_are_integers(plain: NativeBackend) -> None:
    seq = plain.open()
    scores = plain.extend([Extend(seq, range(5), None, [Want.LOGITS] * 5)])
    rows = tuple(scores.logits(0, row).tobytes() for row in range(5))
    array = cast(Sequence[int], np.arange(5, dtype=np.int32))
    again = plain.extend([Extend(seq, array, None, [Want.LOGITS] * 5)])
    assert tuple(again.logits(0, row).tobytes() for row in range(5)) == rows
    plain.close(seq)


def test_logits_cannot_be_written(plain: NativeBackend) -> None:
    seq = plain.open()
    view = plain.extend([Extend(seq, [1], None, [Want.LOGITS])]).logits(0, 0)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    plain.close(seq)


@pytest.mark.parametrize("threads", [0, -1, 257, HUGE])
def test_threads_out_of_range(model: Maker, threads: int) -> None:
    with pytest.raises(UsageError, match=str(threads)):
        NativeBackend(model("plain"), threads=threads)


def test_unknown_instruction_set(model: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"'mmx'.*this machine has: .*portable"):
        NativeBackend(model("plain"), isa="mmx")
    monkeypatch.setenv("OUTRIDER_ISA", "sse9")
    with pytest.raises(UsageError, match="'sse9'"):
        NativeBackend(model("plain"))


def test_the_variable_forces_an_instruction_set(model: Maker, monkeypatch: pytest.MonkeyPatch, isa: str) -> None:
    monkeypatch.setenv("OUTRIDER_ISA", isa)
    assert NativeBackend(model("plain"), threads=1).capabilities.isa == isa
    assert NativeBackend(model("plain"), threads=1, isa="portable").capabilities.isa == "portable"
    monkeypatch.setenv("OUTRIDER_ISA", "")
    assert NativeBackend(model("plain"), threads=1).capabilities.isa == _native.isas()[0]


CHANGES: dict[str, Callable[[ModelSpec], ModelSpec]] = {
    "attention biases": lambda s: dataclasses.replace(s, attention_bias=True),
    "query/key norms": lambda s: dataclasses.replace(s, qk_norm=True),
    "a sliding window": lambda s: dataclasses.replace(s, window=64),
    "attention soft caps": lambda s: dataclasses.replace(s, attention_softcap=30.0),
    "logit soft caps": lambda s: dataclasses.replace(s, logit_softcap=30.0),
    "experts": lambda s: dataclasses.replace(s, experts=4, experts_used=2),
    "rotation of halves": lambda s: dataclasses.replace(s, rope=dataclasses.replace(s.rope, kind=RopeKind.HALVES)),
    "rotation of a part of the head": lambda s: dataclasses.replace(s, rope=dataclasses.replace(s.rope, dims=8)),
    "head size 8": lambda s: dataclasses.replace(s, head_dim=8, rope=dataclasses.replace(s.rope, dims=8)),
    "hidden size 48": lambda s: dataclasses.replace(s, hidden=48),
    "feed-forward size 80": lambda s: dataclasses.replace(s, feed_forward=80),
    "number of key heads": lambda s: dataclasses.replace(s, kv_heads=3),
    "another shape": lambda s: dataclasses.replace(s, vocab=319),
    "blk.2.attn_norm.weight is missing": lambda s: dataclasses.replace(s, layers=3),
    "output.weight is missing": lambda s: dataclasses.replace(s, tied_head=False),
    "layers is 0": lambda s: dataclasses.replace(s, layers=0),
    "context 2000000": lambda s: dataclasses.replace(s, context=2_000_000),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_the_engine_cannot_do_is_named(model: Maker, what: str) -> None:
    file = model("plain")
    with pytest.raises(ModelFileError, match=what):
        NativeBackend(dataclasses.replace(file, spec=CHANGES[what](file.spec)))


@pytest.mark.parametrize("tensor", ["token_embd.weight", "blk.1.ffn_down.weight", "output_norm.weight"])
def test_a_file_that_shrank_after_its_header_was_read(model: Maker, tmp_path: Path, tensor: str) -> None:
    file = model("plain")
    path = tmp_path / "short.gguf"
    path.write_bytes(file.path.read_bytes()[: file.tensors[tensor].offset + file.tensors[tensor].nbytes - 1])
    with pytest.raises(ModelFileError, match=r"short\.gguf.*shorter than its header says"):
        NativeBackend(dataclasses.replace(file, path=path), threads=2)
    with pytest.raises(ModelFileError, match="cannot open"):
        NativeBackend(dataclasses.replace(file, path=tmp_path / "gone.gguf"))
    with pytest.raises(ModelFileError):
        NativeBackend(dataclasses.replace(file, path=tmp_path))


def test_a_model_that_does_not_fit_into_memory(model: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(_native, "Engine", full)
    with pytest.raises(BackendError, match=r"plain\.gguf: out of memory"):
        NativeBackend(model("plain"))
