"""Speculation under load: what it brings at each batch size, and from which one on it stops paying.

Dimensions: batch sequences, each with gamma drafted tokens and so gamma + 1 rows in the verifying pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from outrider.core import expect
from outrider.core.expect import Acceptance
from outrider.cost.hardware import Roofline
from outrider.errors import UsageError

MOST_GAMMA = 32  # keeps the search over all batch sizes well under a second


@dataclass(frozen=True, slots=True)
class Pairing:
    """A target and what drafts for it on the same machine; draft None is a guess that costs nothing (n-gram lookup)."""

    target: Roofline
    draft: Roofline | None
    context: int
    alpha: Acceptance

    def draft_cost(self, batch: int) -> float:
        """c: a draft step of all sequences over a plain pass of all sequences."""
        return 0.0 if self.draft is None else self._step_s(self.draft, batch, 0) / self._step_s(self.target, batch, 0)

    def verify_cost(self, batch: int, gamma: int) -> float:
        """The verifying pass of all sequences over a plain one."""
        return self._step_s(self.target, batch, gamma) / self._step_s(self.target, batch, 0)

    def needed_bytes(self, batch: int) -> float:
        """Weights, keys and values of target and drafter."""
        both = (self.target,) if self.draft is None else (self.target, self.draft)
        return sum(model.needed_bytes(batch, self.context) for model in both)

    def plain_tokens_per_s(self, batch: int) -> float:
        """Of all sequences together, without speculation."""
        return batch / self._step_s(self.target, batch, 0)

    def _step_s(self, model: Roofline, batch: int, gamma: int) -> float:
        return model.seconds(batch, batch * (gamma + 1), self.context)


@dataclass(frozen=True, slots=True)
class Point:
    """One batch size: tokens per second of all sequences together, without and with speculation."""

    batch: int
    gamma: int
    tokens_per_pass: float
    draft_cost: float
    plain_tokens_per_s: float
    tokens_per_s: float
    speedup: float
    fits: bool


@dataclass(frozen=True, slots=True)
class Range:
    """The batch sizes that speculation pays at: from the first to before `stops`, as far as they were tried.

    first None: at none. stops None: it still pays at the largest that was tried.
    """

    first: int | None
    stops: int | None


def point(pair: Pairing, batch: int, gamma: int | None) -> Point:
    """What speculation brings at a batch size; gamma None takes the best draft length there, 0 included.

    Raises UsageError for a batch below 1, or where expect.speedup does.
    """
    if batch < 1:
        raise UsageError(f"a batch of {batch} sequences does not exist: give 1 or more")
    choice = _choice(pair, batch, gamma)
    plain = pair.plain_tokens_per_s(batch)
    return Point(
        batch,
        choice.gamma,
        expect.tokens_per_pass(pair.alpha, choice.gamma),
        pair.draft_cost(batch),
        plain,
        plain * choice.speedup,
        choice.speedup,
        pair.needed_bytes(batch) <= pair.target.machine.memory_bytes,
    )


def pays(pair: Pairing, gamma: int | None, most_batch: int) -> Range:
    """Where the speed-up is above 1, over all batch sizes to most_batch. Raises UsageError as point does.

    Every size is tried: with experts the speed-up may rise with the batch before it falls.
    """
    gammas = range(1, _longest(pair) + 1) if gamma is None else (gamma,)
    paying = [batch for batch in range(1, most_batch + 1) if any(_speedup(pair, batch, g) > 1 for g in gammas)]
    if not paying:
        return Range(None, 1)
    return Range(paying[0], None if paying[-1] == most_batch else paying[-1] + 1)


def sizes(most_batch: int) -> Iterator[int]:
    """1, 2, 4, ... and most_batch itself."""
    size = 1
    while size < most_batch:
        yield size
        size *= 2
    yield most_batch


def largest_that_fits(pair: Pairing) -> int | None:
    """The largest batch whose weights, keys and values the machine's memory holds.

    0 where it does not even hold the weights; None where a sequence needs no memory, because its context is empty.
    """
    free = pair.target.machine.memory_bytes - pair.needed_bytes(0)
    each = pair.needed_bytes(1) - pair.needed_bytes(0)
    if free < 0:
        return 0
    return int(free / each) if each else None


def _choice(pair: Pairing, batch: int, gamma: int | None) -> expect.Choice:
    if gamma is not None:
        return expect.Choice(gamma, _speedup(pair, batch, gamma))
    c = pair.draft_cost(batch)
    return expect.best_gamma(pair.alpha, c, lambda rows: pair.verify_cost(batch, rows - 1), MOST_GAMMA)


def _speedup(pair: Pairing, batch: int, gamma: int) -> float:
    return expect.speedup(pair.alpha, gamma, pair.draft_cost(batch), pair.verify_cost(batch, gamma))


def _longest(pair: Pairing) -> int:
    return MOST_GAMMA if isinstance(pair.alpha, (int, float)) else min(MOST_GAMMA, len(pair.alpha))
