"""Answers replayed under a clock that is known: every pass of n rows takes T(n), so nothing depends on the machine."""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from _replay import Walk, Written

from outrider.core import tree
from outrider.core.step import Budget, Load, Outcome, StepTime
from outrider.core.types import EMPTY
from outrider.cost.model import FittedCost, StepCost
from outrider.drafters.base import Drafter
from outrider.errors import UsageError
from outrider.policy.base import Policy

ALONE = Load(1, 1)
# Of a step under a known clock, where nothing else is said: T(1), asking a drafter, each node, the engine's own part.
PASS_S, ASK_S, NODE_S, OTHER_S = 3.7e-3, 90e-6, 8e-6, 60e-6

# T(n) in T(1), from n = 1 on, as measured on the machine of docs/benchmarks.md in hours with and without busy
# neighbours: where the first four rows are nearly free, and where memory is so fast that each row costs a tenth of a
# pass or more.
CLOCKS = {
    "free": (1.0, 1.03, 1.05, 1.07, 1.21, 1.34, 1.46, 1.57, 1.75, 1.92, 2.1, 2.27, 2.45, 2.6, 2.78, 2.95, 3.1),
    "dear": (1.0, 1.0, 1.1, 1.24, 1.46, 1.62, 1.83, 2.05, 2.3, 2.5, 2.75, 3.0, 3.2, 3.4, 3.6, 3.8, 4.0),
}


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The command line, with --ratios. Raises UsageError for ratios that are no times."""
    parser.add_argument("--ratios", type=float, nargs="+", help="T(1), T(2), ... of a pass, in its T(1)")
    arguments = parser.parse_args()
    if arguments.ratios and (len(arguments.ratios) < 2 or min(arguments.ratios) <= 0.0):
        raise UsageError(f"--ratios is {arguments.ratios}; give at least T(1) and T(2), above 0")
    return arguments


def costing(pass_s: float, ratios: Sequence[float]) -> StepCost:
    """T(n) by its ratios to T(1), pass_s seconds, whatever the context."""
    return FittedCost(range(1, len(ratios) + 1), [pass_s * ratio for ratio in ratios], 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Clock:
    """Seconds of a step's parts."""

    cost: StepCost
    draft_s: float
    node_s: float
    other_s: float

    def step(self, asked: bool, drafted: int, rows: int, context: int) -> StepTime:
        target_s = self.cost.seconds(1, rows, context)
        draft_s = self.draft_s + self.node_s * drafted if asked else 0.0
        return StepTime(target_s + draft_s + self.other_s, draft_s, target_s)


class Busy:
    """What others on the machine do to the times of steps; the same for every policy."""

    def __init__(self) -> None:
        self._chance = random.Random(5)
        self._left, self._slower = 0.0, 1.0  # passes of the spell at hand

    def seen(self, step: StepTime) -> StepTime:
        """A step as a clock would show it."""
        chance = self._chance
        if self._left <= 0.0 and chance.random() < 0.04:
            self._left, self._slower = chance.expovariate(1 / 15), chance.uniform(1.2, 2.5)
        self._left -= 1.0
        factor = math.exp(abs(chance.gauss(0.0, 0.12))) * (self._slower if self._left > 0.0 else 1.0)
        if chance.random() < 0.03:
            factor *= chance.uniform(1.5, 5.0)
        return StepTime(step.total_s * factor, step.draft_s * factor, step.target_s * factor)


@dataclass(slots=True)
class Sum:
    """What some answers took."""

    tokens: int = 0
    passes: int = 0
    drafted: int = 0  # nodes, and those of them in a pass
    nodes: int = 0
    seconds: float = 0.0
    plain_s: float = 0.0

    def cell(self) -> str:
        return f"{self.tokens / self.passes:.2f} {self.plain_s / self.seconds:.2f}x"


def replay(
    drafter: Drafter,
    make: Callable[[], Policy],
    fresh: bool,
    oracle: bool,
    written: Sequence[Written],
    clock: Clock,
    busy: Busy | None,
) -> dict[str, Sum]:
    """All answers in turn; fresh: with a new policy for each. The first token comes with the prompt."""
    walk, policy, sums = Walk(drafter), make(), {"all": Sum()}
    for one in written:
        policy = make() if fresh else policy
        view, at = walk.begin(one), 1
        while at < len(one.answer):
            (budget,) = policy.budgets([view], ALONE)
            asked = min(budget.nodes, budget.depth, len(one.answer) - at) > 0
            depth = min(budget.depth, len(one.answer) - at)
            draft = walk.draft(Budget(budget.nodes, depth, budget.floors)) if asked else EMPTY
            drafted = len(draft)
            if draft.tokens:
                (draft,) = policy.admit([view], [draft], ALONE)
            path = tree.follow(draft, one.answer[at:])
            if oracle:
                draft, path = tree.keep(draft, path), tuple(range(len(path)))
            end = min(at + len(path) + 1, len(one.answer))
            step = clock.step(asked, drafted, 1 + len(draft), len(view.tokens))
            plain_s = (end - at) * clock.step(False, 0, 1, len(view.tokens)).total_s
            walk.step(one, at, end)
            seen = step if busy is None else busy.seen(step)
            policy.observe([Outcome(0, draft, path[: end - at], tuple(one.answer[at:end]))], seen)
            for total in (sums["all"], sums.setdefault(one.group, Sum())):
                total.tokens += end - at
                total.passes += 1
                total.drafted += drafted
                total.nodes += len(draft)
                total.seconds += step.total_s
                total.plain_s += plain_s
            at = end
        walk.end()
    return sums
