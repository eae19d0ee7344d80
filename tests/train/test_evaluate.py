"""Tokens a pass are those of passes that follow one another, not the mean over all places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest

torch = pytest.importorskip("torch")

from outrider.train.batch import Batch  # noqa: E402
from outrider.train.evaluate import Tally  # noqa: E402


@dataclass
class Chains:
    """What is counted of a batch."""

    chain_text: Any
    texts: int


@pytest.mark.parametrize(
    ("text", "right", "passes"),
    [
        # From 0 two right ones and the target's own lead to 3, from there to the end; then all of the second text.
        ([0, 0, 0, 0, 1, 1], [2, 0, 1, 0, 1, 0], 3),
        ([0, 0, 0, 0], [0, 0, 0, 0], 4),
        ([0, 0, 0, 0], [3, 0, 0, 0], 1),
        ([0, 0, 1, 1], [9, 0, 0, 9], 3),  # a chain ends with its text, and the next text begins anew
    ],
)
def test_passes(text: list[int], right: list[int], passes: int) -> None:
    tally = Tally(2)
    batch = cast(Batch, Chains(torch.tensor(text), max(text) + 1))
    tally.walked(batch, torch.tensor(right))
    tally.walked(batch, torch.zeros(len(text), dtype=torch.long))
    assert tally.passes == passes + len(text)
