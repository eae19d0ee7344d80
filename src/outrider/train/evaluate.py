"""What a head would have got accepted, measured on texts that it was not trained on: greedy chains, as a native one.

Dimensions: R chains, H hidden, D draft vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from outrider.train.batch import Batch
from outrider.train.chains import Drafter
from outrider.train.types import Acceptance

TEMPERATURES = tuple(float(t) for t in np.round(np.geomspace(0.5, 2.0, 25), 3))
_CHUNK = 256  # rows of float32 logits at a time


@dataclass(slots=True)
class Tally:
    """Counts of the chains so far; with temperatures also how well each would describe them."""

    depth: int
    temperatures: tuple[float, ...] = ()
    reached: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    surprise: list[float] = field(default_factory=list)
    passes: int = 0

    def __post_init__(self) -> None:
        self.reached, self.right = [0] * self.depth, [0] * self.depth
        self.surprise = [0.0] * len(self.temperatures)

    def acceptance(self) -> Acceptance:
        """Of what was counted."""
        alpha = tuple(r / max(1, n) for r, n in zip(self.right, self.reached, strict=True))
        return Acceptance(alpha, self.reached[0], self.passes)

    def temperature(self) -> float:
        """The one under which the right tokens were least surprising: softmax(logits / t) is then a chance."""
        return self.temperatures[int(np.argmin(self.surprise))]

    def add(self, step: int, reached: int, a: Tensor, weight: Tensor, label: Tensor) -> Tensor:
        """Count a step [R]; which chains were right [R]. Logits are float32: half precision ties the best two."""
        right = torch.empty(len(a), dtype=torch.bool, device=a.device)
        for start in range(0, len(a), _CHUNK):
            part = slice(start, start + _CHUNK)
            logits = a[part].float() @ weight.T
            right[part] = logits.argmax(-1) == label[part]
            true = logits.gather(1, label[part, None])[:, 0]
            for index, t in enumerate(self.temperatures):
                self.surprise[index] += float((torch.logsumexp(logits / t, -1) - true / t).sum())
        self.reached[step] += reached
        self.right[step] += int(right.sum())
        return right

    def walked(self, batch: Batch, right: Tensor) -> None:
        """Count the passes that write the texts, each from where the one before it ended; right [R] of each chain.

        That is not the mean over all places: passes start more often where guesses fail.
        """
        ahead = (right + 1).tolist()
        at = 0
        for count in torch.bincount(batch.chain_text, minlength=batch.texts).tolist():
            end = at + count
            while at < end:
                at += ahead[at]
                self.passes += 1
            at = end


def measure(head: Drafter, batches: Iterable[Batch], depth: int, calibrate: bool = False) -> Tally:
    """Draft from every position of the texts, each chain until its first wrong guess or `depth` tokens."""
    tally = Tally(depth, TEMPERATURES if calibrate else ())
    with torch.no_grad():
        weight = head.head.float()
        for batch in batches:
            walk = head.walk(batch)
            accepted = torch.zeros_like(batch.chain_text)
            for number, step in enumerate(walk.steps(depth)):
                right = tally.add(number, step.reached, step.a, weight, step.goal.label)
                accepted[step.chains] += right
                walk.went_on(right)
            tally.walked(batch, accepted)
    return tally
