"""The index of a store: all places of its text in an order in which equal continuations lie side by side.

It is a suffix array, which takes four times the bytes of the text and follows from it, so a store does not carry it:
it is made when the store is first opened, and kept for the next time. A kept index is a file of this machine, in the
byte order of this machine: a header of 64 bytes, then three arrays.

    8 bytes   magic "OUTRINDX"
    4 each    version, 1; V, the size of the vocabulary; n, tokens of the text; m, those that are no end; DEPTH; 0
    32        digest of the store
    text   [n]      each id plus one, two bytes where that is enough, else four; 0 is the end of a document
    places [m]      four bytes: indices into the text, ordered by the DEPTH tokens that stand there, then by index
    starts [V + 1]  four bytes: starts[t] is the first of the places where token t or a larger one stands
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

DEPTH = 64
WIDE = 2**16 - 1  # from so many ids on, an id plus one takes four bytes
_MAGIC = b"OUTRINDX"
_VERSION = 1
_HEADER = struct.Struct("=8s6I32s")

Text: TypeAlias = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]  # [n], ids plus one, 0 behind each document
Places: TypeAlias = npt.NDArray[np.uint32]
_Keys: TypeAlias = npt.NDArray[np.uint64]


class Index(NamedTuple):
    """What a store looks its contexts up in; the arrays of the file."""

    text: memoryview
    places: memoryview
    starts: memoryview


class Shape(NamedTuple):
    """V, n and m."""

    vocab: int
    tokens: int
    places: int


def make(text: Text, vocab: int) -> Index:
    """The index of a text, in memory. Takes about 0.7 s and 100 MB for a million tokens."""
    order = suffix_order(text)
    counts = np.bincount(text, minlength=vocab + 1)
    starts = np.concatenate(([0], np.cumsum(counts[1:]))).astype(np.uint32)
    return Index(text.data, order[counts[0] :].data, starts.data)


def opened(file: Path, digest: bytes, shape: Shape, text: Callable[[], Text]) -> Index:
    """The index that is kept in this file, mapped; made from the text, and kept, where there is none of this store.

    Where it cannot be kept it stays in memory, with a warning. What is kept is trusted: a damaged index can cost
    speed, never an answer.
    """
    head = _HEADER.pack(_MAGIC, _VERSION, shape.vocab, shape.tokens, shape.places, DEPTH, 0, digest)
    with suppress(OSError, ValueError):
        return _mapped(file, head, shape)
    made = make(text(), shape.vocab)
    try:
        _keep(file, head, made)
        return _mapped(file, head, shape)
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        warnings.warn(
            f"the index of a store cannot be kept in {file.parent} ({why}), so that it is made again each time",
            RuntimeWarning,
            stacklevel=2,
        )
        return made


def _mapped(file: Path, head: bytes, shape: Shape) -> Index:
    """Raises OSError or ValueError for a file that is not there or is another index."""
    with open(file, "rb") as stream:
        raw = memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
    width = width_of(shape.vocab)
    padded = _padded(width * shape.tokens)
    if raw[: len(head)] != head or len(raw) != len(head) + padded + 4 * (shape.places + shape.vocab + 1):
        raise ValueError(f"{file} is another index")
    body = raw[len(head) :]
    numbers = body[padded:].cast("I")
    text = body[: width * shape.tokens].cast("H" if width == 2 else "I")
    return Index(text, numbers[: shape.places], numbers[shape.places :])


def _keep(file: Path, head: bytes, index: Index) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(".part", ".", file.parent)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(head)
            stream.write(index.text)
            stream.write(bytes(_padded(index.text.nbytes) - index.text.nbytes))
            stream.write(index.places)
            stream.write(index.starts)
            stream.flush()
            # It is trusted when it is read, so it must be whole before it has its name.
            os.fsync(stream.fileno())
        os.replace(name, file)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def width_of(vocab: int) -> int:
    """Bytes of an id plus one."""
    return 2 if vocab < WIDE else 4


def _padded(size: int) -> int:
    return -(-size // 4) * 4


def suffix_order(text: Text) -> Places:
    """All indices [n] ordered by the DEPTH tokens from there on, then by index. No two ends stand side by side.

    Ranks of 4, 8, 16, ... tokens in turn (Manber and Myers 1993), and only of places that are still alike: of text, a
    third after 8 tokens and a tenth after 32.
    """
    count = len(text)
    bits = max(1, int(text.max()).bit_length())
    key, width = _packed(text, bits)
    order, key = _sorted(key, min(64, bits * width))
    found = order.astype(np.uint32)
    rank = np.empty(count, np.uint32)
    slots = np.arange(count, dtype=np.uint32)
    at = found  # the indices that stand in these slots
    while True:
        sizes = np.diff(np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1], [True]))))
        first = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        rank[at] = np.repeat(slots[first], sizes)
        alike = np.repeat(sizes > 1, sizes)
        slots, at = slots[alike], at[alike]
        if not len(at):
            return found
        groups = np.repeat(np.arange((sizes > 1).sum(), dtype=np.uint64), sizes[sizes > 1])
        low = count.bit_length()
        key = (groups << np.uint64(low)) | (at if width >= DEPTH else _behind(rank, at, width))
        order, key = _sorted(key, low + int(groups[-1]).bit_length())
        at = at[order]
        found[slots] = at
        if width >= DEPTH:
            return found
        width *= 2


def _packed(text: Text, bits: int) -> tuple[_Keys, int]:
    """The first tokens from each index on as one number, and how many they are."""
    key, width = text.astype(np.uint64), 1
    while 2 * width * bits <= 64 and 2 * width <= DEPTH:
        behind = np.zeros(len(key), np.uint64)
        behind[:-width] = key[width:]
        key = (key << np.uint64(bits * width)) | behind
        width *= 2
    return key, width


def _behind(rank: Places, at: Places, width: int) -> Places:
    """One more than the rank of what stands so many tokens on; 0 where the text ends before."""
    beyond = len(rank)
    place = np.minimum(at.astype(np.int64) + width, beyond)
    return np.append(rank + np.uint32(1), np.uint32(0))[place]


def _sorted(key: _Keys, bits: int) -> tuple[npt.NDArray[np.int64], _Keys]:
    """The order of keys below 2 ** bits, and the keys in it."""
    low = max(1, (len(key) - 1).bit_length())
    if bits + low <= 64:
        # numpy sorts numbers four times as fast as it finds their order, so each number brings its place.
        key = (key << np.uint64(low)) | np.arange(len(key), dtype=np.uint64)
        key.sort()
        return (key & np.uint64((1 << low) - 1)).astype(np.int64), key >> np.uint64(low)
    order = np.argsort(key)
    return order, key[order]
