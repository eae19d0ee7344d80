"""What the conformance checks of a backend share."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeAlias

from outrider.backends.base import Backend

Maker: TypeAlias = Callable[[], Backend]
PROMPT = 37  # odd, and longer than two blocks of 16: chunk and block edges fall in different places


def prompt(backend: Backend, count: int = PROMPT, seed: int = 1) -> list[int]:
    """Random ids, the same for the same seed."""
    chance = random.Random(seed)
    return [chance.randrange(backend.vocab) for _ in range(count)]


def refused(error: type[Exception], call: Callable[[], object], what: str) -> None:
    """Raises AssertionError unless the call raises the error."""
    try:
        call()
    except error:
        return
    raise AssertionError(f"{what} is not refused with {error.__name__}")
