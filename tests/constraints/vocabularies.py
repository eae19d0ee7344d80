"""Small vocabularies, and what a matcher says about all of their ids."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from outrider.api import Constraint, ConstraintKind
from outrider.constraints.base import Matcher
from outrider.constraints.vocabulary import Vocabulary

PIECES = ("true", "null", "ab", "abc", '{"', '":', '","', '"}', "12", "é", "ab")  # "ab" twice: two ids, one text
END, OTHER_END, CONTROL, THINK, PADDING = 267, 268, 269, 270, 271
SPECIAL = {END: b"<end>", OTHER_END: b"<stop>", CONTROL: b"<|im_start|>", THINK: b"</think>"}
SIZE = 280
JSON_OBJECT = Constraint(ConstraintKind.JSON_SCHEMA, '{"type":"object"}')  # JSON mode


def spell(token: int) -> bytes:
    """256 bytes, then PIECES, then the special ones."""
    if token < 256:
        return bytes((token,))
    return PIECES[token - 256].encode() if token < END else SPECIAL[token]


def longest_first(text: str) -> list[int]:
    """A tokenizer: the longest piece at each place."""
    data, ids, start = text.encode(), [], 0
    pieces = sorted(((spell(token), -token) for token in range(END)), key=lambda piece: (len(piece[0]), piece[1]))
    while start < len(data):
        piece, token = next(piece for piece in reversed(pieces) if data.startswith(piece[0], start))
        ids.append(-token)
        start += len(piece)
    return ids


def small(lacking: frozenset[int] = frozenset()) -> Vocabulary:
    """All bytes but the lacking ones, some pieces, two ends of text, two special tokens, and padding."""
    return Vocabulary(
        size=SIZE,
        known=PADDING,
        spell=lambda token: b"" if token in lacking else spell(token),
        is_special=lambda token: END <= token < PADDING,
        ends=frozenset({END, OTHER_END}),
        encode=lambda text: [token for token in longest_first(text) if token not in lacking],
    )


def ids_in(matcher: Matcher, size: int = SIZE) -> set[int]:
    """The ids that a matcher's mask allows."""
    mask = matcher.mask()
    assert mask.shape == (-(-size // 32),)
    assert mask.dtype == np.uint32
    assert not mask.flags.writeable
    return set(np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist())


def pushable(matcher: Matcher, size: int = SIZE) -> set[int]:
    """The ids that can be pushed, by trying all of them."""
    found = set()
    for token in range(-1, size + 40):
        if matcher.push(token):
            found.add(token)
            matcher.pop(1)
    return found


def write(matcher: Matcher, text: str | bytes) -> bool:
    """Push a text byte by byte; whether all of it could be pushed."""
    data = text.encode() if isinstance(text, str) else text
    return all(matcher.push(byte) for byte in data)


def push_all(matcher: Matcher, tokens: Sequence[int]) -> None:
    for token in tokens:
        assert matcher.push(token)
