"""Free text up to a marker, and a constraint from behind it on.

The marker may straddle tokens, so it is looked for in bytes (Knuth, Morris, Pratt 1977). A token that completes the
marker ends with it: where the constraint starts is always a border of tokens.

Dimensions: V vocabulary; m bytes of the marker.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from outrider.constraints.base import Matcher
from outrider.constraints.vocabulary import Vocabulary, packed
from outrider.core.types import WordArray
from outrider.errors import UsageError

_MOST_BYTES = 1024


class Marker:
    """How much of a marker stands at the end of a text: a state from 0 (nothing) to `found` (all of it).

    Raises UsageError for a marker that is empty, too long, no Unicode, or cannot be written by this vocabulary.
    """

    def __init__(self, text: str, vocabulary: Vocabulary) -> None:
        self._bytes = _checked(text, vocabulary)
        self._vocabulary = vocabulary
        self.found = len(self._bytes)
        self._table = _automaton(self._bytes)
        self._masks: dict[int, WordArray] = {}

    def step(self, state: int, token: int) -> int | None:
        """The state after one more token; None where the token may not come."""
        if not 0 <= token < self._vocabulary.size or token in self._vocabulary.ends:
            return None
        spelt = self._vocabulary.spelling[token]
        for byte in spelt:
            state = int(self._table[state, byte])
        stray = token in self._vocabulary.special and state < len(spelt)
        return None if not spelt or state > self.found or stray else state

    def mask(self, state: int) -> WordArray:
        """The tokens that may come in a state [ceil(V / 32)]."""
        known = self._masks.get(state)
        if known is None:
            known = self._masks[state] = self._compute(state)
        return known

    def _compute(self, state: int) -> WordArray:
        """`step` for all tokens at once, byte by byte: some 2 ms for 49,000 tokens."""
        spelling = self._vocabulary.spelling
        lengths = np.fromiter(map(len, spelling), np.int64, len(spelling))
        starts = np.cumsum(lengths) - lengths
        flat = np.frombuffer(b"".join(spelling), np.uint8)
        after = np.full(len(spelling), state, np.int64)
        for depth in range(int(lengths.max(initial=0))):
            longer = np.flatnonzero(lengths > depth)
            after[longer] = self._table[after[longer], flat[starts[longer] + depth]]
        bits = (lengths > 0) & (after <= self.found)
        special = np.fromiter(self._vocabulary.special, np.int64)
        # A special token is no text unless the marker itself names it.
        bits[special] &= after[special] >= lengths[special]
        bits[np.fromiter(self._vocabulary.ends, np.int64)] = False
        return packed(bits)


class AfterMarker:
    """The Matcher of free text, a marker, and then what another matcher says."""

    __slots__ = ("_inside", "_marker", "_matcher", "_states")

    def __init__(self, marker: Marker, matcher: Matcher) -> None:
        self._marker = marker
        self._matcher = matcher
        self._states = [0]  # of the marker: before the answer, and behind each free token
        self._inside = 0  # tokens pushed behind the marker

    @property
    def ended(self) -> bool:
        return self._begun and self._matcher.ended

    def mask(self) -> WordArray:
        return self._matcher.mask() if self._begun else self._marker.mask(self._states[-1])

    def push(self, token: int) -> bool:
        if self._begun:
            pushed = self._matcher.push(token)
            self._inside += pushed
            return pushed
        state = self._marker.step(self._states[-1], token)
        if state is not None:
            self._states.append(state)
        return state is not None

    def pop(self, count: int) -> None:
        free = len(self._states) - 1
        if not 0 <= count <= self._inside + free:
            raise UsageError(f"{count} tokens cannot be popped; {self._inside + free} were pushed")
        inside = min(count, self._inside)
        self._matcher.pop(inside)
        self._inside -= inside
        del self._states[1 + free - (count - inside) :]

    def allows(self, tokens: Sequence[int]) -> int:
        state = self._states[-1]
        for index, token in enumerate(tokens):
            if state == self._marker.found:
                return index + self._matcher.allows(tokens[index:])
            after = self._marker.step(state, token)
            if after is None:
                return index
            state = after
        return len(tokens)

    def forced(self, most: int) -> tuple[int, ...]:
        return self._matcher.forced(most) if self._begun else ()

    @property
    def _begun(self) -> bool:
        return self._states[-1] == self._marker.found


def _checked(text: str, vocabulary: Vocabulary) -> bytes:
    if not text:
        raise UsageError("the marker after which the constraint begins is empty; give its text, or no marker")
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"the marker has a lone surrogate at character {error.start}; replace it") from None
    if len(data) > _MOST_BYTES:
        raise UsageError(f"the marker has {len(data)} bytes; give one of at most {_MOST_BYTES}")
    for end in vocabulary.ends:
        if vocabulary.spelling[end] and vocabulary.spelling[end] in data:
            raise UsageError(f"the marker {text!r:.100} has an end of text in it, behind which nothing can come")
    named = {vocabulary.spelling[token] for token in vocabulary.special}
    if data not in named and b"".join(vocabulary.text[token] for token in vocabulary.cut(data)) != data:
        raise UsageError(f"the marker {text!r:.100} cannot be written with this model's vocabulary; choose another")
    return data


def _automaton(pattern: bytes) -> npt.NDArray[np.int64]:
    """Next state for each state and byte [m + 2, 256]; from m on, every byte leads to the last state for good."""
    size = len(pattern)
    table = np.full((size + 2, 256), size + 1, np.int64)
    table[0] = 0
    back = 0  # the state that the pattern without its first byte leads to
    for state, byte in enumerate(pattern):
        if state:
            table[state] = table[back]
            back = int(table[back, byte])
        table[state, byte] = state + 1
    return table
