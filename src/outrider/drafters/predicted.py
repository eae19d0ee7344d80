"""Guess that the answer goes on as a text that the caller expects in it: a file to be edited, a form letter.

Where the answer leaves that text, the guess follows it from where the two meet again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TypeAlias

from outrider.core.step import Budget, Outcome, View
from outrider.core.types import EMPTY, Draft
from outrider.drafters.growing import grow
from outrider.errors import UsageError

FIRM = 3  # tokens in a row that settle where the answer stands in the prediction
NEAR, AROUND = 4, 32  # distances within which one token and two tokens are enough to go on from
FAR_TOKENS = 4  # as many are enough anywhere
MOST_COMPARED = 8
PLACES_AFTER, PLACES_BEFORE = 16, 8  # of a token, nearest first: what a frequent one costs stays bounded
# A guess is scored by how guesses of its kind went lately. Kinds: the last token was replaced, or one was put in before
# the expected one; then the tokens in a row that agreed, at most so many.
REPLACED, INSERTED = 0, 1
_ROWS = (1, 2, 3, 5, 8, 16)
_KINDS = tuple(2 + sum(row >= step for step in _ROWS) - 1 for row in range(1, _ROWS[-1] + 1))  # by row - 1
_FIRST_GUESS = (0.3, 0.15, 0.5, 0.75, 0.85, 0.9, 0.95, 0.97)  # of each kind, before anything is known
_WEIGHT = 4.0  # guesses that the first guess counts as much as
_KEEP = 0.95  # of what an older guess counts, when a newer one of its kind comes
_START_ROW = 2  # an answer is expected to begin as the prediction does, as if so many tokens had agreed

Way: TypeAlias = tuple[int, int]  # place in the prediction of the next token; agreeing tokens, or -1 - kind without any
Ways: TypeAlias = tuple[Way, ...]


class PredictedDrafter:
    """Drafts from View.prediction; EMPTY where there is none, at its end, and where the answer is of something else.

    While the answer agrees, the draft is what comes next. After a divergence it looks for the last tokens of the answer
    in the prediction: the longest agreement wins, the nearest after the old place before others, and the further away,
    the more tokens have to agree; so text may be left out, put in, replaced or moved. Until they are found, it guesses
    that tokens were replaced one for one, or that some were put in; both, as a tree, if the budget has more nodes than
    depth. A score is how often a guess of that kind was right lately, in this sequence. A node is left out where the
    product of the scores down to it is below `least`.

    begin keeps nothing of the prompt, the first propose indexes the prediction (about 0.5 us a token of it), end
    forgets all. Cost: O(1) a token that agrees, a bounded search for one that does not, O(nodes) a draft. Source: own;
    the idea of a predicted output is common to several services. Raises UsageError where least is not in (0, 1].
    """

    name = "predicted"

    def __init__(self, least: float = 0.1) -> None:
        if not 0.0 < least <= 1.0:
            raise UsageError(f"least is {least!r}; it is a probability above 0")
        self._least = least
        self._answers: dict[int, _Answer] = {}

    def begin(self, seq: int, prompt: Sequence[int]) -> None:
        self._answers[seq] = _Answer()

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        return [
            self._guess(self._answers[view.seq], view, budget) if view.prediction else EMPTY
            for view, budget in zip(views, budgets, strict=True)
        ]

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            self._answers[outcome.seq].extend(outcome.tokens)

    def end(self, seq: int) -> None:
        self._answers.pop(seq, None)

    def _guess(self, answer: _Answer, view: View, budget: Budget) -> Draft:
        follower = answer.follow(view.prediction)
        return grow(follower, follower.ways(), budget, self._least)


class _Answer:
    """The answer so far, and what follows the prediction along it once that is known."""

    __slots__ = ("_follower", "_tokens")

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._follower: _Follower | None = None

    def extend(self, tokens: Sequence[int]) -> None:
        if self._follower is None:
            self._tokens.extend(tokens)
        else:
            self._follower.extend(tokens)

    def follow(self, prediction: Sequence[int]) -> _Follower:
        """The follower; made when the first view shows the prediction."""
        if self._follower is None:
            self._follower = _Follower(prediction)
            self._follower.extend(self._tokens)
            self._tokens.clear()
        return self._follower


class _Follower:
    """Where an answer stands in a prediction. As a guide of drafts, a place is a few ways to go on."""

    __slots__ = ("_at", "_firm", "_last", "_places", "_right", "_row", "_runs", "_since", "_text", "_tried")

    def __init__(self, text: Sequence[int]) -> None:
        self._text = tuple(text)
        self._places: dict[int, list[int]] = {}  # token -> where it stands
        self._runs: dict[tuple[int, ...], list[int]] = {}  # FAR_TOKENS tokens -> where the last of them stands
        for place, token in enumerate(self._text):
            self._places.setdefault(token, []).append(place)
            if place >= FAR_TOKENS - 1:
                self._runs.setdefault(self._text[place - FAR_TOKENS + 1 : place + 1], []).append(place)
        self._at = 0  # the place of the token that is expected next
        self._row = _START_ROW  # tokens in a row that agreed; 0 while the answer is off the prediction
        self._firm = 0  # behind the last row of FIRM tokens
        self._since = 0  # tokens of the answer since then
        self._last: list[int] = []  # the last tokens of the answer, MOST_COMPARED at most
        self._right = [_WEIGHT * chance for chance in _FIRST_GUESS]  # by kind
        self._tried = [_WEIGHT] * len(_FIRST_GUESS)

    def extend(self, tokens: Sequence[int]) -> None:
        """The answer goes on."""
        for token in tokens:
            self._learn(token)
            self._last.append(token)
            del self._last[:-MOST_COMPARED]
            self._since += 1
            if self._at < len(self._text) and self._text[self._at] == token:
                self._at += 1
                self._row += 1
            else:
                self._at, self._row = self._meet()
            if self._row >= FIRM:
                self._firm, self._since = self._at, 0

    def ways(self) -> Ways:
        """How the answer may go on, the likeliest way first."""
        found = [(self._at, self._row)] if self._row else []
        if self._row < FIRM and self._since:
            lost = [(self._firm + self._since, -1 - REPLACED), (self._firm, -1 - INSERTED)]
            found += sorted(lost, key=self._score, reverse=True)
        return tuple(way for way in found if way[0] < len(self._text))

    def ahead(self, place: Ways, most: int) -> list[tuple[int, float]]:
        found: dict[int, float] = {}
        rest = 1.0
        for way in place:
            token = self._text[way[0]]
            if token not in found:
                found[token] = min(rest, self._score(way))
                rest -= found[token]
        return list(found.items())[:most]

    def after(self, place: Ways, token: int) -> Ways:
        onward = ((at + 1, max(row, 0) + 1) for at, row in place if self._text[at] == token)
        return tuple(way for way in onward if way[0] < len(self._text))

    def _score(self, way: Way) -> float:
        kind = _kind(way[1])
        return self._right[kind] / self._tried[kind]

    def _learn(self, token: int) -> None:
        """Count which of the ways at hand were right."""
        for at, row in self.ways():
            kind = _kind(row)
            decay = _KEEP if self._tried[kind] > _WEIGHT else 1.0
            self._tried[kind] = self._tried[kind] * decay + 1.0
            self._right[kind] = self._right[kind] * decay + (self._text[at] == token)

    def _meet(self) -> Way:
        """Where the last tokens of the answer stand in the prediction; no row where they do not."""
        places = self._places.get(self._last[-1], [])
        first = bisect_left(places, self._firm)
        candidates = places[first : first + PLACES_AFTER] + places[max(0, first - PLACES_BEFORE) : first]
        runs = self._runs.get(tuple(self._last[-FAR_TOKENS:]), [])
        beyond = bisect_left(runs, self._firm)
        candidates += runs[beyond : beyond + 1] + runs[max(0, beyond - 1) : beyond]
        best = (0, 0, 0)  # agreeing tokens, whether it lies ahead, minus the distance
        for place in candidates:
            agreeing = self._agreeing(place)
            if agreeing >= self._needed(place):
                best = max(best, (agreeing, int(place >= self._firm), -abs(place - self._firm)))
        agreeing, ahead, distance = best
        if not agreeing:
            return self._firm + self._since, 0
        return self._firm + (-distance if ahead else distance) + 1, agreeing

    def _agreeing(self, place: int) -> int:
        count = 0
        for token in reversed(self._last):
            if count > place or self._text[place - count] != token:
                break
            count += 1
        return count

    def _needed(self, place: int) -> int:
        """How many tokens have to agree for the answer to be taken to stand there."""
        skipped, replaced = place - self._firm, abs(place + 1 - self._firm - self._since)
        # An answer rarely goes back, so that takes two tokens at least.
        off = min(skipped, replaced) if skipped >= 0 else NEAR - skipped
        return 1 if off <= NEAR else 2 if off <= AROUND else FAR_TOKENS


def _kind(row: int) -> int:
    return -1 - row if row < 0 else _KINDS[min(row, _ROWS[-1]) - 1]
