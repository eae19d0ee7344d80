"""Tiny tokenizers over plain characters: the longest piece at each place."""

from __future__ import annotations

from collections.abc import Sequence

ALPHABET = tuple(map(chr, range(0x20, 0x7F)))


class TinyTokenizer:
    """Special pieces first, then ordinary ones; `bos` names the special one that a prompt begins with."""

    def __init__(self, pieces: Sequence[str | bytes], special: Sequence[str] = (), bos: str | None = None) -> None:
        ordinary = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
        self.pieces = [*(name.encode() for name in special), *ordinary]
        self._special = len(special)
        self._prefix = [] if bos is None else [special.index(bos)]
        self._longest = sorted(range(self._special, len(self.pieces)), key=lambda token: -len(self.pieces[token]))

    @property
    def vocab(self) -> int:
        return len(self.pieces)

    def is_special(self, token: int) -> bool:
        return token < self._special

    def token_bytes(self, token: int) -> bytes:
        return self.pieces[token]

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Characters without a piece are left out."""
        data, found, start = text.encode(), [], 0
        while start < len(data):
            token = next((t for t in self._longest if data.startswith(self.pieces[t], start)), None)
            if token is not None:
                found.append(token)
            start += 1 if token is None else len(self.pieces[token])
        return found

    def encode_prompt(self, text: str, *, special: bool) -> list[int]:
        return self._prefix + self.encode(text, special=special)

    def text(self, tokens: Sequence[int]) -> str:
        return b"".join(map(self.token_bytes, tokens)).decode()
