"""A batch of texts as tensors, and what each chain of it should guess.

Dimensions: B texts, N positions of all texts one after the other, R chains, T taps, H hidden, K kept ids of a law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from outrider.train.corpus import Ids, Text
from outrider.train.features import Features
from outrider.train.loss import Goal


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Texts side by side. Position i of a text holds the target's state there and the token after it."""

    states: Tensor  # [N, T * H] float16
    following: Tensor  # [N] token i + 1
    text: Tensor  # [N]
    position: Tensor  # [N] in its text
    texts: int
    chain_text: Tensor  # [R] ordered by text and start
    chain_start: Tensor  # [R] position that the chain starts from
    chain_flat: Tensor  # [R] that position among all N
    room: Tensor  # [R] tokens that can be guessed before the text ends
    label: Tensor  # [R] draft entry of what the first step should guess, -1 where there is none
    law: Tensor  # [R, K] draft entries, -1 where there is none
    chance: Tensor  # [R, K]

    def goal(self, chains: Tensor, step: int) -> Goal:
        """What these chains should guess in a step; that of a later step is another chain's first."""
        return Goal(self.label[chains + step], self.law[chains + step], self.chance[chains + step])

    def alive(self, chains: Tensor, step: int) -> Tensor:
        """Which of these chains have anything to guess in this step."""
        return self.room[chains] > step


class Batcher:
    """Puts batches together on a device. entries: draft entry of every id of the target's, -1 where there is none."""

    def __init__(self, ids: Ids, vocab: int, device: torch.device) -> None:
        self._entries = np.full(vocab, -1, np.int64)
        self._entries[ids] = np.arange(len(ids))
        self._device = device

    def batch(self, texts: Sequence[Text], features: Sequence[Features]) -> Batch:
        """The texts with their features."""
        sizes = np.array([len(text.ids) - 1 for text in texts])
        starts = np.array([text.starts for text in texts])
        first = np.cumsum(sizes) - sizes
        chain_text = np.repeat(np.arange(len(texts)), starts)
        nth = np.arange(starts.sum()) - (np.cumsum(starts) - starts)[chain_text]
        prompts = np.array([text.prompt for text in texts])
        chain_start = prompts[chain_text] - 1 + nth
        law = self._entries[np.concatenate([feature.law for feature in features])]
        chance = np.concatenate([feature.chance for feature in features])
        return Batch(
            states=self._tensor(np.concatenate([feature.states for feature in features])),
            following=self._tensor(np.concatenate([text.ids[1:] for text in texts]).astype(np.int64)),
            text=self._tensor(np.repeat(np.arange(len(texts)), sizes)),
            position=self._tensor(np.arange(sizes.sum()) - np.repeat(first, sizes)),
            texts=len(texts),
            chain_text=self._tensor(chain_text),
            chain_start=self._tensor(chain_start),
            chain_flat=self._tensor(first[chain_text] + chain_start),
            room=self._tensor(starts[chain_text] - nth),
            label=self._tensor(self._entries[np.concatenate([text.ids[text.prompt + 1 :] for text in texts])]),
            law=self._tensor(law),
            chance=self._tensor(chance.astype(np.float32)),
        )

    def _tensor(self, array: npt.NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)
