"""A drafter around another one, which says of itself what the inner one says: for benchmarks that watch or delay it."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.core.step import Budget, Outcome, View
from outrider.core.types import Draft
from outrider.drafters.base import Drafter, names


class Wrapper:
    """Hands everything on. What it would not tell of the inner one, the engine would refuse in its drafts."""

    def __init__(self, inner: Drafter) -> None:
        self.name = inner.name
        self.names = names(inner)
        self.followers = int(getattr(inner, "followers", 0))
        self.weighs = bool(getattr(inner, "weighs", False))
        self._inner = inner

    def begin(self, seq: int, prompt: Sequence[int]) -> None:
        self._inner.begin(seq, prompt)

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        return self._inner.propose(views, budgets)

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        self._inner.observe(outcomes)

    def end(self, seq: int) -> None:
        self._inner.end(seq)
