"""The way out of an answer: tokens and text wait here until no stop string can take them back.

A token is kept iff some of its text stands before the cut: ids, text and counts then end at the same token. Offsets
count characters from the start of the answer.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple, Protocol

from outrider.api import Logprob, Origin


class Detokenizer(Protocol):
    """Text of one answer, token by token."""

    def push(self, token: int) -> str:
        """The text that became certain with this id: never half a character."""
        ...

    def flush(self) -> str:
        """What is left at the end of the answer."""
        ...


class Piece(NamedTuple):
    """One token on its way out; a tuple, because one is made for every token."""

    token: int
    origin: Origin
    logprob: Logprob | None
    drafter: str | None  # who guessed it


class Outlet:
    """Takes tokens one at a time, finds stop strings, and releases what is certain.

    The text of the first `exempt` tokens is never searched for stop strings.
    """

    __slots__ = ("_detokenizer", "_end", "_exempt", "_free", "_pieces", "_starts", "_stops", "_text", "count")

    def __init__(self, detokenizer: Detokenizer, stops: tuple[str, ...], exempt: int = 0) -> None:
        self.count = 0  # tokens of the answer, released or not
        self._detokenizer = detokenizer
        self._stops = stops
        self._exempt = exempt
        self._free = 0  # stop strings are looked for from here on
        self._end = 0
        # What waits: text up to _end, and the tokens whose text starts at _starts.
        self._text = ""
        self._pieces: list[Piece] = []
        self._starts: list[int] = []

    def push(self, token: int, origin: Origin, logprob: Logprob | None = None, drafter: str | None = None) -> bool:
        """Add a token; whether a stop string is complete (then the answer is already cut)."""
        self.count += 1
        self._pieces.append(Piece(token, origin, logprob, drafter))
        self._starts.append(self._end)
        found = self._grow(self._detokenizer.push(token))
        if self.count <= self._exempt:
            self._free = self._end
        return found

    def finish(self) -> bool:
        """Let the detokenizer give what it still holds; whether that completed a stop string."""
        return self._grow(self._detokenizer.flush())

    def release(self, last: bool) -> tuple[str, list[Piece]]:
        """Text and tokens that can no longer be cut off; all that waits if nothing comes after."""
        safe = self._end
        tokens = len(self._pieces)
        if self._stops and not last:
            safe -= self._could_become_stop()
            # A token without text yet starts at the end, where a stop string may still begin.
            tokens = bisect_left(self._starts, safe)
        characters = len(self._text) - (self._end - safe)
        released = self._text[:characters], self._pieces[:tokens]
        self._text = self._text[characters:]
        del self._pieces[:tokens], self._starts[:tokens]
        return released

    def _grow(self, piece: str) -> bool:
        self._text += piece
        self._end += len(piece)
        if not piece or not self._stops or self.count <= self._exempt:
            return False
        begin = self._searched()
        hits = [at for stop in self._stops if (at := self._text.find(stop, begin)) >= 0]
        if not hits:
            return False
        self._end -= len(self._text) - min(hits)
        self._text = self._text[: min(hits)]
        # A token of the first `exempt` that has given no text yet stays, even where its text is cut off.
        kept = max(bisect_left(self._starts, self._end), self._exempt - (self.count - len(self._pieces)))
        self.count -= len(self._pieces) - kept
        del self._pieces[kept:], self._starts[kept:]
        return True

    def _searched(self) -> int:
        """Where in the waiting text a stop string may begin."""
        return max(0, self._free - (self._end - len(self._text)))

    def _could_become_stop(self) -> int:
        """Length of the longest end of the waiting text with which a stop string begins."""
        longest = min(len(self._text) - self._searched(), max(map(len, self._stops)) - 1)
        for length in range(longest, 0, -1):
            if any(stop.startswith(self._text[-length:]) for stop in self._stops):
                return length
        return 0
