"""Cut and flipped files: one clear error or a well-formed model, never anything else."""

from __future__ import annotations

import os
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider.errors import ModelFileError
from outrider.models import gguf, gguf_header
from outrider.models.gguf_layout import ValueType
from outrider.models.spec import ModelFile
from outrider.models.tokenizer import Tokenizer
from outrider.testing import raw_gguf
from outrider.testing.raw_gguf import array, string

FAST = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _check(found: ModelFile) -> None:
    """What every successful load promises."""
    spec = found.spec
    end = 0
    for tensor in sorted(found.tensors.values(), key=lambda tensor: tensor.offset):
        assert end <= tensor.offset
        assert tensor.nbytes > 0
        end = tensor.offset + tensor.nbytes
    assert end <= found.size_bytes == found.path.stat().st_size
    assert spec.vocab == len(found.tokenizer.tokens) == len(found.tokenizer.types)
    assert spec.heads % spec.kv_heads == 0
    assert spec.rope.dims == spec.head_dim
    assert found.tensors["blk.0.attn_q.weight"].shape == (spec.heads * spec.head_dim, spec.hidden)
    assert len(found.tensors) == 2 + 9 * spec.layers + (not spec.tied_head) + (spec.rope.factors is not None)


def _load(path: Path) -> ModelFile | None:
    """The model, or None where it was refused in the agreed way; everything else is a failure."""
    try:
        found = gguf.read(path)
    except ModelFileError as error:
        message = str(error)
        assert message.startswith(f"{path}: ")
        assert len(message) < len(str(path)) + 500
        assert message.isprintable()
        return None
    _check(found)
    return found


def _header_size(data: bytes | bytearray) -> int:
    return data.index(b"output_norm.weight") + len("output_norm.weight") + 4 + 8 + 4 + 8


@pytest.mark.slow
def test_truncated_anywhere_in_the_header(tiny: Path, tmp_path: Path) -> None:
    data = tiny.read_bytes()
    path = tmp_path / "cut.gguf"
    for size in range(_header_size(data) + 64):
        path.write_bytes(data[:size])
        assert _load(path) is None, size


def test_truncated_around_everything_interesting(tiny: Path, tmp_path: Path) -> None:
    data = tiny.read_bytes()
    whole = gguf.read(tiny)
    path = tmp_path / "cut.gguf"
    edges = {0, 4, 8, 16, 24, _header_size(data), len(data)}
    edges |= {tensor.offset for tensor in whole.tensors.values()}
    edges |= {data.index(entry[0].encode()) for entry in raw_gguf.load(tiny).keys}
    for edge in sorted(edges):
        for size in range(max(0, edge - 9), min(len(data), edge + 9)):
            path.write_bytes(data[:size])
            assert _load(path) is None, size


def test_a_cut_file_says_where_and_what_to_do(tiny: Path, tmp_path: Path) -> None:
    data = tiny.read_bytes()
    path = tmp_path / "cut.gguf"
    path.write_bytes(data[:-1])
    with pytest.raises(ModelFileError, match=rf"truncated.*output_norm\.weight.*256 bytes.*{len(data) - 1}.*again"):
        gguf.read(path)


@FAST
@given(
    position=st.floats(0, 1, exclude_max=True),
    flips=st.lists(st.tuples(st.integers(-40, 40), st.integers(1, 255)), min_size=1, max_size=4),
)
def test_flipped_bytes(position: float, flips: list[tuple[int, int]], tiny: Path, tmp_path: Path) -> None:
    data = bytearray(tiny.read_bytes())
    size = _header_size(data)
    for distance, mask in flips:
        data[(int(position * size) + distance) % size] ^= mask
    path = tmp_path / "flipped.gguf"
    path.write_bytes(data)
    found = _load(path)
    if found is not None:
        try:
            tokenizer = Tokenizer(found.tokenizer)
        except ModelFileError:
            return
        text = "The red fish 42 is 日本 <|im_end|>"
        ids = tokenizer.encode(text, special=True)
        assert all(0 <= token < tokenizer.vocab for token in ids)
        tokenizer.decode(ids, skip_special=False)


@FAST
@given(
    key=st.integers(0, 100),
    value=st.one_of(
        st.integers(0, 2**64 - 1).map(lambda number: struct.pack("<Q", number)),
        st.floats(width=32).map(lambda number: struct.pack("<f", number)),
        st.binary(max_size=40),
    ),
    kind=st.integers(0, 13),
)
def test_any_value_of_any_type_for_any_key(key: int, value: bytes, kind: int, tiny: Path, tmp_path: Path) -> None:
    raw = raw_gguf.load(tiny)
    position = key % len(raw.keys)
    raw.keys[position] = (raw.keys[position][0], kind, value)
    path = tmp_path / "value.gguf"
    path.write_bytes(raw.dump())
    _load(path)


@FAST
@given(tail=st.binary(max_size=400))
def test_bytes_that_are_no_model(tail: bytes, tmp_path: Path) -> None:
    path = tmp_path / "noise.gguf"
    path.write_bytes(b"GGUF\x03\x00\x00\x00" + tail)
    assert _load(path) is None


def test_absurd_counts_cost_no_memory(tiny: Path, tmp_path: Path) -> None:
    raw = raw_gguf.load(tiny)
    huge = 1 << 21
    raw.set("tokenizer.ggml.tokens", ValueType.ARRAY, array(ValueType.STRING, [string("a")], huge))
    path = tmp_path / "absurd.gguf"
    path.write_bytes(raw.dump())
    # A sparse gigabyte makes the count plausible; it must still fail at the first element that is not there.
    os.truncate(path, 1 << 30)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=r"tokenizer\.ggml\.tokens.* bytes"):
            gguf.read(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20


def test_a_header_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "long.gguf"
    start = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + string("general.url") + struct.pack("<IQ", 8, 1 << 29)
    path.write_bytes(start)
    os.truncate(path, 1 << 30)
    with pytest.raises(ModelFileError, match=r"general\.url.*536870"):
        gguf.read(path)


def test_a_file_cut_while_it_is_read(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "shrinking.gguf"
    path.write_bytes(tiny.read_bytes())
    real = os.pread

    def shrinking(descriptor: int, count: int, offset: int) -> bytes:
        piece = real(descriptor, min(count, 1000), offset)
        os.truncate(path, 1000)
        return piece

    monkeypatch.setattr(os, "pread", shrinking)
    with pytest.raises(ModelFileError, match="cut to 1000 bytes while it was read"):
        gguf.read(path)


def test_a_header_longer_than_the_first_read(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf_header, "_FIRST_READ_BYTES", 7)
    assert gguf.read(tiny).spec.layers == 2
