"""The way out of an answer: tokens and text wait here until no stop string can take them back.

A token is kept iff some of its text stands before the cut: ids, text and counts then end at the same token. Offsets
count characters from the start of the answer.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Protocol

from outrider.api import Origin


class Detokenizer(Protocol):
    """Text of one answer, token by token."""

    def push(self, token: int) -> str:
        """The text that became certain with this id: never half a character."""
        ...

    def flush(self) -> str:
        """What is left at the end of the answer."""
        ...


class Outlet:
    """Takes tokens one at a time, finds stop strings, and releases what is certain."""

    __slots__ = ("_detokenizer", "_end", "_origins", "_starts", "_stops", "_text", "_tokens", "count")

    def __init__(self, detokenizer: Detokenizer, stops: tuple[str, ...]) -> None:
        self.count = 0  # tokens of the answer, released or not
        self._detokenizer = detokenizer
        self._stops = stops
        self._end = 0
        # What waits: text up to _end, and the tokens whose text starts at _starts.
        self._text = ""
        self._tokens: list[int] = []
        self._origins: list[Origin] = []
        self._starts: list[int] = []

    def push(self, token: int, origin: Origin) -> bool:
        """Add a token; whether a stop string is complete (then the answer is already cut)."""
        self.count += 1
        self._tokens.append(token)
        self._origins.append(origin)
        self._starts.append(self._end)
        return self._grow(self._detokenizer.push(token))

    def finish(self) -> bool:
        """Let the detokenizer give what it still holds; whether that completed a stop string."""
        return self._grow(self._detokenizer.flush())

    def release(self, last: bool) -> tuple[str, tuple[int, ...], tuple[Origin, ...]]:
        """Text, ids and origins that can no longer be cut off; all that waits if nothing comes after."""
        safe = self._end
        tokens = len(self._tokens)
        if self._stops and not last:
            safe -= self._could_become_stop()
            # A token without text yet starts at the end, where a stop string may still begin.
            tokens = bisect_left(self._starts, safe)
        characters = len(self._text) - (self._end - safe)
        released = self._text[:characters], tuple(self._tokens[:tokens]), tuple(self._origins[:tokens])
        self._text = self._text[characters:]
        del self._tokens[:tokens], self._origins[:tokens], self._starts[:tokens]
        return released

    def _grow(self, piece: str) -> bool:
        self._text += piece
        self._end += len(piece)
        if not piece or not self._stops:
            return False
        hits = [at for stop in self._stops if (at := self._text.find(stop)) >= 0]
        if not hits:
            return False
        self._end -= len(self._text) - min(hits)
        self._text = self._text[: min(hits)]
        kept = bisect_left(self._starts, self._end)
        self.count -= len(self._tokens) - kept
        del self._tokens[kept:], self._origins[kept:], self._starts[kept:]
        return True

    def _could_become_stop(self) -> int:
        """Length of the longest end of the waiting text with which a stop string begins."""
        longest = min(len(self._text), max(map(len, self._stops)) - 1)
        for length in range(longest, 0, -1):
            if any(stop.startswith(self._text[-length:]) for stop in self._stops):
                return length
        return 0
