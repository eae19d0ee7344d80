"""What a run will take, without torch: from a product that is timed here, and from what runs took.

Dimensions: H hidden, D draft vocabulary, V vocabulary.
"""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np

from outrider.models import headfile
from outrider.models.headfile import BLOCKS
from outrider.models.spec import ModelSpec
from outrider.train.features import KEPT, PASS_ROWS
from outrider.train.sizes import head_spec
from outrider.train.states import ARRAYS
from outrider.train.types import Estimate, TrainOptions

# Measured on an AMD EPYC 9004 (avx512_bf16), default model: a trained token reads each weight 2.2 times over the steps
# of its chain and takes three products a weight; 70 % of the time are products.
_PRODUCTS_A_WEIGHT = 3 * 2.2 / 0.7
_PROMPTS = 1.25  # tokens of a text to those of its answer
_HALF, _STATES = 2.3, 1.5  # speed of bfloat16 products and of the native engine's, to float32's
_TORCH_BYTES = 400 << 20
_WEIGHT_BYTES = 4 * 5 + 2  # weight, gradient, two moments, the best so far; half precision


def estimate(options: TrainOptions, model: ModelSpec, tokens: int, cores: int) -> Estimate:
    """Of a run on answers of so many tokens, on so many cores. Takes a quarter of a second."""
    spec = head_spec(options, model)
    weights = sum(rows * columns for rows, columns in headfile.matrices(spec).values())
    products_s = _products_a_second() * cores
    speed = products_s * (_HALF if _has_bfloat16() else 1.0) / (weights * _PRODUCTS_A_WEIGHT)
    states_s = _PROMPTS * tokens * _target_weights(model) / (products_s * _STATES)
    states_bytes = _PROMPTS * tokens * (2 * len(spec.taps) * spec.hidden + 6 * KEPT / _PROMPTS)
    in_memory = min(states_bytes, options.memory_bytes)
    fitting = min(1.0, options.memory_bytes / max(1.0, states_bytes))
    if options.states is not None:  # what is there already is taken for these texts'
        in_memory, fitting = 0.0, 1.0
        states_s *= max(0.0, 1 - _size(options.states / ARRAYS) / max(1.0, states_bytes))
    if options.epochs is not None:
        epochs = options.epochs
        minutes = (_states_total_s(states_s, fitting, epochs) + epochs * tokens / speed) / 60
    else:
        minutes = options.minutes or 0.0
        epochs = _epochs_in(60 * minutes, states_s, fitting, tokens / speed)
    return Estimate(
        text_tokens=tokens,
        trained_tokens=round(epochs * tokens * (1 - options.held_out)),
        minutes=minutes,
        memory_bytes=round(
            _TORCH_BYTES
            + weights * _WEIGHT_BYTES
            + in_memory
            + 2 * model.vocab * model.hidden
            + 4 * model.vocab * PASS_ROWS
            + options.batch_tokens * (2 * spec.draft_vocab + 80 * spec.hidden)
            + 2 * _target_weights(model)
        ),
        file_bytes=_file_bytes(options, headfile.matrices(spec)),
        alpha=_alpha(epochs * tokens, tokens),
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _states_total_s(once_s: float, fitting: float, epochs: float) -> float:
    """States that fit into the memory are computed once, the others in each epoch."""
    return once_s * (fitting * min(1.0, epochs) + (1 - fitting) * epochs)


def _epochs_in(seconds: float, states_s: float, fitting: float, epoch_s: float) -> float:
    """How many epochs fit."""
    low, high = 0.0, seconds / epoch_s
    for _ in range(40):
        middle = (low + high) / 2
        fits = _states_total_s(states_s, fitting, middle) + middle * epoch_s <= seconds
        low, high = (middle, high) if fits else (low, middle)
    return low


def _products_a_second() -> float:
    """Multiplications with addition in float32 that a core manages a second, about."""
    a, b = np.ones((256, 512), np.float32), np.ones((512, 512), np.float32)
    best = math.inf
    deadline = time.perf_counter() + 0.2
    while time.perf_counter() < deadline:
        # The processor's time over all threads: numpy may use several.
        start = time.process_time()
        for _ in range(8):
            a @ b
        best = min(best, time.process_time() - start)
    return 8 * 256 * 512 * 512 / max(best, 1e-6)


def _has_bfloat16() -> bool:
    """Whether the processor has products of bfloat16, as Linux names them."""
    try:
        flags = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        return False
    return any(name in flags for name in ("avx512_bf16", "amx_bf16", " bf16 "))


def _target_weights(model: ModelSpec) -> int:
    query, key = model.heads * model.head_dim, model.kv_heads * model.head_dim
    block = model.hidden * (2 * query + 2 * key + 3 * model.feed_forward)
    return model.layers * block + model.vocab * model.hidden


def _file_bytes(options: TrainOptions, shapes: dict[str, tuple[int, int]]) -> int:
    total = 0
    for name, (rows, columns) in shapes.items():
        values, size, _ = BLOCKS[(options.output if name == "head" else options.matrices).value]
        total += rows * columns // values * size
    return total


def _alpha(trained: float, distinct: float) -> tuple[float, float]:
    """Range of the first guess's acceptance; by the curve of docs/training.md, which is about the default model."""
    middle = 0.30 + 0.21 * math.log10(max(1.0, trained) / 1e5) + 0.03 * math.log10(max(1.0, distinct) / 1e5)
    return max(0.05, min(middle - 0.07, 0.75)), max(0.1, min(middle + 0.07, 0.85))
