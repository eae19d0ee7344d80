"""Earlier answers, kept within a number of bytes, the oldest given up first."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.drafters.automaton import Automaton
from outrider.errors import UsageError

EDGE = -1  # stands before and behind each answer; no id of a vocabulary
LEAST_BYTES = 1 << 18
# An automaton cannot forget its beginning. So answers go into volumes, and the oldest volume is given up as a whole.
VOLUMES = 4


class Memory:
    """Answers of several scopes; a reader sees those of its own scope and no others.

    size_bytes limits all scopes together. A volume holds answers of one scope; one that takes a quarter of the limit
    gets no further answer. While there are too many bytes, the volume that was begun first is dropped: about a quarter
    of the memory or less. version changes with each answer. Time: amortised O(1) a token of an answer.
    Raises UsageError for a limit under LEAST_BYTES.
    """

    def __init__(self, size_bytes: int) -> None:
        if size_bytes < LEAST_BYTES:
            raise UsageError(f"memory_bytes is {size_bytes}; give at least {LEAST_BYTES}, or 0 to remember nothing")
        self._limit = size_bytes
        self._size = 0
        self._volumes: list[tuple[str, Automaton]] = []  # the one begun first comes first
        self.version = 0

    @property
    def size_bytes(self) -> int:
        """What is kept takes at most so much (an upper estimate; see Automaton)."""
        return self._size

    def read(self, scope: str) -> list[Automaton]:
        """The volumes of a scope, newest first."""
        return [volume for owner, volume in reversed(self._volumes) if owner == scope]

    def add(self, scope: str, answer: Sequence[int]) -> None:
        """Remember an answer's ids [n]; one of more than a quarter of the memory is cut into several."""
        if not answer:
            return
        self.version += 1
        volume = self._volume(scope)
        for token in (*answer, EDGE):
            if volume.size_bytes >= 2 * (self._limit // VOLUMES):
                volume = self._begin(scope)
            self._extend(volume, token)
            while self._size > self._limit:
                if self._drop() is volume:
                    volume = self._begin(scope)

    def _volume(self, scope: str) -> Automaton:
        """Where the next answer goes."""
        share = self._limit // VOLUMES
        for owner, volume in reversed(self._volumes):
            if owner == scope:
                next_out = volume is self._volumes[0][1] and self._size > self._limit - share
                return self._begin(scope) if next_out or volume.size_bytes >= share else volume
        return self._begin(scope)

    def _begin(self, scope: str) -> Automaton:
        volume = Automaton()
        self._size += volume.size_bytes
        self._extend(volume, EDGE)
        self._volumes.append((scope, volume))
        return volume

    def _extend(self, volume: Automaton, token: int) -> None:
        before = volume.size_bytes
        volume.extend((token,))
        self._size += volume.size_bytes - before

    def _drop(self) -> Automaton:
        _, volume = self._volumes.pop(0)
        self._size -= volume.size_bytes
        return volume
