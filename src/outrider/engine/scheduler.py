"""Who runs in a step: first come, first served, everybody who fits at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from outrider.engine.sequence import Sequence, Turn


class Scheduler:
    """Waiting and running sequences; at most `slots` run at once and a pass takes at most `chunk_rows` prompt rows.

    Decoding never waits for prompts: a sequence with one pending token is in every pass.
    """

    def __init__(self, sequences: Iterable[Sequence], slots: int, chunk_rows: int) -> None:
        self.running: list[Sequence] = []
        self._waiting = deque(sequences)
        self._slots = slots
        self._chunk_rows = chunk_rows

    @property
    def busy(self) -> bool:
        """Whether anything is left to do."""
        return bool(self.running or self._waiting)

    def admit(self) -> list[Sequence]:
        """Move waiting sequences to free slots; returns the newcomers, which are not open yet.

        A sample other than a request's first waits until the first has read the prompt; others may go before it.
        """
        free = self._slots - len(self.running)
        newcomers: list[Sequence] = []
        held: list[Sequence] = []
        for _ in range(len(self._waiting)):
            if len(newcomers) == free:
                break
            sequence = self._waiting.popleft()
            if sequence.ready:
                newcomers.append(sequence)
            else:
                held.append(sequence)
        self._waiting.extendleft(reversed(held))
        self.running += newcomers
        return newcomers

    def plan(self) -> list[Turn]:
        """The turns of the next pass; never empty while something is running."""
        turns: list[Turn] = []
        room = self._chunk_rows
        for sequence in self.running:
            pending = sequence.pending
            if pending > 1:
                pending = min(pending, room, sequence.most_rows or room)
                room -= pending
            if pending:
                turns.append(Turn(sequence, pending))
        return turns

    def drop(self, sequence: Sequence) -> None:
        """Forget a sequence that ended."""
        self.running.remove(sequence)
