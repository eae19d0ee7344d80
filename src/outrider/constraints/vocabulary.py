"""The vocabulary as a constraint sees it: which bytes an id stands for, and which ids are text at all.

Dimensions: V vocabulary of the backend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

import numpy as np
import numpy.typing as npt

from outrider.core.types import WordArray


class Vocabulary:
    """Everything that a constraint needs to know about a tokenizer; nothing is spelt out before the first use.

    size is V; ids from `known` on are padding, for a backend may have more rows than the tokenizer has tokens. spell
    gives an id's bytes, encode the ids of a text in which nothing is special. ends are the ids that end an answer.
    Text is every id that has bytes, is not special and does not end the answer.
    """

    def __init__(
        self,
        size: int,
        known: int,
        spell: Callable[[int], bytes],
        is_special: Callable[[int], bool],
        ends: frozenset[int],
        encode: Callable[[str], list[int]],
    ) -> None:
        self.size = size
        self.ends = ends
        self._known = min(known, size)
        self._spell = spell
        self._is_special = is_special
        self._encode = encode

    @cached_property
    def spelling(self) -> tuple[bytes, ...]:
        """The bytes of every id [V]; none for padding."""
        return (*map(self._spell, range(self._known)), *([b""] * (self.size - self._known)))

    @cached_property
    def special(self) -> frozenset[int]:
        """Control tokens and the like, ends of text among them or not."""
        return frozenset(filter(self._is_special, range(self._known)))

    @cached_property
    def text(self) -> tuple[bytes, ...]:
        """The bytes of every id that is text [V]; none for the others."""
        hidden = self.special | self.ends
        return tuple(b"" if token in hidden else spelt for token, spelt in enumerate(self.spelling))

    @cached_property
    def text_mask(self) -> WordArray:
        """The ids that are text [ceil(V / 32)]."""
        return self.mask(token for token, spelt in enumerate(self.text) if spelt)

    @cached_property
    def end_mask(self) -> WordArray:
        """The ids that end an answer [ceil(V / 32)]."""
        return self.mask(self.ends)

    def mask(self, ids: Iterable[int]) -> WordArray:
        """A read-only mask with the bits of these ids [ceil(V / 32)]."""
        bits = np.zeros(self.size, np.bool_)
        bits[np.fromiter(ids, np.int64)] = True
        return packed(bits)

    def cut(self, data: bytes) -> list[int]:
        """The ids that spell these bytes, as the tokenizer cuts text up.

        The longest tokens that fit where the tokenizer would change a byte (it may normalise, or drop what the
        vocabulary lacks) and for half a character at the end. Stops before the first byte that no token has.
        """
        try:
            whole = data.decode()
        except UnicodeDecodeError as error:
            whole = data[: error.start].decode()
        size = len(whole.encode())
        ids = self._encode(whole)
        if b"".join(self.text[token] for token in ids) != data[:size]:
            return self._longest(data)
        return ids + self._longest(data[size:])

    def _longest(self, data: bytes) -> list[int]:
        ids, longest = self._ids, self._longest_bytes
        found: list[int] = []
        start = 0
        while start < len(data):
            for end in range(min(start + longest, len(data)), start, -1):
                token = ids.get(data[start:end])
                if token is not None:
                    break
            else:
                break
            found.append(token)
            start = end
        return found

    @cached_property
    def _ids(self) -> dict[bytes, int]:
        """The lowest id of each spelling."""
        return {spelt: token for token, spelt in reversed(list(enumerate(self.text))) if spelt}

    @cached_property
    def _longest_bytes(self) -> int:
        return max(map(len, self._ids), default=0)


def packed(bits: npt.NDArray[np.bool_]) -> WordArray:
    """Booleans [V] as a read-only mask [ceil(V / 32)], bit i % 32 of word i // 32."""
    padded = np.zeros(-(-len(bits) // 32) * 32, np.bool_)
    padded[: len(bits)] = bits
    words = np.packbits(padded, bitorder="little").view(np.dtype("<u4")).astype(np.uint32, copy=False)
    words.setflags(write=False)
    return words
