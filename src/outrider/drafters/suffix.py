"""Guess that what followed the longest suffix when it stood in the text before follows it now, as often as it did.

Two sources: the sequence's own text, and earlier answers in a bounded memory. Each is a suffix automaton, so the match
is as long as it can be and a token costs the same after 200 tokens as after 20,000.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from outrider.core.step import Budget, Outcome, View
from outrider.core.types import EMPTY, Draft
from outrider.drafters.automaton import ROOT, Automaton
from outrider.drafters.growing import grow
from outrider.drafters.memory import EDGE, Memory
from outrider.errors import UsageError

DEFAULT_MEMORY_BYTES = 64 << 20
# A score is count / (total + doubt), doubt = DOUBT * followers**SPREAD / matched: what was seen once is not certain,
# less so after a short match or where different things followed. Fitted to the default model's answers to 111 questions
# (the 28 of `outrider bench`, 83 of Spec-Bench; 128 tokens each): of drafted nodes with a score of .32, .47, .57, .66,
# .75, .85 and .94, a share of .30, .50, .57, .66, .76, .86 and .96 was kept.
DOUBT, SPREAD = 2.2, 1.2
_SPREADS = tuple(math.pow(different, SPREAD) for different in range(33))
# A drafted token moves the cursor of every source; after the first token only the best ones are followed.
SOURCES_FOLLOWED = 2
CONTEXTS = 3  # siblings come from so many suffixes, the longest first
WARM_UP = 32  # last tokens of an answer that a volume which is new to it is searched with

Cursor: TypeAlias = tuple[Automaton, int, int]  # source, state, matched tokens
Place: TypeAlias = tuple[Cursor, ...]


class SuffixDrafter:
    """Drafts the most frequent continuation of the longest known suffix, in the text and in a memory of answers.

    A draft is at most floor(matched * factor + offset) nodes deep, and a node is left out where the chance that it is
    reached and kept, the product of the scores down to it, is below `least`. A score is the share of the continuation
    among all that followed the match, less what a small count is worth; of several sources the one with the better
    score guesses, the longer match where scores are equal, and the text before the memory. A budget with more nodes
    than depth gives a tree, also of the less frequent continuations and of those of shorter suffixes.

    begin reads the prompt, observe what is added, end hands the answer to the memory and forgets the rest. The memory
    holds answers, not prompts, in at most memory_bytes (0: none), the oldest dropped first. It belongs to this object,
    and within it to a scope: begin(seq, prompt, scope) reads and feeds the answers of that scope alone, so what must
    not be shared (tenants) has to come with different scopes; the limit holds for all of them together.

    Cost: amortised O(1) a token (about 2 us), O(nodes) a draft, about 0.6 KB a token of a running sequence. Sources:
    SuffixDecoding (2411.04975), SAM-Decoding (2411.10666). Raises UsageError for values out of range.
    """

    name = "suffix"

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
        self._memory = Memory(memory_bytes) if memory_bytes else None
        self._factor = factor
        self._offset = offset
        self._least = least
        self._texts: dict[int, _Text] = {}

    @property
    def memory_bytes(self) -> int:
        """What the memory takes at present, at most."""
        return 0 if self._memory is None else self._memory.size_bytes

    def begin(self, seq: int, prompt: Sequence[int], scope: str = "") -> None:
        self._texts[seq] = _Text(prompt, scope, self._memory)

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        return [
            self._guess(self._texts[view.seq], budget) if budget.nodes and budget.depth else EMPTY
            for view, budget in zip(views, budgets, strict=True)
        ]

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            self._texts[outcome.seq].extend(outcome.tokens)

    def end(self, seq: int) -> None:
        text = self._texts.pop(seq, None)
        if text is not None and self._memory is not None:
            self._memory.add(text.scope, text.answer)

    def _guess(self, text: _Text, budget: Budget) -> Draft:
        cursors = text.cursors()
        longest = cursors[0][2] if cursors else 0
        depth = min(budget.depth, int(longest * self._factor + self._offset))
        if not longest or depth < 1:
            return EMPTY
        # A shallower depth must not make a chain's budget look like a tree's.
        nodes = budget.nodes if budget.nodes > budget.depth else min(budget.nodes, depth)
        return grow(_GUIDE, cursors, Budget(nodes, depth), self._least)


class _Text:
    """The tokens of one sequence, and where the end of its answer stands in each volume of the memory."""

    __slots__ = ("_automaton", "_memory", "_version", "_volumes", "answer", "scope")

    def __init__(self, prompt: Sequence[int], scope: str, memory: Memory | None) -> None:
        self._automaton = Automaton()
        self._automaton.extend(prompt)
        self._memory = memory
        self._volumes: list[Cursor] = []
        self._version = 0
        self.answer: list[int] = []  # empty without a memory
        self.scope = scope

    def extend(self, tokens: Sequence[int]) -> None:
        """The answer goes on."""
        self._automaton.extend(tokens)
        if self._memory is not None:
            self.answer.extend(tokens)
            if self._version == self._memory.version:
                for token in tokens:
                    self._volumes = [_after(cursor, token) for cursor in self._volumes]

    def cursors(self) -> Place:
        """Where the text's end stands in each source that knows some of it, the longest match first."""
        found = [(self._automaton, *self._automaton.tail())]
        if self._memory is not None:
            if self._version != self._memory.version:
                self._version = self._memory.version
                self._volumes = [self._search(volume) for volume in self._memory.read(self.scope)]
            found += self._volumes
        return _longest_first(found)

    def _search(self, volume: Automaton) -> Cursor:
        cursor = (volume, ROOT, 0)
        for token in [EDGE, *self.answer][-WARM_UP:]:
            cursor = _after(cursor, token)
        return cursor


