"""Drafters that work together: each sees the whole life of a sequence, and hears of its own draft alone.

What they share is here; who is asked, and whose guess counts, is hybrid.py.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Sequence
from dataclasses import replace

from outrider.core import tree
from outrider.core.step import Budget, Outcome, View
from outrider.core.types import EMPTY, Draft
from outrider.drafters.base import Drafter, may_guess, named, names, names_of_all
from outrider.drafters.merge import Record, share
from outrider.errors import UsageError

_ANY_ID = 2**31  # the engine, which knows the vocabulary, checks the ids


class _Seat:
    """What is known of one sequence: by member, its present draft, its record, and whether it still takes part."""

    __slots__ = ("drafts", "records", "working")

    def __init__(self, members: int) -> None:
        self.drafts = [EMPTY] * members
        self.records = [Record() for _ in range(members)]
        self.working = [True] * members


class Team:
    """The members of a hybrid. Raises UsageError where there are none.

    A member that raises, or drafts nonsense, is left out of the sequences concerned until they end, with a warning.
    """

    def __init__(self, members: Sequence[Drafter]) -> None:
        if not members:
            raise UsageError("a hybrid of no drafters cannot draft; give it at least one")
        self._members = tuple(members)
        self._names = tuple(names(member) for member in members)
        self._followers = tuple(int(getattr(member, "followers", 0)) for member in members)
        self._seats: dict[int, _Seat] = {}

    def __len__(self) -> int:
        return len(self._members)

    @property
    def listed(self) -> str:
        """The members' own names with commas between."""
        return ", ".join(_name(member) for member in self._members)

    @property
    def names(self) -> tuple[str, ...]:
        """Whose guesses there may be."""
        return names_of_all(self._members)

    @property
    def followers(self) -> int:
        """As many as the member that wants most."""
        return max(self._followers)

    def begin(self, seq: int, prompt: Sequence[int]) -> None:
        self._seats[seq] = _Seat(len(self._members))
        for number, member in enumerate(self._members):
            try:
                member.begin(seq, prompt)
            except Exception as error:
                self._leave_out(number, [seq], error)

    def propose(self, number: int, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        """The drafts of one member, in order; EMPTY where it is left out or not wanted, or the budget is nothing."""
        drafts = [EMPTY] * len(views)
        places = [
            place
            for place, (view, budget) in enumerate(zip(views, budgets, strict=True))
            if not budget.nothing and self._seats[view.seq].working[number] and may_guess(self._names[number], view)
        ]
        if not places:
            return drafts
        asked = [views[place] for place in places]
        given = [budgets[place] for place in places]
        try:
            proposed = self._members[number].propose(asked, given)
            if len(proposed) != len(asked):
                raise UsageError(f"{len(proposed)} drafts for {len(asked)} sequences")
        except Exception as error:
            self._leave_out(number, [view.seq for view in asked], error)
            return drafts
        for place, view, budget, draft in zip(places, asked, given, proposed, strict=True):
            if draft is not EMPTY and self._sound(number, view.seq, draft, budget):
                drafts[place] = self._seats[view.seq].drafts[number] = named(draft, self._names[number][0])
        return drafts

    def record(self, number: int, seq: int) -> Record:
        """How a member has done in a sequence."""
        return self._seats[seq].records[number]

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Tell each member what became of its own drafts, also where another's draft was in the pass."""
        for number, member in enumerate(self._members):
            told = [self._own(number, outcome) for outcome in outcomes if self._seats[outcome.seq].working[number]]
            if not told:
                continue
            try:
                member.observe(told)
            except Exception as error:
                self._leave_out(number, [outcome.seq for outcome in told], error)
        for outcome in outcomes:
            seat = self._seats[outcome.seq]
            for number, draft in enumerate(seat.drafts):
                if draft is not EMPTY:
                    seat.records[number].learn(draft, outcome.tokens)
                    seat.drafts[number] = EMPTY

    def end(self, seq: int) -> None:
        seat = self._seats.pop(seq, None)
        for number, member in enumerate(self._members):
            if seat is not None and seat.working[number]:
                try:
                    member.end(seq)
                except Exception as error:
                    self._warn(number, error)

    def _own(self, number: int, outcome: Outcome) -> Outcome:
        most = self._followers[number]
        followers = tuple((token, likely[:most]) for token, likely in outcome.followers) if most else ()
        own = self._seats[outcome.seq].drafts[number]
        if own is outcome.draft:
            return outcome if followers == outcome.followers else replace(outcome, followers=followers)
        nodes, path = share(own, outcome.draft, outcome.path)
        if not nodes:
            return Outcome(outcome.seq, EMPTY, (), outcome.tokens, followers)
        draft = own if len(nodes) == len(own) else tree.keep(own, nodes)
        return Outcome(outcome.seq, draft, path, outcome.tokens, followers)

    def _sound(self, number: int, seq: int, draft: Draft, budget: Budget) -> bool:
        try:
            depth = tree.validate(draft, _ANY_ID)
            if len(draft) > budget.nodes or depth > budget.depth:
                raise UsageError(f"a draft of {len(draft)} nodes is over its budget {budget}")
        except (UsageError, TypeError, AttributeError) as error:
            self._leave_out(number, [seq], error)
            return False
        return bool(draft.tokens)

    def _leave_out(self, number: int, seqs: Sequence[int], error: Exception) -> None:
        for seq in seqs:
            self._seats[seq].working[number] = False
            self._seats[seq].drafts[number] = EMPTY
            with contextlib.suppress(Exception):
                self._members[number].end(seq)  # what it still holds, if it can
        self._warn(number, error)

    def _warn(self, number: int, error: Exception) -> None:
        warnings.warn(
            f"drafter {_name(self._members[number])}: {type(error).__name__}: {error}; the others draft on without it",
            RuntimeWarning,
            stacklevel=2,
        )


def _name(drafter: Drafter) -> str:
    # A plugin's type hints bind nobody.
    return str(getattr(drafter, "name", type(drafter).__name__))
