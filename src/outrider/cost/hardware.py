"""Machines and models by name, and the time of a pass that follows from their figures: the roofline.

A pass reads its weights and its keys and values, and it multiplies; each part takes as long as the slower of the two
(Williams et al., CACM 2009). What a real engine adds (launches, networks, kernels below peak) is left out: absolute
times are lower bounds, ratios of passes are what it is for.

Dimensions: rows of a pass (over all its sequences), experts touched by them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from outrider.errors import UsageError

FP16_BYTES = 2
HERE = "here"  # the name of the machine at hand, which `measured` makes


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine's figures: bytes per second of its memory, dense operations per second by number format, bytes."""

    name: str
    title: str
    bandwidth_bytes_s: float
    flops: Mapping[str, float]
    memory_bytes: float
    source: str


@dataclass(frozen=True, slots=True)
class Shape:
    """What a model's passes depend on.

    `active` of the parameters work on a token; attention_width is query heads times head size, kv_width the same of key
    heads; `experts` a layer has and `chosen` of them work on a token (1 and 1: no mixture).
    """

    name: str
    title: str
    parameters: float
    active: float
    layers: int
    attention_width: int
    kv_width: int
    experts: int = 1
    chosen: int = 1

    @property
    def kv_bytes_tok(self) -> int:
        """Bytes of keys and values that a token leaves in the cache, in 16 bits."""
        return 2 * self.layers * self.kv_width * FP16_BYTES

    def touched(self, rows: float) -> float:
        """Parameters that a pass reads: with k of E experts chosen at random, E (1 - (1 - k/E)**rows) are touched.

        Uniform, independent routing; all the rest is read once. One row touches k, so `active` parameters.
        """
        if self.experts == 1:
            return self.parameters
        # parameters = rest + experts * one and active = rest + chosen * one say what one expert of all layers holds.
        one = (self.parameters - self.active) / (self.experts - self.chosen)
        rest = self.parameters - self.experts * one
        missed: float = (1 - self.chosen / self.experts) ** rows
        return rest + self.experts * (1 - missed) * one


@dataclass(frozen=True, slots=True)
class Weights:
    """How weights are stored, and which of a machine's rates multiplies them."""

    name: str
    bytes_each: float
    math: str


@dataclass(frozen=True, slots=True)
class Roofline:
    """T of a model on a machine.

    Llama 70B in fp16 on the 3.35 TB/s of one H100: 141.1 GB / 3.35 TB/s = 42.1 ms a token, about 24 tokens per second
    of plain decoding at batch 1 (the figure that latency guides for that pair start from).
    """

    machine: Machine
    model: Shape
    weights: Weights

    @property
    def flops(self) -> float:
        """Operations per second on these weights; a machine without their arithmetic widens them to 16 bits."""
        return self.machine.flops.get(self.weights.math, self.machine.flops["fp16"])

    @property
    def weight_bytes(self) -> float:
        """Bytes of all weights."""
        return self.model.parameters * self.weights.bytes_each

    def needed_bytes(self, sequences: int, context: float) -> float:
        """Bytes of all weights, and of the keys and values of so many sequences of `context` tokens each."""
        return self.weight_bytes + sequences * context * self.model.kv_bytes_tok

    def seconds(self, sequences: int, rows: int, context: float) -> float:
        """T of a pass of `rows` rows, spread over `sequences` sequences that have `context` tokens each.

        Weights and arithmetic share one roofline, attention has its own behind it: a sequence's keys and values are
        read once a pass, however many of its rows ask, which is why long contexts favour speculation (MagicDec,
        2408.11049). Raises UsageError for fewer than 1 sequence, fewer rows than sequences, or a context below 0.
        """
        if sequences < 1 or rows < sequences or context < 0:
            raise UsageError(
                f"a pass of {rows} rows over {sequences} sequences with {context} tokens does not exist: give 1 or "
                "more sequences, at least a row for each, and 0 or more tokens"
            )
        model, bandwidth = self.model, self.machine.bandwidth_bytes_s
        linear = max(
            model.touched(rows) * self.weights.bytes_each / bandwidth,
            2 * model.active * rows / self.flops,
        )
        # A query against a key and a weight against a value: a multiplication and an addition for each element.
        attention_flops = 4 * model.layers * model.attention_width * rows * context
        attention = max(
            sequences * context * model.kv_bytes_tok / bandwidth,
            attention_flops / self.machine.flops["fp16"],
        )
        return linear + attention

    def critical_rows(self) -> int:
        """n*: the fewest rows whose arithmetic takes at least as long as reading the weights that they touch.

        Below it, further rows are all but free; above it, a pass costs in proportion to its rows. For a model without
        experts n* = bytes per weight x FLOPS / (2 x bandwidth): 296 rows for fp16 on an H100.
        """

        def computes(rows: int) -> bool:
            read_s = self.model.touched(rows) * self.weights.bytes_each / self.machine.bandwidth_bytes_s
            return 2 * self.model.active * rows / self.flops >= read_s

        # Reading grows ever slower and arithmetic evenly, so they cross once.
        high = 1
        while not computes(high):
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if computes(middle) else (middle, high)
        return high


def machine(name: str) -> Machine:
    """A machine by its name, however it is spelt (RTX 4090, rtx-4090). Raises UsageError with the known ones."""
    return _find("hardware", name, MACHINES, f" or {HERE}")


def measured(
    model: str, parameters: float, weight_bytes: float, memory_bytes: float, pass_s: float, row_s: float
) -> Machine:
    """The machine at hand, from what passes of a model cost on it.

    pass_s is a pass of one row, which reads so many bytes of weights: the bandwidth. row_s is what a row adds where
    arithmetic sets the pace, two operations for each parameter: the FLOPS. So they are what the engine reaches, not
    what the machine could, with the weights as that model stores them.
    """
    rates = {"fp16": 2 * parameters / row_s}
    return Machine(HERE, "this machine", weight_bytes / pass_s, rates, memory_bytes, f"measured here with {model}")


