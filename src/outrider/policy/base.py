"""What a policy is: how much to draft, apart from who drafts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from outrider.core.step import Budget, Outcome, View


class Policy(Protocol):
    """Sets the budgets of a step and learns from what became of them."""

    def budgets(self, views: Sequence[View], load: int) -> list[Budget]:
        """One budget for each view, in order; load is the number of rows that the pass computes without any draft."""
        ...

    def observe(self, outcomes: Sequence[Outcome], seconds: float) -> None:
        """What became of the drafts, and how long the whole step took."""
        ...
