"""What the engine, a drafter and a policy tell each other about one step of one sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import overload

from outrider.api import Sampling
from outrider.core.types import Draft


class Tokens(Sequence[int]):
    """A list of ids that can be read but not changed; always shows the list as it is now."""

    __slots__ = ("_ids",)

    def __init__(self, ids: list[int]) -> None:
        self._ids = ids

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        return self._ids[index]

    def __len__(self) -> int:
        return len(self._ids)


@dataclass(frozen=True, slots=True)
class View:
    """What may be seen of a sequence: one view lives as long as its sequence and always shows the present."""

    seq: int
    tokens: Sequence[int]  # prompt and answer so far
    sampling: Sampling  # a model drafter that draws with the same noise agrees more often
    # Under a constraint: tokens, at most so many, for the text that must come next.
    forced: Callable[[int], tuple[int, ...]] | None = None
    prediction: tuple[int, ...] = ()  # Request.prediction
    scope: str = ""  # Request.scope: what is learned from this sequence may be used for others of its scope alone
    drafters: frozenset[str] | None = None  # Request.drafters: who may guess for it; None: all


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that may be drafted for a sequence in this step; 0 nodes is an ordinary answer."""

    nodes: int
    depth: int  # nodes on the longest path
    # Of the likeliest node, the second likeliest, ...: a chance to be kept with which no pass would take it or any that
    # is less likely, so that a drafter need not look for them. Empty: nobody knows.
    floors: tuple[float, ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether not a single node may be drafted."""
        return self.nodes < 1 or self.depth < 1


@dataclass(frozen=True, slots=True)
class Load:
    """What a pass computes before anything is drafted."""

    sequences: int
    rows: int


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of one step: all of it, and its shares of the drafter and the target (the rest is the engine's own)."""

    total_s: float
    draft_s: float
    target_s: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a draft. tokens are the sequence's new tokens, whoever guessed them; path the kept draft nodes.

    tokens may be empty where the answer ended before the first of them. followers, for drafters that ask for them
    (drafters.base.Drafter): for rows of the pass, the row's token and the likeliest tokens behind it, best first.
    """

    seq: int
    draft: Draft
    path: tuple[int, ...]
    tokens: tuple[int, ...]
    followers: tuple[tuple[int, tuple[int, ...]], ...] = ()
