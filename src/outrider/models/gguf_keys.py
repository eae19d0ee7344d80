"""Which metadata keys this version uses and which it knows to be harmless; every other key is a refusal at load.

A key is harmless when no value of it could change what the model computes here: provenance, advice to users, or
settings of features that the file would have to ask for by another key, which is then refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from outrider.models.gguf_layout import ValueType

INTEGERS = (
    ValueType.UINT8,
    ValueType.INT8,
    ValueType.UINT16,
    ValueType.INT16,
    ValueType.UINT32,
    ValueType.INT32,
    ValueType.UINT64,
    ValueType.INT64,
)
REALS = (ValueType.FLOAT32, ValueType.FLOAT64)

GENERAL_USED = frozenset(
    {
        "general.architecture",
        "general.alignment",
        "general.name",
        "general.quantization_version",
        "general.type",
        "split.count",
    }
)

LLAMA_USED = frozenset(
    "llama." + name
    for name in (
        "attention.head_count",
        "attention.head_count_kv",
        "attention.key_length",
        "attention.layer_norm_rms_epsilon",
        "attention.value_length",
        "block_count",
        "context_length",
        "embedding_length",
        "feed_forward_length",
        "rope.dimension_count",
        "rope.freq_base",
        "rope.scaling.factor",
        "rope.scaling.type",
        "vocab_size",
    )
)

TOKENIZER_USED = frozenset(
    {
        "tokenizer.chat_template",
        "tokenizer.ggml.add_bos_token",
        "tokenizer.ggml.add_eos_token",
        "tokenizer.ggml.add_space_prefix",
        "tokenizer.ggml.bos_token_id",
        "tokenizer.ggml.eom_token_id",
        "tokenizer.ggml.eos_token_id",
        "tokenizer.ggml.eot_token_id",
        "tokenizer.ggml.merges",
        "tokenizer.ggml.model",
        "tokenizer.ggml.padding_token_id",
        "tokenizer.ggml.pre",
        "tokenizer.ggml.token_type",
        "tokenizer.ggml.tokens",
        "tokenizer.ggml.unknown_token_id",
    }
)

USED = GENERAL_USED | LLAMA_USED | TOKENIZER_USED

# Keys that may be present with this value only: any other asks for something that is not done here.
FIXED: Mapping[str, object] = MappingProxyType(
    {
        "llama.attention.causal": True,
        "llama.expert_count": 0,
        "llama.expert_used_count": 0,
        # The order of rows inside a head that converters of Meta's own checkpoints name; RopeKind.INTERLEAVED is it.
        "llama.tensor_data_layout": "Meta AI original pth",
        "tokenizer.ggml.add_sep_token": False,
        "tokenizer.ggml.remove_extra_whitespaces": False,
    }
)

_HARMLESS = re.compile(
    r"""
      general\.(?!architecture$|alignment$).+       # provenance, licence, recommended sampling
    | (quantize\.)?imatrix\..+                      # how the file was quantised
    | mradermacher\.(quantize_version|quantized_by|quantized_at|quantized_on|convert_type)
    | split\.(no|tensors\.count)                    # parts of a split file, which split.count would refuse
    | llama\.rope\.scaling\.(original_context_length|finetuned)   # only YaRN reads them, and YaRN is refused
    | tokenizer\.chat_templates?(\.[^.]+)?          # further named templates; the default one is used
    | tokenizer\.huggingface\.json                  # a copy of what the other keys say
    | tokenizer\.ggml\.scores                       # no part of byte-level BPE
    | tokenizer\.ggml\.(seperator|separator|mask|cls)_token_id
    | tokenizer\.ggml\.(fim_(pre|suf|mid|pad|rep|sep)|prefix|suffix|middle)_token_id   # for infilling, not done here
    """,
    re.VERBOSE,
)


def is_known(key: str) -> bool:
    """Whether a key is used, checked to have its one allowed value, or harmless."""
    return key in USED or key in FIXED or _HARMLESS.fullmatch(key) is not None


def is_wanted(key: str) -> bool:
    """Whether the value of a key has to be kept."""
    return key in USED or key in FIXED
