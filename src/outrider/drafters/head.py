"""Guess with a drafting head: a small network that reads the target's own states, inside the target's backend.

Cost: for the default model 3 to 8 % of a pass of the target for each level of a draft, the less the more levels
(benchmarks/head.py), all sequences together in one call; siblings cost nothing. Memory: the head's weights, and 3 kB a
position of the default model. Source: EAGLE-3 (2503.01840), whose steps feed on their own states, and Medusa
(2401.10774), whose steps are independent. How heads are trained: docs/training.md.

Dimensions: S steps of a chain.
"""

from __future__ import annotations

from collections.abc import Sequence

from outrider import _native
from outrider.backends.base import GREEDY, Head, HeadChain
from outrider.core.rules import COUPLED, Rule
from outrider.core.sampling import draw_of
from outrider.core.step import Budget, Outcome, View
from outrider.core.types import EMPTY, Draft

WIDTH = 4  # candidates of a level of a tree
# A chain ends where its likeliest tokens are less likely than this together: another one would add less than its step
# and its row cost; beside others, who guess as well, much less (benchmarks/asking.py).
LEAST, LEAST_BESIDE = 0.2, 0.5
# Asking costs so many times the head's share of the weights: for being asked, and for each step. A first step brings
# the head's weights from memory, later ones find them in the caches (benchmarks/head.py: 1.1, 1.6, 2.4, 3.3 times for
# 1, 2, 4, 8 steps on the machine of docs/benchmarks.md).
_ASK, _STEP = 0.8, 0.35
_LATELY = 1.0 / 16


class HeadDrafter:
    """Drafts chains, and trees where the budget has more nodes than levels.

    A tree of an eagle3 head is its chain with the next best candidates of each level as leaves; of a medusa head, whose
    levels do not depend on one another, any product of candidates. Of both the likeliest nodes are the draft. Scores
    are the head's calibrated chances.

    At temperature 0 the likeliest tokens are taken. Above it, under `coupled`, the chain is drawn with the target's
    noise, temperature and filters, so that it agrees as often as possible; a drawn token is trusted as much as the
    likeliest. That rule asks of a node nothing but its token, so what was drawn is a point to it. Under other rules the
    likeliest tokens are taken at any temperature: a POINT draft needs no q and is exact under every rule.

    A sequence of which the head has not seen every state gets no drafts. Raises what the backend raises.
    """

    weight = (0.64, 1.51, -1.69)  # to begin with (drafters.blended)

    def __init__(self, head: Head, rule: Rule = COUPLED, *, trees: bool = True, name: str = "head") -> None:
        self.name = name
        self._head = head
        self._noise = not rule.uses_q
        self._trees = trees and rule.trees
        self._levels: dict[int, _native.Levels] = {}  # of the sequences that the head follows
        self._steps = float(WIDTH)  # of a chain, on average of late

    @property
    def price(self) -> float:
        """What a chain costs, of a pass of the target, on average of late."""
        return self._head.share * chain_cost(self._steps)

    def begin(self, seq: int, prompt: Sequence[int]) -> None:
        if self._head.begin(seq):
            self._levels[seq] = _native.Levels()

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        self._ask(views, budgets, LEAST)
        return [self._grown(view, budget) for view, budget in zip(views, budgets, strict=True)]

    def look(self, views: Sequence[View], budgets: Sequence[Budget]) -> None:
        """Ask the head, all sequences in one call; what it says stands in their sources until the text goes on."""
        self._ask(views, budgets, LEAST_BESIDE)

    def _ask(self, views: Sequence[View], budgets: Sequence[Budget], least: float) -> None:
        asked = [
            self._item(view, budget, least)
            for view, budget in zip(views, budgets, strict=True)
            if self.follows(view.seq) and not budget.nothing
        ]
        for item, drawn in zip(asked, self._head.draft(asked) if asked else (), strict=True):
            levels = [_level(token, likely) for token, likely in zip(drawn.tokens, drawn.likely, strict=True)]
            self._levels[item.seq].set(levels, drawn.tokens, self._head.independent)
            self._steps += (len(drawn.tokens) - self._steps) * _LATELY

    def follows(self, seq: int) -> bool:
        """Whether the head can be asked for a sequence."""
        return seq in self._levels

    def source(self, view: View) -> _native.Source:
        """What the head said last (drafters.blended)."""
        return self._levels.get(view.seq) or _native.Levels()

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """The head hears from its backend what is committed; what it said is over."""
        for outcome in outcomes:
            if levels := self._levels.get(outcome.seq):
                levels.clear()

    def end(self, seq: int) -> None:
        if self._levels.pop(seq, None) is not None:
            self._head.end(seq)

    def _item(self, view: View, budget: Budget, least: float) -> HeadChain:
        sampling = view.sampling
        draw = draw_of(sampling) if sampling.temperature > 0.0 and self._noise else GREEDY
        tokens = view.tokens
        steps = min(budget.nodes, budget.depth)
        # Siblings cost nothing, and a blend may want them whatever the budget's shape.
        width = WIDTH if self._trees else 1
        return HeadChain(view.seq, tokens[-1], steps, draw, len(tokens), width, least)

    def _branches(self, budget: Budget) -> bool:
        return self._trees and budget.nodes > budget.depth

    def _grown(self, view: View, budget: Budget) -> Draft:
        levels = self._levels.get(view.seq)
        if levels is None:
            return EMPTY
        branches = WIDTH if self._branches(budget) else 1
        tokens, parents, score = levels.grow(budget.nodes, budget.depth, branches, 0.0)
        return Draft(tokens, parents, score=score) if tokens else EMPTY


def chain_cost(steps: float) -> float:
    """What a chain takes, in times of reading the head's weights."""
    return _ASK + _STEP * steps


def _level(token: int, likely: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """The chain's token, as likely as the likeliest, then other candidates, which share what is left of the chance."""
    if not likely:
        return [(token, 0.0)]
    trust = min(likely[0][1], 1.0)
    if token == likely[0][0]:
        return [(token, trust), *likely[1:]]
    rest = 1.0 - dict(likely).get(token, 0.0)
    others = [(other, (1.0 - trust) * chance / rest) for other, chance in likely if other != token and rest > 0.0]
    return [(token, trust), *((other, min(chance, 1.0 - trust)) for other, chance in others)]
