"""Who runs in a step: first come, first served, as many as fit; and how prompts share a pass."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator

from outrider.engine.memory import Memory
from outrider.engine.sequence import Family, Sequence, Turn


class Scheduler:
    """Waiting and running sequences; at most `slots` run at once, in the order in which they were added.

    A pass takes at most chunk_rows prompt rows, or beside_rows where somebody else decodes in it. Decoding never waits
    for prompts: a sequence with one pending token is in every pass. Half of the prompt rows are for the prompt that
    came first, the other half for those that need the fewest. So, however long other prompts are, one of r rows is read
    within 2 (r + s) / beside_rows passes, where s are the rows of prompts that need no more than it does.
    """

    def __init__(self, memory: Memory, slots: int, chunk_rows: int, beside_rows: int) -> None:
        self.memory = memory
        self.running: list[Sequence] = []  # the oldest first, as in waiting
        self.waiting: list[Sequence] = []
        self._slots = self._most = slots
        self._chunk_rows = chunk_rows
        self._beside_rows = beside_rows
        self._added = 0

    @property
    def busy(self) -> bool:
        """Whether anything is left to do."""
        return bool(self.running or self.waiting)

    def add(self, sequences: Iterable[Sequence]) -> None:
        """Let sequences wait for their turn."""
        for sequence in sequences:
            sequence.number = self._added
            self._added += 1
            self.waiting.append(sequence)

    def admit(self) -> Iterator[Sequence]:
        """Move sequences that wait to free slots, the oldest first; each has to be opened before the next is asked for.

        A sample other than a request's first waits until the first has read the prompt; others may go before it.
        """
        place = 0
        while len(self.running) < self._most and place < len(self.waiting):
            sequence = self.waiting[place]
            if not sequence.ready:
                place += 1
                continue
            if not self.memory.admits(sequence, self.running):
                return
            del self.waiting[place]
            insort(self.running, sequence, key=_number)
            yield sequence

    def plan(self) -> list[Turn]:
        """The turns of the next pass; never empty while something is running."""
        shares = self._shares()
        rows = ((sequence, shares.get(sequence.number, 1)) for sequence in self.running)
        return [Turn(sequence, count) for sequence, count in rows if count]

    def pause(self, sequence: Sequence) -> None:
        """A running sequence waits again, in its place by age."""
        self.running.remove(sequence)
        insort(self.waiting, sequence, key=_number)

    def narrow(self) -> None:
        """No more than now may run at once; each that ends lets one more in."""
        self._most = max(1, len(self.running))

    def drop(self, sequence: Sequence) -> None:
        """Forget a sequence that ended."""
        self.running.remove(sequence)
        self._most = min(self._slots, self._most + 1)

    def withdraw(self, family: Family) -> list[Sequence]:
        """Forget all samples of a request; returns those that were running."""
        gone = [sequence for sequence in self.running if sequence.family is family]
        self._most = min(self._slots, self._most + len(gone))
        self.running = [sequence for sequence in self.running if sequence.family is not family]
        self.waiting = [sequence for sequence in self.waiting if sequence.family is not family]
        return gone

    def _shares(self) -> dict[int, int]:
        """By number, the rows of those that have more than one token pending."""
        wanted = {s.number: min(s.pending, s.most_rows or s.pending) for s in self.running if s.pending > 1}
        if not wanted:
            return wanted
        room = self._chunk_rows if len(wanted) == len(self.running) else self._beside_rows
        first, *others = wanted
        others.sort(key=wanted.__getitem__)
        rest = sum(wanted[number] for number in others)
        wanted[first] = min(wanted[first], max(room - rest, -(-room // 2)))
        room -= wanted[first]
        for number in others:
            wanted[number] = min(wanted[number], room)
            room -= wanted[number]
        return wanted


def _number(sequence: Sequence) -> int:
    return sequence.number
