"""What a drafter would have guessed of answers that are known: passes, drafted and kept tokens, without the target.

With the coupled rule an answer does not depend on who drafts (docs/rules.md), so its ids alone say which guesses
would have been kept; no pass has to be computed to find out, whatever the draft length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from outrider.api import Sampling
from outrider.core import tree
from outrider.core.step import Budget, Outcome, Tokens, View
from outrider.core.types import EMPTY, Draft
from outrider.drafters.base import Drafter

_ENDED = -1  # what stands behind an answer that ended by itself; no drafter can draft it


@dataclass(frozen=True, slots=True)
class Known:
    """A prompt's ids and its answer's; stopped: it ended by itself, which took the target one decision more."""

    prompt: Sequence[int]
    answer: Sequence[int]
    stopped: bool


@dataclass(slots=True)
class Tally:
    """Counts over the passes that decode time is made of: all but the first of each answer.

    sizes counts passes by their drafted nodes. By depth: drafted counts passes with a node there, reached those of
    them that kept every node above, kept those that kept one there.
    """

    passes: int = 0
    sizes: Counter[int] = field(default_factory=Counter)
    drafted: list[int] = field(default_factory=list)
    reached: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    contexts: int = 0  # committed tokens, summed over passes
    draft_s: float = 0.0

    @property
    def acceptance(self) -> list[float]:
        """By position: of the drafted tokens that were reached, the share that was kept."""
        return [kept / reached if reached else 0.0 for kept, reached in zip(self.kept, self.reached, strict=True)]

    @property
    def survival(self) -> list[float]:
        """By position: of the passes that kept all before it, the share that kept one there, drafted or not.

        The conditional acceptance of core.expect, where a position without a guess counts as a rejected one.
        """
        before = [self.passes, *self.kept]
        return [kept / above if above else 0.0 for kept, above in zip(self.kept, before, strict=False)]

    @property
    def context(self) -> float:
        """The mean number of committed tokens before a pass."""
        return self.contexts / self.passes if self.passes else 0.0

    @property
    def nodes(self) -> float:
        """The mean number of drafted nodes of a pass."""
        return sum(nodes * count for nodes, count in self.sizes.items()) / self.passes if self.passes else 0.0

    def mean(self, seconds: Callable[[int], float]) -> float:
        """The mean over the passes of what one with so many drafted nodes costs."""
        return sum(count * seconds(nodes) for nodes, count in self.sizes.items()) / self.passes if self.passes else 0.0

    def add(self, draft: Draft, path: tuple[int, ...], context: int, seconds: float) -> None:
        """Count one pass."""
        self.passes += 1
        self.sizes[len(draft)] += 1
        self.contexts += context
        self.draft_s += seconds
        depths = max(tree.depths(draft), default=-1) + 1
        self._deepen(depths)
        for depth in range(depths):
            self.drafted[depth] += 1
            self.reached[depth] += depth <= len(path)
            self.kept[depth] += depth < len(path)

    def join(self, other: Tally) -> None:
        """Count another's passes too."""
        self.passes += other.passes
        self.sizes.update(other.sizes)
        self.contexts += other.contexts
        self.draft_s += other.draft_s
        self._deepen(len(other.drafted))
        for mine, theirs in ((self.drafted, other.drafted), (self.reached, other.reached), (self.kept, other.kept)):
            for depth, count in enumerate(theirs):
                mine[depth] += count

    def _deepen(self, depths: int) -> None:
        for counts in (self.drafted, self.reached, self.kept):
            counts.extend([0] * (depths - len(counts)))


def replay(drafter: Drafter, known: Sequence[Known], gamma: int, max_tokens: int, clock: Callable[[], float]) -> Tally:
    """Goes through the answers with drafts of at most gamma nodes, one answer after the other.

    max_tokens is what the answers were cut at. What the drafter raises goes through.
    """
    tally = Tally()
    for seq, one in enumerate(known):
        _replay_one(tally, drafter, seq, one, (gamma, max_tokens), clock)
    return tally


def _replay_one(
    tally: Tally, drafter: Drafter, seq: int, known: Known, limits: tuple[int, int], clock: Callable[[], float]
) -> None:
    gamma, max_tokens = limits
    truth = [*known.answer, *([_ENDED] if known.stopped else [])]
    tokens = list(known.prompt)
    view = View(seq, Tokens(tokens), Sampling())
    done = 0
    drafter.begin(seq, tuple(tokens))
    try:
        while done < len(truth):
            # As in the engine: the pass adds the target's own token too, so the last one is never drafted.
            depth = min(gamma, max_tokens - done - 1)
            start = clock()
            draft = drafter.propose([view], [Budget(depth, depth)])[0] if depth > 0 else EMPTY
            asked = clock()
            path = tree.follow(draft, truth[done:])
            new = tuple(truth[done : done + len(path) + 1])
            given = tuple(token for token in new if token != _ENDED)
            context = len(tokens)
            tokens += given
            told = clock()
            drafter.observe([Outcome(seq, draft, path, given)])
            if done:
                tally.add(draft, path, context - 1, asked - start + clock() - told)
            done += len(new)
    finally:
        drafter.end(seq)
