"""What is known of one HTTP request while it is served: for its log line and for the meters."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from starlette.types import Scope

_KEY = "outrider"


@dataclass(slots=True)
class Note:
    """Filled in on the way; times are seconds, by a clock that never jumps."""

    id: str
    method: str
    path: str
    start: float = field(default_factory=time.monotonic)
    status: int = 0
    key: str = ""  # which key was given, as a digest
    user: str | None = None
    outcome: str = "done"  # done, refused, failed, timeout, gone
    message: str | None = None
    prompt_tok: int | None = None
    completion_tok: int | None = None
    first_s: float | None = None
    drafted: int | None = None
    accepted: int | None = None
    body: object = None  # only where prompts are logged

    @property
    def seconds(self) -> float:
        """Since the request began."""
        return time.monotonic() - self.start


def put(scope: Scope, note: Note) -> None:
    """Lay the note into an ASGI scope."""
    scope.setdefault("state", {})[_KEY] = note


def of(scope: Scope) -> Note:
    """The note of an ASGI scope."""
    found: Note = scope["state"][_KEY]
    return found
