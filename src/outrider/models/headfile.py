"""A drafting head on disk: a folder with head.json, which says what it is, and head.safetensors with its tensors.

Norms are float32 and `ids` int32. A matrix is float32 [rows, cols], or uint8 [rows, bytes of a row] holding the blocks
of a GGUF tensor type. What the tensors mean: docs/drafters.md.

Dimensions: H hidden size of the target, T taps, A heads, G key heads, d head size, F feed-forward size, D draft
vocabulary, K heads of kind medusa.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from outrider.errors import UsageError
from outrider.models import safetensors
from outrider.models.safetensors import Array

FORMAT = 1
SPEC_NAME, TENSORS_NAME = "head.json", "head.safetensors"
# matrix type -> values a block, bytes a block, float16 numbers (scale, minimum) in front of it
BLOCKS = {"F32": (1, 4, 0), "Q8_0": (32, 34, 1), "Q4_0": (32, 18, 1), "Q4_1": (32, 20, 2)}
_MOST = 1 << 24


class HeadKind(Enum):
    """Which computation the tensors are for."""

    EAGLE3 = "eagle3"  # one decoder layer over fused states, fed with its own (2503.01840)
    MEDUSA = "medusa"  # K residual blocks on the last state (2401.10774)


@dataclass(frozen=True, slots=True)
class HeadSpec:
    """What a head is. A tap is a state of the target: l = the one entering block l, its number of blocks = the last.

    types has an entry for each matrix. heads, kv_heads, head_dim and feed_forward are 0 for kind medusa. A guess's
    chance is softmax(logits / temperature). provenance is for people: command, data, seeds, versions, acceptance.
    """

    kind: HeadKind
    target_name: str
    fingerprint: str  # models.fingerprint of the target, in hex
    taps: tuple[int, ...]
    hidden: int
    draft_vocab: int
    norm_eps: float
    depth: int  # medusa: K; eagle3: steps that it was trained for
    types: Mapping[str, str]
    temperature: float = 1.0
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    feed_forward: int = 0
    provenance: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class HeadFile:
    """A checked head: every tensor that its kind needs, each of the right shape, and no number that is not finite."""

    spec: HeadSpec
    tensors: Mapping[str, Array] = field(repr=False)


def vectors(spec: HeadSpec) -> dict[str, int]:
    """Names and sizes of the norms."""
    wide = len(spec.taps) * spec.hidden
    if spec.kind is HeadKind.MEDUSA:
        return {"tap_norm": wide}
    return {"tap_norm": wide, **dict.fromkeys(("embed_norm", "state_norm", "ffn_norm", "out_norm"), spec.hidden)}


def matrices(spec: HeadSpec) -> dict[str, tuple[int, int]]:
    """Names and shapes (rows, cols) of the matrices."""
    h = spec.hidden
    if spec.kind is HeadKind.MEDUSA:
        return {**{f"heads.{k}": (h, h) for k in range(1, spec.depth + 1)}, "head": (spec.draft_vocab, h)}
    query, key = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
    return {
        "fc": (h, len(spec.taps) * h),
        "q_proj": (query, 2 * h),
        "k_proj": (key, 2 * h),
        "v_proj": (key, 2 * h),
        "o_proj": (h, query),
        "gate": (spec.feed_forward, h),
        "up": (spec.feed_forward, h),
        "down": (h, spec.feed_forward),
        "head": (spec.draft_vocab, h),
    }


def read(folder: str | os.PathLike[str]) -> HeadFile:
    """The head of a folder. Raises UsageError where there is none, or one that is damaged or malformed."""
    where = Path(folder)
    text, raw = _bytes(where / SPEC_NAME), _bytes(where / TENSORS_NAME)
    try:
        spec, digest = _parsed(text)
        if hashlib.sha256(raw).hexdigest() != digest:
            raise UsageError(f"{TENSORS_NAME} is not the one that {SPEC_NAME} was written with, or damaged")
        tensors = safetensors.unpacked(raw)
        check(spec, tensors)
    except UsageError as error:
        raise UsageError(f"head {where}: {error}; train it again or give another folder") from None
    return HeadFile(spec, tensors)


def write(folder: str | os.PathLike[str], spec: HeadSpec, tensors: Mapping[str, Array]) -> None:
    """Write a head into a folder, made where it is missing; a head that is there is replaced, other files stay.

    Both files are written before the first replaces its old one; should the machine stop between the two, `read` says
    so. Raises UsageError for a malformed head, and where the folder cannot be written.
    """
    check(spec, tensors)
    where = Path(folder)
    raw = safetensors.packed({name: tensors[name] for name in sorted(tensors)})
    fields = asdict(spec)
    target = {"name": fields.pop("target_name"), "fingerprint": fields.pop("fingerprint")}
    story = {"format": FORMAT, **fields, "kind": spec.kind.value, "target": target}
    story["sha256"] = hashlib.sha256(raw).hexdigest()
    try:
        text = json.dumps(story, indent=1, allow_nan=False, ensure_ascii=False).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise UsageError(f"provenance cannot be written as JSON ({error}); keep to plain values") from None
    try:
        where.mkdir(parents=True, exist_ok=True)
        _replace({where / TENSORS_NAME: raw, where / SPEC_NAME: text})
    except OSError as error:
        raise UsageError(f"head {where} cannot be written ({error.strerror}); give a folder with room") from None


def check(spec: HeadSpec, tensors: Mapping[str, Array]) -> None:
    """Raise UsageError, with the reason, unless these tensors make a sound head."""
    _check_numbers(spec)
    wanted = vectors(spec) | matrices(spec)
    missing, strange = sorted({*wanted, "ids"} - set(tensors)), sorted(set(tensors) - {*wanted, "ids"})
    if missing or strange:
        raise UsageError(f"tensors missing: {', '.join(missing) or 'none'}; unknown: {', '.join(strange) or 'none'}")
    for name, size in vectors(spec).items():
        _check_array(name, tensors[name], np.float32, (size,))
    types = dict(spec.types)
    if set(types) != set(matrices(spec)):
        raise UsageError(f"types names {', '.join(sorted(types)) or 'nothing'}; it needs an entry for each matrix")
    for name, shape in matrices(spec).items():
        _check_matrix(name, types[name], tensors[name], shape)
    ids = tensors["ids"]
    _check_array("ids", ids, np.int32, (spec.draft_vocab,))
    if ids[0] < 0 or not (np.diff(ids) > 0).all():
        raise UsageError("ids are not ascending token ids from 0 on")


def _check_numbers(spec: HeadSpec) -> None:
    sizes = {"hidden": spec.hidden, "draft_vocab": spec.draft_vocab, "depth": spec.depth}
    eagle = {name: getattr(spec, name) for name in ("heads", "kv_heads", "head_dim", "feed_forward")}
    if spec.kind is HeadKind.EAGLE3:
        sizes |= eagle
    elif any(eagle.values()):
        raise UsageError(f"{', '.join(eagle)} must be 0 for kind medusa")
    for name, size in sizes.items():
        if not 0 < size < _MOST:
            raise UsageError(f"{name} is {size}; it must be between 1 and {_MOST - 1}")
    if spec.kind is HeadKind.EAGLE3 and spec.heads % spec.kv_heads:
        raise UsageError(f"heads is {spec.heads}, not a multiple of kv_heads, {spec.kv_heads}")
    for name, size in (("hidden", spec.hidden), ("feed_forward", spec.feed_forward), ("q", spec.heads * spec.head_dim)):
        if size % 32:
            raise UsageError(f"the size of {name} is {size}, not a multiple of 32")
    if not spec.taps or any(tap < 0 for tap in spec.taps) or len(set(spec.taps)) < len(spec.taps):
        raise UsageError(f"taps are {list(spec.taps)}; they must be different numbers from 0 on, at least one")
    if spec.kind is HeadKind.MEDUSA and len(spec.taps) > 1:
        raise UsageError(f"taps are {list(spec.taps)}; kind medusa has one")
    for name, number in (("norm_eps", spec.norm_eps), ("temperature", spec.temperature)):
        if not (math.isfinite(number) and number > 0.0):
            raise UsageError(f"{name} is {number}; it must be above 0")


def _check_array(name: str, array: Array, dtype: type[np.generic], shape: tuple[int, ...]) -> None:
    if array.dtype != dtype or array.shape != shape:
        kind = np.dtype(dtype).name
        raise UsageError(f"{name} is {array.dtype} {list(array.shape)}; it must be {kind} {list(shape)}")
    if dtype is np.float32 and not np.isfinite(array).all():
        raise UsageError(f"{name} holds a number that is not finite")


def _check_matrix(name: str, kind: str, array: Array, shape: tuple[int, int]) -> None:
    if kind not in BLOCKS:
        raise UsageError(f"{name} has type {kind!r}; known are {', '.join(BLOCKS)}")
    values, size, numbers = BLOCKS[kind]
    rows, cols = shape
    if kind == "F32":
        return _check_array(name, array, np.float32, shape)
    _check_array(name, array, np.uint8, (rows, cols // values * size))
    blocks = np.ascontiguousarray(array).reshape(-1, size)
    scales = np.ascontiguousarray(blocks[:, : 2 * numbers]).view(np.uint16)
    if ((scales & 0x7C00) == 0x7C00).any():
        raise UsageError(f"{name} has a block whose scale is not finite")
    return None


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"head {path.parent} has no {path.name} that can be read ({error.strerror}); give a folder that "
            "outrider train made"
        ) from None
    except ValueError:
        raise UsageError("head is no proper name of a folder: it holds a null character") from None


def _parsed(text: bytes) -> tuple[HeadSpec, str]:
    """The spec, and the digest of the tensors."""
    try:
        story = json.loads(text)
    except (ValueError, RecursionError):
        raise UsageError(f"{SPEC_NAME} is no JSON") from None
    if not isinstance(story, dict) or story.get("format") != FORMAT:
        found = story.get("format") if isinstance(story, dict) else None
        raise UsageError(f"{SPEC_NAME} has format {found!r}; this version reads {FORMAT}")
    try:
        target = story["target"]
        spec = HeadSpec(
            HeadKind(story["kind"]),
            _of(str, target["name"]),
            _of(str, target["fingerprint"]),
            tuple(_of(int, tap) for tap in _of(list, story["taps"])),
            _of(int, story["hidden"]),
            _of(int, story["draft_vocab"]),
            float(_of((int, float), story["norm_eps"])),
            _of(int, story["depth"]),
            {str(name): _of(str, kind) for name, kind in _of(dict, story["types"]).items()},
            float(_of((int, float), story["temperature"])),
            _of(int, story["heads"]),
            _of(int, story["kv_heads"]),
            _of(int, story["head_dim"]),
            _of(int, story["feed_forward"]),
            _of(dict, story["provenance"]),
        )
        return spec, _of(str, story["sha256"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else f"is malformed ({error})"
        raise UsageError(f"{SPEC_NAME} {what}") from None


def _of(kind: type | tuple[type, ...], value: Any) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{value!r} has the wrong type")
    return value


def _replace(files: Mapping[Path, bytes]) -> None:
    """Write all files under other names, then give each its own."""
    others = {path: path.with_name(f".{path.name}.{os.getpid()}.part") for path in files}
    try:
        for path, content in files.items():
            with open(others[path], "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
        for path, other in others.items():
            os.replace(other, path)
    except BaseException:
        for other in others.values():
            with suppress(OSError):
                os.unlink(other)
        raise
