"""A store on disk: text as token ids, packed as tightly as the standard library can.

All numbers are little-endian. A header of 64 bytes, then the text:

    8 bytes   magic "OUTRSTOR"
    4         version, 2
    4         V, the size of the vocabulary
    4         n, tokens of the text; the end behind each document counts as one
    4         m, tokens without the ends
    4         bytes of the packed text
    32        digest of the tokenizer (models.digest): ids of one model mean nothing to another
    4         CRC-32 of the 60 bytes before and of everything behind
    text      the documents, one behind the other: each id plus one, two bytes where V is below 65,535, else four; 0 is
              the end of a document. Packed as raw LZMA2 with a dictionary of 64 MiB.

Answers of the default model take 0.6 bytes a token. What is searched is the index of this text (drafters.storeindex).
"""

from __future__ import annotations

import hashlib
import lzma
import os
import struct
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from outrider import _native
from outrider.drafters import storeindex
from outrider.drafters.storeindex import DEPTH, Shape, Text
from outrider.errors import UsageError

__all__ = ["DEPTH", "StoreFile", "build"]

MAGIC = b"OUTRSTOR"
VERSION = 2
END = 0  # below all tokens, so that it is ordered first
DIGEST_BYTES = 32
MOST_TOKENS = 2**31 - 1
_HEADER = struct.Struct("<8s5I32sI")
_DICTIONARY = 1 << 26


class StoreFile:
    """An open store, read-only."""

    def __init__(self, path: str | os.PathLike[str], kept: Path | None = None) -> None:
        """Read and check the file, and open its index; `kept` is the folder where indices of stores lie.

        The first time an index is made, which takes about 0.7 s and 100 MB for a million tokens. Later it is mapped:
        pages are read when they are needed and shared by all who open it. Without a folder it is made each time.
        Raises UsageError where the file cannot be read, is no store, or is damaged.
        """
        self.name = os.fspath(path)
        raw = _read(self.name)
        shape, self.tokenizer = _checked(raw, self.name)
        self.vocab = shape.vocab
        text = partial(_unpacked, raw[_HEADER.size :], shape, self.name)
        if kept is None:
            index = storeindex.make(text(), shape.vocab)
        else:
            # Named after the path, so that a store that is built anew takes the place of the old one.
            name = hashlib.sha256(os.fsencode(os.path.abspath(self.name))).hexdigest()[:32]
            index = storeindex.opened(kept / f"{name}.index", hashlib.sha256(raw).digest(), shape, text)
        self.arrays = index
        self.tokens = len(index.places)  # of its text, without the ends of documents
        self.index = _native.StoreIndex(index.text, index.places, index.starts)

    def check(self, tokenizer: bytes) -> None:
        """Raises UsageError where the store is of another tokenizer than the one with this digest."""
        if tokenizer != self.tokenizer:
            raise UsageError(
                f"store {self.name} was made with the tokenizer {self.tokenizer.hex()[:12]}, and the model has "
                f"{tokenizer.hex()[:12]}: build a store with this model"
            )


def build(
    path: str | os.PathLike[str],
    documents: Iterable[Sequence[int] | npt.NDArray[np.integer]],
    vocab: int,
    tokenizer: bytes,
) -> int:
    """Write a store of these documents (each the ids of one text); returns its tokens.

    vocab is V and tokenizer the digest of what made the ids. An old file is replaced, all or nothing. Takes about two
    seconds for a million tokens. Raises UsageError where an id is outside the vocabulary, where there are no tokens at
    all or too many, and OSError where the file cannot be written.
    """
    if len(tokenizer) != DIGEST_BYTES or vocab < 1:
        raise UsageError(
            f"vocab is {vocab} and the digest has {len(tokenizer)} bytes; give 1 or more, and {DIGEST_BYTES}"
        )
    text = _joined(documents, vocab)
    tokens = int(np.count_nonzero(text))
    body = lzma.compress(text.astype(_stored(vocab)).tobytes(), lzma.FORMAT_RAW, filters=_filters(vocab))
    head = _HEADER.pack(MAGIC, VERSION, vocab, len(text), tokens, len(body), tokenizer, 0)[:-4]
    _write(Path(path), head + struct.pack("<I", zlib.crc32(body, zlib.crc32(head))), body)
    return tokens


