"""Where the sequences of a batch live in the backend: who is opened from what, what is kept, and who fits.

With a budget, a pass never needs more blocks than there are: kept beginnings go first, then what samples wait to fork,
then the youngest sequence pauses. A sequence alone always fits, because that was checked before it was taken in.

Dimensions: B positions of a block.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

from outrider.api import Request
from outrider.backends.base import Backend, Blocks
from outrider.engine.prefixes import Node, Prefixes
from outrider.engine.sequence import Family, Sequence, Turn
from outrider.errors import UsageError

# A draft may go into a block of its own where its sequence's last one has less room than this.
_DRAFT_ROOM = 16


class Memory:
    """As much memory as the sequences like. The samples of one request share what the first has read."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def admits(self, answer: Sequence, running: Seq[Sequence]) -> bool:
        """Whether a sequence may be opened beside those that run."""
        return True

    def fits(self, turns: Seq[Turn], running: Seq[Sequence]) -> bool:
        """Whether these turns can be computed; also says how deep their drafts may go."""
        return True

    def open(self, answer: Sequence) -> None:
        """Open a sequence, with as much of its text as is in the cache somewhere."""
        begins = not answer.started
        answer.opened(*self._begun(answer))
        family = answer.family
        if begins and not answer.first:
            family.waiting -= 1
            if family.waiting == 0:
                self.forget(family)

    def committed(self, turns: Seq[Turn]) -> None:
        """The rows of a pass were committed: a prompt that others wait for is kept for them."""
        for turn in turns:
            if turn.decides and turn.sequence.first and not turn.sequence.family.read:
                self._was_read(turn.sequence)

    def close(self, answer: Sequence) -> None:
        """A sequence ends or pauses."""
        if answer.seq >= 0:
            seq = answer.seq
            answer.closed()
            self._backend.close(seq)

    def discard(self, answer: Sequence) -> None:
        """Close a sequence of which nobody knows what the backend has of it."""
        self.close(answer)

    def forget(self, family: Family) -> None:
        """No sample waits for the prompt any more, or it has to be read again."""
        if family.stem >= 0:
            stem, family.stem = family.stem, -1
            self._backend.close(stem)

    def _begun(self, answer: Sequence) -> tuple[int, int]:
        """An open sequence, and how many of the answer's tokens it has."""
        if answer.family.stem >= 0:
            return self._backend.fork(answer.family.stem), len(answer.request.prompt) - 1
        return self._backend.open(), 0

    def _was_read(self, answer: Sequence) -> None:
        family = answer.family
        family.read = True
        if family.waiting:
            family.stem = self._backend.fork(answer.seq)
            self._backend.truncate(family.stem, len(answer.request.prompt) - 1)


