"""How much to draft, by goodput: rows are spent where they buy the most tokens a second, and not at all where none do.

Two decisions a step, each over all sequences at once. Before anything is drafted, `budgets` asks the drafter for as
much as pays for its own time; a drafter that costs next to nothing is asked for all it has. Once drafts are there,
`admit` sorts their nodes by the chance to be kept and puts the best into the pass, as in DSpark's algorithm 1, but for
its end: the number of nodes is the best one anywhere, not the first with which tokens / seconds does not rise, since
T(n) rises in stairs. That is sound because admission is only asked about drafts that may be cut after they were drawn
(docs/policy.md).

Nothing here reads a clock: seconds come with `observe`. What is decided and learned is native code (native/src/policy):
a pass leaves the processor's caches full of weights, and a step of Python costs several times as much then.
"""

from __future__ import annotations

from collections.abc import Sequence

from outrider import _native
from outrider.core import tree
from outrider.core.step import Budget, Load, Outcome, StepTime, View
from outrider.core.types import EMPTY, Draft
from outrider.cost.model import FittedCost, StepCost
from outrider.errors import UsageError

MOST_NODES = 16
MOST_DEPTH = 64  # budgets beyond are not told apart

# Where nothing was measured: decoding is bound by the way of the weights from memory, and the native kernels take four
# rows at a time, so up to four cost next to nothing, and from then on arithmetic sets the pace. Only the ratios matter,
# the first passes set the level.
PRIOR = FittedCost((1, 4, 5, 8, 16, 32), (1e-2, 1.04e-2, 1.2e-2, 1.55e-2, 2.8e-2, 5.4e-2), 0.0, 0.0, 0.0)

_NOTHING = Budget(0, 0)


class Goodput:
    """A Policy on the cost of passes: as measured by a profile (None: a prior), corrected by the steps themselves.

    most is the largest budget of a sequence, in nodes; docs/policy.md says why more than 16 rarely pays. weighs: the
    drafter weighs by itself what its parts cost (drafters/worth.py), so that it is asked for all it has or for nothing,
    never for a few nodes because more would seem dear. Belongs to one engine and one drafter. Raises UsageError where
    most is not between 0 and 64; 0 never drafts.
    """

    def __init__(self, step_cost: StepCost | None = None, most: int = MOST_NODES, weighs: bool = False) -> None:
        if not 0 <= most <= MOST_DEPTH:
            raise UsageError(f"most is {most}; draft between 0 (off) and {MOST_DEPTH} nodes at a time")
        cost = PRIOR if step_cost is None else step_cost
        self._core = _native.Goodput(cost.seconds, step_cost is not None, most, weighs)

    def budgets(self, views: Sequence[View], load: Load) -> list[Budget]:
        lengths = [len(view.tokens) for view in views]
        asked = self._core.budgets([view.seq for view in views], lengths, load.sequences, load.rows)
        if not any(asked):
            return [_NOTHING] * len(asked)
        floors = tuple(self._core.floors())
        return [Budget(nodes, nodes, floors) if nodes else _NOTHING for nodes in asked]

    def admit(self, views: Sequence[View], drafts: Sequence[Draft], load: Load) -> list[Draft]:
        core = self._core
        if not core.stepping:
            return list(drafts)
        for view, draft in zip(views, drafts, strict=True):
            core.show(view.seq, draft.tokens, draft.parents, draft.score or (), draft.forced)
        return [_part(draft, nodes) for draft, nodes in zip(drafts, core.admit(), strict=True)]

    def observe(self, outcomes: Sequence[Outcome], time: StepTime) -> None:
        core = self._core
        for outcome in outcomes:
            draft = outcome.draft
            if not core.shown(outcome.seq):
                core.took(outcome.seq, draft.tokens, draft.parents, draft.score or (), draft.forced)
            core.outcome(outcome.seq, len(draft.tokens), outcome.tokens)
        core.close(time.total_s, time.draft_s, time.target_s)


def paying(drafter: object, step_cost: StepCost | None = None) -> Goodput:
    """The policy for a drafter, which weighs by itself where it has an attribute `weighs` that is true."""
    return Goodput(step_cost, weighs=bool(getattr(drafter, "weighs", False)))


def _part(draft: Draft, nodes: list[int]) -> Draft:
    """The draft of these nodes, in rising order, which hold with each all above it."""
    count = len(nodes)
    if count == len(draft.tokens):
        return draft
    if not count:
        return EMPTY
    if nodes[-1] >= count or draft.q is not None:
        return tree.keep(draft, nodes)
    # The first of them, as when a drafter drafts the likeliest first.
    score = None if draft.score is None else draft.score[:count]
    drafters = None if draft.drafters is None else draft.drafters[:count]
    return Draft(
        draft.tokens[:count], draft.parents[:count], draft.law, None, min(draft.forced, count), score, drafters
    )
