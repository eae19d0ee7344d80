"""The benchmarks' wrappers of drafters say what the drafter inside says of itself, or its drafts would be refused."""

from __future__ import annotations

import drafting
import goodput
import pytest
import when

from outrider.drafters.base import Drafter, names
from outrider.drafters.blended import BlendedDrafter
from outrider.drafters.recycle import RecycleDrafter
from outrider.drafters.suffix import SuffixDrafter

INNER = BlendedDrafter([SuffixDrafter(), RecycleDrafter(8)])


@pytest.mark.parametrize(
    "wrapped", [when.Watched(INNER), goodput.Slow(INNER, 0.0, 0.0), drafting.TimedDrafter(INNER, drafting.Clocks())]
)
def test_names_and_followers(wrapped: Drafter) -> None:
    assert names(wrapped) == ("suffix", "recycle")
    assert getattr(wrapped, "followers", 0) == INNER.followers > 0
