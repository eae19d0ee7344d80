"""What stands in the table: something that answers a conversation and says what the answer cost.

Messages rather than ids go in, because a chat server takes nothing else; our own generators get them encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Protocol, TypeAlias

from outrider.api import Chunk, Generator, Pass, Request, Sampling, Usage
from outrider.core import tree
from outrider.core.types import Draft
from outrider.errors import OutriderError

Messages: TypeAlias = Sequence[Mapping[str, str]]  # {"role": "user" or "assistant", "content": ...}, oldest first
Encode: TypeAlias = Callable[[Messages], Sequence[int]]


@dataclass(frozen=True, slots=True)
class Settings:
    """How every contender answers."""

    max_tokens: int = 128
    temperature: float = 0.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Cost:
    """What an answer cost inside the engine; the tuples are by draft position, first position first.

    drafted counts passes that verified a node there, reached those of them that kept every position before it,
    accepted those that kept one there; tokens cut off at the end of the answer are counted nowhere.
    """

    passes: int
    draft_s: float
    target_s: float
    drafted: tuple[int, ...]
    reached: tuple[int, ...]
    accepted: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. timed_tokens are those whose seconds decode_s counts: all but the ones of the first pass (chunk)."""

    text: str
    ids: tuple[int, ...] | None  # None: only the text is known
    tokens: int
    timed_tokens: int
    decode_s: float
    cost: Cost | None  # None: whoever answered does not say


class Contender(Protocol):
    """One row of the table."""

    @property
    def name(self) -> str: ...

    def fresh(self) -> None:
        """Forget what earlier answers taught: a new round asks the same questions again."""
        ...

    def answer(self, messages: Messages) -> Answer:
        """Answers the conversation. Whatever it raises counts as a failed prompt."""
        ...


class Local:
    """A generator in this process: ids are known, and the engine's own clock counts."""

    def __init__(self, name: str, make: Callable[[], Generator], encode: Encode, settings: Settings) -> None:
        self.name = name
        self._make = make
        self._generator = make()
        self._encode = encode
        self._settings = settings

    def fresh(self) -> None:
        """A new generator: drafters may remember answers, and would know them in the next round."""
        self._generator = self._make()

    def answer(self, messages: Messages) -> Answer:
        """Raises OutriderError where the generator does, and where it stops before the answer ended."""
        settings = self._settings
        sampling = Sampling(temperature=settings.temperature, seed=settings.seed)
        request = Request(self._encode(messages), settings.max_tokens, sampling)
        chunks = list(self._generator.generate([request]))
        usage = chunks[-1].usage if chunks else None
        if usage is None:
            raise OutriderError("the generator stopped before the answer ended")
        return Answer(
            text="".join(chunk.text for chunk in chunks),
            ids=tuple(token for chunk in chunks for token in chunk.token_ids),
            tokens=usage.completion_tokens,
            timed_tokens=round(usage.tokens_per_s * usage.decode_s),
            decode_s=usage.decode_s,
            cost=Cost(
                usage.passes,
                usage.draft_s,
                usage.target_s,
                usage.drafted_per_position,
                _reached(chunks, usage),
                usage.accepted_per_position,
            ),
        )


def add_by_position(counts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The sums of counts by draft position; the shorter ones are 0 where they end."""
    return tuple(map(sum, zip_longest(*counts, fillvalue=0)))


def _reached(chunks: Sequence[Chunk], usage: Usage) -> tuple[int, ...]:
    """From the story of each pass: how many had a node at a draft position and kept all positions before it."""
    stories = [chunk.story for chunk in chunks if chunk.story is not None]
    return add_by_position([(1,) * _reach(story, usage) for story in stories])


def _reach(story: Pass, usage: Usage) -> int:
    depths = tree.depths(Draft(story.drafted, story.parents))
    # What the answer has no room for was cut off: usage counts it nowhere, and neither does this.
    room = usage.completion_tokens - (story.position - usage.prompt_tokens)
    return max(0, min(max(depths, default=-1) + 1, len(story.path) + 1, room))
