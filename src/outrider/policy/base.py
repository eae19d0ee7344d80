"""What a policy is: how much to draft, apart from who drafts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from outrider.core.step import Budget, Load, Outcome, StepTime, View
from outrider.core.types import Draft


class Policy(Protocol):
    """Sets the budgets of a step, may cut what was drafted, and learns from what became of it."""

    def budgets(self, views: Sequence[View], load: Load) -> list[Budget]:
        """One budget for each view, in order, before anything is drafted."""
        ...

    def admit(self, views: Sequence[View], drafts: Sequence[Draft], load: Load) -> list[Draft]:
        """The drafts, in order, or parts of them that hold with each node all nodes above it.

        Only asked about drafts whose nodes may be left out after they were drawn: POINT ones, and any under the coupled
        rule (docs/rules.md).
        """
        ...

    def observe(self, outcomes: Sequence[Outcome], time: StepTime) -> None:
        """What became of the drafts, also of the empty ones, and how long the step took."""
        ...
