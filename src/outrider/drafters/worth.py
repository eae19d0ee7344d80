"""Whether asking a costly member of a blend pays, judged by what asking brought of late.

What is promised counts, not what came true: the chances of a blend follow what comes true by themselves, and a promise
can be seen in every step, a token only where the draft got so far.

It is judged by the sequence, not by the step. To know what would be promised without the member takes a look at all
others first, which costs more than choosing the steps saves (benchmarks/asking.py); so only some asks are compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_KEEP = 0.99  # of what comparisons of all sequences showed: about 100 are remembered
_OWN_KEEP = 0.8
_FIRST, _FIRST_WEIGHT = 0.3, 4.0  # tokens that an ask saves while little is known, so that it is tried
# Of the price, what an ask has to be seen to save: more comes true than is promised, for the least likely nodes are not
# counted as promises (benchmarks/asking.py).
_PART = 0.6
_DOUBT = 1.0  # comparisons of a sequence that weigh as much as those of all
_DENSE, _BETWEEN = 2, 8  # a sequence's first asks are compared, and then one of so many
_WAIT, _LONGEST_WAIT = 8, 64  # steps until it is tried again


@dataclass(slots=True)
class _Own:
    """What a sequence's compared asks saved, older ones less and less; and when it was asked."""

    saved: float = 0.0
    asks: int = 0
    idle: int = 0  # steps since the last ask
    wait: int = _WAIT
    price: float = 0.0


@dataclass(slots=True)
class Worth:
    """Tokens that asks of a member add to a draft, less those that could be had in the time that they take."""

    _saved: float = _FIRST * _FIRST_WEIGHT
    _weight: float = _FIRST_WEIGHT
    _own: dict[int, _Own] = field(default_factory=dict)

    def pays(self, seq: int, price: float) -> bool:
        """Whether to ask for this sequence now. price is of a pass of the target."""
        own = self._own.setdefault(seq, _Own())
        own.price = price
        own.idle += 1
        if own.saved + _DOUBT * self._mean() < 0.0 and own.idle < own.wait:
            return False
        own.idle = 0
        own.asks += 1
        return True

    def compares(self, seq: int) -> bool:
        """Whether `learn` wants to hear of the ask that pays has just agreed to."""
        own = self._own[seq]
        return own.asks <= _DENSE or own.asks % _BETWEEN == 0 or own.wait > _WAIT

    def learn(self, seq: int, promised: float, after: float) -> None:
        """An ask raised the promised tokens to `after`. A pass brings one more, so the price is paid of both."""
        own = self._own[seq]
        saved = max(0.0, after - promised) - _PART * own.price * (1.0 + promised)
        own.saved = _OWN_KEEP * own.saved + saved
        own.wait = _WAIT if saved >= 0.0 else min(2 * own.wait, _LONGEST_WAIT)
        self._saved = _KEEP * self._saved + saved
        self._weight = _KEEP * self._weight + 1.0

    def end(self, seq: int) -> None:
        """The sequence is over."""
        self._own.pop(seq, None)

    def _mean(self) -> float:
        return self._saved / self._weight
