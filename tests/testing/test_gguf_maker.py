"""The tiny models that other tests start from are what they claim to be."""

from __future__ import annotations

from pathlib import Path

import gguf as reference
import numpy as np
import pytest

from outrider.models import gguf
from outrider.models.spec import TensorType
from outrider.models.tokenizer import Tokenizer
from outrider.testing import raw_gguf
from outrider.testing.gguf_maker import byte_alphabet, tiny_llama, tiny_vocabulary


def test_the_same_arguments_give_the_same_bytes(tmp_path: Path) -> None:
    first = tiny_llama(tmp_path / "a.gguf").read_bytes()
    assert tiny_llama(tmp_path / "b.gguf").read_bytes() == first
    assert tiny_llama(tmp_path / "c.gguf", seed=1).read_bytes() != first


def test_types_are_those_asked_for(tmp_path: Path) -> None:
    path = tiny_llama(
        tmp_path / "t.gguf",
        layer_type=TensorType.Q4_0,
        embedding_type=TensorType.F16,
        types={"blk.1.attn_k.weight": TensorType.BF16},
        tied=False,
    )
    tensors = gguf.read(path).tensors
    assert tensors["blk.0.attn_k.weight"].type is TensorType.Q4_0
    assert tensors["blk.1.attn_k.weight"].type is TensorType.BF16
    assert tensors["output.weight"].type is tensors["token_embd.weight"].type is TensorType.F16
    assert tensors["blk.0.ffn_norm.weight"].type is TensorType.F32


def test_weights_are_neither_zero_nor_alike(tmp_path: Path) -> None:
    for tensor in reference.GGUFReader(tiny_llama(tmp_path / "t.gguf")).tensors:
        values = reference.quants.dequantize(tensor.data, tensor.tensor_type)
        assert np.isfinite(values).all()
        assert len(np.unique(values)) > 15


@pytest.mark.parametrize("vocab", [259, 320, 1000])
def test_the_vocabulary_has_the_size_asked_for(vocab: int) -> None:
    tokens, types, merges = tiny_vocabulary(vocab)
    assert len(tokens) == len(set(tokens)) == len(types) == vocab
    assert len(merges) == vocab - 259
    assert tokens[3:259] == byte_alphabet()


def test_a_vocabulary_without_room_for_the_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 259 tokens, got 258"):
        tiny_vocabulary(258)


def test_the_tokenizer_works(tmp_path: Path) -> None:
    tokenizer = Tokenizer(gguf.read(tiny_llama(tmp_path / "t.gguf")).tokenizer)
    text = "the red fish and the blue fish: \x00é日本\n"
    ids = tokenizer.encode(text, special=False)
    assert len(ids) < len(text.encode())
    assert tokenizer.decode(ids, skip_special=False) == text


def test_a_file_taken_apart_goes_together_again(tmp_path: Path) -> None:
    path = tiny_llama(tmp_path / "t.gguf", tied=False, rope_factors=True)
    raw = raw_gguf.load(path)
    assert raw.dump() == path.read_bytes()
    with pytest.raises(KeyError, match="absent"):
        raw.drop("absent")
    with pytest.raises(KeyError, match="absent"):
        raw.tensor("absent")
