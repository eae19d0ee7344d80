"""The oracle: transformers' Llama in float32 on the weights of a GGUF file, read by the gguf package, not by us.

Dimensions: n positions of a text, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

from outrider.backends.base import Backend, Extend, Want

DoubleArray = npt.NDArray[np.float64]

_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_IN_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


class Reference:
    """A model file as transformers computes it. Everything stays in memory; nothing is written."""

    def __init__(self, path: Path) -> None:
        torch, transformers = import_module("torch"), import_module("transformers")
        reader = gguf.GGUFReader(path)
        weights = _weights(reader)
        factors = weights.pop("rope_freqs", None)
        weights.setdefault("lm_head.weight", weights["model.embed_tokens.weight"])
        self._torch = torch
        config = transformers.LlamaConfig(**_config(reader, weights))
        self._model = transformers.LlamaForCausalLM(config).float().eval()
        self._model.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()}, strict=True)
        if factors is not None:
            # Llama 3.1's scaling as GGUF stores it: a divisor per pair. The configuration only knows its formula.
            self._model.model.rotary_emb.inv_freq /= torch.from_numpy(factors)

    def log_law(self, ids: Sequence[int]) -> DoubleArray:
        """log p [n, V] of the token after each position."""
        with self._torch.no_grad():
            logits = self._model(self._torch.tensor([list(ids)])).logits[0]
        return log_softmax(logits.numpy())


def log_softmax(logits: npt.NDArray[np.float32]) -> DoubleArray:
    """In float64, so that the comparison adds no error of its own; over the last axis."""
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=-1, keepdims=True)
    result: DoubleArray = wide - np.log(np.exp(wide).sum(axis=-1, keepdims=True))
    return result


def ours(backend: Backend, ids: Sequence[int]) -> DoubleArray:
    """log p [n, V] of our own backend for the same text, in one pass."""
    seq = backend.open()
    try:
        scores = backend.extend([Extend(seq, ids, None, [Want.LOGITS] * len(ids))])
        return log_softmax(np.stack([scores.logits(0, row) for row in range(len(ids))]))
    finally:
        backend.close(seq)


@dataclass(frozen=True, slots=True)
class Difference:
    """How far our laws lie from the reference's, over n positions."""

    positions: int
    rms: float  # of log p over all positions and tokens
    largest: float  # of |difference of log p|
    kl: float  # mean over positions of KL(reference || ours), nats
    top1: float  # share of positions with the same likeliest token

    @staticmethod
    def of(reference: DoubleArray, own: DoubleArray) -> Difference:
        """Compare two arrays of log p [n, V]."""
        gap = own - reference
        return Difference(
            positions=len(reference),
            rms=float(np.sqrt(np.square(gap).mean())),
            largest=float(np.abs(gap).max()),
            kl=float((np.exp(reference) * -gap).sum(axis=-1).mean()),
            top1=float((reference.argmax(axis=-1) == own.argmax(axis=-1)).mean()),
        )

    def __str__(self) -> str:
        return (
            f"{self.positions} positions: KL {self.kl:.6f}, top-1 {self.top1:.2%}, "
            f"log p RMS {self.rms:.2e}, largest {self.largest:.2e}"
        )


def total(parts: Sequence[Difference]) -> Difference:
    """Several texts as one, each position counting the same."""
    n = sum(part.positions for part in parts)
    shares = [part.positions / n for part in parts]
    return Difference(
        positions=n,
        rms=sum(share * part.rms**2 for share, part in zip(shares, parts, strict=True)) ** 0.5,
        largest=max(part.largest for part in parts),
        kl=sum(share * part.kl for share, part in zip(shares, parts, strict=True)),
        top1=sum(share * part.top1 for share, part in zip(shares, parts, strict=True)),
    )


def _weights(reader: gguf.GGUFReader) -> dict[str, npt.NDArray[np.float32]]:
    """Every tensor in float32, under transformers' name."""
    heads, kv_heads = _number(reader, "attention.head_count"), _number(reader, "attention.head_count_kv")
    found: dict[str, npt.NDArray[np.float32]] = {}
    for tensor in reader.tensors:
        array = np.array(gguf.quants.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        name, _, _ = tensor.name.removesuffix(".weight").rpartition(".")
        kind = tensor.name.removesuffix(".weight").removeprefix(f"{name}.")
        if kind in ("attn_q", "attn_k"):
            array = _halves(array, heads if kind == "attn_q" else kv_heads)
        if kind == "rope_freqs":
            found[kind] = array
        elif name:
            found[f"model.layers.{name.removeprefix('blk.')}.{_IN_LAYER[kind]}.weight"] = array
        else:
            found[f"{_TOP[kind]}.weight"] = array
    return found


def _halves(weight: npt.NDArray[np.float32], heads: int) -> npt.NDArray[np.float32]:
    """Rows from GGUF's order, where neighbours rotate together, to the order where a head's halves do."""
    per_head = weight.reshape(heads, -1, weight.shape[1])
    return np.concatenate([per_head[:, 0::2], per_head[:, 1::2]], axis=1).reshape(weight.shape)


def _config(reader: gguf.GGUFReader, weights: dict[str, npt.NDArray[np.float32]]) -> dict[str, Any]:
    """The arguments of a LlamaConfig."""
    rope: dict[str, str | float] = {"rope_type": "default", "rope_theta": _number(reader, "rope.freq_base")}
    if "llama.rope.scaling.factor" in reader.fields:
        rope |= {"rope_type": "linear", "factor": _number(reader, "rope.scaling.factor")}
    heads = int(_number(reader, "attention.head_count"))
    vocab, hidden = weights["model.embed_tokens.weight"].shape
    return {
        "vocab_size": vocab,
        "hidden_size": hidden,
        "intermediate_size": _number(reader, "feed_forward_length"),
        "num_hidden_layers": _number(reader, "block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": _number(reader, "attention.head_count_kv"),
        "head_dim": weights["model.layers.0.self_attn.q_proj.weight"].shape[0] // heads,
        "max_position_embeddings": _number(reader, "context_length"),
        "rms_norm_eps": _number(reader, "attention.layer_norm_rms_epsilon"),
        "rope_parameters": rope,
        # A tied head is given twice, so that loading can insist on every tensor.
        "tie_word_embeddings": False,
        "attn_implementation": "eager",
    }


def _number(reader: gguf.GGUFReader, key: str) -> Any:
    return reader.fields[f"llama.{key}"].contents()
