"""Text for tests without a tokenizer: token ids are bytes, or index a list of pieces."""

from __future__ import annotations

import codecs
from collections.abc import Sequence


class ByteDetokenizer:
    """Ids are bytes of UTF-8; half a character waits for its other half."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token: int) -> str:
        return self._decoder.decode(bytes((token,)))

    def flush(self) -> str:
        return self._decoder.decode(b"", final=True)


class PieceDetokenizer:
    """Id i is the piece of text pieces[i]."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self._pieces = tuple(pieces)

    def push(self, token: int) -> str:
        return self._pieces[token]

    def flush(self) -> str:
        return ""
