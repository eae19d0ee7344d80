"""What a server is given: a Live, the words of its model, and its settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from outrider.api import Live

# Raise it whenever a release changes a bit of any result (docs/numerics.md); the instruction set never does.
NUMERICS = "numerics1"


class Detokenizer(Protocol):
    """Ids to text, one by one: what push returns is certain, never half a character; flush gives the rest."""

    def push(self, token: int) -> str: ...
    def flush(self) -> str: ...


class Face(Protocol):
    """What ids mean to the model. Methods raise UsageError for text or ids that are none of the model's."""

    @property
    def context(self) -> int:
        """Tokens that prompt and answer may have together."""
        ...

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """The prompt that messages become, open for the assistant's answer."""
        ...

    def raw(self, text: str) -> list[int]:
        """The prompt that a text becomes as it stands; control tokens may be written out in it."""
        ...

    def plain(self, text: str) -> list[int]:
        """A text inside an answer: nothing in it is a control token."""
        ...

    def text(self, ids: Sequence[int]) -> str:
        """The text of ids; special tokens have none."""
        ...

    def token_text(self, token: int) -> str:
        """One token's own text, special ones spelt out, part of a character as U+FFFD."""
        ...

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token."""
        ...

    def detokenizer(self) -> Detokenizer:
        """For one answer."""
        ...


@dataclass(frozen=True, slots=True)
class House:
    """What answers, and what it is called. `fingerprint` names all that an answer depends on besides the request."""

    live: Live
    face: Face
    model: str
    fingerprint: str
    drafter: str
    rule: str
    created_s: int  # Unix time


@dataclass(frozen=True, slots=True)
class Limits:
    """What a caller may ask for at most; None: what the model's context allows."""

    body_bytes: int = 4 << 20
    prompt_tok: int | None = None
    answer_tok: int | None = None
    in_flight: int = 256  # requests
    request_s: float = 600.0
    read_s: float = 30.0  # for a body to arrive
    drain_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Settings:
    """How a server behaves. No keys: nobody is asked for one. No hosts: any name will do in the Host header."""

    keys: tuple[str, ...] = ()
    hosts: frozenset[str] = frozenset()
    origins: tuple[str, ...] = ()  # web pages of other sites that may call the API (CORS)
    limits: Limits = field(default_factory=Limits)
    temperature: float = 1.0  # where a request names none, as OpenAI's
    scope_by_user: bool = False
    log_prompts: bool = False


def fingerprint(model: str, digest: str, rule: str) -> str:
    """The system_fingerprint: model and its file's digest, numerics, rule."""
    return f"{model}-{digest[:12]}-{NUMERICS}-{rule}"
