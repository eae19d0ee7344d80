"""Well-formed files are read as they are; everything that a llama of this version lacks is refused by name."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path

import gguf as reference
import numpy as np
import pytest

from outrider.errors import ModelFileError
from outrider.models import gguf
from outrider.models.gguf_layout import ValueType
from outrider.models.spec import ModelFile, RopeKind, TensorType
from outrider.testing import raw_gguf
from outrider.testing.gguf_maker import tiny_llama
from outrider.testing.raw_gguf import RawGguf, RawTensor, array, scalar, string

U32, F32 = ValueType.UINT32, ValueType.FLOAT32


def _read(raw: RawGguf, folder: Path, alignment: int = 32) -> ModelFile:
    path = folder / "changed.gguf"
    path.write_bytes(raw.dump(alignment))
    return gguf.read(path)


def _refused(raw: RawGguf, folder: Path, *words: str) -> None:
    with pytest.raises(ModelFileError) as caught:
        _read(raw, folder)
    message = str(caught.value)
    assert "changed.gguf" in message
    for word in words:
        assert word in message, message


def test_the_spec_is_what_was_written(tiny: Path) -> None:
    spec = gguf.read(tiny).spec
    assert (spec.architecture, spec.name, spec.layers, spec.hidden) == ("llama", "tiny", 2, 64)
    assert (spec.heads, spec.kv_heads, spec.head_dim, spec.feed_forward) == (4, 2, 16, 96)
    assert (spec.vocab, spec.context, spec.tied_head) == (320, 512, True)
    assert spec.norm_eps == np.float32(1e-5)
    assert (spec.rope.kind, spec.rope.base, spec.rope.dims) == (RopeKind.INTERLEAVED, 10000.0, 16)
    assert (spec.rope.linear_factor, spec.rope.factors) == (1.0, None)


@pytest.mark.parametrize("kind", list(TensorType))
def test_tensors_lie_where_the_reference_reader_finds_them(kind: TensorType, tmp_path: Path) -> None:
    path = tiny_llama(tmp_path / "t.gguf", layer_type=kind, embedding_type=kind, tied=False, rope_factors=True)
    ours = gguf.read(path)
    theirs = reference.GGUFReader(path).tensors
    assert len(ours.tensors) == len(theirs) == 22
    for tensor in theirs:
        found = ours.tensors[tensor.name]
        assert found.type.value == tensor.tensor_type.name
        assert found.shape == tuple(int(size) for size in reversed(tensor.shape))
        assert (found.offset, found.nbytes) == (tensor.data_offset, tensor.n_bytes)
    assert ours.size_bytes == path.stat().st_size


def test_the_tokenizer_is_what_the_reference_reader_finds(tiny: Path) -> None:
    ours, fields = gguf.read(tiny).tokenizer, reference.GGUFReader(tiny).fields
    assert ours.tokens == fields["tokenizer.ggml.tokens"].contents()
    assert ours.types == fields["tokenizer.ggml.token_type"].contents()
    assert ours.merges == fields["tokenizer.ggml.merges"].contents()
    assert ours.chat_template == fields["tokenizer.chat_template"].contents()
    assert (ours.model, ours.pre, ours.bos, ours.eos, ours.unknown, ours.padding) == ("gpt2", "smollm", 1, 2, 0, 2)
    assert (ours.add_bos, ours.add_eos, ours.add_space_prefix, ours.end_of_turn) == (False, False, False, frozenset())


def test_untied_head_rope_factors_and_linear_scaling(tmp_path: Path) -> None:
    path = tiny_llama(tmp_path / "t.gguf", tied=False, rope_factors=True, rope_linear_factor=4.0, rope_base=5e5)
    spec = gguf.read(path).spec
    assert not spec.tied_head
    assert (spec.rope.factors, spec.rope.linear_factor, spec.rope.base) == ("rope_freqs.weight", 4.0, 5e5)


def test_a_head_size_of_its_own(tmp_path: Path) -> None:
    spec = gguf.read(tiny_llama(tmp_path / "t.gguf", heads=2, kv_heads=1, head_dim=16)).spec
    assert (spec.head_dim, spec.heads * spec.head_dim, spec.hidden) == (16, 32, 64)


def test_version_2_is_read_alike(tiny: Path, tmp_path: Path) -> None:
    raw = raw_gguf.load(tiny)
    raw.version = 2
    assert _read(raw, tmp_path).tensors == gguf.read(tiny).tensors


def test_another_alignment(tiny: Path, tmp_path: Path) -> None:
    raw = raw_gguf.load(tiny)
    raw.set("general.alignment", U32, scalar(U32, 64))
    for position, tensor in enumerate(raw.tensors):
        tensor.offset = position * 64 * 1024
    size = len(raw.tensors) * 64 * 1024
    raw.data = bytes(size)
    found = _read(raw, tmp_path, 64)
    assert all(tensor.offset % 64 == 0 for tensor in found.tensors.values())


def test_defaults_of_absent_keys(tiny: Path, tmp_path: Path) -> None:
    raw = raw_gguf.load(tiny)
    for key in ("llama.rope.freq_base", "llama.rope.dimension_count", "llama.vocab_size", "general.name"):
        raw.drop(key)
    raw.drop("tokenizer.chat_template")
    changed = _read(raw, tmp_path)
    original = gguf.read(tiny)
    assert changed.spec.rope == original.spec.rope
    assert changed.spec.vocab == original.spec.vocab
    assert changed.spec.name == ""
    assert changed.tokenizer.chat_template is None


def test_key_heads_default_to_heads(tmp_path: Path) -> None:
    raw = raw_gguf.load(tiny_llama(tmp_path / "t.gguf", heads=4, kv_heads=4))
    raw.drop("llama.attention.head_count_kv")
    assert _read(raw, tmp_path).spec.kv_heads == 4


def test_end_of_turn_keys_are_kept(tiny: Path, tmp_path: Path) -> None:
    raw = raw_gguf.load(tiny)
    raw.set("tokenizer.ggml.eot_token_id", U32, scalar(U32, 2))
    raw.set("tokenizer.ggml.eom_token_id", U32, scalar(U32, 7))
    assert _read(raw, tmp_path).tokenizer.end_of_turn == frozenset({2, 7})


@pytest.mark.parametrize("kind", [ValueType.UINT8, ValueType.INT16, ValueType.UINT64, ValueType.INT64])
def test_integers_of_any_width(kind: ValueType, tiny: Path, tmp_path: Path) -> None:
    raw = raw_gguf.load(tiny)
    raw.set("llama.block_count", kind, scalar(kind, 2))
    assert _read(raw, tmp_path).spec.layers == 2


def test_harmless_keys_of_any_type_are_passed_over(tiny: Path, tmp_path: Path) -> None:
    raw = raw_gguf.load(tiny)
    raw.set("general.url", ValueType.STRING, string(b"\xff not UTF-8"))
    raw.set("general.tags", ValueType.ARRAY, array(ValueType.STRING, [string("a"), string("b")]))
    raw.set("general.file_type", U32, scalar(U32, 3))
    raw.set("tokenizer.ggml.scores", ValueType.ARRAY, array(F32, [scalar(F32, 0.0)] * 320))
    raw.set("llama.expert_count", U32, scalar(U32, 0))
    raw.set("llama.attention.causal", ValueType.BOOL, scalar(ValueType.BOOL, 1))
    assert _read(raw, tmp_path).spec == gguf.read(tiny).spec


VALUES: list[tuple[str, ValueType, bytes, tuple[str, ...]]] = [
    ("llama.block_count", U32, scalar(U32, 0), ("block_count", "is 0", "from 1")),
    ("llama.block_count", U32, scalar(U32, 2**32 - 1), ("block_count", "4294967295")),
    ("llama.block_count", U32, scalar(U32, 3), ("blk.2.attn_norm.weight", "8 more", "missing")),
    ("llama.block_count", U32, scalar(U32, 1), ("blk.1.", "1 layers", "unused")),
    ("llama.block_count", ValueType.INT32, scalar(ValueType.INT32, -2), ("block_count", "is -2")),
    ("llama.block_count", F32, scalar(F32, 2.0), ("block_count", "FLOAT32", "integer")),
    ("llama.block_count", ValueType.STRING, string("2"), ("block_count", "STRING")),
    ("llama.embedding_length", U32, scalar(U32, 66), ("head_count", "must divide", "66")),
    ("llama.embedding_length", U32, scalar(U32, 128), ("llama.rope.dimension_count", "is 16", "32")),
    ("llama.attention.head_count", U32, scalar(U32, 0), ("head_count", "is 0")),
    ("llama.attention.head_count", U32, scalar(U32, 3), ("head_count_kv", "is 2", "divide")),
    ("llama.attention.head_count", ValueType.ARRAY, array(U32, [scalar(U32, 4)]), ("head_count", "ARRAY of UINT32")),
    ("llama.attention.head_count_kv", U32, scalar(U32, 3), ("head_count_kv", "is 3", "4")),
    ("llama.attention.head_count_kv", U32, scalar(U32, 4), ("blk.0.attn_k.weight", "(32, 64)", "(64, 64)")),
    ("llama.attention.key_length", U32, scalar(U32, 16), ()),
    ("llama.attention.key_length", U32, scalar(U32, 32), ("dimension_count", "is 16", "32")),
    ("llama.attention.value_length", U32, scalar(U32, 8), ("value_length", "8", "equal")),
    ("llama.attention.layer_norm_rms_epsilon", F32, scalar(F32, float("nan")), ("epsilon", "nan")),
    ("llama.attention.layer_norm_rms_epsilon", F32, scalar(F32, float("inf")), ("epsilon", "inf")),
    ("llama.attention.layer_norm_rms_epsilon", F32, scalar(F32, 0.0), ("epsilon", "0.0")),
    ("llama.attention.layer_norm_rms_epsilon", F32, scalar(F32, -1e-5), ("epsilon", "-")),
    ("llama.attention.layer_norm_rms_epsilon", U32, scalar(U32, 1), ("epsilon", "UINT32", "positive")),
    ("llama.rope.freq_base", F32, scalar(F32, -1.0), ("freq_base", "-1.0")),
    ("llama.rope.freq_base", ValueType.FLOAT64, scalar(ValueType.FLOAT64, 1e300), ("freq_base", "1e+300")),
    ("llama.rope.dimension_count", U32, scalar(U32, 8), ("dimension_count", "is 8", "16")),
    ("llama.rope.scaling.type", ValueType.STRING, string("yarn"), ("scaling.type", "yarn", "none, linear")),
    ("llama.rope.scaling.type", ValueType.STRING, string("linear"), ("scaling.factor", "missing")),
    ("llama.rope.scaling.type", ValueType.STRING, string("none"), ()),
    ("llama.rope.scaling.factor", F32, scalar(F32, 0.0), ("scaling.factor", "0.0")),
    ("llama.rope.scaling.factor", F32, scalar(F32, 2.0), ()),
    ("llama.context_length", U32, scalar(U32, 0), ("context_length", "is 0")),
    ("llama.feed_forward_length", U32, scalar(U32, 64), ("blk.0.ffn_gate.weight", "(96, 64)", "(64, 64)")),
    ("llama.vocab_size", U32, scalar(U32, 321), ("vocab_size", "321", "320")),
    ("llama.expert_count", U32, scalar(U32, 8), ("expert_count", "8", "only 0")),
    ("llama.attention.causal", ValueType.BOOL, scalar(ValueType.BOOL, 0), ("causal", "False", "True")),
    ("llama.attention.causal", ValueType.BOOL, scalar(ValueType.BOOL, 2), ("causal", "BOOL", "2")),
    ("llama.attention.sliding_window", U32, scalar(U32, 4096), ("sliding_window", "not known", "unused")),
    ("x" * 300, U32, scalar(U32, 1), ("xxx...", "not known")),
    ("\x1b[31m", U32, scalar(U32, 1), ("\\x1b[31m", "not known")),
    ("general.type", ValueType.STRING, string("adapter"), ("general.type", "adapter")),
    ("general.architecture", ValueType.STRING, string("mamba"), ("mamba", "supported: llama")),
    ("general.architecture", U32, scalar(U32, 1), ("general.architecture", "UINT32", "string")),
    ("general.architecture", ValueType.STRING, string(b"\xff"), ("general.architecture", "UTF-8", "0xff")),
    ("general.quantization_version", U32, scalar(U32, 1), ("quantization_version", "is 1", "needs 2")),
    ("general.alignment", U32, scalar(U32, 0), ("alignment", "is 0", "power of two")),
    ("general.alignment", U32, scalar(U32, 48), ("alignment", "is 48", "power of two")),
    ("general.alignment", F32, scalar(F32, 32.0), ("alignment", "FLOAT32")),
    ("split.count", ValueType.UINT16, scalar(ValueType.UINT16, 3), ("3 parts", "split.count", "gguf-split")),
    ("tokenizer.ggml.model", ValueType.STRING, string("llama"), ("tokenizer.ggml.model", "llama", "gpt2")),
    ("tokenizer.ggml.tokens", ValueType.ARRAY, array(ValueType.STRING, []), ("tokenizer.ggml.tokens", "empty")),
    ("tokenizer.ggml.tokens", ValueType.ARRAY, array(U32, [scalar(U32, 1)]), ("tokens", "ARRAY of UINT32", "STRING")),
    ("tokenizer.ggml.tokens", ValueType.ARRAY, array(ValueType.STRING, [string(b"\xc3")]), ("element 0", "UTF-8")),
    ("tokenizer.ggml.token_type", ValueType.ARRAY, array(U32, [scalar(U32, 1)]), ("token_type", "1 elements", "320")),
    ("tokenizer.ggml.eos_token_id", U32, scalar(U32, 320), ("eos_token_id", "is 320", "319")),
    ("tokenizer.ggml.add_bos_token", U32, scalar(U32, 1), ("add_bos_token", "UINT32", "BOOL")),
    ("tokenizer.ggml.precompiled_charsmap", ValueType.ARRAY, array(ValueType.UINT8, [b"a"]), ("charsmap", "not known")),
]


@pytest.mark.parametrize(("key", "kind", "value", "words"), VALUES, ids=lambda part: str(part)[:40])
def test_a_value_is_used_or_refused_by_name(
    key: str, kind: ValueType, value: bytes, words: tuple[str, ...], tiny: Path, tmp_path: Path
) -> None:
    raw = raw_gguf.load(tiny)
    raw.set(key, kind, value)
    if words:
        _refused(raw, tmp_path, *words)
    else:
        assert _read(raw, tmp_path).spec.layers == 2


@pytest.mark.parametrize(
    "key",
    [
        "general.architecture",
        "llama.block_count",
        "llama.context_length",
        "llama.embedding_length",
        "llama.feed_forward_length",
        "llama.attention.head_count",
        "llama.attention.layer_norm_rms_epsilon",
        "tokenizer.ggml.model",
        "tokenizer.ggml.pre",
        "tokenizer.ggml.tokens",
        "tokenizer.ggml.token_type",
        "tokenizer.ggml.merges",
    ],
)
def test_a_missing_key_is_named(key: str, tiny: Path, tmp_path: Path) -> None:
    raw = raw_gguf.load(tiny)
    raw.drop(key)
    _refused(raw, tmp_path, key, "missing")


def test_scaling_factor_with_type_none_is_a_contradiction(tiny: Path, tmp_path: Path) -> None:
    raw = raw_gguf.load(tiny)
    raw.set("llama.rope.scaling.type", ValueType.STRING, string("none"))
    raw.set("llama.rope.scaling.factor", F32, scalar(F32, 8.0))
    _refused(raw, tmp_path, "scaling.factor", "8.0", "none")


def test_an_odd_head_size_cannot_be_rotated(tmp_path: Path) -> None:
    raw = raw_gguf.load(tiny_llama(tmp_path / "t.gguf", layer_type=TensorType.F32))
    for key in ("llama.attention.key_length", "llama.attention.value_length", "llama.rope.dimension_count"):
        raw.set(key, U32, scalar(U32, 17))
    _refused(raw, tmp_path, "17", "even")


def test_a_duplicate_key_is_refused(tiny: Path, tmp_path: Path) -> None:
    raw = raw_gguf.load(tiny)
    raw.keys.append(raw.keys[3])
    _refused(raw, tmp_path, raw.keys[3][0], "twice")


Change = Callable[[RawGguf], object]


def _rename(name: str, new: str) -> Change:
    return lambda raw: setattr(raw.tensor(name), "name", new)


def _reshape(name: str, *shape: int) -> Change:
    return lambda raw: setattr(raw.tensor(name), "shape", list(shape))


def _retype(name: str, code: int) -> Change:
    return lambda raw: setattr(raw.tensor(name), "type", code)


def _move(name: str, offset: int) -> Change:
    return lambda raw: setattr(raw.tensor(name), "offset", offset)


TENSORS: list[tuple[Change, tuple[str, ...]]] = [
    (_rename("output_norm.weight", "output_norm.bias"), ("output_norm.bias", "not known", "unused")),
    (_rename("output_norm.weight", "blk.0.attn_norm.weight"), ("blk.0.attn_norm.weight", "twice")),
    (_rename("blk.1.attn_k.weight", "blk.1.attn_k_norm.weight"), ("blk.1.attn_k_norm.weight", "not known")),
    (_rename("blk.1.attn_k.weight", ""), ("tensor ''", "not known")),
    (_reshape("blk.0.attn_q.weight", 64, 32), ("blk.0.attn_q.weight", "(32, 64)", "(64, 64)")),
    (_reshape("blk.0.attn_q.weight", 64), ("blk.0.attn_q.weight", "(64,)", "(64, 64)")),
    (_reshape("blk.0.attn_q.weight", 48, 64), ("blk.0.attn_q.weight", "48", "Q4_1", "multiple of 32")),
    (_reshape("blk.0.attn_q.weight", 64, 0), ("blk.0.attn_q.weight", "[64, 0]", "at least 1")),
    (_reshape("blk.0.attn_q.weight"), ("blk.0.attn_q.weight", "0 dimensions", "1 to 4")),
    (_reshape("blk.0.attn_q.weight", 32, 1, 1, 1, 1), ("blk.0.attn_q.weight", "5 dimensions")),
    (_reshape("blk.0.attn_q.weight", 2**63, 2**63, 2**63), ("blk.0.attn_q.weight", "truncated")),
    (_reshape("output_norm.weight", 2**64 - 1), ("output_norm.weight", "truncated")),
    (_reshape("output_norm.weight", 32), ("output_norm.weight", "(32,)", "(64,)")),
    (_retype("blk.0.attn_q.weight", 12), ("blk.0.attn_q.weight", "Q4_K", "reads", "Q4_1")),
    (_retype("blk.0.attn_q.weight", 4), ("blk.0.attn_q.weight", "code 4")),
    (_retype("blk.0.attn_q.weight", 2**32 - 1), ("blk.0.attn_q.weight", "4294967295")),
    (_retype("blk.0.attn_norm.weight", 1), ("blk.0.attn_norm.weight", "F16", "must be F32")),
    (_move("blk.0.attn_q.weight", 0), ("blk.0.attn_q.weight", "token_embd.weight", "overlaps")),
    (_move("blk.0.attn_q.weight", 33), ("blk.0.attn_q.weight", "33", "alignment 32")),
    (_move("output_norm.weight", 1 << 40), ("output_norm.weight", "truncated")),
    (_move("output_norm.weight", 2**64 - 32), ("output_norm.weight", "truncated")),
    (lambda raw: raw.tensors.pop(), ("output_norm.weight", "missing")),
    (lambda raw: raw.tensors.append(RawTensor("rope_freqs.weight", [8], 1, 1 << 20)), ("rope_freqs.weight",)),
]


@pytest.mark.parametrize(("change", "words"), TENSORS)
def test_a_wrong_tensor_is_named(change: Change, words: tuple[str, ...], tiny: Path, tmp_path: Path) -> None:
    raw = raw_gguf.load(tiny)
    change(raw)
    _refused(raw, tmp_path, *words)


def test_gaps_between_tensors_do_no_harm(tiny: Path, tmp_path: Path) -> None:
    raw = raw_gguf.load(tiny)
    raw.tensor("output_norm.weight").offset += 4096
    raw.data += bytes(4096)
    assert _read(raw, tmp_path).spec.layers == 2


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (b"", "truncated"),
        (b"GGU", "truncated"),
        (b"GGML" + bytes(40), "not a GGUF file"),
        (b"\x89PNG" + bytes(40), "not a GGUF file"),
        (b"GGUF" + struct.pack("<I", 1) + bytes(40), "version 1"),
        (b"GGUF" + struct.pack("<I", 4) + bytes(40), "version 4"),
        (b"GGUF" + struct.pack(">I", 3) + bytes(40), "big-endian"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 0), "general.architecture"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**64 - 1, 0), "18446744073709551615 tensors"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**63), "9223372036854775808 metadata keys"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 9), "name of metadata key 0 of 9"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**64 - 1) + bytes(40), "18446744073709551615 bytes"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + string("k") + struct.pack("<I", 13), "type code 13"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + string("k") + struct.pack("<IIQ", 9, 9, 1), "array of arrays"),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + string("k") + struct.pack("<IIQ", 9, 8, 2**62),
            "4611686018427387904",
        ),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + string("k") + struct.pack("<IIQ", 9, 12, 2**20), "1048576 elements"),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + string("k") + struct.pack("<IQ", 8, 2**64 - 1),
            "key 'k' needs 18446744073709551615 bytes",
        ),
    ],
)
def test_an_absurd_start_is_refused(start: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(start)
    with pytest.raises(ModelFileError, match=words):
        gguf.read(path)


def test_what_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"absent\.gguf: cannot be opened: No such file"):
        gguf.read(tmp_path / "absent.gguf")
    with pytest.raises(ModelFileError, match="not a regular file"):
        gguf.read(tmp_path)


@pytest.mark.model
def test_the_default_model_is_read(default_model: Path) -> None:
    found = gguf.read(default_model)
    assert (found.spec.layers, found.spec.hidden, found.spec.heads, found.spec.kv_heads) == (30, 576, 9, 3)
    assert (found.spec.vocab, found.spec.context, found.spec.rope.base) == (49152, 8192, 100000.0)
    assert len(found.tensors) == 272
    assert found.tensors["token_embd.weight"].type is TensorType.Q8_0
    assert re.match("{% for message in messages %}", found.tokenizer.chat_template or "")
