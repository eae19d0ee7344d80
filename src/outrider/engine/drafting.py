"""The engine's side of a drafter: budgets, and what to do with nonsense.

Whatever a drafter does, the answer stays the same, so a bad one costs speed and a warning, never the answer.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Sequence as Seq

from outrider.api import Sampling
from outrider.core import tree
from outrider.core.rules import Rule, rule_for
from outrider.core.step import Budget, Outcome
from outrider.core.types import EMPTY, Draft
from outrider.drafters.base import Drafter
from outrider.engine.sequence import Turn
from outrider.errors import UsageError
from outrider.policy.base import Policy

_NOTHING = Budget(0, 0)


class Drafting:
    """Asks the policy how much and the drafter what; checks every draft. Warns once about each kind of nonsense."""

    def __init__(self, drafter: Drafter | None, policy: Policy, rule: Rule, vocab: int, trees: bool) -> None:
        self._drafter = drafter
        self._policy = policy
        self._rule = rule
        self._vocab = vocab
        self._trees = trees
        self._failed = False
        self._warned = False

    def begin(self, seq: int, prompt: Seq[int]) -> None:
        """A sequence starts."""
        if self._drafter is not None and not self._failed:
            try:
                self._drafter.begin(seq, prompt)
            except Exception as error:
                self._give_up(error)

    def propose(self, turns: Seq[Turn], load: int) -> None:
        """Give each turn its draft; load is the number of rows of the pass without any."""
        if self._drafter is None or self._failed or not turns:
            return
        views = [turn.sequence.view for turn in turns]
        wished = self._policy.budgets(views, load)
        budgets = [_cut(budget, turn.sequence.room) for budget, turn in zip(wished, turns, strict=True)]
        if not any(budget.nodes for budget in budgets):
            return
        try:
            drafts = self._drafter.propose(views, budgets)
        except Exception as error:
            self._give_up(error)
            return
        # A plugin's type hints bind nobody: what is no list here would otherwise end the answer below.
        if not isinstance(drafts, list | tuple):
            self._refuse(f"{type(drafts).__name__} in place of a list of drafts")
            return
        if len(drafts) != len(turns):
            self._refuse(f"{len(drafts)} drafts for {len(turns)} sequences")
            return
        for turn, draft, budget in zip(turns, drafts, budgets, strict=True):
            if draft is not EMPTY:
                turn.draft = self._possible(turn, self._checked(draft, budget, turn.sequence.view.sampling))

    def observe(self, outcomes: Seq[Outcome]) -> None:
        """Tell the drafter what became of its drafts."""
        if self._drafter is not None and not self._failed:
            try:
                self._drafter.observe(outcomes)
            except Exception as error:
                self._give_up(error)

    def learn(self, outcomes: Seq[Outcome], seconds: float) -> None:
        """Tell the policy what became of the drafts and how long the step took."""
        if self._drafter is not None:
            self._policy.observe(outcomes, seconds)

    def end(self, seq: int) -> None:
        """A sequence ended."""
        if self._drafter is None:
            return
        if self._failed:
            with contextlib.suppress(Exception):
                self._drafter.end(seq)
            return
        try:
            self._drafter.end(seq)
        except Exception as error:
            self._give_up(error)

    def _checked(self, draft: Draft, budget: Budget, sampling: Sampling) -> Draft:
        try:
            tree.validate(draft, self._vocab)
            chain = tree.is_chain(draft)
            depth = len(draft) if chain else max(tree.depths(draft)) + 1
            if len(draft) > budget.nodes or depth > budget.depth:
                raise UsageError(f"a draft has {len(draft)} nodes and depth {depth}, over its budget {budget}")
            if not chain and not self._trees:
                raise UsageError("a draft branches, which this backend cannot verify; draft chains")
            rule_for(self._rule, sampling).check(draft, self._vocab)
        except (UsageError, TypeError, AttributeError) as error:
            self._refuse(str(error))
            return EMPTY
        return draft

    def _possible(self, turn: Turn, draft: Draft) -> Draft:
        shaper = turn.sequence.shaper
        return draft if shaper is None else shaper.possible(draft)

    def _refuse(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(f"malformed draft dropped ({what}); the answer is not affected, its speed may be")

    def _give_up(self, error: Exception) -> None:
        if not self._failed:
            self._failed = True
            self._warn(f"it raised {type(error).__name__}: {error}; decoding goes on without it")

    def _warn(self, what: str) -> None:
        name = getattr(self._drafter, "name", type(self._drafter).__name__)
        warnings.warn(f"drafter {name}: {what}", RuntimeWarning, stacklevel=2)


def _cut(budget: Budget, room: int) -> Budget:
    """The pass adds the target's own token too: a draft deeper than room - 1 could only be trimmed."""
    if budget.depth < room:
        return budget
    return Budget(budget.nodes, room - 1) if room > 1 else _NOTHING
