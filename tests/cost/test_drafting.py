"""What a drafter costs, on a clock of its own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from outrider.core.step import Budget, Outcome, View
from outrider.core.types import EMPTY, Draft
from outrider.cost.drafting import NODES, measure_drafter
from outrider.cost.types import DraftCost
from outrider.drafters.ngram import NgramDrafter


class ClockedDrafter:
    """Takes 3 seconds to be asked, half a second a node, and 1 second to be told; drafts at most `most` nodes."""

    name = "clocked"

    def __init__(self, most: int = 64) -> None:
        self.now = 0.0
        self.open: set[int] = set()
        self.asked = 0
        self._most = most

    def clock(self) -> float:
        return self.now

    def begin(self, seq: int, prompt: Sequence[int]) -> None:
        self.open.add(seq)

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        nodes = min(budgets[0].nodes, self._most)
        self.asked += 1
        self.now += 3 + 0.5 * nodes
        return [Draft.chain((1,) * nodes) if nodes else EMPTY]

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        assert len(outcomes[0].tokens) == 1
        self.now += 1

    def end(self, seq: int) -> None:
        self.open.remove(seq)


def test_steps_and_nodes_are_told_apart() -> None:
    drafter = ClockedDrafter()
    cost = measure_drafter(drafter, 100, drafter.clock, 1e9)
    assert cost.proposal_s == pytest.approx(4.0)
    assert cost.node_s == pytest.approx(0.5)
    assert cost.seconds(6) == pytest.approx(7.0)
    assert not drafter.open


def test_a_drafter_that_always_drafts_the_same_is_timed_as_a_whole() -> None:
    drafter = ClockedDrafter(most=1)
    assert measure_drafter(drafter, 100, drafter.clock, 1e9).seconds(1) == pytest.approx(4.5)
    drafter = ClockedDrafter(most=0)
    assert measure_drafter(drafter, 100, drafter.clock, 1e9) == DraftCost(4.0, 0.0)


def test_it_ends_in_time() -> None:
    drafter = ClockedDrafter()
    measure_drafter(drafter, 100, drafter.clock, 30.0)
    assert drafter.now < 30.0 + 4 + 0.5 * max(NODES)
    drafter = ClockedDrafter()
    measure_drafter(drafter, 100, drafter.clock, 0.0)
    assert drafter.asked == 1


def test_a_drafter_that_raises_is_ended() -> None:
    class Broken(ClockedDrafter):
        def observe(self, outcomes: Sequence[Outcome]) -> None:
            raise RuntimeError("broken")

    drafter = Broken()
    with pytest.raises(RuntimeError, match="broken"):
        measure_drafter(drafter, 100, drafter.clock)
    assert not drafter.open


def test_the_ngram_drafter_finds_something_to_draft() -> None:
    found: list[int] = []

    class Watched(NgramDrafter):
        def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
            drafts = super().propose(views, budgets)
            found.append(len(drafts[0]))
            return drafts

    ticks = iter(range(1_000_000))
    measure_drafter(Watched(), 49152, lambda: float(next(ticks)), 200.0)
    assert set(found) == set(NODES)
