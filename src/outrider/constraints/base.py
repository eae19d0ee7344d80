"""What the engine asks of a constraint: which tokens may come next, along a text that grows and shrinks.

Dimensions: V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from outrider.api import Constraint
from outrider.core.types import WordArray


class Matcher(Protocol):
    """A constraint's state behind the tokens pushed so far. Ends of text are never pushed."""

    @property
    def ended(self) -> bool:
        """Whether the text is complete and nothing but an end of text may follow."""
        ...

    def mask(self) -> WordArray:
        """Which ids may come next [ceil(V / 32)], bit i % 32 of word i // 32; ends of text where the text may end.

        Read-only, and valid until the next push or pop.
        """
        ...

    def push(self, token: int) -> bool:
        """Add a token; False, and nothing has changed, where it may not come next."""
        ...

    def pop(self, count: int) -> None:
        """Take the last `count` tokens back."""
        ...

    def allows(self, tokens: Sequence[int]) -> int:
        """How many of these tokens, one after the other, could be pushed; nothing changes."""
        ...

    def forced(self, most: int) -> tuple[int, ...]:
        """Tokens, at most `most`, for the text that must come next: a guess at how the target will cut it up."""
        ...


# Raises UsageError for a constraint that is malformed, cannot be satisfied, or asks for what is not supported.
MatcherMaker: TypeAlias = Callable[[Constraint], Matcher]
