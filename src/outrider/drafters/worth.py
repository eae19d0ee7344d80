"""Whether asking a costly member of a blend pays, judged by what asking brought of late.

What is promised counts, not what came true: the chances of a blend follow what comes true by themselves, and a promise
can be seen in every step, a token only where the draft got so far.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

_EDGES = (0.1, 0.2, 0.35, 0.55, 0.8, 1.2, 1.8)  # of the tokens that are promised anyway
_KEEP = 0.99  # of what asks of all sequences brought: about 100 of each bucket are remembered
_OWN_KEEP = 0.8
_FIRST, _FIRST_WEIGHT = 0.6, 4.0  # tokens that an ask brings while little is known, so that it is tried
_DOUBT = 1.0  # asks of a sequence that weigh as much as those of all
_WAIT, _LONGEST_WAIT = 8, 64  # steps until it is tried again
_ROWS = 0.75  # of the tokens gained is left when the rows that they take are paid


@dataclass(slots=True)
class _Own:
    """By how much a sequence's asks brought more than those of all did, and how many there were; older ones fade."""

    more: float = 0.0
    asks: float = 0.0
    idle: int = 0  # steps since the last ask
    wait: int = _WAIT
    due: float = 0.0  # tokens that the last ask had to bring


@dataclass(slots=True)
class Worth:
    """Tokens that asks of a member add to a draft, by the tokens that were promised without."""

    _gained: list[float] = field(default_factory=lambda: [_FIRST * _FIRST_WEIGHT] * (len(_EDGES) + 1))
    _weight: list[float] = field(default_factory=lambda: [_FIRST_WEIGHT] * (len(_EDGES) + 1))
    _own: dict[int, _Own] = field(default_factory=dict)

    def pays(self, seq: int, promised: float, price: float) -> bool:
        """Whether to ask for this sequence. price is of a pass of the target; promised are tokens without it."""
        own = self._own.setdefault(seq, _Own())
        # A pass brings one token and what was promised: so much is lost where the price is paid for nothing.
        own.due = price * (1.0 + promised) / _ROWS
        gain = max(0.0, self._mean(bisect_right(_EDGES, promised)) + own.more / (own.asks + _DOUBT))
        own.idle += 1
        return gain >= own.due or own.idle >= own.wait

    def learn(self, seq: int, promised: float, after: float) -> None:
        """An ask raised the tokens that are promised to `after`."""
        own, bucket, gain = self._own[seq], bisect_right(_EDGES, promised), max(0.0, after - promised)
        own.more = _OWN_KEEP * own.more + gain - self._mean(bucket)
        own.asks = _OWN_KEEP * own.asks + 1.0
        own.idle = 0
        own.wait = _WAIT if gain >= own.due else min(2 * own.wait, _LONGEST_WAIT)
        self._gained[bucket] = _KEEP * self._gained[bucket] + gain
        self._weight[bucket] = _KEEP * self._weight[bucket] + 1.0

    def end(self, seq: int) -> None:
        """The sequence is over."""
        self._own.pop(seq, None)

    def _mean(self, bucket: int) -> float:
        return self._gained[bucket] / self._weight[bucket]
