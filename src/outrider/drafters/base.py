"""What a drafter is: whoever guesses the next tokens of a sequence.

A guess never changes the answer, only its speed: the engine checks every draft, drops malformed ones and carries on
without a drafter that raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from outrider.core.step import Budget, Outcome, View
from outrider.core.types import Draft

__all__ = ["Budget", "Drafter", "Outcome", "View"]


class Drafter(Protocol):
    """Guesses for many sequences at once. For each sequence: begin, then propose and observe in turn, then end.

    begin comes once, before anything else, with the whole prompt. propose returns one draft for each view, in order, of
    at most the budget (EMPTY where there is no guess). observe follows every step that added tokens, also those without
    a draft. end comes once, also when an answer is abandoned; afterwards nothing of the sequence may be left.

    A drafter with an attribute `followers: int` above 0 gets that many likeliest tokens with each row in
    Outcome.followers; they cost some microseconds a row.
    """

    @property
    def name(self) -> str: ...

    def begin(self, seq: int, prompt: Sequence[int]) -> None: ...

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]: ...

    def observe(self, outcomes: Sequence[Outcome]) -> None: ...

    def end(self, seq: int) -> None: ...
