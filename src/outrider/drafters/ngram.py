"""Guess by looking back: what followed the last few tokens when they stood here before (prompt lookup decoding).

The index is kept as tokens arrive, so the cost of a step does not grow with the context. A longer match is a better
guide, so a guess is at most one token longer than the match that it rests on (benchmarks/drafts.py compares the rules).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from outrider.core.step import Budget, Outcome, View
from outrider.core.types import EMPTY, Draft
from outrider.errors import UsageError


class NgramDrafter:
    """Drafts what followed the most recent earlier occurrence of the longest known suffix, `longest` tokens to 1.

    The draft is as long as the budget allows, but at most one token longer than the match, of which the part beyond
    `longest` tokens counts too. Raises UsageError where `longest` is not between 1 and 16.
    """

    name = "ngram"

    def __init__(self, longest: int = 6) -> None:
        if not 1 <= longest <= 16:
            raise UsageError(f"longest is {longest}; an n-gram of this drafter has 1 to 16 tokens")
        self._longest = longest
        self._histories: dict[int, _History] = {}

    def begin(self, seq: int, prompt: Sequence[int]) -> None:
        history = _History(self._longest)
        history.extend(prompt)
        self._histories[seq] = history

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        return [
            self._histories[view.seq].guess(min(budget.nodes, budget.depth))
            for view, budget in zip(views, budgets, strict=True)
        ]

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            self._histories[outcome.seq].extend(outcome.tokens)

    def end(self, seq: int) -> None:
        self._histories.pop(seq, None)


class _History:
    """The tokens of one sequence, and where each of their n-grams was last continued."""

    __slots__ = ("_longest", "_next", "_tokens")

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._tokens: list[int] = []
        # n-gram -> index of the token after its latest occurrence. The suffix itself has none yet and is not in here,
        # so a look-up finds earlier occurrences only.
        self._next: dict[tuple[int, ...], int] = {}

    def extend(self, new: Iterable[int]) -> None:
        tokens, following = self._tokens, self._next
        for token in new:
            end = len(tokens)
            for start in range(max(0, end - self._longest), end):
                following[tuple(tokens[start:end])] = end
            tokens.append(token)

    def guess(self, count: int) -> Draft:
        tokens, following = self._tokens, self._next
        end = len(tokens)
        if count < 1:
            return EMPTY
        for start in range(max(0, end - self._longest), end):
            found = following.get(tuple(tokens[start:]))
            if found is not None:
                count = min(count, self._match(found, end - start, count) + 1)
                guess = tokens[found : found + count]
                if len(guess) < count:
                    # The continuation reaches the present: the text repeats itself, so the guess goes round.
                    guess = [guess[i % len(guess)] for i in range(count)]
                return Draft.chain(tuple(guess))
        return EMPTY

    def _match(self, found: int, known: int, most: int) -> int:
        """Tokens before `found` that equal the last ones, at most `most`; the first `known` do."""
        tokens, end = self._tokens, len(self._tokens)
        if known == self._longest:
            while known < most and known < found and tokens[found - 1 - known] == tokens[end - 1 - known]:
                known += 1
        return known
