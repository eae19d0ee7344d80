"""The fixed policy."""

from __future__ import annotations

import pytest

from outrider.api import Sampling
from outrider.core.step import Budget, Load, Tokens, View
from outrider.core.types import Draft
from outrider.errors import UsageError
from outrider.policy.fixed import Fixed


def test_every_sequence_gets_gamma_under_any_load() -> None:
    views = [View(seq, Tokens([1]), Sampling()) for seq in range(3)]
    assert Fixed(5).budgets(views, Load(1, 1)) == Fixed(5).budgets(views, Load(9, 900)) == [Budget(5, 5)] * 3


@pytest.mark.parametrize("gamma", [-1, 65])
def test_gamma_outside_its_range_is_refused(gamma: int) -> None:
    with pytest.raises(UsageError, match=rf"gamma is {gamma}; draft between 0 \(off\) and 64"):
        Fixed(gamma)


def test_drafts_are_taken_whole() -> None:
    views = [View(seq, Tokens([1]), Sampling()) for seq in range(2)]
    drafts = [Draft.chain((1, 2)), Draft((3, 4), (-1, -1))]
    assert Fixed(5).admit(views, drafts, Load(2, 2)) == drafts
