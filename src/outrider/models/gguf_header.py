"""The header of a GGUF file: metadata and the table of tensors, every count and offset checked before it is used.

The file is read, never mapped: a file that is cut short meanwhile gives an error instead of a killed process. The walk
reads one growing buffer, so that a claim of the file never costs more memory than the file has bytes.

Format: github.com/ggml-org/ggml/blob/master/docs/gguf.md (little-endian, versions 2 and 3).
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TypeAlias

from outrider.errors import ModelFileError
from outrider.models.gguf_layout import (
    DEFAULT_ALIGNMENT,
    MAGIC,
    OTHER_TENSOR_TYPES,
    TENSOR_TYPES,
    VALUE_CODES,
    VERSIONS,
    ValueType,
)
from outrider.models.spec import Tensor

Scalar: TypeAlias = int | float | bool | str

# Far above any real file (272 tensors, 33 keys, 1.8 MB here), and low enough to bound what damage can cost.
_MAX_HEADER_BYTES = 256 << 20
_MAX_KEYS = 1 << 16
_MAX_TENSORS = 1 << 16
_MAX_ELEMENTS = 1 << 22
_MAX_NAME_BYTES = (1 << 16) - 1
_MAX_ALIGNMENT = 1 << 20
_MAX_DIMENSIONS = 4
_MAX_QUOTED = 100
_FIRST_READ_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Value:
    """A metadata value: `item` is the element type of an array; `data` is None for a value nobody asked for."""

    type: ValueType
    item: ValueType | None
    data: Scalar | list[Scalar] | None

    def describe(self) -> str:
        """The type in the words of an error message."""
        return self.type.name if self.item is None else f"ARRAY of {self.item.name}"


@dataclass(frozen=True, slots=True)
class Header:
    """What the header says; every tensor lies inside the file and overlaps no other. Tensors are in file order."""

    version: int
    values: dict[str, Value]
    tensors: dict[str, Tensor]
    size_bytes: int


def quoted(value: object) -> str:
    """Something from the file for an error message: one short line, whatever bytes a damaged file holds."""
    text = repr(value)
    return text if len(text) <= _MAX_QUOTED else f"{text[: _MAX_QUOTED - 4]}...'"


class _Cursor:
    """Reads little-endian values one after the other; whatever leads past the end of the file raises."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor = descriptor
        self.size = size
        self.data = b""
        self.position = 0

    def need(self, count: int, what: str) -> None:
        """Make `count` bytes available at the position, or raise ModelFileError that says what they were for."""
        end = self.position + count
        if end <= len(self.data):
            return
        if end > self.size:
            raise ModelFileError(
                f"truncated or damaged: {what} needs {count} bytes at offset {self.position}, "
                f"but the file ends at {self.size}; fetch the file again"
            )
        if end > _MAX_HEADER_BYTES:
            raise ModelFileError(f"{what} ends at byte {end}; a header of over {_MAX_HEADER_BYTES} bytes is not read")
        wanted = min(self.size, _MAX_HEADER_BYTES, max(end, 2 * len(self.data), _FIRST_READ_BYTES))
        pieces = [self.data]
        have = len(self.data)
        while have < wanted:
            piece = os.pread(self._descriptor, wanted - have, have)
            if not piece:
                raise ModelFileError(f"the file was cut to {have} bytes while it was read; fetch the file again")
            pieces.append(piece)
            have += len(piece)
        self.data = b"".join(pieces)

    def take(self, code: str, what: str) -> int | float:
        """One number of a struct code."""
        layout = struct.Struct("<" + code)
        self.need(layout.size, what)
        value: int | float = layout.unpack_from(self.data, self.position)[0]
        self.position += layout.size
        return value

    def count(self, code: str, what: str) -> int:
        """One unsigned number."""
        return int(self.take(code, what))

    def skip(self, count: int, what: str) -> None:
        """Pass over bytes that must exist."""
        self.need(count, what)
        self.position += count

    def text(self, limit: int, what: str) -> str:
        """A string of at most `limit` bytes of UTF-8."""
        length = self.count("Q", f"the length of {what}")
        if length > limit:
            raise ModelFileError(f"{what} claims {length} bytes; at most {limit} are allowed here")
        self.need(length, what)
        raw = self.data[self.position : self.position + length]
        self.position += length
        return _decode(raw, what)

    def texts(self, count: int, what: str) -> list[Scalar]:
        """`count` strings. The loop is flat: it runs 98,000 times for the default model."""
        unpack = struct.Struct("<Q").unpack_from
        found: list[Scalar] = []
        data, position, available = self.data, self.position, len(self.data)
        for index in range(count):
            if position + 8 > available:
                self.position = position
                self.need(8, f"the length of element {index} of {what}")
                data, available = self.data, len(self.data)
            end = position + 8 + unpack(data, position)[0]
            position += 8
            if end > available:
                self.position = position
                self.need(end - position, f"element {index} of {what}")
                data, available = self.data, len(self.data)
            try:
                found.append(data[position:end].decode())
            except UnicodeDecodeError:
                _decode(data[position:end], f"element {index} of {what}")
            position = end
        self.position = position
        return found

    def skip_texts(self, count: int, what: str) -> None:
        """Pass over `count` strings without making them."""
        for index in range(count):
            self.skip(self.count("Q", f"the length of element {index} of {what}"), f"element {index} of {what}")