class Budgeted(Memory):
    """At most kv_bytes for keys and values, in whole blocks; what nobody needs at present keeps beginnings of texts.

    Raises UsageError where the backend does not count blocks, and for less than one of them.
    """

    def __init__(self, backend: Backend, kv_bytes: int) -> None:
        super().__init__(backend)
        if not isinstance(backend, Blocks):
            raise UsageError("kv_bytes is set, but this backend does not count its blocks; leave it out")
        if kv_bytes < backend.block_bytes:
            raise UsageError(f"kv_bytes is {kv_bytes}; one block takes {backend.block_bytes}, so give at least as much")
        self._blocks: Blocks = backend
        self._size = backend.block_tokens
        self._families: list[Family] = []  # those with a stem
        self.prefixes = Prefixes(backend, self._size)
        self.total = kv_bytes // backend.block_bytes
        self.hits_tok = self.misses_tok = 0

    @property
    def block_bytes(self) -> int:
        return self._blocks.block_bytes

    @property
    def used(self) -> int:
        """Blocks in use, kept beginnings included."""
        return self._blocks.blocks_used

    def check(self, request: Request, context: int) -> None:
        """Raise UsageError for a request that does not fit even alone."""
        answer = min(request.max_tokens, context - len(request.prompt))
        blocks = self._count(len(request.prompt) + answer)
        if blocks > self.total:
            raise UsageError(
                f"{len(request.prompt)} prompt tokens and max_tokens {answer} need {blocks} blocks of {self._size} "
                f"tokens ({blocks * self._blocks.block_bytes} bytes), but keys and values may take {self.total} "
                f"({self.total * self._blocks.block_bytes} bytes); ask for at most {self.total * self._size} tokens in "
                "all, or start with more kv_bytes"
            )

    def admits(self, answer: Sequence, running: Seq[Sequence]) -> bool:
        if not running:
            return True
        # One block for each that runs is left over: else a newcomer would soon have to pause, and be read twice.
        needed = len(running) + sum(self._count(len(s.tokens) + 1) - self._count(s.committed) for s in running)
        needed += self._count(len(answer.tokens) + 1)
        if needed <= self.total - self.used:
            return True
        node = self._known(answer)
        held = 0 if node is None else self.prefixes.held(node)
        return needed - held <= self.total - self.used + self.prefixes.idle

    def fits(self, turns: Seq[Turn], running: Seq[Sequence]) -> bool:
        needed = sum(map(self._growth, turns))
        spare = self._spare(needed)
        if spare < 0:
            if len(running) > 1:
                return False
            # What is kept may hold the same text as the sequence that stands on it, in blocks of its own.
            self.prefixes.drop()
            spare = self._spare(needed)
        for turn in turns:
            if turn.decides:
                turn.depth = -turn.position % self._size
                if turn.depth < _DRAFT_ROOM and (spare > 0 or self.prefixes.evict()):
                    spare -= spare > 0
                    turn.depth += self._size
        return True

    def close(self, answer: Sequence) -> None:
        if answer.seq >= 0:
            self.prefixes.keep(answer.request.scope, answer.tokens[: answer.committed], answer.seq)
            self.discard(answer)

    def discard(self, answer: Sequence) -> None:
        super().close(answer)
        answer.stand, before = None, answer.stand
        self._release(before)

    def forget(self, family: Family) -> None:
        if family.stem >= 0:
            super().forget(family)
            self._families.remove(family)
            family.stand, before = None, family.stand
            self._release(before)

    def clear(self) -> None:
        """Give up every kept beginning that nobody stands on."""
        self.prefixes.clear()

    def _begun(self, answer: Sequence) -> tuple[int, int]:
        node = self._known(answer)
        kept = 0 if node is None else node.depth * self._size
        if answer.family.stem >= 0 and kept < len(answer.request.prompt) - 1:
            seq, length = super()._begun(answer)
            answer.shares_block = length % self._size > 0
        elif node is not None:
            seq, length = self.prefixes.fork(node), kept
        else:
            seq, length = self._backend.open(), 0
        if not answer.started and answer.family.stem < 0:
            self.hits_tok += length
            self.misses_tok += len(answer.tokens) - length
        # Also behind a stem: its blocks are the kept ones.
        answer.stand = self._held(node)
        return seq, length

    def _known(self, answer: Sequence) -> Node | None:
        """The longest kept beginning of an answer's tokens; the last token is always computed."""
        if answer.reads_prompt:
            return None  # every row of the prompt is asked for
        return self.prefixes.find(answer.request.scope, answer.tokens, len(answer.tokens) - 1)

    def committed(self, turns: Seq[Turn]) -> None:
        for turn in turns:
            turn.sequence.shares_block = False
        super().committed(turns)

    def _was_read(self, answer: Sequence) -> None:
        super()._was_read(answer)
        scope, family = answer.request.scope, answer.family
        node = self.prefixes.keep(scope, answer.tokens[: answer.committed], answer.seq)
        answer.stand, before = self._held(node), answer.stand
        self._release(before)
        if family.stem >= 0:
            stem = len(answer.request.prompt) - 1
            self._families.append(family)
            family.stand = self._held(self.prefixes.find(scope, answer.request.prompt, stem))
            answer.shares_block = answer.committed // self._size < self._count(stem)

    def _growth(self, turn: Turn) -> int:
        """Blocks that a turn's rows take; a partial one that others share is copied first."""
        answer = turn.sequence
        return self._count(turn.position) - self._count(answer.committed) + answer.shares_block

    def _spare(self, needed: int) -> int:
        """Blocks that are free beside the needed ones, after what can be given up for these without pausing anybody."""
        while (spare := self.total - self.used - needed) < 0:
            if self.prefixes.evict():
                continue
            if not self._families:
                break
            self.forget(self._families[-1])
        return spare

    def _count(self, positions: int) -> int:
        return -(-positions // self._size)

    def _held(self, node: Node | None) -> Node | None:
        if node is not None:
            self.prefixes.hold(node)
        return node

    def _release(self, node: Node | None) -> None:
        if node is not None:
            self.prefixes.release(node)
