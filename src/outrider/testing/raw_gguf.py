"""A GGUF file taken apart, to be changed and put together again: for files that no writer would write.

Trusts what it reads: only for files that the makers here made.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from outrider.models.gguf_layout import DEFAULT_ALIGNMENT, MAGIC, VALUE_CODES, ValueType

_INTEGER = "<Q"


def string(text: str | bytes) -> bytes:
    """A string as the format stores it."""
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack(_INTEGER, len(raw)) + raw


def scalar(kind: ValueType, value: float) -> bytes:
    """A number as the format stores it."""
    return struct.pack("<" + VALUE_CODES[kind], value)


def array(item: ValueType, elements: list[bytes], count: int | None = None) -> bytes:
    """An array of encoded elements; `count` overrides what it claims."""
    claimed = len(elements) if count is None else count
    return struct.pack("<IQ", item, claimed) + b"".join(elements)


@dataclass(slots=True)
class RawTensor:
    """One entry of the tensor table, as stored: inputs first, offset from the start of the data."""

    name: str
    shape: list[int]
    type: int
    offset: int

    def encode(self) -> bytes:
        shape = struct.pack(f"<I{len(self.shape)}Q", len(self.shape), *self.shape)
        return string(self.name) + shape + struct.pack("<IQ", self.type, self.offset)


@dataclass(slots=True)
class RawGguf:
    """The parts of a file: keys are (name, type code, encoded value)."""

    version: int
    keys: list[tuple[str, int, bytes]]
    tensors: list[RawTensor]
    data: bytes
    key_count: int | None = None  # what the header claims, where that is not the truth
    tensor_count: int | None = None

    def set(self, key: str, kind: ValueType, value: bytes) -> None:
        """Replace the value of a key, or append it."""
        self.drop(key, missing_ok=True)
        self.keys.append((key, int(kind), value))

    def drop(self, key: str, *, missing_ok: bool = False) -> None:
        """Remove a key. KeyError where it is not there."""
        kept = [entry for entry in self.keys if entry[0] != key]
        if len(kept) == len(self.keys) and not missing_ok:
            raise KeyError(key)
        self.keys = kept

    def tensor(self, name: str) -> RawTensor:
        """The entry of a tensor. KeyError where it is not there."""
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        raise KeyError(name)

    def dump(self, alignment: int = DEFAULT_ALIGNMENT) -> bytes:
        """The file."""
        tensors = len(self.tensors) if self.tensor_count is None else self.tensor_count
        keys = len(self.keys) if self.key_count is None else self.key_count
        parts = [MAGIC, struct.pack("<IQQ", self.version, tensors, keys)]
        parts += [string(key) + struct.pack("<I", kind) + value for key, kind, value in self.keys]
        parts += [tensor.encode() for tensor in self.tensors]
        head = b"".join(parts)
        return head + bytes(-len(head) % alignment) + self.data


class _Bytes:
    """Reads well-formed bytes from front to back."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def number(self, code: str) -> int:
        (value,) = struct.unpack_from("<" + code, self.data, self.position)
        self.position += struct.calcsize("<" + code)
        return int(value)

    def raw(self, count: int) -> bytes:
        self.position += count
        return self.data[self.position - count : self.position]

    def text(self) -> str:
        return self.raw(self.number("Q")).decode()

    def value(self, kind: ValueType) -> bytes:
        start = self.position
        if kind is ValueType.STRING:
            self.raw(self.number("Q"))
        elif kind is ValueType.ARRAY:
            item = ValueType(self.number("I"))
            for _ in range(self.number("Q")):
                self.value(item)
        else:
            self.raw(struct.calcsize("<" + VALUE_CODES[kind]))
        return self.data[start : self.position]


def load(path: Path) -> RawGguf:
    """Take a well-formed file with the default alignment apart."""
    source = _Bytes(path.read_bytes())
    source.raw(len(MAGIC))
    version, tensor_count, key_count = source.number("I"), source.number("Q"), source.number("Q")
    keys = []
    for _ in range(key_count):
        name, kind = source.text(), source.number("I")
        keys.append((name, kind, source.value(ValueType(kind))))
    tensors = []
    for _ in range(tensor_count):
        name = source.text()
        shape = [source.number("Q") for _ in range(source.number("I"))]
        tensors.append(RawTensor(name, shape, source.number("I"), source.number("Q")))
    source.raw(-source.position % DEFAULT_ALIGNMENT)
    return RawGguf(version, keys, tensors, source.data[source.position :])
