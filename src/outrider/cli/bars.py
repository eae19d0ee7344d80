"""Bars of characters, for terminals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

EIGHTHS = " ▏▎▍▌▋▊▉"
FULL = "█"
WIDTH = 30


def bars(values: Sequence[float], blocks: bool, width: int = WIDTH) -> list[str]:
    """A bar for each value, the largest `width` characters long; blocks: in eighths of a character, else in #."""
    largest = max(values, default=0.0)
    if largest <= 0.0:
        return [""] * len(values)
    if not blocks:
        return ["#" * max(1, round(width * value / largest)) for value in values]
    found = []
    for value in values:
        whole, eighths = divmod(max(1, round(8 * width * value / largest)), 8)
        found.append((FULL * whole + EIGHTHS[eighths]).rstrip())
    return found


def has_blocks(out: TextIO) -> bool:
    """Whether the characters of a bar can be written there."""
    try:
        (EIGHTHS + FULL).encode(out.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
