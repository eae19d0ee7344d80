"""What steps cost here and now: a profile, corrected by the steps themselves.

A profile was measured at another time, perhaps on a busier machine, and there may be none. So each pass is compared
with what was predicted: one factor follows the machine's load, and a second one for each number of rows follows the
shape of T(n). Both move by bounded steps in the logarithm, so that a pass that took ten times as long (another process,
a page fault) counts like one that was a little late.
"""

from __future__ import annotations

import math

from outrider.cost.model import FittedCost, StepCost

CONTEXT_BLOCK = 128  # T(n) is looked up for contexts rounded to this
LARGEST_TABLES = 64  # (sequences, context) pairs that are remembered
SHAPED_ROWS = 256  # up to so many rows the shape is corrected, beyond with the common factor alone

_LEAST_S = 1e-9
_LOAD_GAIN = 1 / 16
_SHAPE_GAIN, _SHAPE_DOUBT = 1 / 12, 1
_NEAR = 16  # rows that a neighbour is at most away
_LEAST_RISE = 0.5  # of what is known of T(n + 1) - T(n) from before
_MOST_BEND = 4.0
_FIRST_OUTLIER, _OUTLIER = 0.7, 0.25  # of the logarithm of measured / predicted: what is further off counts as this far
_MOST_OFF = 300.0
_FORGET = 512  # passes, after which the number of those seen is halved
# Passes between two plain ones, if there is always something to draft; the wait doubles from the first, or from the
# second where there is a profile.
_FIRST_CHECK, _MEASURED_CHECK, _LONGEST_CHECK = 4, 32, 256
_DRAFT_GAIN = 1 / 16
_DOUBT = 1.0  # of the line's slope, in squared nodes
_SLOWER, _SLACK_S = 3.0, 2e-5  # a step that drafted far slower than the line counts as this much slower
FIRST_ASKS = 4
_FIRST_PASSES = 4  # of a factor that nothing has corrected yet may be far off, so they count in full

# Where nothing was measured: decoding is bound by the way of the weights from memory, so a row costs little until
# arithmetic sets the pace. Only the ratios matter, the first passes set the level.
PRIOR = FittedCost((1, 4, 8, 16, 32), (1e-2, 1.12e-2, 1.4e-2, 2.2e-2, 4e-2), 0.0, 0.0, 0.0)


