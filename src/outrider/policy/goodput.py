"""How much to draft, by goodput: rows are spent where they buy the most tokens a second, and not at all where none do.

Two decisions a step, each over all sequences at once. Before anything is drafted, `budgets` asks the drafter for as
much as pays for its own time; a drafter that costs next to nothing is asked for all it has. Once drafts are there,
`admit` sorts their nodes by the chance to be kept and puts the best into the pass, as in DSpark's algorithm 1, but for
its end: the number of nodes is the best one anywhere, not the first with which tokens / seconds does not rise, since
T(n) rises in stairs. That is sound because admission is only asked about drafts that may be cut after they were drawn
(docs/policy.md).

Nothing here reads a clock: seconds come with `observe`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from outrider.core import tree
from outrider.core.step import Budget, Load, Outcome, StepTime, View
from outrider.core.types import EMPTY, Draft
from outrider.cost.model import StepCost
from outrider.errors import UsageError
from outrider.policy.acceptance import MOST_DEPTH, OWN_KEEP, SHARED_KEEP, Counts, Trace, keys, reach, survival
from outrider.policy.costs import FIRST_ASKS, DraftTimes, PassTimes

MOST_NODES = 16

FREE_SHARE = 0.022  # of a plain step: a drafter that costs less is asked always, and there is nothing to probe
PROBE_SHARE = 0.008  # of the time may go into asking a drafter that is not expected to pay
_LONGEST_WAIT_SHARE = 0.005  # of the time, for probes that keep failing
_PURSE_STEPS = 8.0  # plain steps' worth of probing time that can be saved up, unless one probe costs more
_WAIT_KEEP = 0.98  # of what is known of a sequence, for each step without news
_FIRST_NODES = 4  # asked for while nothing is known of the drafter's time
_LATE = 4.0  # a step that took more than so many times what was expected counts as so late
_NEGLIGIBLE = 0.01  # chance of a node that is not worth a look
_MOST_STATES = 512
# Of numbers of nodes whose goodput differs by less than this the largest is taken: T is known no better, and on the
# default model's answers (benchmarks/admitting.py) that brings 1 % more tokens a pass at the same speed.
_EVEN = 0.995
_ZERO = Budget(0, 0)


@dataclass(slots=True)
class _State:
    """One sequence: what it showed, and what was asked for it in the step at hand."""

    length: int  # of its view after the last step; another one means that the number now names another sequence
    own: Counts
    asked: int = 0
    drafted: Draft | None = None  # what admit was shown
    keys: Sequence[int] = ()
    cuts: bool = True  # False: its drafts come back whole, so budgets alone decide
    trace: Trace | None = None  # an earlier draft that later tokens decide
    idle: int = 0  # steps since it was asked for a draft
    wait: int = 1  # steps until the next probe
    probing: bool = False
    hot: bool = False  # its last probe came true


@dataclass(slots=True)
class _Step:
    """The step at hand. sequences: those that may be drafted for."""

    load: Load
    sequences: int
    context: float
    plain_s: float


class Goodput:
    """A Policy on the cost of passes: as measured by a profile (None: a prior), corrected by the steps themselves.

    most is the largest budget of a sequence, in nodes; docs/policy.md says why more than 16 rarely pays. Belongs to
    one engine and one drafter. Raises UsageError where most is not between 0 and 64; 0 never drafts.
    """

    def __init__(self, step_cost: StepCost | None = None, most: int = MOST_NODES) -> None:
        if not 0 <= most <= MOST_DEPTH:
            raise UsageError(f"most is {most}; draft between 0 (off) and {MOST_DEPTH} nodes at a time")
        self._most = most
        self._passes = PassTimes(step_cost)
        self._drafting = DraftTimes()
        self._shared = Counts(SHARED_KEEP)
        self._states: dict[int, _State] = {}
        self._step: _Step | None = None
        self._other_s = 0.0  # of a step, neither the drafter's nor the target's
        self._purse_s = 0.0  # saved up for probes

    def budgets(self, views: Sequence[View], load: Load) -> list[Budget]:
        if not views or not self._most:
            return [_ZERO] * len(views)
        lengths = [len(view.tokens) for view in views]
        context = sum(lengths) / len(lengths)
        plain_s = self._passes.table(load.sequences, load.rows, 0, context)[0] + self._other_s
        self._step = step = _Step(load, len(views), context, plain_s)
        if len(self._states) > _MOST_STATES:
            self._states = {view.seq: self._states[view.seq] for view in views if view.seq in self._states}
        self._ask(step, [self._state(view.seq, length) for view, length in zip(views, lengths, strict=True)])
        asked = [self._states[view.seq].asked for view in views]
        return [Budget(nodes, nodes) if nodes else _ZERO for nodes in asked]

    def admit(self, views: Sequence[View], drafts: Sequence[Draft], load: Load) -> list[Draft]:
        if self._step is None:
            return list(drafts)
        wishes: list[tuple[float, int, int]] = []  # chance, place in the batch, node
        for place, (view, draft) in enumerate(zip(views, drafts, strict=True)):
            state = self._states[view.seq]
            state.drafted, state.keys, state.cuts = draft, keys(draft, state.asked), True
            chances = survival(draft, state.keys, state.own, self._shared, _NEGLIGIBLE)
            wishes += [(chance, place, node) for node, chance in enumerate(chances) if chance >= _NEGLIGIBLE]
        # Stable, and a node comes after the one above it, so of two equal chances the upper node's is first.
        wishes.sort(key=_chance, reverse=True)
        spent_s = self._drafting.ask_s + self._drafting.node_s * sum(map(len, drafts))
        count = self._best(self._step, [chance for chance, _, _ in wishes], spent_s, 0.0, 0.0)
        chosen: list[list[int]] = [[] for _ in drafts]
        for _, place, node in wishes[:count]:
            chosen[place].append(node)
        return [_part(draft, nodes) for draft, nodes in zip(drafts, chosen, strict=True)]

    def observe(self, outcomes: Sequence[Outcome], time: StepTime) -> None:
        step, self._step = self._step, None
        if step is None or not outcomes:
            return
        allowed, nodes, rows = 0, 0, step.load.rows
        for outcome in outcomes:
            rows += len(outcome.draft)
            state = self._states.get(outcome.seq)
            if state is not None:
                allowed += state.asked
                nodes += self._learn(state, outcome)
        if allowed:
            self._drafting.learn(allowed, nodes, time.draft_s)
        else:
            self._drafting.learn_idle(time.draft_s)
        if step.load.rows == step.load.sequences:  # else it also read a prompt, which tells nothing of drafts
            self._learn_seconds(step, rows, time)

    def _state(self, seq: int, length: int) -> _State:
        state = self._states.get(seq)
        if state is None or state.length != length:
            state = self._states[seq] = _State(length, Counts(OWN_KEEP))
        state.asked, state.drafted, state.probing = 0, None, False
        return state

    def _ask(self, step: _Step, states: Sequence[_State]) -> None:
        """Set what each sequence asks for."""
        drafting, most = self._drafting, self._most
        # A pass that also reads a prompt tells nothing, so it is no time to look.
        if step.load.rows == step.load.sequences and self._passes.plain_is_due(step.load.rows):
            return
        if drafting.asked < FIRST_ASKS:
            for state in states:
                state.asked = min(most, _FIRST_NODES)
            return
        free_s = FREE_SHARE * step.plain_s
        rest = states
        if drafting.mean_s <= free_s:
            for state in states:
                state.asked = most if state.cuts else 0
            rest = [state for state in states if not state.cuts]
        if rest:
            self._buy(step, rest, 0.0 if len(rest) < len(states) else drafting.ask_s)
            self._probe(step, rest, any(state.asked for state in states))
            if self._node_s() * most * len(states) <= free_s:
                # Rows are chosen once drafts are there; until then a node costs next to nothing.
                for state in rest:
                    state.asked = most if state.asked and state.cuts and not state.probing else state.asked

    def _node_s(self) -> float:
        """Seconds of a node that is asked for; not every one is drafted."""
        return self._drafting.node_s * self._drafting.filled

    def _buy(self, step: _Step, states: Sequence[_State], ask_s: float) -> None:
        """Ask for as many nodes as are expected to save more time than they and the asking (ask_s) take."""
        wishes: list[tuple[float, int]] = []
        # Below, a node does not even pay for its own drafting.
        least = max(_NEGLIGIBLE, step.sequences * self._node_s() / step.plain_s)
        for place, state in enumerate(states):
            wishes += [(chance, place) for chance in reach(self._most, state.own, self._shared, least)]
        wishes.sort(key=_chance, reverse=True)
        count = self._best(step, [chance for chance, _ in wishes], 0.0, ask_s, self._node_s())
        for _, place in wishes[:count]:
            states[place].asked += 1

    def _probe(self, step: _Step, states: Sequence[_State], asked: bool) -> None:
        """Ask now and then for sequences that nothing is expected of, within the time that may be spent on it."""
        drafting = self._drafting
        nodes = min(self._most, _FIRST_NODES)
        while nodes > 1 and drafting.node_s * nodes > drafting.ask_s:
            nodes -= 1
        times = self._passes.table(step.load.sequences, step.load.rows, nodes, step.context)
        rows_s = max(0.0, times[nodes] - times[0])
        for state in sorted(states, key=_idle, reverse=True):
            if state.asked:
                state.idle, state.wait = 0, 1
                continue
            state.idle += 1
            cost_s = drafting.node_s * nodes + (0.0 if asked else drafting.ask_s) + (0.0 if state.cuts else rows_s)
            # What a probe is expected to bring after all is no loss.
            tokens = sum(reach(nodes, state.own, self._shared, _NEGLIGIBLE))
            cost_s = max(0.0, cost_s - tokens * step.plain_s / step.sequences)
            self._purse_s = min(self._purse_s, max(cost_s, _PURSE_STEPS * PROBE_SHARE * step.plain_s))
            longest = max(1.0, cost_s / (_LONGEST_WAIT_SHARE * step.plain_s))
            # After a probe that came true the next one follows at once, saved up or not: the text may have turned.
            if state.hot or (state.idle >= min(state.wait, longest) and self._purse_s >= cost_s):
                self._purse_s -= cost_s
                state.own.fade_reach(_WAIT_KEEP**state.idle)
                state.asked, state.probing, state.idle, asked = nodes, True, 0, True

    def _best(self, step: _Step, chances: Sequence[float], spent_s: float, ask_s: float, node_s: float) -> int:
        """How many of the chances, highest first, make tokens / seconds of the step highest; of even ones the most.

        Besides the pass, spent_s is spent in any case, ask_s where there is a node at all, node_s for each.
        """
        load, tokens = step.load, float(step.sequences)
        times = self._passes.table(load.sequences, load.rows, len(chances), step.context)
        spent_s += self._other_s
        best, highest = 0, tokens / (times[0] + spent_s)
        spent_s += ask_s
        for count, chance in enumerate(chances, 1):
            tokens += chance
            spent_s += node_s
            goodput = tokens / (times[count] + spent_s)
            if goodput > _EVEN * highest:
                best, highest = count, max(goodput, highest)
        return best

    def _learn(self, state: _State, outcome: Outcome) -> int:
        """What became of a sequence's drafts; the number of nodes that were drafted for it."""
        tokens = outcome.tokens
        state.length += len(tokens)
        if state.trace is not None and not state.trace.follow(tokens, state.own, self._shared):
            state.trace = None
        if not state.asked:
            return 0
        draft = state.drafted
        if draft is None:
            draft = outcome.draft
            state.keys = keys(draft, state.asked)
            state.cuts = state.cuts and not draft.tokens
        trace = Trace(draft, state.keys, state.asked)
        # One at a time: the deep nodes of a draft are decided steps later, when it has many successors.
        if trace.follow(tokens, state.own, self._shared) and state.trace is None:
            state.trace = trace
        if state.probing:
            state.hot = trace.depth > 0
            state.wait = 1 if state.hot else 2 * state.wait
        return len(draft)

    def _learn_seconds(self, step: _Step, rows: int, time: StepTime) -> None:
        """How long the pass and the rest of the step took; what is no time is ignored."""
        self._passes.learn(step.load.sequences, rows, step.context, time.target_s)
        other_s = time.total_s - time.draft_s - time.target_s
        if 0.0 < time.total_s < math.inf and math.isfinite(other_s):
            self._other_s += (min(max(0.0, other_s), step.plain_s) - self._other_s) / 16
            self._purse_s += PROBE_SHARE * min(time.total_s, _LATE * step.plain_s)


def _part(draft: Draft, nodes: list[int]) -> Draft:
    """The draft of these nodes, which hold with each all above it."""
    count = len(nodes)
    if count == len(draft):
        return draft
    if not count:
        return EMPTY
    nodes.sort()
    if nodes[-1] >= count or draft.q is not None:
        return tree.keep(draft, nodes)
    # The first of them, as when a drafter drafts the likeliest first.
    score = None if draft.score is None else draft.score[:count]
    drafters = None if draft.drafters is None else draft.drafters[:count]
    return Draft(
        draft.tokens[:count], draft.parents[:count], draft.law, None, min(draft.forced, count), score, drafters
    )


def _chance(wish: tuple[float, ...]) -> float:
    return wish[0]


def _idle(state: _State) -> int:
    return state.idle
