"""Tiny, well-formed GGUF models of architecture llama, made on the spot: tests that need a model file start here.

Matrices are [outputs, inputs].
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

from outrider.models.spec import TensorType

CONTROL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_MERGED_WORDS = (" the", " and", " is", " to", " of", "ing", " in", "er", "on", " fish", " red", "blue", " old", "é")


def byte_alphabet() -> list[str]:
    """The 256 characters that stand for the 256 bytes in a byte-level BPE vocabulary (GPT-2's table), byte order."""
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    shifted = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(shifted)) for byte in range(256)]


def _merges(alphabet: list[str]) -> Iterator[tuple[str, str]]:
    """An endless enough supply of merges, each of two tokens that exist by then into one that is new."""
    made = set(alphabet)
    for word in _MERGED_WORDS:
        pieces = [alphabet[byte] for byte in word.encode()]
        left = pieces[0]
        for right in pieces[1:]:
            if left + right not in made:
                made.add(left + right)
                yield left, right
            left += right
    for left, right in product(alphabet, alphabet):
        if left + right not in made:
            made.add(left + right)
            yield left, right


def tiny_vocabulary(size: int) -> tuple[list[str], list[int], list[str]]:
    """Tokens, GGUF token types and merges of a working byte-level BPE: 3 control tokens, 256 bytes, then merges.

    Raises ValueError below 259 tokens.
    """
    alphabet = byte_alphabet()
    tokens = [*CONTROL_TOKENS, *alphabet]
    if size < len(tokens):
        raise ValueError(f"a byte-level vocabulary needs at least {len(tokens)} tokens, got {size}")
    chosen = [pair for pair, _ in zip(_merges(alphabet), range(size - len(tokens)), strict=False)]
    tokens += [left + right for left, right in chosen]
    types = [3] * len(CONTROL_TOKENS) + [1] * (size - len(CONTROL_TOKENS))
    return tokens, types, [f"{left} {right}" for left, right in chosen]


def _add_metadata(writer: gguf.GGUFWriter, vocab: int, pre: str) -> None:
    tokens, types, merges = tiny_vocabulary(vocab)
    writer.add_name("tiny")
    writer.add_vocab_size(vocab)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(CHAT_TEMPLATE)


@dataclass(frozen=True, slots=True)
class _Shape:
    vocab: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    feed_forward: int
    context: int
    rope_base: float
    rope_linear_factor: float


def _add_architecture(writer: gguf.GGUFWriter, shape: _Shape) -> None:
    writer.add_block_count(shape.layers)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.hidden)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_rope_dimension_count(shape.head_dim)
    if shape.head_dim * shape.heads != shape.hidden:
        writer.add_key_length(shape.head_dim)
        writer.add_value_length(shape.head_dim)
    if shape.rope_linear_factor != 1.0:
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(shape.rope_linear_factor)


def _add(writer: gguf.GGUFWriter, name: str, values: npt.NDArray[np.float32], kind: TensorType) -> None:
    qtype = gguf.GGMLQuantizationType[kind.value]
    writer.add_tensor(name, gguf.quants.quantize(values, qtype), raw_dtype=qtype)


class _Weights:
    """Adds random tensors to a file, in the order in which they are asked for."""

    def __init__(self, writer: gguf.GGUFWriter, types: Mapping[str, TensorType], seed: int) -> None:
        self._writer = writer
        self._types = types
        self._random = np.random.default_rng(seed)

    def matrix(self, name: str, outputs: int, inputs: int, kind: TensorType, gain: float = 1.0) -> None:
        values = self._random.standard_normal((outputs, inputs), np.float32) * np.float32(gain / inputs**0.5)
        _add(self._writer, name, values, self._types.get(name, kind))

    def norm(self, name: str, size: int) -> None:
        values = 1 + self._random.standard_normal(size, np.float32) * np.float32(0.1)
        _add(self._writer, name, values, TensorType.F32)

    def block(self, name: str, shape: _Shape, kind: TensorType) -> None:
        query, key = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.norm(name + "attn_norm.weight", shape.hidden)
        self.matrix(name + "attn_q.weight", query, shape.hidden, kind)
        self.matrix(name + "attn_k.weight", key, shape.hidden, kind)
        self.matrix(name + "attn_v.weight", key, shape.hidden, kind)
        self.matrix(name + "attn_output.weight", shape.hidden, query, kind)
        self.norm(name + "ffn_norm.weight", shape.hidden)
        self.matrix(name + "ffn_gate.weight", shape.feed_forward, shape.hidden, kind)
        self.matrix(name + "ffn_up.weight", shape.feed_forward, shape.hidden, kind)
        self.matrix(name + "ffn_down.weight", shape.hidden, shape.feed_forward, kind)


def tiny_llama(
    path: Path,
    *,
    vocab: int = 320,
    layers: int = 2,
    hidden: int = 64,
    heads: int = 4,
    kv_heads: int = 2,
    head_dim: int = 16,
    feed_forward: int = 96,
    context: int = 512,
    layer_type: TensorType = TensorType.Q4_1,
    embedding_type: TensorType = TensorType.Q8_0,
    types: Mapping[str, TensorType] | None = None,
    tied: bool = True,
    rope_base: float = 10000.0,
    rope_linear_factor: float = 1.0,
    rope_factors: bool = False,
    pre: str = "smollm",
    seed: int = 0,
) -> Path:
    """Write a random llama model to `path` and return it: the same arguments give the same bytes.

    layer_type is for the matrices of the blocks, embedding_type for the embedding and an untied head; `types`
    overrides them by full tensor name ("blk.0.attn_q.weight"). Norms are always F32. Block-quantised types need rows
    of a multiple of 32. rope_factors adds rope_freqs.weight. Raises ValueError for a vocabulary below 259.
    """
    shape = _Shape(
        vocab, layers, hidden, heads, kv_heads, head_dim, feed_forward, context, rope_base, rope_linear_factor
    )
    writer = gguf.GGUFWriter(path, "llama")
    _add_architecture(writer, shape)
    _add_metadata(writer, vocab, pre)
    weights = _Weights(writer, types or {}, seed)
    weights.matrix("token_embd.weight", vocab, hidden, embedding_type, 2.0)
    if rope_factors:
        _add(writer, "rope_freqs.weight", np.linspace(1, 8, head_dim // 2, dtype=np.float32), TensorType.F32)
    for layer in range(layers):
        weights.block(f"blk.{layer}.", shape, layer_type)
    weights.norm("output_norm.weight", hidden)
    if not tied:
        weights.matrix("output.weight", vocab, hidden, embedding_type, 2.0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