class _Sources:
    """The guide of a draft: a place is a cursor for each source that is followed."""

    def ahead(self, place: Place, most: int) -> list[tuple[int, float]]:
        if most == 1:
            best = max((_best(cursor) for cursor in place), key=_score, default=(-1, 0.0))
            return [best] if best[0] >= 0 else []
        scores: dict[int, float] = {}
        for cursor in place:
            for token, score in _likely(cursor, most):
                scores[token] = max(score, scores.get(token, 0.0))
        room, found = 1.0, sorted(scores.items(), key=_score, reverse=True)[:most]
        for index, (token, score) in enumerate(found):
            found[index] = token, min(score, room)
            room -= found[index][1]
        return found

    def after(self, place: Place, token: int) -> Place:
        return _longest_first([_after(cursor, token) for cursor in place])[:SOURCES_FOLLOWED]


_GUIDE = _Sources()


def _score(guess: tuple[int, float]) -> float:
    return guess[1]


def _after(cursor: Cursor, token: int) -> Cursor:
    source, state, matched = cursor
    return (source, *source.advance(state, matched, token))


def _longest_first(cursors: list[Cursor]) -> Place:
    return tuple(sorted((cursor for cursor in cursors if cursor[2]), key=_matched, reverse=True))


def _matched(cursor: Cursor) -> int:
    return cursor[2]


def _doubt(matched: int, different: int) -> float:
    spread = _SPREADS[different] if different < len(_SPREADS) else math.pow(different, SPREAD)
    return DOUBT * spread / matched


def _best(cursor: Cursor) -> tuple[int, float]:
    """The most frequent continuation, the latest of equals, and its score; -1 where only an answer's end is known."""
    source, state, matched = cursor
    total, different, found = source.ahead(state)
    count, _, token = max(found)
    if token < 0:
        count, _, token = max((other for other in found if other[2] >= 0), default=(0, 0, -1))
    return token, count / (total + _doubt(matched, different))


def _likely(cursor: Cursor, most: int) -> list[tuple[int, float]]:
    """Continuations with their scores, of the longest suffix first, then of shorter ones.

    What the scores of a suffix leave over is what the next shorter one shares out among tokens not named before, as in
    prediction by partial matching.
    """
    source, state, matched = cursor
    rest = 1.0
    guesses: dict[int, float] = {}
    for _ in range(CONTEXTS):
        total, different, found = source.ahead(state)
        total -= sum(count for count, _, token in found if token in guesses)
        share = rest / (total + _doubt(matched, different))
        for count, _, token in sorted(found, reverse=True):
            if token not in guesses:
                guesses[token] = share * count
                rest -= guesses[token]
        if len(guesses) > most or rest <= 0.0:
            break
        state, matched = source.shorter(state)
        if not matched:
            break
    return [(token, score) for token, score in guesses.items() if token >= 0]
