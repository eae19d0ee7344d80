"""Which single logits the text so far moves, and how far: penalties and bias along a text that grows and shrinks.

A draft's node sees the tokens drafted above it, so that a token costs the same whether it was drafted or not.
Dimensions: m ids that are moved.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from outrider.api import Sampling
from outrider.core.types import FloatArray, IntArray


class Penalties:
    """Repetition over prompt and answer, frequency and presence over the answer, and bias (api.Sampling)."""

    def __init__(self, sampling: Sampling, prompt: Iterable[int]) -> None:
        self._sampling = sampling
        self._bias = dict(sampling.logit_bias)
        self._counts_matter = wanted(replace(sampling, logit_bias=()))
        self._prompt = frozenset(prompt) if sampling.repetition_penalty != 1.0 else frozenset()
        self._index: dict[int, int] = {}
        self._counts: list[int] = []
        self._ids = np.zeros(0, np.int32)
        self._divisors = np.zeros(0, np.float32)
        self._offsets = np.zeros(0, np.float32)
        for token in sorted(self._prompt | self._bias.keys()):
            self._set(token, self._place(token))

    def push(self, token: int) -> None:
        """The answer gets a token."""
        if self._counts_matter:
            place = self._place(token)
            self._counts[place] += 1
            self._set(token, place)

    def pop(self, token: int) -> None:
        """The answer loses its last token, which was this one."""
        if self._counts_matter:
            place = self._index[token]
            self._counts[place] -= 1
            self._set(token, place)

    def moved(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """Ids, divisors and offsets [m] as core.sampling.Adjust wants them; valid until the next push or pop."""
        count = len(self._counts)
        return self._ids[:count], self._divisors[:count], self._offsets[:count]

    def _place(self, token: int) -> int:
        place = self._index.setdefault(token, len(self._counts))
        if place == len(self._counts):
            self._counts.append(0)
            if place == len(self._ids):
                more = max(64, place)
                self._ids = np.concatenate([self._ids, np.zeros(more, np.int32)])
                self._divisors = np.concatenate([self._divisors, np.ones(more, np.float32)])
                self._offsets = np.concatenate([self._offsets, np.zeros(more, np.float32)])
            self._ids[place] = token
        return place

    def _set(self, token: int, place: int) -> None:
        sampling, count = self._sampling, self._counts[place]
        repeated = count > 0 or token in self._prompt
        self._divisors[place] = sampling.repetition_penalty if repeated else 1.0
        offset = self._bias.get(token, 0.0) - sampling.frequency_penalty * count
        self._offsets[place] = offset - (sampling.presence_penalty if count else 0.0)


def wanted(sampling: Sampling) -> bool:
    """Whether any logit could be moved."""
    return bool(
        sampling.logit_bias
        or sampling.repetition_penalty != 1.0
        or sampling.frequency_penalty != 0.0
        or sampling.presence_penalty != 0.0
    )
