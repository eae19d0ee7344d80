"""The plainest policy: always the same draft length."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.core.step import Budget, Load, Outcome, StepTime, View
from outrider.core.types import Draft
from outrider.errors import UsageError

LARGEST_GAMMA = 64


class Fixed:
    """Gamma nodes for every sequence in every step. Raises UsageError where gamma is not between 0 and 64."""

    def __init__(self, gamma: int) -> None:
        if not 0 <= gamma <= LARGEST_GAMMA:
            raise UsageError(f"gamma is {gamma}; draft between 0 (off) and {LARGEST_GAMMA} tokens at a time")
        self._budget = Budget(gamma, gamma)

    def budgets(self, views: Sequence[View], load: Load) -> list[Budget]:
        return [self._budget] * len(views)

    def admit(self, views: Sequence[View], drafts: Sequence[Draft], load: Load) -> list[Draft]:
        return list(drafts)

    def observe(self, outcomes: Sequence[Outcome], time: StepTime) -> None:
        """Nothing to learn: the length is fixed."""
