"""The only source of chance: noise that is keyed, never drawn from a state.

Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3; SC 2011). The key is the seed,
the counter is (id // 4, position, sample, purpose), and word id % 4 of the output belongs to vocabulary id `id`. The
same (seed, sample, position, purpose, id) means the same noise everywhere, whatever else is computed; the C++ engine
implements the same function bit for bit.

What is asked about a draft's node has the node in the purpose's word too: purpose + 256 (node + 1). So the target's own
draws, which know no node, keep the plain purpose. core.chance says which position such noise needs.

Dimensions: B blocks of four words, V vocabulary.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from outrider.core import maths
from outrider.core.types import FloatArray, WordArray
from outrider.errors import UsageError

_ROUNDS = 10
_LOW = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_HALF, _TO_UNIT, _BELOW_ONE = np.float32(0.5), np.float32(2.0**-32), np.float32(1.0 - 2.0**-24)
_NODES = 1 << 24  # that the purpose's word can tell apart, -1 among them


class Purpose(IntEnum):
    """What noise is for; two purposes never share a number."""

    TARGET = 0  # the target's draw, and a model drafter's that wants to agree with it
    ACCEPT = 1  # whether a rule keeps a node
    RECOVER = 2  # the token that a rule puts after a node
    DRAFT = 3  # a node that a drafter draws independently of the target
    SIBLINGS = 4  # all children of a node that a drafter draws so, without replacement


def philox(counters: WordArray, key: tuple[int, int]) -> WordArray:
    """Philox4x32-10 of counters [4, B] under a key of two 32-bit words; returns [4, B]."""
    c0, c1, c2, c3 = counters.astype(np.uint64)
    return np.stack(_rounds(c0, c1, c2, c3, key)).astype(np.uint32)


def _rounds(c0: Any, c1: Any, c2: Any, c3: Any, key: tuple[int, int]) -> tuple[Any, Any, Any, Any]:
    """The rounds of Philox; each counter word is an int or an array of 64 bits."""
    k0, k1 = key
    for _ in range(_ROUNDS):
        wide0, wide1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (wide1 >> 32) ^ c1 ^ k0, wide1 & _LOW, (wide0 >> 32) ^ c3 ^ k1, wide0 & _LOW
        k0, k1 = (k0 + _KEY_STEPS[0]) & _LOW, (k1 + _KEY_STEPS[1]) & _LOW
    return c0, c1, c2, c3


def words(
    vocab: int, seed: int, sample: int, position: int, purpose: Purpose = Purpose.TARGET, node: int = -1
) -> WordArray:
    """32 bits for each vocabulary id [V]; position is that of the token to be drawn."""
    blocks = -(-vocab // 4)
    counters = np.empty((4, blocks), np.uint32)
    counters[0] = np.arange(blocks, dtype=np.uint32)
    counters[1], counters[2], counters[3] = position, sample, _purpose_word(purpose, node)
    block_words = philox(counters, (seed & _LOW, seed >> 32))
    return np.ascontiguousarray(block_words.T).reshape(-1)[:vocab]


def number(seed: int, sample: int, position: int, purpose: Purpose, node: int) -> float:
    """One number strictly inside (0, 1) with 53 bits, about one node: from the words of the ids 0 and 1."""
    # In Python's ints: for a single counter ten times as fast as arrays.
    high, low, _, _ = _rounds(0, position, sample, _purpose_word(purpose, node), (seed & _LOW, seed >> 32))
    return uniform53(high, low)


def _purpose_word(purpose: Purpose, node: int) -> int:
    if not -1 <= node < _NODES - 1:
        raise UsageError(f"noise is asked for draft node {node}; nodes lie in -1..{_NODES - 2}")
    return int(purpose) | (node + 1) << 8


def uniform(bits: WordArray) -> FloatArray:
    """Numbers strictly inside (0, 1), after rounding to float32 too: a 1 would be an infinite Gumbel."""
    inside: FloatArray = np.minimum((bits.astype(np.float32) + _HALF) * _TO_UNIT, _BELOW_ONE)
    return inside


def uniform53(high: int, low: int) -> float:
    """A float64 strictly inside (0, 1) from all 32 bits of one word and the upper 21 of another."""
    return min(((high << 21 | low >> 11) + 0.5) * 2.0**-53, 1.0 - 2.0**-53)


def exponential(
    vocab: int, seed: int, sample: int, position: int, purpose: Purpose = Purpose.TARGET, node: int = -1
) -> FloatArray:
    """A standard exponential variable for each vocabulary id [V]: -log(1 - v)."""
    return -maths.log_one_minus(uniform(words(vocab, seed, sample, position, purpose, node)))


def gumbel(vocab: int, seed: int, sample: int, position: int, purpose: Purpose = Purpose.TARGET) -> FloatArray:
    """A standard Gumbel variable for each vocabulary id [V]: -log of an exponential variable."""
    return -maths.log(exponential(vocab, seed, sample, position, purpose))
