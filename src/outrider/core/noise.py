"""The only source of chance: noise that is keyed, never drawn from a state.

Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3; SC 2011). The key is the seed,
the counter is (id // 4, position, sample, purpose), and word id % 4 of the output belongs to vocabulary id `id`. The
same (seed, sample, position, purpose, id) means the same noise everywhere, whatever else is computed; the C++ engine
implements the same function bit for bit.

Dimensions: B blocks of four words, V vocabulary.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from outrider.core import maths
from outrider.core.types import FloatArray

WordArray: TypeAlias = npt.NDArray[np.uint32]

_ROUNDS = 10
_LOW = np.uint64(0xFFFFFFFF)
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_HALF, _TO_UNIT, _BELOW_ONE = np.float32(0.5), np.float32(2.0**-32), np.float32(1.0 - 2.0**-24)


class Purpose(IntEnum):
    """What noise is for; two purposes never share a number."""

    TARGET = 0  # the target's draw, and a model drafter's that wants to agree with it


def philox(counters: WordArray, key: tuple[int, int]) -> WordArray:
    """Philox4x32-10 of counters [4, B] under a key of two 32-bit words; returns [4, B]."""
    c0, c1, c2, c3 = (row.astype(np.uint64) for row in counters)
    shift = np.uint64(32)
    k0, k1 = key
    for _ in range(_ROUNDS):
        wide0, wide1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            (wide1 >> shift) ^ c1 ^ np.uint64(k0),
            wide1 & _LOW,
            (wide0 >> shift) ^ c3 ^ np.uint64(k1),
            wide0 & _LOW,
        )
        k0, k1 = (k0 + _KEY_STEPS[0]) & 0xFFFFFFFF, (k1 + _KEY_STEPS[1]) & 0xFFFFFFFF
    return np.stack((c0, c1, c2, c3)).astype(np.uint32)


def words(vocab: int, seed: int, sample: int, position: int, purpose: Purpose = Purpose.TARGET) -> WordArray:
    """32 bits for each vocabulary id [V]; position is that of the token to be drawn."""
    blocks = -(-vocab // 4)
    counters = np.empty((4, blocks), np.uint32)
    counters[0] = np.arange(blocks, dtype=np.uint32)
    counters[1], counters[2], counters[3] = position, sample, int(purpose)
    block_words = philox(counters, (seed & 0xFFFFFFFF, seed >> 32))
    return np.ascontiguousarray(block_words.T).reshape(-1)[:vocab]


def uniform(bits: WordArray) -> FloatArray:
    """Numbers strictly inside (0, 1), after rounding to float32 too: a 1 would be an infinite Gumbel."""
    inside: FloatArray = np.minimum((bits.astype(np.float32) + _HALF) * _TO_UNIT, _BELOW_ONE)
    return inside


def gumbel(vocab: int, seed: int, sample: int, position: int, purpose: Purpose = Purpose.TARGET) -> FloatArray:
    """A standard Gumbel variable for each vocabulary id [V]: -log of an exponential variable -log(1 - v)."""
    exponential = -maths.log_one_minus(uniform(words(vocab, seed, sample, position, purpose)))
    return -maths.log(exponential)
