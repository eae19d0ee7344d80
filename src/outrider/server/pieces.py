"""Which text each token of a chunk brought, and a chunk cut into one for each token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from outrider.api import Chunk
from outrider.server.house import Detokenizer


class Piece(NamedTuple):
    """A token of a chunk (its place there) and the text that came with it; place None: text of earlier tokens."""

    place: int | None
    text: str


class Splitter:
    """Follows one answer. A chunk's text may lag behind its tokens: half a character, what may become a stop string.

    A detokenizer of its own says what each token brought, and the chunk's text is matched with that in order.
    """

    def __init__(self, detokenizer: Detokenizer) -> None:
        self._detokenizer = detokenizer
        self._owed = ""  # text of earlier tokens that no chunk has brought yet

    def split(self, chunk: Chunk) -> list[Piece]:
        """The pieces of a chunk: together its text, and each of its tokens once."""
        text = chunk.text
        found: list[Piece] = []
        length = min(len(self._owed), len(text))
        if length:
            found.append(Piece(None, text[:length]))
            self._owed, text = self._owed[length:], text[length:]
        for place, token in enumerate(chunk.token_ids):
            brought = self._detokenizer.push(token)
            # Nothing overtakes text that is still owed: then none of this chunk's is left.
            length = min(len(brought), len(text))
            self._owed += brought[length:]
            found.append(Piece(place, text[:length]))
            text = text[length:]
        if text:  # the end of a text that stopped in the middle of a character
            found.append(Piece(None, text))
        return found


def one_by_one(chunk: Chunk, pieces: list[Piece]) -> Iterator[Chunk]:
    """A chunk for each piece; the first has the story, the last the end."""
    last = len(pieces) - 1
    if last < 1:
        yield chunk
        return
    for number, (place, text) in enumerate(pieces):
        kept = slice(0, 0) if place is None else slice(place, place + 1)
        yield replace(
            chunk,
            text=text,
            token_ids=chunk.token_ids[kept],
            origins=chunk.origins[kept],
            drafters=chunk.drafters[kept],
            logprobs=None if chunk.logprobs is None else chunk.logprobs[kept],
            story=chunk.story if number == 0 else None,
            finish_reason=chunk.finish_reason if number == last else None,
            usage=chunk.usage if number == last else None,
            prompt_logprobs=chunk.prompt_logprobs if number == 0 else None,
        )