def shape(name: str) -> Shape:
    """A model by its name. Raises UsageError with the known ones."""
    return _find("model", name, MODELS)


def weights(name: str) -> Weights:
    """A weight format by its name. Raises UsageError with the known ones."""
    return _find("weight format", name, FORMATS)


class _Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=_Named)


def _find(kind: str, name: str, known: tuple[T, ...], more: str = "") -> T:
    wanted = re.sub(r"[^a-z0-9.]", "", name.lower())
    for one in known:
        if re.sub(r"[^a-z0-9.]", "", one.name) == wanted:
            return one
    raise UsageError(f"there is no {kind} {name!r}: give one of {', '.join(one.name for one in known)}{more}")


# Half the rates that the vendor prints "with sparsity"; fp16 with sums in 32 bits, as engines compute.
MACHINES = (
    Machine(
        "h100",
        "NVIDIA H100 SXM",
        3.35e12,
        {"fp16": 989.4e12, "fp8": 1978.9e12},
        80e9,
        "NVIDIA H100 datasheet: 80 GB, 3.35 TB/s, 1,979 TFLOPS BF16 and 3,958 FP8 with sparsity",
    ),
    Machine(
        "h200",
        "NVIDIA H200 SXM",
        4.8e12,
        {"fp16": 989.4e12, "fp8": 1978.9e12},
        141e9,
        "NVIDIA H200 datasheet: 141 GB, 4.8 TB/s, 1,979 TFLOPS BF16 and 3,958 FP8 with sparsity",
    ),
    Machine(
        "a100",
        "NVIDIA A100 80 GB SXM",
        2.039e12,
        {"fp16": 312e12},
        80e9,
        "NVIDIA A100 datasheet: 80 GB, 2,039 GB/s, 312 TFLOPS BF16 dense; no FP8",
    ),
    Machine(
        "l40s",
        "NVIDIA L40S",
        864e9,
        {"fp16": 362.05e12, "fp8": 733e12},
        48e9,
        "NVIDIA L40S datasheet: 48 GB, 864 GB/s, 362.05 TFLOPS BF16 and 733 FP8 dense",
    ),
    Machine(
        "rtx-4090",
        "NVIDIA GeForce RTX 4090",
        1.008e12,
        {"fp16": 165.2e12, "fp8": 330.3e12},
        24e9,
        "NVIDIA Ada architecture paper: 24 GB, 1,008 GB/s, 165.2 TFLOPS FP16 and 330.3 FP8 dense, sums in FP32",
    ),
    Machine(
        "m4-max",
        "Apple M4 Max, 40 GPU cores",
        546e9,
        {"fp16": 18.4e12},
        128e9,
        "Apple: up to 128 GB, 546 GB/s; FLOPS not published: 40 cores x 128 lanes x 2 x about 1.8 GHz",
    ),
)

# int4: 4 bits and a 16-bit scale for each block of 32, as in Q4_0; it is widened and multiplied in 16 bits.
FORMATS = (Weights("fp16", 2, "fp16"), Weights("fp8", 1, "fp8"), Weights("int4", 0.5625, "fp16"))

# Of the models' own config.json and cards; parameters with embeddings, tied ones counted once.
MODELS = (
    Shape("llama-70b", "Llama 3.1/3.3 70B", 70.55e9, 70.55e9, 80, 64 * 128, 8 * 128),
    Shape("llama-8b", "Llama 3.1 8B", 8.03e9, 8.03e9, 32, 32 * 128, 8 * 128),
    Shape("llama-3b", "Llama 3.2 3B", 3.21e9, 3.21e9, 28, 24 * 128, 8 * 128),
    Shape("llama-1b", "Llama 3.2 1B", 1.236e9, 1.236e9, 16, 32 * 64, 8 * 64),
    Shape("qwen3-32b", "Qwen3 32B", 32.76e9, 32.76e9, 64, 64 * 128, 8 * 128),
    Shape("qwen3-14b", "Qwen3 14B", 14.77e9, 14.77e9, 40, 40 * 128, 8 * 128),
    Shape("qwen3-8b", "Qwen3 8B", 8.19e9, 8.19e9, 36, 32 * 128, 8 * 128),
    Shape("qwen3-4b", "Qwen3 4B", 4.02e9, 4.02e9, 36, 32 * 128, 8 * 128),
    Shape("qwen3-1.7b", "Qwen3 1.7B", 1.72e9, 1.72e9, 28, 16 * 128, 8 * 128),
    Shape("qwen3-0.6b", "Qwen3 0.6B", 0.596e9, 0.596e9, 28, 16 * 128, 8 * 128),
    Shape("qwen3-235b-a22b", "Qwen3 235B-A22B", 235.1e9, 22.2e9, 94, 64 * 128, 4 * 128, 128, 8),
    Shape("qwen3-30b-a3b", "Qwen3 30B-A3B", 30.53e9, 3.35e9, 48, 32 * 128, 4 * 128, 128, 8),
    Shape("mixtral-8x7b", "Mixtral 8x7B", 46.7e9, 12.88e9, 32, 32 * 128, 8 * 128, 8, 2),
    Shape("smollm2-1.7b", "SmolLM2 1.7B", 1.711e9, 1.711e9, 24, 32 * 64, 32 * 64),
    Shape("smollm2-360m", "SmolLM2 360M", 361.8e6, 361.8e6, 32, 15 * 64, 5 * 64),
    Shape("smollm2-135m", "SmolLM2 135M", 134.5e6, 134.5e6, 30, 9 * 64, 3 * 64),
)
