"""The numbers that we state ourselves are those of the gguf package."""

from __future__ import annotations

import gguf as reference

from outrider.models import gguf_keys, gguf_layout
from outrider.models.spec import TensorType


def test_value_types_are_those_of_the_reference() -> None:
    assert {kind.name: int(kind) for kind in gguf_layout.ValueType} == {
        kind.name: int(kind) for kind in reference.GGUFValueType
    }


def test_tensor_types_and_block_sizes_are_those_of_the_reference() -> None:
    for code, (kind, values, nbytes) in gguf_layout.TENSOR_TYPES.items():
        known = reference.GGMLQuantizationType(code)
        assert known.name == kind.value
        assert reference.GGML_QUANT_SIZES[known] == (values, nbytes)
    assert {kind for kind, _, _ in gguf_layout.TENSOR_TYPES.values()} == set(TensorType)


def test_every_other_tensor_type_of_the_reference_has_its_name() -> None:
    others = {int(kind): kind.name for kind in reference.GGMLQuantizationType}
    for code in gguf_layout.TENSOR_TYPES:
        del others[code]
    # A newer reference may know more: an unnamed type is still refused, by its code.
    assert gguf_layout.OTHER_TENSOR_TYPES.items() <= others.items()


def test_magic_and_alignment_are_those_of_the_reference() -> None:
    assert int.from_bytes(gguf_layout.MAGIC, "little") == reference.GGUF_MAGIC
    assert reference.GGUF_DEFAULT_ALIGNMENT == gguf_layout.DEFAULT_ALIGNMENT


def test_used_keys_are_spelt_as_in_the_reference() -> None:
    groups: tuple[type, ...] = (reference.Keys.General, reference.Keys.LLM, reference.Keys.Attention)
    groups += (reference.Keys.Rope, reference.Keys.Tokenizer, reference.Keys.Split)
    spelt = {
        value.replace("{arch}", "llama")
        for group in groups
        for name, value in vars(group).items()
        if isinstance(value, str) and not name.startswith("_")
    }
    assert sorted(gguf_keys.USED - spelt) == []


def test_no_key_is_both_used_and_fixed() -> None:
    assert not gguf_keys.USED & set(gguf_keys.FIXED)
    assert all(gguf_keys.is_known(key) and gguf_keys.is_wanted(key) for key in gguf_keys.FIXED)


def test_harmless_keys_are_known_but_not_wanted() -> None:
    for key in ("general.license", "general.base_model.0.name", "tokenizer.ggml.scores", "quantize.imatrix.file"):
        assert gguf_keys.is_known(key)
        assert not gguf_keys.is_wanted(key)


def test_keys_that_change_the_model_are_not_known() -> None:
    for key in ("llama.attention.sliding_window", "llama.logit_scale", "tokenizer.ggml.precompiled_charsmap", "x"):
        assert not gguf_keys.is_known(key)
