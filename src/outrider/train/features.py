"""What the target makes of a text, from the native engine: states at the taps, and the likeliest next tokens.

Dimensions: n tokens of a text, T taps, H hidden, K kept ids of a law.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from outrider.backends.base import Extend, TappedScores, Want
from outrider.train.corpus import Text
from outrider.train.target import normalised

KEPT = 16  # ids of a law; on answers of the default model they hold 0.93 of the probability
PASS_ROWS = 384  # rows of a pass: their logits take 75 MB with a vocabulary of 49,152


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """A text as its target sees it. Row r of the laws is about token prompt + 1 + r: what chain r guesses first."""

    states: npt.NDArray[np.float16]  # [n - 1, T * H], every tap's state divided by its root mean square
    law: npt.NDArray[np.int32]  # [starts, K]
    chance: npt.NDArray[np.float16]  # [starts, K]

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return self.states.nbytes + self.law.nbytes + self.chance.nbytes


class Tapped(Protocol):
    """What is needed of a backend; see backends.base."""

    def tap(self, layers: Sequence[int]) -> None: ...
    def open(self) -> int: ...
    def close(self, seq: int) -> None: ...
    def extend(self, items: Sequence[Extend]) -> TappedScores: ...


class Extractor:
    """Computes features; a text's do not depend on the texts that are computed with it."""

    def __init__(self, backend: Tapped, taps: Sequence[int], hidden: int, eps: float) -> None:
        self._backend, self._taps, self._hidden, self._eps = backend, tuple(taps), hidden, eps
        backend.tap(self._taps)

    def features(self, texts: Sequence[Text]) -> list[Features]:
        """Of each text. Raises what the backend raises."""
        done: list[Features] = []
        batch: list[Text] = []
        for text in texts:
            if batch and sum(len(other.ids) for other in batch) + len(text.ids) > PASS_ROWS:
                done += self._pass(batch)
                batch = []
            batch.append(text)
        return done + (self._pass(batch) if batch else [])

    def _pass(self, texts: list[Text]) -> list[Features]:
        sequences = [self._backend.open() for _ in texts]
        try:
            scores = self._backend.extend(
                [
                    Extend(seq, text.ids[:-1].tolist(), None, [Want.NONE] * text.prompt + [Want.LOGITS] * text.starts)
                    for seq, text in zip(sequences, texts, strict=True)
                ]
            )
            return [self._read(scores, item, text) for item, text in enumerate(texts)]
        finally:
            for seq in sequences:
                self._backend.close(seq)

    def _read(self, scores: TappedScores, item: int, text: Text) -> Features:
        raw = scores.states(item).reshape(len(text.ids) - 1, len(self._taps), self._hidden)
        states = normalised(raw, self._eps).astype(np.float16).reshape(len(raw), -1)
        law = np.zeros((text.starts, KEPT), np.int32)
        chance = np.zeros((text.starts, KEPT), np.float16)
        for row in range(text.starts):
            ids, chances = likeliest(scores, item, text.prompt + row)
            law[row, : len(ids)], chance[row, : len(ids)] = ids, chances
        return Features(states, law, chance)


def likeliest(scores: TappedScores, item: int, row: int) -> tuple[list[int], list[float]]:
    """The likeliest ids of a row at temperature 1, and their probabilities: K of each, or V where that is less."""
    found = scores.logprobs(item, row, 0, KEPT, processed=False).top
    return [token for token, _ in found], [math.exp(value) for _, value in found]


class Shelf(Protocol):
    """Where features outlive a run; see states.StateFolder."""

    def has(self, text: Text) -> bool: ...
    def find(self, text: Text) -> Features | None: ...
    def add(self, text: Text, features: Features) -> bool: ...
    def close(self) -> None: ...


class Kept:
    """Features by key: found on the shelf, if there is one and it has them; else computed.

    What is computed goes on the shelf, or without one, or where it is full, into the memory, if it fits; the rest is
    computed each time it is asked for.
    """

    def __init__(self, extractor: Extractor, memory_bytes: int, shelf: Shelf | None = None) -> None:
        self._extractor, self._memory_bytes, self._shelf = extractor, memory_bytes, shelf
        self._kept: dict[int, Features] = {}
        self.bytes = 0  # in the memory
        self._kept_tok = self._shelved_tok = 0
        self.computed_tok = 0

    def expect(self, texts: Sequence[Text]) -> None:
        """These will be asked for: how many of their tokens are on the shelf decides how long a run will take."""
        if self._shelf is not None:
            self._shelved_tok = sum(len(text.ids) - 1 for text in texts if self._shelf.has(text))

    def features(self, wanted: Sequence[tuple[int, Text]]) -> list[Features]:
        """Of (key, text) pairs; a key stands for the same text every time."""
        found: dict[int, Features] = {}
        missing: list[tuple[int, Text]] = []
        for key, text in wanted:
            features = self._kept.get(key) or (self._shelf.find(text) if self._shelf is not None else None)
            if features is None:
                missing.append((key, text))
            else:
                found[key] = features
        for (key, text), features in zip(missing, self._extractor.features([t for _, t in missing]), strict=True):
            found[key] = features
            self._keep(key, text, features)
        return [found[key] for key, _ in wanted]

    def to_compute(self, tokens: int, epochs: float) -> float:
        """Tokens whose states a run of so many more epochs over `tokens` will still compute, about."""
        fitting = float(tokens)
        if self._kept_tok:
            fitting = min(fitting, self._shelved_tok + self._memory_bytes * self._kept_tok / self.bytes)
        first = max(0.0, min(fitting, fitting * epochs) - self._kept_tok - self._shelved_tok)
        return first + (tokens - fitting) * epochs

    def close(self) -> None:
        """Let other runs have the shelf."""
        if self._shelf is not None:
            self._shelf.close()

    def _keep(self, key: int, text: Text, features: Features) -> None:
        size = len(features.states)
        self.computed_tok += size
        if self._shelf is not None and self._shelf.add(text, features):
            self._shelved_tok += size
        elif self.bytes + features.nbytes <= self._memory_bytes:
            self._kept[key] = features
            self.bytes += features.nbytes
            self._kept_tok += size