class PassTimes:
    """Predicted seconds of passes, learning from measured ones. step_cost None: the prior, see PRIOR."""

    def __init__(self, step_cost: StepCost | None) -> None:
        self._cost: StepCost = PRIOR if step_cost is None else step_cost
        self._tables: dict[tuple[int, int], list[float]] = {}
        self._load = 1.0  # the common factor
        self._learned = 0
        self._shape = [1.0] * (SHAPED_ROWS + 1)  # the factor of each number of rows
        self._seen = [0] * (SHAPED_ROWS + 1)  # passes of so many rows, those long ago forgotten
        self._ever = [False] * (SHAPED_ROWS + 1)  # whether there was one at all
        self._latest = [-_LONGEST_CHECK if step_cost is None else 0] * (SHAPED_ROWS + 1)  # when the last of them was
        self._check_at, self._check_wait = 0, _FIRST_CHECK if step_cost is None else _MEASURED_CHECK

    def table(self, sequences: int, rows: int, extra: int, context: float) -> list[float]:
        """Seconds of passes of rows, rows + 1, ... rows + extra rows [extra + 1].

        They rise by at least half of what is known from before: noise must not make a row free.
        """
        load, shape, last = self._load, self._shape, rows + extra + 1
        base = self._base(sequences, last, context)
        seconds = load * base[rows] * (shape[rows] if rows <= SHAPED_ROWS else 1.0)
        found = [seconds]
        for n in range(rows + 1, last):
            bent = load * base[n] * (shape[n] if n <= SHAPED_ROWS else 1.0)
            seconds = max(bent, seconds + _LEAST_RISE * load * (base[n] - base[n - 1]))
            found.append(seconds)
        return found

    def learn(self, sequences: int, rows: int, context: float, seconds: float) -> None:
        """A pass took so long. What is no time (0, negative, not finite) is ignored."""
        if not 0.0 < seconds < math.inf:
            return
        shaped = rows <= SHAPED_ROWS
        predicted = self._load * self._base(sequences, rows + 1, context)[rows] * (self._shape[rows] if shaped else 1.0)
        # The quotient, and the exponential of a larger logarithm, may be out of the range of a float.
        off = min(max(math.log(seconds) - math.log(predicted), -_MOST_OFF), _MOST_OFF)
        self._learned += 1
        if self._learned > _FIRST_PASSES:
            most = _FIRST_OUTLIER if shaped and self._seen[rows] < 2 else _OUTLIER
            off = min(max(off, -most), most)
        step = off * max(_LOAD_GAIN, 1.0 / self._learned)
        self._load = min(max(self._load * math.exp(step), _LEAST_S), 1.0 / _LEAST_S)
        if shaped:
            self._seen[rows] += 1
            self._ever[rows] = True
            self._latest[rows] = self._learned
            bend = (off - step) * max(_SHAPE_GAIN, 1.0 / (self._seen[rows] + _SHAPE_DOUBT))
            self._shape[rows] = min(max(self._shape[rows] * math.exp(bend), 1.0 / _MOST_BEND), _MOST_BEND)
            self._spread(rows)
        if self._learned % _FORGET == 0:
            self._seen = [count // 2 for count in self._seen]

    def plain_is_due(self, rows: int) -> bool:
        """Whether a pass of so many rows, without a draft, should be seen again: what drafts cost is counted from it.

        True seldom, also where the rows change from step to step, and never again once the pass was learned from. At
        once where nothing near was seen: a load that is new, perhaps after long under another one.
        """
        if rows > SHAPED_ROWS:
            return False
        if self._strange(rows):
            return True
        if self._learned < self._check_at:
            return False
        if self._learned - self._latest[rows] < self._check_wait:
            return False
        self._check_wait = min(2 * self._check_wait, _LONGEST_CHECK)
        self._check_at = self._learned + self._check_wait
        return True

    def _strange(self, rows: int) -> bool:
        """Whether no pass of about so many rows was seen."""
        return self._learned > 0 and not any(self._ever[rows - rows // 5 : rows + rows // 4 + 1])

    def _spread(self, rows: int) -> None:
        """Numbers of rows that no pass had yet bend like their neighbours that some had, by distance between two."""
        shape, seen = self._shape, self._seen
        here = shape[rows]
        for way, end in ((-1, max(0, rows - _NEAR)), (1, min(SHAPED_ROWS, rows + _NEAR) + 1)):
            last = rows + way
            while last != end and not seen[last]:
                last += way
            slope = 0.0 if last == end else (shape[last] - here) / (last - rows)
            for n in range(rows + way, last, way):
                shape[n] = here + slope * (n - rows)

    def _base(self, sequences: int, count: int, context: float) -> list[float]:
        """The uncorrected seconds by number of rows, at least [count]; those below `sequences` rows mean nothing."""
        block = int(context) // CONTEXT_BLOCK
        table = self._tables.get((sequences, block))
        if table is None:
            if len(self._tables) >= LARGEST_TABLES:
                self._tables.clear()
            table = self._tables[sequences, block] = []
        while len(table) < count:
            found = self._cost.seconds(max(sequences, 1), max(len(table), sequences, 1), (block + 0.5) * CONTEXT_BLOCK)
            table.append(found if _LEAST_S < found < math.inf else _LEAST_S)
        return table


class DraftTimes:
    """What asking the drafter costs: seconds for being asked at all, and for each node that it drafts.

    The line is a least-squares one through the steps so far, older ones fading. While all drafts were of one length
    nothing says how the seconds divide; then half of them are taken to be the nodes'. What a drafter and a policy cost
    in a step that asks for nothing is spent anyway, and no part of it.
    """

    def __init__(self) -> None:
        self.asked = 0  # steps that asked it
        self.filled = 1.0  # nodes it drafts, of those it may
        self._idle_s: float | None = None
        self._nodes = self._seconds = 0.0  # means
        self._spread = self._slope = 0.0  # variance of nodes, covariance of nodes and seconds

    @property
    def node_s(self) -> float:
        """Seconds of one node more."""
        if self._nodes == 0.0:
            return 0.0
        slope = (self._slope + _DOUBT * 0.5 * self._seconds / (self._nodes + 1.0)) / (self._spread + _DOUBT)
        return min(max(slope, 0.0), self._seconds / self._nodes)

    @property
    def ask_s(self) -> float:
        """Seconds of asking, whatever comes."""
        return max(0.0, self._seconds - self.node_s * self._nodes - (self._idle_s or 0.0))

    @property
    def mean_s(self) -> float:
        """Seconds of a step that asked it, on average of late."""
        return max(0.0, self._seconds - (self._idle_s or 0.0))

    def learn(self, allowed: int, nodes: int, seconds: float) -> None:
        """A step that asked it for at most `allowed` nodes (above 0), and got so many."""
        if not 0.0 <= seconds < math.inf:
            return
        self.asked += 1
        self.filled += (min(nodes / allowed, 1.0) - self.filled) * _DRAFT_GAIN
        if self.asked <= FIRST_ASKS:
            # A first call may open files or compile: until some more were seen, the quickest one counts.
            if self.asked == 1 or seconds < self._seconds:
                self._nodes, self._seconds = float(nodes), seconds
            return
        expected = self.ask_s + self.node_s * nodes + (self._idle_s or 0.0)
        more_nodes = nodes - self._nodes
        more_s = min(seconds, _SLOWER * expected + _SLACK_S) - self._seconds
        self._nodes += _DRAFT_GAIN * more_nodes
        self._seconds += _DRAFT_GAIN * more_s
        self._spread = (1.0 - _DRAFT_GAIN) * (self._spread + _DRAFT_GAIN * more_nodes * more_nodes)
        self._slope = (1.0 - _DRAFT_GAIN) * (self._slope + _DRAFT_GAIN * more_nodes * more_s)

    def learn_idle(self, seconds: float) -> None:
        """A step that did not ask it."""
        if 0.0 <= seconds < math.inf:
            before = seconds if self._idle_s is None else self._idle_s
            self._idle_s = before + (min(seconds, _SLOWER * before + _SLACK_S) - before) * _DRAFT_GAIN
