"""A backend that has read some prompts before, so that a test may answer them many times over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from outrider.api import Logprob
from outrider.backends.base import Adjust, Backend, Capabilities, Extend, Scores, Want
from outrider.core.types import FloatArray

CHUNK = 512


def read(backend: Backend, seq: int, tokens: Sequence[int], chunk: int = CHUNK) -> None:
    """Commit tokens to a sequence, `chunk` at a time."""
    for start in range(0, len(tokens), chunk):
        part = tokens[start : start + chunk]
        backend.extend([Extend(seq, part, None, [Want.NONE] * len(part))])
        backend.commit([(seq, range(len(part)))])


class PrefixedBackend:
    """A sequence that starts with a known prompt is a fork of one that has read all of it but the last token.

    The first pass of a sequence has to bring the whole prompt (chunk_rows of the engine must be large enough); of its
    rows only those from the prompt's last token on are computed.
    """

    def __init__(self, backend: Backend, prompts: Sequence[Sequence[int]]) -> None:
        self._backend = backend
        self._known: dict[tuple[int, ...], int] = {}
        self._real: dict[int, int] = {}  # sequence of the caller -> ours, once its prompt is known
        self._skipped: dict[int, int] = {}  # rows of its last pass that were not computed
        self._next = 0
        for prompt in prompts:
            seq = self._known[tuple(prompt)] = backend.open()
            read(backend, seq, prompt[:-1])

    @property
    def vocab(self) -> int:
        return self._backend.vocab

    @property
    def context(self) -> int:
        return self._backend.context

    @property
    def capabilities(self) -> Capabilities:
        return self._backend.capabilities

    def forget(self) -> None:
        """Close the sequences that hold the prompts."""
        for seq in self._known.values():
            self._backend.close(seq)
        self._known.clear()

    def open(self) -> int:
        self._next += 1
        return self._next

    def fork(self, seq: int) -> int:
        new = self.open()
        self._real[new] = self._backend.fork(self._real[seq])
        return new

    def truncate(self, seq: int, length: int) -> None:
        self._backend.truncate(self._real[seq], length)

    def close(self, seq: int) -> None:
        if seq in self._real:
            self._backend.close(self._real.pop(seq))

    def length(self, seq: int) -> int:
        return self._backend.length(self._real[seq]) if seq in self._real else 0

    def extend(self, items: Sequence[Extend]) -> ShiftedScores:
        shifted = [self._shift(item) for item in items]
        return ShiftedScores(self._backend.extend(shifted), [self._skipped[item.seq] for item in items])

    def commit(self, items: Sequence[tuple[int, Sequence[int]]]) -> None:
        self._backend.commit(
            [
                (self._real[seq], [row - self._skipped[seq] for row in path if row >= self._skipped[seq]])
                for seq, path in items
            ]
        )

    def _shift(self, item: Extend) -> Extend:
        skip = 0
        if item.seq not in self._real:
            prompt = max((p for p in self._known if tuple(item.tokens[: len(p)]) == p), key=len)
            self._real[item.seq] = self._backend.fork(self._known[prompt])
            skip = len(prompt) - 1
        self._skipped[item.seq] = skip
        parents = None if item.parents is None else [max(parent - skip, -1) for parent in item.parents[skip:]]
        return replace(
            item, seq=self._real[item.seq], tokens=item.tokens[skip:], parents=parents, want=item.want[skip:]
        )


@dataclass(frozen=True, slots=True)
class ShiftedScores:
    """Scores under the caller's row numbers."""

    scores: Scores
    skipped: list[int]  # per item

    def token(self, item: int, row: int, adjust: Adjust | None = None) -> int:
        return self.scores.token(item, row - self.skipped[item], adjust)

    def logits(self, item: int, row: int) -> FloatArray:
        return self.scores.logits(item, row - self.skipped[item])

    def law(self, item: int, row: int, adjust: Adjust | None = None) -> FloatArray:
        return self.scores.law(item, row - self.skipped[item], adjust)

    def logprobs(
        self, item: int, row: int, chosen: int, top: int, processed: bool, adjust: Adjust | None = None
    ) -> Logprob:
        return self.scores.logprobs(item, row - self.skipped[item], chosen, top, processed, adjust)

    def top(self, item: int, row: int, count: int) -> tuple[int, ...]:
        return self.scores.top(item, row - self.skipped[item], count)
