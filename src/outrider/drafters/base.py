"""What a drafter is: whoever guesses the next tokens of a sequence.

A guess never changes the answer, only its speed: the engine checks every draft, drops malformed ones and carries on
without a drafter that raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from outrider.core.step import Budget, Outcome, View
from outrider.core.types import EMPTY, Draft

__all__ = ["Budget", "Drafter", "Outcome", "View", "ask", "may_guess", "named", "names", "names_of_all"]


class Drafter(Protocol):
    """Guesses for many sequences at once. For each sequence: begin, then propose and observe in turn, then end.

    begin comes once, before anything else, with the whole prompt. propose returns one draft for each view, in order, of
    at most the budget (EMPTY where there is no guess). observe follows every step that added tokens, also those without
    a draft. end comes once, also when an answer is abandoned; afterwards nothing of the sequence may be left.

    A drafter with an attribute `followers: int` above 0 gets that many likeliest tokens with each row in
    Outcome.followers; they cost some microseconds a row.

    A drafter that puts several guessers together has an attribute `names: tuple[str, ...]` (see `names`), says in
    Draft.drafters which of them guessed a node, and asks only those that View.drafters lets.
    """

    @property
    def name(self) -> str: ...

    def begin(self, seq: int, prompt: Sequence[int]) -> None: ...

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]: ...

    def observe(self, outcomes: Sequence[Outcome]) -> None: ...

    def end(self, seq: int) -> None: ...


def names(drafter: Drafter) -> tuple[str, ...]:
    """Whose guesses may be in a drafter's drafts: its `names`, or its own alone."""
    # A plugin's type hints bind nobody.
    several = getattr(drafter, "names", None)
    if isinstance(several, tuple | list) and several:
        return tuple(map(str, several))
    return (str(getattr(drafter, "name", type(drafter).__name__)),)


def names_of_all(drafters: Iterable[Drafter]) -> tuple[str, ...]:
    """The names of several drafters, each once."""
    return tuple(dict.fromkeys(name for drafter in drafters for name in names(drafter)))


def may_guess(names: Sequence[str], view: View) -> bool:
    """Whether any of these may guess for a sequence."""
    return view.drafters is None or not view.drafters.isdisjoint(names)


def ask(drafter: Drafter, own: Sequence[str], views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
    """propose, for the views for which one of `own` may guess; EMPTY for the others."""
    if all(view.drafters is None for view in views):
        return drafter.propose(views, budgets)
    drafts = [EMPTY] * len(views)
    places = [place for place, view in enumerate(views) if may_guess(own, view)]
    if places:
        found = drafter.propose([views[place] for place in places], [budgets[place] for place in places])
        for place, draft in zip(places, found, strict=True):
            drafts[place] = draft
    return drafts


def named(draft: Draft, name: str) -> Draft:
    """The draft with a name at each node, where it had none."""
    return draft if draft.drafters is not None or not draft.tokens else replace(draft, drafters=(name,) * len(draft))
