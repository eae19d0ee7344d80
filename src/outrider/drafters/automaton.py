"""A suffix automaton that grows token by token and knows how often, and how lately, each of its states was met.

Every string that stands in the text leads from the root to one state; the strings of a state end at the same places.
A state's link leads to the longest shorter suffix that ends at more places (Blumer et al. 1985; used to draft by
SAM-Decoding, 2411.10666). With it the longest suffix met before is known at once, and so is what followed it.
"""

from __future__ import annotations

from collections.abc import Sequence

ROOT = 0
# Counting climbs from the longest known suffix at most so many links. Text has fewer than ten; only a text that goes
# round in a short loop has more, and would otherwise pay for its whole length with each token.
MOST_LINKS = 64
# A state with more followers than this keeps a list of its best ones, so that nobody has to look through all.
MOST_SCANNED = 12
MOST_RANKED = 8
# What a state and a follower take at most, lists, dictionaries and integers included; the tests compare with CPython.
STATE_BYTES = 344
FOLLOWER_BYTES = 96
RANKED_BYTES = 320
_FREE_FOLLOWERS = 5  # a dictionary's first entries are counted with its state


class Automaton:
    """Grows by `extend`; a cursor (state, matched) stands at the longest suffix of some other text that is in it.

    Time: amortised O(1) a token. Memory: at most two states a token, `size_bytes` in all (an upper estimate).
    """

    __slots__ = ("_count", "_follow", "_last", "_length", "_link", "_ranked", "_recent", "size_bytes")

    def __init__(self) -> None:
        self._length = [0]  # of the longest string of each state
        self._link = [-1]
        self._follow: list[dict[int, int]] = [{}]  # token -> state
        self._count = [0]  # places where the state's strings end
        self._recent = [0]  # the last of these places
        self._ranked: dict[int, list[int]] = {}  # state with many followers -> its most frequent ones, in no order
        self._last = ROOT  # the state of the whole text
        self.size_bytes = STATE_BYTES

    @property
    def states(self) -> int:
        return len(self._length)

    def extend(self, tokens: Sequence[int]) -> None:
        """Add tokens at the end of the text."""
        for token in tokens:
            self._add(token)

    def tail(self) -> tuple[int, int]:
        """The cursor at the text's longest suffix that stood in it before, possibly the empty one."""
        state = max(self._link[self._last], ROOT)
        return state, self._length[state]

    def advance(self, state: int, matched: int, token: int) -> tuple[int, int]:
        """The cursor after one more token. Amortised O(1): matched grows by at most 1, and links only shorten it.

        A cursor holds until the automaton grows.
        """
        link, length, follow = self._link, self._length, self._follow
        while state and token not in follow[state]:
            state = link[state]
            matched = length[state]
        child = follow[state].get(token)
        if child is None:
            return ROOT, 0
        if child == self._last:  # the text's end: nothing follows yet, but something did where its suffix stood before
            return self.tail()
        return child, matched + 1

    def shorter(self, state: int) -> tuple[int, int]:
        """The cursor at the longest suffix with more occurrences."""
        state = max(self._link[state], ROOT)
        return state, self._length[state]

    def ahead(self, state: int) -> tuple[int, int, list[tuple[int, int, int]]]:
        """What came behind the strings of a state: how often anything did, how many different tokens did, and which.

        Those are (count, last place, token); of more than MOST_SCANNED tokens, the MOST_RANKED most frequent ones, and
        the first figure may be one too many, for the text's own end.
        """
        follow, count, recent = self._follow[state], self._count, self._recent
        if len(follow) <= MOST_SCANNED:
            found = [(count[child], recent[child], token) for token, child in follow.items()]
            return sum(times for times, _, _ in found), len(found), found
        ranked = self._ranked.get(state)
        if ranked is None:  # once for a state: from now on, _met keeps the list
            ranked = sorted(follow, key=lambda token: (count[follow[token]], recent[follow[token]]))[-MOST_RANKED:]
            self._ranked[state] = ranked
        return count[state], len(follow), [(count[follow[token]], recent[follow[token]], token) for token in ranked]

    def _add(self, token: int) -> None:
        length, link, follow = self._length, self._link, self._follow
        last, new = self._last, len(length)
        length.append(length[last] + 1)
        link.append(ROOT)
        follow.append({})
        self._count.append(1)
        self._recent.append(length[new])
        self.size_bytes += STATE_BYTES
        above = last
        while above >= 0 and token not in follow[above]:
            follow[above][token] = new
            if len(follow[above]) > _FREE_FOLLOWERS:
                self.size_bytes += FOLLOWER_BYTES
                if len(follow[above]) == MOST_SCANNED + 1:
                    self.size_bytes += RANKED_BYTES
            above = link[above]
        if above >= 0:
            child = follow[above][token]
            link[new] = child if length[child] == length[above] + 1 else self._split(above, token, child)
        self._last = new
        self._met(last, token, new)

    def _split(self, above: int, token: int, child: int) -> int:
        """The strings of child that are no longer than above's and the token get a state of their own."""
        length, link, follow = self._length, self._link, self._follow
        clone = len(length)
        length.append(length[above] + 1)
        link.append(link[child])
        follow.append(follow[child].copy())
        self._count.append(self._count[child])
        self._recent.append(self._recent[child])
        if child in self._ranked:
            self._ranked[clone] = self._ranked[child].copy()
        self.size_bytes += STATE_BYTES + FOLLOWER_BYTES * max(0, len(follow[clone]) - _FREE_FOLLOWERS)
        if len(follow[clone]) > MOST_SCANNED:
            self.size_bytes += RANKED_BYTES
        link[child] = clone
        while above >= 0 and follow[above].get(token) == child:
            follow[above][token] = clone
            above = link[above]
        return clone

    def _met(self, last: int, token: int, new: int) -> None:
        """Count the token behind every suffix of the text before it."""
        link, follow, count, recent = self._link, self._follow, self._count, self._recent
        place = recent[new]
        above, counted = link[last], new
        for _ in range(MOST_LINKS):
            if above < 0:
                break
            child = follow[above][token]
            if child != counted:
                count[child] += 1
                recent[child] = place
                counted = child
            if len(follow[above]) > MOST_SCANNED and above in self._ranked:
                self._rank(self._ranked[above], follow[above], token)
            above = link[above]

    def _rank(self, ranked: list[int], follow: dict[int, int], token: int) -> None:
        """Put a follower that was just counted in the place of the weakest one, if it is as strong now."""
        if token not in ranked:
            counts = [self._count[follow[other]] for other in ranked]
            weakest = min(counts)
            if self._count[follow[token]] >= weakest:
                ranked[counts.index(weakest)] = token
