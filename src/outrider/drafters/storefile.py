"""A store on disk: text as token ids, and an order of its places in which equal continuations lie side by side.

All numbers are little-endian. A header of 64 bytes, then three arrays of int32:

    8 bytes   magic "OUTRSTOR"
    4         version, 1
    4         V, the size of the vocabulary
    4         n, tokens of the text; a SEPARATOR behind each document counts as one
    4         m, tokens without the separators
    4         DEPTH, the tokens by which places are ordered
    32        digest of the tokenizer (models.digest): ids of one model mean nothing to another
    4         CRC-32 of the 60 bytes before and of everything behind
    text   [n]      the documents, one behind the other
    places [m]      indices into the text, ordered by the DEPTH tokens that stand there, then by index: a suffix array
    starts [V + 1]  starts[t] is the first of the places where token t or a larger one stands

The places of one phrase are neighbours: all continuations of a context, with their counts, are one slice of `places`.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from outrider.errors import UsageError

MAGIC = b"OUTRSTOR"
VERSION = 1
DEPTH = 64
SEPARATOR = -1  # below all ids, so that it is ordered first
DIGEST_BYTES = 32
MOST_TOKENS = 2**31 - 1
WIDEST = 8  # continuations of a context that are told apart; the others only count
_HEADER = struct.Struct("<8s5I32sI")
_SAMPLE = 256  # places of a frequent context that are looked at, evenly spread: enough for two digits of a share
_CACHED = 4096  # contexts whose continuations are remembered; text is a few contexts again and again


class Slice(NamedTuple):
    """The places [low, high) of the store where one context of `length` tokens stands."""

    length: int
    low: int
    high: int


class Continuations(NamedTuple):
    """What followed a context: how many tokens were looked at, how many were different, and the commonest with counts.

    At most WIDEST are listed, by falling count, equal ones by rising id. Ends of documents do not count.
    """

    total: int
    distinct: int
    commonest: tuple[tuple[int, int], ...]


class StoreFile:
    """An open store, read-only and mapped: pages are read when they are needed and shared by all who open it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Map the file and check all of it: it is read through once, at about 1 GB/s.

        Raises UsageError where it cannot be read, is no store, or is damaged.
        """
        self.name = os.fspath(path)
        raw = _mapped(self.name)
        self.vocab, tokens, places, self.tokenizer = _checked(raw, self.name)
        numbers = memoryview(raw)[_HEADER.size :].cast("i")
        self._text, self._places = numbers[:tokens], numbers[tokens : tokens + places]
        self._starts = numbers[tokens + places :]
        # As an attribute, so that what is remembered dies with the store.
        self.continuations = lru_cache(_CACHED)(self._continuations)

    @property
    def tokens(self) -> int:
        """Tokens of its text, without the ends of documents."""
        return len(self._places)

    def check(self, tokenizer: bytes) -> None:
        """Raises UsageError where the store is of another tokenizer than the one with this digest."""
        if tokenizer != self.tokenizer:
            raise UsageError(
                f"store {self.name} was made with the tokenizer {self.tokenizer.hex()[:12]}, and the model has "
                f"{tokenizer.hex()[:12]}: build a store with this model"
            )

    def find(self, token: int) -> Slice:
        """The places of a context of one token. Ids outside the vocabulary have none."""
        if not 0 <= token < self.vocab:
            return Slice(1, 0, 0)
        return Slice(1, self._starts[token], self._starts[token + 1])

    def longer(self, context: Slice, token: int) -> Slice:
        """Those of its places where this token follows; at most DEPTH tokens in all. A binary search."""
        length, low, high = context
        text, places = self._text, self._places
        if high - low == 1:
            return Slice(length + 1, low, low + (text[places[low] + length] == token))
        end = high
        while low < high:
            middle = (low + high) // 2
            if text[places[middle] + length] < token:
                low = middle + 1
            else:
                high = middle
        first, step = low, 1
        # Most slices are far smaller than what they are part of, so the end is near.
        while low + step < end and text[places[low + step] + length] <= token:
            low, step = low + step, 2 * step
        end = min(end, low + step)
        while low < end:
            middle = (low + end) // 2
            if text[places[middle] + length] <= token:
                low = middle + 1
            else:
                end = middle
        return Slice(length + 1, first, low)

    def _continuations(self, context: Slice) -> Continuations:
        """What followed at these places; of more than _SAMPLE, at evenly spread ones."""
        length, low, high = context
        text, step = self._text, -(-(high - low) // _SAMPLE)
        counts: dict[int, int] = {}
        for place in self._places[low:high:step]:
            token = text[place + length]
            counts[token] = counts.get(token, 0) + 1
        counts.pop(SEPARATOR, None)
        commonest = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return Continuations(sum(counts.values()), len(counts), tuple(commonest[:WIDEST]))


def build(
    path: str | os.PathLike[str],
    documents: Iterable[Sequence[int] | npt.NDArray[np.integer]],
    vocab: int,
    tokenizer: bytes,
) -> int:
    """Write a store of these documents (each the ids of one text); returns its tokens.

    vocab is V and tokenizer the digest of what made the ids. An old file is replaced, all or nothing. Takes about one
    second and 60 MB of memory for a million tokens. Raises UsageError where an id is outside the vocabulary, where
    there are no tokens at all or too many, and OSError where the file cannot be written.
    """
    if len(tokenizer) != DIGEST_BYTES or vocab < 1:
        raise UsageError(
            f"vocab is {vocab} and the digest has {len(tokenizer)} bytes; give 1 or more, and {DIGEST_BYTES}"
        )
    text = _joined(documents, vocab)
    order = _suffix_order(text)
    places = order[np.searchsorted(text[order], 0) :]
    starts = np.searchsorted(text[places], np.arange(vocab + 1))
    body = b"".join(part.astype("<i4").tobytes() for part in (text, places, starts))
    head = _HEADER.pack(MAGIC, VERSION, vocab, len(text), len(places), DEPTH, tokenizer, 0)[:-4]
    _write(Path(path), head + struct.pack("<I", zlib.crc32(body, zlib.crc32(head))), body)
    return len(places)


def _joined(documents: Iterable[Sequence[int] | npt.NDArray[np.integer]], vocab: int) -> npt.NDArray[np.int32]:
    """All documents with a separator behind each [n]; empty ones are left out."""
    parts: list[npt.NDArray[np.int32]] = []
    total = 0
    end = np.array([SEPARATOR], np.int32)
    for number, document in enumerate(documents, 1):
        ids = np.asarray(document)
        if not ids.size:
            continue
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise UsageError(f"document {number} is no list of token ids: give whole numbers")
        outside = ids[(ids < 0) | (ids >= vocab)]
        if len(outside):
            raise UsageError(f"document {number} has token id {outside[0]}; ids of this model lie in 0..{vocab - 1}")
        parts += [ids.astype(np.int32), end]
        total += len(ids) + 1
        if total > MOST_TOKENS:
            raise UsageError(f"the documents have more than {MOST_TOKENS} tokens; split them into several stores")
    if not parts:
        raise UsageError("the documents have no tokens: a store needs text")
    return np.concatenate(parts)


def _suffix_order(text: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """All indices ordered by the DEPTH tokens from there on, then by index: ranks of 1, 2, 4, ... tokens in turn."""
    count = len(text)
    rank = text.astype(np.int64) - SEPARATOR
    width = 1
    while width < DEPTH:
        key = rank * (max(int(rank.max()), count) + 2)
        key[:-width] += rank[width:] + 1  # the end of the text comes before all else
        order = np.argsort(key)
        key = key[order]
        steps = np.concatenate(([0], np.cumsum(key[1:] != key[:-1])))
        rank[order] = steps
        width *= 2
        if steps[-1] == count - 1:
            break
    return np.argsort(rank, kind="stable")


def _write(path: Path, head: bytes, body: bytes) -> None:
    descriptor, name = tempfile.mkstemp(".part", ".", path.parent)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(head)
            stream.write(body)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _mapped(where: str) -> mmap.mmap:
    try:
        with open(where, "rb") as stream:
            return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise UsageError(
            f"store {where} cannot be read ({error.strerror}): give a file that store build made"
        ) from None
    except ValueError:  # an empty file cannot be mapped; a name may hold a null character
        raise UsageError(f"store {where} is empty or has no proper name: give a file that store build made") from None


def _checked(raw: mmap.mmap, where: str) -> tuple[int, int, int, bytes]:
    """V, n, m and the digest. Raises UsageError for what is no store of this version, or damaged."""
    if raw[: len(MAGIC)] != MAGIC:
        raise UsageError(f"{where} is no store: give a file that store build made")
    with memoryview(raw) as view:
        known = len(raw) >= _HEADER.size
        fields = _HEADER.unpack(view[: _HEADER.size]) if known else (MAGIC, VERSION, 0, 0, 0, DEPTH, b"", 0)
        _, version, vocab, tokens, places, depth, tokenizer, crc = fields
        if version != VERSION or depth != DEPTH:
            raise UsageError(f"store {where} has format {version}.{depth}, not {VERSION}.{DEPTH}: build it anew")
        size = _HEADER.size + 4 * (tokens + places + vocab + 1)
        if len(raw) != size:
            raise UsageError(f"store {where} is damaged: it has {len(raw)} bytes, not {size}; build it anew")
        if zlib.crc32(view[_HEADER.size :], zlib.crc32(view[: _HEADER.size - 4])) != crc:
            raise UsageError(f"store {where} is damaged: its checksum is wrong; build it anew")
    return vocab, tokens, places, tokenizer
