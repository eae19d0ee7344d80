"""What goes in and what comes out of a generator. No logic.

Ids are vocabulary ids of the target; times are seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Origin(StrEnum):
    """Where a token of the answer came from."""

    ACCEPTED = "accepted"  # guessed by the drafter and kept
    RECOVERED = "recovered"  # the target's own, after a guess was rejected
    BONUS = "bonus"  # the target's own, after every guess (or an empty draft) was kept


class FinishReason(StrEnum):
    """Why an answer ended."""

    STOP = "stop"  # end of text, or a stop string
    LENGTH = "length"  # max_tokens, or the context is full


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the target's law becomes a token. temperature 0 is the arg-max."""

    temperature: float = 0.0
    seed: int = 0
    sample: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """One answer that is wanted."""

    prompt: Sequence[int]
    max_tokens: int = 256
    sampling: Sampling = Sampling()
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """What an answer cost; the lists are by draft position (depth), first position first.

    drafted_per_position[i] counts passes that verified a node at depth i, accepted_per_position[i] those that kept one;
    tokens cut off at the end of an answer are counted nowhere.
    """

    prompt_tokens: int
    completion_tokens: int
    passes: int  # target passes that decided a token, the end of text included; prompt-only chunks are not among them
    drafted: int
    accepted: int
    drafted_per_position: tuple[int, ...]
    accepted_per_position: tuple[int, ...]
    tokens_per_pass: float
    prefill_s: float
    draft_s: float
    target_s: float
    decode_s: float
    tokens_per_s: float


@dataclass(frozen=True, slots=True)
class Pass:
    """The story of one pass, for people who want to see it: what was drafted, what was kept, what the target wanted."""

    position: int  # absolute position of the first token that this pass decided
    drafted: tuple[int, ...]
    parents: tuple[int, ...]
    path: tuple[int, ...]  # accepted nodes, before anything was trimmed
    token: int  # the target's own
    seconds: float


@dataclass(frozen=True, slots=True)
class Chunk:
    """The tokens that one step added to one answer, and the text that became certain with them."""

    request: int  # index into the requests
    text: str
    token_ids: tuple[int, ...]
    origins: tuple[Origin, ...]
    story: Pass | None = None
    finish_reason: FinishReason | None = None
    usage: Usage | None = None  # with the last chunk of an answer


class Generator(Protocol):
    """Whatever answers requests: our engine, another engine, a server. Chunks of several answers may interleave."""

    def generate(self, requests: Sequence[Request]) -> Iterator[Chunk]: ...
