"""A clock that goes on by what things are said to take, for engines that really run.

Answers are computed as always, but an engine that is given this clock believes that a pass of n rows took T(n), and
drafting so much a node: what it decides then does not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from _wrapper import Wrapper

from outrider.backends.base import Extend, Head, HeadChain, HeadDrawn
from outrider.core.step import Budget, View
from outrider.core.types import Draft
from outrider.cost.model import StepCost
from outrider.drafters import head as heads
from outrider.drafters.base import Drafter


class Pretended:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._now = 0.0

    def __call__(self) -> float:
        return self._now

    def wait(self, seconds: float) -> None:
        self._now += seconds


class Passes:
    """A backend whose passes take T(n) and what else a step takes, which so counts as the pass's."""

    def __init__(self, backend: Any, clock: Pretended, cost: StepCost, other_s: float) -> None:
        self._backend, self._clock, self._cost, self._other_s = backend, clock, cost, other_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def extend(self, items: Sequence[Extend]) -> Any:
        rows = sum(len(item.tokens) for item in items)
        context = max(self._backend.length(item.seq) for item in items)
        self._clock.wait(self._cost.seconds(len(items), rows, context) + self._other_s)
        return self._backend.extend(items)


class Priced(Wrapper):
    """A drafter that takes so long for being asked, and for each node that it drafts."""

    def __init__(self, inner: Drafter, wait: Callable[[float], None], ask_s: float, node_s: float) -> None:
        super().__init__(inner)
        self._wait, self._ask_s, self._node_s = wait, ask_s, node_s

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        drafts = super().propose(views, budgets)
        if not all(budget.nothing for budget in budgets):
            self._wait(self._ask_s + self._node_s * sum(map(len, drafts)))
        return drafts


class PricedHead:
    """A head whose chains take what drafters/head.py says of its share of the weights."""

    def __init__(self, head: Head, wait: Callable[[float], None], pass_s: float) -> None:
        self._head, self._wait, self._pass_s = head, wait, pass_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._head, name)

    def draft(self, items: Sequence[HeadChain]) -> list[HeadDrawn]:
        drawn = self._head.draft(items)
        self._wait(
            self._pass_s * self._head.share * heads.chain_cost(max((len(one.tokens) for one in drawn), default=0))
        )
        return drawn
