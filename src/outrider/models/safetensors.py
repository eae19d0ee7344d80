"""The safetensors format: named arrays in one file, in as much of it as Outrider's own files use.

8 bytes with the header's length, the header as JSON, then the arrays' bytes: {"name": {"dtype", "shape",
"data_offsets": [begin, end]}}, offsets counted from the end of the header.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from outrider.errors import UsageError

Array: TypeAlias = npt.NDArray[np.float32] | npt.NDArray[np.int32] | npt.NDArray[np.uint8]

DTYPES: dict[str, npt.DTypeLike] = {"F32": "<f4", "I32": "<i4", "U8": "u1"}
_NAMES = {np.dtype(kind): name for name, kind in DTYPES.items()}
_LENGTH = struct.Struct("<Q")
_MOST_HEADER = 1 << 20  # bytes; ours have some thousand


def packed(tensors: Mapping[str, Array]) -> bytes:
    """The arrays as a file. Raises UsageError for a dtype that is not float32, int32 or uint8."""
    header: dict[str, Any] = {}
    parts: list[bytes] = []
    at = 0
    for name, array in tensors.items():
        kind = _NAMES.get(array.dtype)
        if kind is None:
            raise UsageError(f"tensor {name} has dtype {array.dtype}; make it float32, int32 or uint8")
        parts.append(array.tobytes())
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return _LENGTH.pack(len(text)) + text + b"".join(parts)


def unpacked(raw: bytes) -> dict[str, Array]:
    """The arrays of a file, as views of it. Raises UsageError for what is no such file, and for other dtypes."""
    if len(raw) < _LENGTH.size:
        raise UsageError(f"it has {len(raw)} bytes, too few for a safetensors file")
    (length,) = _LENGTH.unpack_from(raw)
    start = _LENGTH.size + length
    if length > _MOST_HEADER or start > len(raw):
        raise UsageError(f"its header would have {length} bytes: it is no safetensors file, or cut")
    try:
        header = json.loads(raw[_LENGTH.size : start])
    except (ValueError, RecursionError):
        raise UsageError("its header is no JSON: it is no safetensors file, or damaged") from None
    if not isinstance(header, dict):
        raise UsageError("its header lists no tensors: it is no safetensors file, or damaged")
    header.pop("__metadata__", None)
    return {name: _array(name, entry, raw, start) for name, entry in header.items()}


def _array(name: str, entry: Any, raw: bytes, start: int) -> Array:
    match entry:
        case {"dtype": str(kind), "shape": list(shape), "data_offsets": [int(begin), int(end)]} if all(
            type(side) is int and side >= 0 for side in shape
        ):
            pass
        case _:
            raise UsageError(f"its header says nothing sensible of tensor {name}")
    if kind not in DTYPES:
        raise UsageError(f"tensor {name} has dtype {kind}; known are {', '.join(DTYPES)}")
    dtype = np.dtype(DTYPES[kind])
    count = math.prod(shape)
    if not 0 <= begin <= end <= len(raw) - start or end - begin != count * dtype.itemsize:
        raise UsageError(f"tensor {name} does not fit the file: it is cut or damaged")
    array: Array = np.frombuffer(raw, dtype, count, start + begin).reshape(shape)
    return array
