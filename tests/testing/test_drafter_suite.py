"""The drafter suite catches planted faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from outrider.core.step import Budget, Outcome, View
from outrider.core.types import Draft
from outrider.drafters.ngram import NgramDrafter
from outrider.testing import drafter_suite


class Leaks(NgramDrafter):
    """Keeps what has ended."""

    def end(self, seq: int) -> None:
        pass


class Overdraws(NgramDrafter):
    """Ignores the budget."""

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        return super().propose(views, [Budget(9, 9)] * len(views))


class ForgetsOne(NgramDrafter):
    """Leaves out the last sequence of a batch."""

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        return super().propose(views, budgets)[:-1]


class Mixes(NgramDrafter):
    """Gives every sequence the draft of the first."""

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        return super().propose([views[0]] * len(views), budgets) if views else []


class DraftsNonsense(NgramDrafter):
    """Ids outside the vocabulary."""

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        super().observe([Outcome(o.seq, o.draft, o.path, tuple(t + 100 for t in o.tokens)) for o in outcomes])


FAULTS: dict[type[NgramDrafter], Callable[[drafter_suite.Maker], None]] = {
    Leaks: drafter_suite.end_leaves_nothing,
    Overdraws: drafter_suite.budgets_are_respected,
    ForgetsOne: drafter_suite.budgets_are_respected,
    Mixes: drafter_suite.sequences_are_independent,
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_planted_faults_are_caught(fault: type[NgramDrafter]) -> None:
    with pytest.raises(AssertionError):
        FAULTS[fault](fault)


def test_ids_outside_the_vocabulary_are_caught() -> None:
    with pytest.raises(ValueError, match="token id"):
        drafter_suite.budgets_are_respected(DraftsNonsense)


def test_an_abandoned_sequence_that_stays_is_caught() -> None:
    with pytest.raises(AssertionError):
        drafter_suite.end_may_come_at_once(Leaks)
