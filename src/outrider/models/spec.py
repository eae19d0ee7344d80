"""A model as data: what its architecture is, and where its tensors lie in which file. Knows no file format.

Dimensions: matrices are [outputs, inputs].
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path


class TensorType(Enum):
    """Storage types; the value is the name that GGUF, the native engine and messages use."""

    F32 = "F32"
    F16 = "F16"
    BF16 = "BF16"
    Q8_0 = "Q8_0"
    Q4_0 = "Q4_0"
    Q4_1 = "Q4_1"


class RopeKind(Enum):
    """Which elements of a head are rotated together."""

    INTERLEAVED = "interleaved"  # (0, 1), (2, 3), ...: GGUF architecture llama
    HALVES = "halves"  # (0, d/2), (1, d/2 + 1), ...


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary position embedding. frequency of pair i = base ** (-2 i / dims) / (linear_factor * factors[i])."""

    kind: RopeKind
    base: float
    dims: int
    linear_factor: float = 1.0
    factors: str | None = None  # tensor [dims / 2] of divisors (Llama 3.1's scaling in GGUF)


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor in the file; shape is (outputs, inputs) or (n,)."""

    name: str
    type: TensorType
    shape: tuple[int, ...]
    offset: int  # bytes from the start of the file
    nbytes: int


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """The architecture: a decoder of `layers` blocks, RMS norms, gated SiLU feed-forward.

    The fields after `tied_head` name what other architectures have; a backend refuses what it cannot do, by name.
    """

    architecture: str
    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    feed_forward: int
    vocab: int
    context: int
    norm_eps: float
    rope: Rope
    tied_head: bool
    attention_bias: bool = False
    qk_norm: bool = False
    window: int | None = None
    attention_softcap: float | None = None
    logit_softcap: float | None = None
    experts: int = 0
    experts_used: int = 0


@dataclass(frozen=True, slots=True)
class TokenizerData:
    """What the file says about its tokenizer, unchanged."""

    model: str  # "gpt2": byte-level BPE
    pre: str  # name of the pre-tokenizer
    tokens: list[str]
    types: list[int]  # GGUF token types: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte
    merges: list[str]
    bos: int | None = None
    eos: int | None = None
    unknown: int | None = None
    padding: int | None = None
    end_of_turn: frozenset[int] = frozenset()  # further ids that end a generation
    add_bos: bool = False
    add_eos: bool = False
    add_space_prefix: bool = False
    chat_template: str | None = None


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A checked model file: everything a backend and a tokenizer need. All offsets lie inside the file."""

    path: Path
    spec: ModelSpec
    tensors: dict[str, Tensor] = field(repr=False)
    tokenizer: TokenizerData = field(repr=False)
    size_bytes: int