def _joined(documents: Iterable[Sequence[int] | npt.NDArray[np.integer]], vocab: int) -> npt.NDArray[np.uint32]:
    """All documents, ids plus one, with an end behind each [n]; empty ones are left out."""
    parts: list[npt.NDArray[np.uint32]] = []
    total = 0
    end = np.array([END], np.uint32)
    for number, document in enumerate(documents, 1):
        ids = np.asarray(document)
        if not ids.size:
            continue
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise UsageError(f"document {number} is no list of token ids: give whole numbers")
        outside = ids[(ids < 0) | (ids >= vocab)]
        if len(outside):
            raise UsageError(f"document {number} has token id {outside[0]}; ids of this model lie in 0..{vocab - 1}")
        parts += [ids.astype(np.uint32) + np.uint32(1), end]
        total += len(ids) + 1
        if total > MOST_TOKENS:
            raise UsageError(f"the documents have more than {MOST_TOKENS} tokens; split them into several stores")
    if not parts:
        raise UsageError("the documents have no tokens: a store needs text")
    return np.concatenate(parts)


def _stored(vocab: int) -> npt.DTypeLike:
    return f"<u{storeindex.width_of(vocab)}"


def _filters(vocab: int) -> list[dict[str, Any]]:
    """How text is packed: with the place of a byte in its id as context, which saves a hundredth."""
    bits = storeindex.width_of(vocab).bit_length() - 1
    preset = 9 | lzma.PRESET_EXTREME
    places = {"lp": bits, "pb": bits, "lc": 3 if bits == 1 else 2}
    return [{"id": lzma.FILTER_LZMA2, "preset": preset, "dict_size": _DICTIONARY, **places}]


def _unpacked(body: bytes, shape: Shape, where: str) -> Text:
    """The text [n]. Raises UsageError where it is not what the header says."""
    unpacker = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=_filters(shape.vocab))
    size = storeindex.width_of(shape.vocab) * shape.tokens
    try:
        raw = unpacker.decompress(body, size + 1)
    except lzma.LZMAError:
        raw = b""
    wide = np.frombuffer(raw, _stored(shape.vocab)) if len(raw) == size else np.empty(0, np.uint32)
    if not len(wide) or wide[-1] != END or int(wide.max()) > shape.vocab or np.count_nonzero(wide) != shape.places:
        raise UsageError(f"store {where} is damaged: its text is not what its header says; build it anew")
    return wide.astype(np.uint16) if shape.vocab < storeindex.WIDE else wide.astype(np.uint32)


def _write(path: Path, head: bytes, body: bytes) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        # Not tempfile, whose files nobody else may read.
        with open(part, "wb") as stream:
            stream.write(head)
            stream.write(body)
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise


def _read(where: str) -> bytes:
    try:
        return Path(where).read_bytes()
    except OSError as error:
        raise UsageError(
            f"store {where} cannot be read ({error.strerror}): give a file that store build made"
        ) from None
    except ValueError:  # a name may hold a null character
        raise UsageError(f"store {where} has no proper name: give a file that store build made") from None


def _checked(raw: bytes, where: str) -> tuple[Shape, bytes]:
    """What the header says. Raises UsageError for what is no store of this version, or damaged."""
    if raw[: len(MAGIC)] != MAGIC:
        raise UsageError(f"{where} is no store: give a file that store build made")
    known = len(raw) >= _HEADER.size
    fields = _HEADER.unpack(raw[: _HEADER.size]) if known else (MAGIC, VERSION, 0, 0, 0, 0, b"", 0)
    _, version, vocab, tokens, places, size, tokenizer, crc = fields
    if version != VERSION:
        raise UsageError(f"store {where} has format {version}, not {VERSION}: build it anew")
    if len(raw) != _HEADER.size + size:
        raise UsageError(f"store {where} is damaged: it has {len(raw)} bytes, not {_HEADER.size + size}; build it anew")
    if zlib.crc32(raw[_HEADER.size :], zlib.crc32(raw[: _HEADER.size - 4])) != crc:
        raise UsageError(f"store {where} is damaged: its checksum is wrong; build it anew")
    return Shape(vocab, tokens, places), tokenizer
