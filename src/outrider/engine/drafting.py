"""The engine's side of a drafter: budgets, and what to do with nonsense.

Whatever a drafter does, the answer stays the same, so a bad one costs speed and a warning, never the answer.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable
from collections.abc import Sequence as Seq

from outrider.core import tree
from outrider.core.rules import COUPLED, Rule, rule_for
from outrider.core.step import Budget, Load, Outcome, StepTime
from outrider.core.types import EMPTY, Draft, Law
from outrider.drafters.base import Drafter, named, names
from outrider.engine.sequence import Sequence, Turn
from outrider.errors import UsageError
from outrider.policy.base import Policy

_NOTHING = Budget(0, 0)
_POINT = Law.POINT  # an attribute of an enumeration is a call
# A proposal may take as long as all passes of its answer so far, and this: then waiting for it can pay no more.
_PATIENCE_S = 2.0


class Drafting:
    """Asks the policy how much and the drafter what; checks every draft.

    A drafter that raises, is late or drafts nonsense is left out for the requests concerned, with one warning.
    """

    def __init__(self, drafter: Drafter | None, policy: Policy, rule: Rule, vocab: int, trees: bool) -> None:
        self._drafter = drafter
        self._policy = policy
        self._rule = rule
        self._vocab = vocab
        self._trees = trees
        self._asked: dict[int, Sequence] = {}  # those that the drafter knows and may draft for
        self.names = () if drafter is None else names(drafter)
        self._names = frozenset(self.names)
        self.followers = int(getattr(drafter, "followers", 0))

    def begin(self, answer: Sequence) -> None:
        """A sequence starts or, with all its tokens so far, goes on; the drafter hears of it unless it does without."""
        if self._drafter is None or not answer.speculates:
            return
        self._asked[answer.seq] = answer
        try:
            self._drafter.begin(answer.seq, tuple(answer.tokens))
        except Exception as error:
            self._leave_out([answer.seq], _raised(error))

    def propose(self, turns: Seq[Turn], load: Load) -> None:
        """Give each turn its draft; load is what the pass computes without any."""
        turns = [turn for turn in turns if turn.sequence.seq in self._asked]
        if self._drafter is None or not turns:
            return
        views = [turn.sequence.view for turn in turns]
        wished = self._policy.budgets(views, load)
        budgets = [_cut(budget, turn) for budget, turn in zip(wished, turns, strict=True)]
        if not any(budget.nodes for budget in budgets):
            return
        try:
            drafts = self._drafter.propose(views, budgets)
        except Exception as error:
            self._leave_out([view.seq for view in views], _raised(error))
            return
        # A plugin's type hints bind nobody: what is no list here would otherwise end the answer below.
        if not isinstance(drafts, list | tuple):
            self._leave_out([view.seq for view in views], _malformed(f"a {type(drafts).__name__} for a list of drafts"))
            return
        if len(drafts) != len(turns):
            what = _malformed(f"{len(drafts)} drafts for {len(turns)} sequences")
            self._leave_out([view.seq for view in views], what)
            return
        for turn, draft, budget in zip(turns, drafts, budgets, strict=True):
            if draft is not EMPTY:
                turn.draft = self._possible(turn, named(self._checked(draft, budget, turn.sequence), self.names[0]))
        self._admit(turns, load)

    def observe(self, outcomes: Seq[Outcome]) -> None:
        """Tell the drafter what became of its drafts."""
        known = [outcome for outcome in outcomes if outcome.seq in self._asked]
        if self._drafter is None or not known:
            return
        try:
            self._drafter.observe(known)
        except Exception as error:
            self._leave_out([outcome.seq for outcome in known], _raised(error))

    def learn(self, turns: Seq[Turn], outcomes: Seq[Outcome], time: StepTime) -> None:
        """Tell the policy what became of the drafts and how long the step took; leave out who was late."""
        known = [outcome for outcome in outcomes if outcome.seq in self._asked]
        if not known:
            return
        self._policy.observe(known, time)
        if time.draft_s > _PATIENCE_S:
            late = [
                turn.sequence.seq
                for turn in turns
                if turn.sequence.seq in self._asked and time.draft_s > turn.sequence.meter.passes_s + _PATIENCE_S
            ]
            if late:
                self._leave_out(late, f"it took {time.draft_s:.2f} s to draft, longer than the target for all of it")

    def end(self, seq: int) -> None:
        """A sequence ended or pauses."""
        if self._drafter is None or self._asked.pop(seq, None) is None:
            return
        try:
            self._drafter.end(seq)
        except Exception as error:
            self._warn(_raised(error))

    def _admit(self, turns: Seq[Turn], load: Load) -> None:
        """Let the policy cut, where nodes may be left out after they were drawn (docs/rules.md)."""
        free = [turn for turn in turns if turn.draft.tokens and self._may_cut(turn)]
        if free:
            views = [turn.sequence.view for turn in free]
            admitted = self._policy.admit(views, [turn.draft for turn in free], load)
            for turn, draft in zip(free, admitted, strict=True):
                turn.draft = draft

    def _may_cut(self, turn: Turn) -> bool:
        return turn.draft.law is _POINT or rule_for(self._rule, turn.sequence.view.sampling) is COUPLED

    def _checked(self, draft: Draft, budget: Budget, answer: Sequence) -> Draft:
        try:
            depth, nodes = tree.validate(draft, self._vocab), len(draft.tokens)
            if nodes > budget.nodes or depth > budget.depth:
                raise UsageError(f"a draft has {nodes} nodes and depth {depth}, over its budget {budget}")
            if depth < nodes and not self._trees:
                raise UsageError("a draft branches, which this backend cannot verify; draft chains")
            rule_for(self._rule, answer.view.sampling).check(draft, self._vocab)
            allowed = answer.view.drafters or self._names
            if not allowed.issuperset(draft.drafters or self.names[:1]):
                raise UsageError(f"a draft names {draft.drafters!r:.80}; for this answer draft {sorted(allowed)}")
        except (UsageError, TypeError, AttributeError) as error:
            self._leave_out([answer.seq], _malformed(str(error)))
            return EMPTY
        return draft

    def _possible(self, turn: Turn, draft: Draft) -> Draft:
        shaper = turn.sequence.shaper
        if shaper is None:
            return draft
        try:
            return shaper.possible(draft)
        except Exception as error:
            turn.error = error
            return EMPTY

    def _leave_out(self, seqs: Iterable[int], why: str) -> None:
        """Decode these sequences without the drafter from now on."""
        for seq in seqs:
            answer = self._asked.pop(seq, None)
            if answer is not None:
                answer.speculates = False
            if self._drafter is not None:
                with contextlib.suppress(Exception):
                    self._drafter.end(seq)
        self._warn(f"{why}; the answer goes on without it")

    def _warn(self, what: str) -> None:
        name = getattr(self._drafter, "name", type(self._drafter).__name__)
        warnings.warn(f"drafter {name}: {what}", RuntimeWarning, stacklevel=2)


def _raised(error: Exception) -> str:
    return f"it raised {type(error).__name__}: {error}"


def _malformed(what: str) -> str:
    return f"malformed draft ({what})"


def _cut(budget: Budget, turn: Turn) -> Budget:
    """What request and memory allow; and the pass adds the target's own token too, so that a draft deeper than room - 1
    could only be trimmed."""
    if budget.nothing:
        return _NOTHING
    answer = turn.sequence
    depth, nodes, most = min(budget.depth, answer.room - 1, turn.depth), budget.nodes, answer.request.max_draft
    if most is not None and most < nodes:
        nodes = most
    depth = min(depth, nodes)
    if depth < 1:
        return _NOTHING
    if depth == budget.depth and nodes == budget.nodes:
        return budget
    # More nodes than levels are a wish for a tree: a chain that is cut short stays a chain.
    return Budget(nodes if budget.nodes > budget.depth else depth, depth, budget.floors)
