"""Guess that what followed the longest suffix when it stood in the text before follows it now, as often as it did.

Two sources: the sequence's own text, and earlier answers in a bounded memory. Each is a suffix automaton, so the match
is as long as it can be and a token costs the same after 200 tokens as after 20,000. The automata are native code
(native/src/drafting/automaton.cpp, suffix.cpp).
"""

from __future__ import annotations

from collections.abc import Sequence

from outrider import _native
from outrider.core.step import Budget, Outcome, View
from outrider.core.types import EMPTY, Draft
from outrider.errors import UsageError

DEFAULT_MEMORY_BYTES = 64 << 20
LEAST_BYTES = 1 << 18  # of a memory
# A score is count / (total + doubt), doubt = 2.2 * followers**1.2 / matched: what was seen once is not certain, less so
# after a short match or where different things followed. Of the default model's answers to 48 prompts of Spec-Bench
# (benchmarks/blending.py --per-group 8), the first guesses with scores of .2 to .3 came true in .25 of all cases, and
# those of the next tenths in .31, .49, .59, .64, .75, .85 and .92.
DOUBT, SPREAD = 2.2, 1.2
_BRANCHES = 4  # children of a node; a fifth is hardly ever likely enough to be reached


class SuffixDrafter:
    """Drafts the most frequent continuation of the longest known suffix, in the text and in a memory of answers.

    A draft is at most floor(matched * factor + offset) nodes deep, and a node is left out where the chance that it is
    reached and kept, the product of the scores down to it, is below `least`. A score is the share of the continuation
    among all that followed the match, less what a small count is worth; of several sources the one with the better
    score guesses, the longer match where scores are equal, and the text before the memory. A budget with more nodes
    than depth gives a tree, also of the less frequent continuations and of those of shorter suffixes.

    begin reads the prompt, observe what is added, end hands the answer to the memory and forgets the rest. The memory
    holds answers, not prompts, in at most memory_bytes (0: none), the oldest dropped first. It belongs to this object,
    and within it to the scope that a view names (Request.scope): answers of one scope are never read for another, and
    an answer that no view was shown of stays out; the limit holds for all scopes together.

    Cost: amortised O(1) a token (0.3 us), O(nodes) a draft, about 0.2 KB a token of a running sequence
    (benchmarks/drafting.py). Sources: SuffixDecoding (2411.04975), SAM-Decoding (2411.10666). Raises UsageError for
    values out of range.
    """

    name = "suffix"
    weight = (0.72, 1.83, -1.44)  # to begin with (drafters.blended)
    beside = (0.50, 1.47, -0.74)

    def __init__(
        self,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
        factor: float = 1.0,
        offset: float = 2.0,
        least: float = 0.1,
    ) -> None:
        for what, value in (("factor", factor), ("offset", offset)):
            if not 0.0 <= value <= 64.0:
                raise UsageError(f"{what} is {value!r}; it may be 0 to 64")
        if not 0.0 < least <= 1.0:
            raise UsageError(f"least is {least!r}; it is a probability above 0")
        if memory_bytes and memory_bytes < LEAST_BYTES:
            raise UsageError(f"memory_bytes is {memory_bytes}; give at least {LEAST_BYTES}, or 0 to remember nothing")
        self._memory = _native.Memory(memory_bytes) if memory_bytes else None
        self._factor = factor
        self._offset = offset
        self._least = least
        self._texts: dict[int, _native.SuffixText] = {}

    @property
    def memory_bytes(self) -> int:
        """What the memory takes at present, at most."""
        return 0 if self._memory is None else self._memory.size_bytes

    @property
    def text_bytes(self) -> int:
        """What the texts of running sequences take, at most."""
        return sum(text.size_bytes for text in self._texts.values())

    def begin(self, seq: int, prompt: Sequence[int]) -> None:
        self._texts[seq] = _native.SuffixText(prompt, self._memory, self._factor, self._offset)

    def source(self, view: View) -> _native.Source:
        """What a sequence that has begun is guessed from (drafters.blended)."""
        text = self._texts[view.seq]
        text.enter(view.scope)
        return text

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        return [self._guess(view, budget) for view, budget in zip(views, budgets, strict=True)]

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            self._texts[outcome.seq].extend(outcome.tokens)

    def end(self, seq: int) -> None:
        text = self._texts.pop(seq, None)
        if text is not None:
            text.remember()

    def _guess(self, view: View, budget: Budget) -> Draft:
        branches = 1 if budget.nodes <= budget.depth else _BRANCHES
        source, least = self.source(view), self._least
        tokens, parents, score = source.grow(budget.nodes, budget.depth, branches, least, budget.floors)
        return Draft(tokens, parents, score=score) if tokens else EMPTY
