"""The conversations as a head is trained on them: split, and counted.

Dimensions: n tokens of a text, V vocabulary, D draft vocabulary.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from outrider.errors import UsageError
from outrider.train.data import Dialogue

Ids = npt.NDArray[np.int32]

LONGEST = 4096  # ids of a text; a longer answer is cut


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """A question and its answer, in the target's ids."""

    ids: Ids  # [n]; the id that ends a turn last, where the answer ended
    prompt: int  # ids before the answer, or before what is learned of it

    @property
    def starts(self) -> int:
        """Positions that a chain of guesses starts from: the last of the prompt up to the third last of all."""
        return len(self.ids) - self.prompt - 1


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """What a head is trained on, and what it is measured on."""

    train: tuple[Text, ...]
    held_out: tuple[Text, ...]
    digest: str  # of all texts, in order

    @property
    def starts(self) -> int:
        """Chains that an epoch trains."""
        return sum(text.starts for text in self.train)


def split(dialogues: Sequence[Dialogue], end: int | None, held_out: float) -> Corpus:
    """All conversations as texts; `held_out` of them, chosen by the question's hash, are kept apart.

    end: the id that stands behind an answer that ended. Raises UsageError where no text is left for one of the parts.
    """
    train: list[Text] = []
    kept: list[Text] = []
    digest = hashlib.sha256()
    for dialogue in dialogues:
        tail = [end] if dialogue.ended and end is not None else []
        ids = np.concatenate([dialogue.prompt, dialogue.answer, np.asarray(tail, np.int32)]).astype(np.int32)[:LONGEST]
        text = Text(ids, len(dialogue.prompt) + dialogue.opening)
        if text.starts < 1 or not text.prompt:
            continue
        digest.update(ids.tobytes())
        # The hash, not the place in the file: a question stays held out when more text comes.
        draw = int.from_bytes(hashlib.sha256(dialogue.prompt.tobytes()).digest()[:4], "big")
        (kept if draw < held_out * 2**32 else train).append(text)
    if not train or not kept:
        raise UsageError(
            f"{len(train)} texts are there to train on and {len(kept)} to measure on, and both are needed; "
            "let the target write more, or raise held_out"
        )
    return Corpus(tuple(train), tuple(kept), digest.hexdigest())


def draft_vocabulary(texts: Iterable[Text], size: int, vocab: int) -> tuple[Ids, float]:
    """The most frequent ids of the answers, ascending [D], and which part of the answers they are.

    The lower id wins a tie. A draft vocabulary that is larger than the target's is the target's.
    """
    counts = np.zeros(vocab, np.int64)
    for text in texts:
        counts += np.bincount(text.ids[text.prompt :], minlength=vocab)
    best = np.argsort(-counts, kind="stable")[: min(size, vocab)]
    return np.sort(best).astype(np.int32), float(counts[best].sum() / max(1, counts.sum()))


def batches(texts: Sequence[Text], starts: int, seed: tuple[int, ...]) -> list[list[int]]:
    """The texts of an epoch in batches of about `starts` chains, as indices: texts of a batch are about equally long.

    Chance decides which texts meet and in which order the batches come; the seed decides chance.
    """
    chance = np.random.default_rng(seed)
    order = chance.permutation(len(texts))
    window = max(1, 32 * starts * len(texts) // max(1, sum(text.starts for text in texts)))
    found: list[list[int]] = []
    for first in range(0, len(order), window):
        batch: list[int] = []
        size = 0
        for index in sorted(order[first : first + window].tolist(), key=lambda i: (len(texts[i].ids), i)):
            if batch and size + texts[index].starts > starts:
                found.append(batch)
                batch, size = [], 0
            batch.append(index)
            size += texts[index].starts
        found.append(batch)
    return [found[index] for index in chance.permutation(len(found))]


class Plan:
    """Which texts each step trains on: epoch after epoch, each with its own order. Asked for ascending steps."""

    def __init__(self, texts: Sequence[Text], starts: int, seed: int) -> None:
        self._texts, self._starts, self._seed = texts, starts, seed
        self._epoch, self._first, self._batches = 0, 0, batches(texts, starts, (seed, 0))
        self.epoch_steps = len(self._batches)  # about: epochs differ by a few

    def step(self, step: int) -> list[int]:
        """Indices of the texts."""
        while step >= self._first + len(self._batches):
            self._first += len(self._batches)
            self._epoch += 1
            self._batches = batches(self._texts, self._starts, (self._seed, self._epoch))
        return self._batches[step - self._first]