def _decode(raw: bytes, what: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise ModelFileError(f"{what} is not UTF-8: byte {raw[error.start]:#04x} at {error.start}") from None


def _value_type(code: int, what: str) -> ValueType:
    try:
        return ValueType(code)
    except ValueError:
        raise ModelFileError(f"{what} has type code {code}; codes 0 to {max(ValueType)} exist") from None


def _scalar(cursor: _Cursor, kind: ValueType, what: str) -> Scalar:
    if kind is ValueType.STRING:
        return cursor.text(_MAX_HEADER_BYTES, what)
    number = cursor.take(VALUE_CODES[kind], what)
    return _boolean(number, what) if kind is ValueType.BOOL else number


def _boolean(number: Scalar, what: str) -> bool:
    if number not in (0, 1):
        raise ModelFileError(f"{what} is a BOOL of value {number}; only 0 and 1 are allowed")
    return bool(number)


def _array(cursor: _Cursor, what: str, wanted: bool) -> Value:
    item = _value_type(cursor.count("I", f"the element type of {what}"), f"the elements of {what}")
    if item is ValueType.ARRAY:
        raise ModelFileError(f"{what} is an array of arrays; none is known")
    count = cursor.count("Q", f"the length of {what}")
    width = 8 if item is ValueType.STRING else struct.calcsize("<" + VALUE_CODES[item])
    if count > _MAX_ELEMENTS:
        raise ModelFileError(f"{what} claims {count} elements; at most {_MAX_ELEMENTS} are read")
    if count * width > cursor.size - cursor.position:
        raise ModelFileError(f"truncated or damaged: {what} claims {count} elements, more than the file has room for")
    if item is ValueType.STRING:
        if wanted:
            return Value(ValueType.ARRAY, item, cursor.texts(count, what))
        cursor.skip_texts(count, what)
        return Value(ValueType.ARRAY, item, None)
    cursor.need(count * width, what)
    numbers: list[Scalar] | None = None
    if wanted:
        numbers = list(struct.unpack_from(f"<{count}{VALUE_CODES[item]}", cursor.data, cursor.position))
        if item is ValueType.BOOL:
            numbers = [_boolean(number, what) for number in numbers]
    cursor.position += count * width
    return Value(ValueType.ARRAY, item, numbers)


def _values(cursor: _Cursor, count: int, wanted: Callable[[str], bool]) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for index in range(count):
        key = cursor.text(_MAX_NAME_BYTES, f"the name of metadata key {index} of {count}")
        what = f"key {quoted(key)}"
        if key in values:
            raise ModelFileError(f"{what} appears twice")
        kind = _value_type(cursor.count("I", f"the type of {what}"), what)
        if kind is ValueType.ARRAY:
            values[key] = _array(cursor, what, wanted(key))
        elif kind is ValueType.STRING and not wanted(key):
            cursor.skip(cursor.count("Q", f"the length of {what}"), what)
            values[key] = Value(kind, None, None)
        else:
            values[key] = Value(kind, None, _scalar(cursor, kind, what))
    return values


def _tensor(cursor: _Cursor, index: int, count: int) -> Tensor:
    """One entry of the table, its offset still relative to the start of the data."""
    name = cursor.text(_MAX_NAME_BYTES, f"the name of tensor {index} of {count}")
    what = f"tensor {quoted(name)}"
    dimensions = cursor.count("I", f"the number of dimensions of {what}")
    if not 1 <= dimensions <= _MAX_DIMENSIONS:
        raise ModelFileError(f"{what} has {dimensions} dimensions; 1 to {_MAX_DIMENSIONS} are allowed")
    stored = [cursor.count("Q", f"the shape of {what}") for _ in range(dimensions)]
    code = cursor.count("I", f"the type of {what}")
    offset = cursor.count("Q", f"the offset of {what}")
    if code not in TENSOR_TYPES:
        held = OTHER_TENSOR_TYPES.get(code, f"of unknown code {code}")
        known = ", ".join(kind.value for kind, _, _ in TENSOR_TYPES.values())
        raise ModelFileError(f"{what} has type {held}, which this version does not read; it reads {known}")
    kind, block, block_bytes = TENSOR_TYPES[code]
    if 0 in stored:
        raise ModelFileError(f"{what} has shape {stored}; every dimension must be at least 1")
    if stored[0] % block:
        raise ModelFileError(f"{what} has rows of {stored[0]} values; {kind.value} needs a multiple of {block}")
    # Python's integers do not overflow: an absurd product is simply larger than the file, and refused there.
    nbytes = prod(stored) // block * block_bytes
    return Tensor(name, kind, tuple(reversed(stored)), offset, nbytes)


def _tensors(cursor: _Cursor, count: int) -> list[Tensor]:
    table = [_tensor(cursor, index, count) for index in range(count)]
    seen: set[str] = set()
    for tensor in table:
        if tensor.name in seen:
            raise ModelFileError(f"tensor {quoted(tensor.name)} appears twice")
        seen.add(tensor.name)
    return table


def _place(table: list[Tensor], start: int, alignment: int, size: int) -> dict[str, Tensor]:
    """Check where the tensors lie and make their offsets absolute; ModelFileError for the first that is wrong."""
    placed: dict[str, Tensor] = {}
    end, before = start, ""
    for tensor in sorted(table, key=lambda tensor: tensor.offset):
        what = f"tensor {quoted(tensor.name)}"
        offset = start + tensor.offset
        if tensor.offset % alignment:
            raise ModelFileError(f"{what} has offset {tensor.offset}, not a multiple of the alignment {alignment}")
        if offset + tensor.nbytes > size:
            raise ModelFileError(
                f"truncated or damaged: {what} needs {tensor.nbytes} bytes at offset {offset}, "
                f"but the file ends at {size}; fetch the file again"
            )
        if offset < end:
            raise ModelFileError(f"{what} at offset {offset} overlaps tensor {quoted(before)}, which ends at {end}")
        placed[tensor.name] = Tensor(tensor.name, tensor.type, tensor.shape, offset, tensor.nbytes)
        end, before = offset + tensor.nbytes, tensor.name
    return placed


def _alignment(values: dict[str, Value]) -> int:
    value = values.get("general.alignment")
    if value is None:
        return DEFAULT_ALIGNMENT
    number = value.data
    if value.type is not ValueType.UINT32 or not isinstance(number, int):
        raise ModelFileError(f"key 'general.alignment' has type {value.describe()}; it must be UINT32")
    if not 8 <= number <= _MAX_ALIGNMENT or number & (number - 1):
        raise ModelFileError(
            f"key 'general.alignment' is {number}; it must be a power of two from 8 to {_MAX_ALIGNMENT}"
        )
    return number


def _check_version(version: int) -> None:
    if version in VERSIONS:
        return
    if int.from_bytes(version.to_bytes(4, "little"), "big") in (1, *VERSIONS):
        raise ModelFileError("the file is big-endian; only little-endian GGUF is read")
    raise ModelFileError(f"GGUF version {version}; versions {' and '.join(map(str, VERSIONS))} are read")


def _walk(cursor: _Cursor, wanted: Callable[[str], bool]) -> Header:
    cursor.need(len(MAGIC), "the magic")
    if cursor.data[: len(MAGIC)] != MAGIC:
        raise ModelFileError(f"not a GGUF file: it starts with {cursor.data[: len(MAGIC)]!r} instead of {MAGIC!r}")
    cursor.position = len(MAGIC)
    version = cursor.count("I", "the version")
    _check_version(version)
    tensors = cursor.count("Q", "the number of tensors")
    keys = cursor.count("Q", "the number of keys")
    for count, limit, what in ((tensors, _MAX_TENSORS, "tensors"), (keys, _MAX_KEYS, "metadata keys")):
        if count > limit:
            raise ModelFileError(f"the header claims {count} {what}; at most {limit} are read")
    values = _values(cursor, keys, wanted)
    table = _tensors(cursor, tensors)
    alignment = _alignment(values)
    start = -(-cursor.position // alignment) * alignment
    return Header(version, values, _place(table, start, alignment, cursor.size), cursor.size)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """A descriptor of a regular file; ModelFileError where there is none to be had."""
    try:
        # Opening a pipe would wait for a writer for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise ModelFileError(f"cannot be opened: {error.strerror}") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ModelFileError("not a regular file")
        yield descriptor
    except OSError as error:
        raise ModelFileError(f"cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)


def read_header(path: Path, wanted: Callable[[str], bool]) -> Header:
    """Walk the header of a file; strings and arrays of keys that are not `wanted` are checked but not kept.

    Raises ModelFileError, without the path, for the first thing that is wrong.
    """
    with _opened(path) as descriptor:
        return _walk(_Cursor(descriptor, os.fstat(descriptor).st_size), wanted)
