"""The benchmarks' wrappers of drafters say what the drafter inside says of itself, or its drafts would be refused."""

from __future__ import annotations

from collections.abc import Callable

import drafting
import goodput
import pytest
import when

from outrider.drafters.base import Drafter, names
from outrider.drafters.blended import BlendedDrafter
from outrider.drafters.recycle import RecycleDrafter
from outrider.drafters.suffix import SuffixDrafter


@pytest.mark.parametrize(
    "wrap",
    [
        when.Watched,
        lambda inner: goodput.Slow(inner, 0.0, 0.0),
        lambda inner: drafting.TimedDrafter(inner, drafting.Clocks()),
    ],
    ids=["when", "goodput", "drafting"],
)
def test_names_and_followers(wrap: Callable[[Drafter], Drafter]) -> None:
    inner = BlendedDrafter([SuffixDrafter(), RecycleDrafter(8)])
    wrapped = wrap(inner)
    assert names(wrapped) == ("suffix", "recycle")
    assert getattr(wrapped, "followers", 0) == inner.followers > 0
