"""What a training run will take, from the sizes of target and head and from runs that were measured. Needs no torch.

Dimensions: H hidden, T taps, A heads, G key heads, d head size, F feed-forward size, D draft vocabulary, V vocabulary.
"""

from __future__ import annotations

from outrider.models.spec import ModelSpec
from outrider.train.types import Estimate, Kind, TrainOptions

# Measured with the default model (H 576, D 8192: a head of 9.8 million weights) on one core of an AMD EPYC with
# bfloat16 instructions. Without those it takes several times as long.
_WEIGHTS, _TRAINED_TOK_S = 9.8e6, 1350.0
_TARGET_WEIGHTS, _READ_TOK_S = 135e6, 1000.0  # states of a text, on one core
_EVALUATIONS = 1.15  # of the time of the steps
_PROMPT = 1.3  # tokens of a text over those of its answer
_BASE_BYTES = 1.3e9  # torch, activations
_LAW_BYTES = 16 * 6  # of the target's law, a token
# docs/training.md has the runs: a first rough head, and what much more text may bring.
_ALPHA = {Kind.EAGLE3: (0.47, 0.75), Kind.MEDUSA: (0.40, 0.65)}


def weights(spec: ModelSpec, options: TrainOptions) -> int:
    """Numbers in the head's matrices."""
    hidden, vocab = spec.hidden, min(options.draft_vocab, spec.vocab)
    if options.kind is Kind.MEDUSA:
        return options.depth * hidden**2 + vocab * hidden
    queries, keys = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
    attention = 2 * hidden * (queries + 2 * keys) + queries * hidden
    return taps(options) * hidden**2 + attention + 3 * hidden * spec.feed_forward + vocab * hidden


def taps(options: TrainOptions) -> int:
    """T."""
    if options.taps is not None:
        return len(options.taps)
    return 1 if options.kind is Kind.MEDUSA else 3


def estimate(options: TrainOptions, spec: ModelSpec, tokens: int, cores: int) -> Estimate:
    """For answers with so many tokens, on so many cores; within a factor of two on machines like those measured."""
    size, target = weights(spec, options), _target_weights(spec)
    speed = cores * _TRAINED_TOK_S * _WEIGHTS / size
    read_s = _PROMPT * tokens / (cores * _READ_TOK_S * _TARGET_WEIGHTS / target)
    text_bytes = _PROMPT * tokens * (2 * taps(options) * spec.hidden + _LAW_BYTES)
    if text_bytes > options.memory_bytes and options.epochs is not None:
        # What is not kept is computed again in every epoch.
        read_s *= 1 + max(0.0, options.epochs - 1) * (1 - options.memory_bytes / text_bytes)
    if options.minutes is not None:
        minutes = options.minutes
        trained = int(max(0.0, 60 * minutes - read_s) * speed / _EVALUATIONS)
    else:
        trained = int(tokens * (options.epochs or 0.0))
        minutes = (read_s + _EVALUATIONS * trained / speed) / 60
    memory = _BASE_BYTES + target + 2 * spec.vocab * spec.hidden + 16 * size + min(text_bytes, options.memory_bytes)
    return Estimate(tokens, trained, minutes, int(memory), int(size * 20 / 32), _ALPHA[options.kind])


def _target_weights(spec: ModelSpec) -> int:
    queries, keys = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
    block = spec.hidden * (2 * queries + 2 * keys + 3 * spec.feed_forward)
    return spec.layers * block + spec.vocab * spec.hidden
