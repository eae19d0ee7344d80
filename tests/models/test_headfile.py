"""Heads on disk: what was written is read, old ones are replaced whole, and what is damaged or malformed is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outrider.errors import UsageError
from outrider.models import headfile, safetensors
from outrider.models.headfile import HeadFile, HeadSpec
from outrider.testing.heads import eagle_spec, medusa_spec, random_head

TYPES = {"fc": "F32", "gate": "Q8_0", "up": "Q4_0"}
EAGLE = random_head(replace(eagle_spec("ab", types=TYPES), provenance={"seeds": [1, 2], "é": 0.5}), 320)
MEDUSA = random_head(medusa_spec("cd", temperature=1.5), 320)


@pytest.mark.parametrize("head", [EAGLE, MEDUSA], ids=["eagle3", "medusa"])
def test_what_is_written_is_read(tmp_path: Path, head: HeadFile) -> None:
    folder = tmp_path / "new" / "head"
    headfile.write(folder, head.spec, head.tensors)
    assert sorted(path.name for path in folder.iterdir()) == ["head.json", "head.safetensors"]
    found = headfile.read(folder)
    assert found.spec == head.spec
    assert set(found.tensors) == set(head.tensors)
    for name, array in head.tensors.items():
        assert found.tensors[name].dtype == array.dtype
        assert found.tensors[name].shape == array.shape
        assert found.tensors[name].tobytes() == array.tobytes()


def test_the_json_is_the_documented_one(tmp_path: Path) -> None:
    headfile.write(tmp_path, EAGLE.spec, EAGLE.tensors)
    story = json.loads((tmp_path / "head.json").read_text())
    assert set(story) == {
        "format", "kind", "target", "taps", "hidden", "heads", "kv_heads", "head_dim", "feed_forward", "draft_vocab",
        "norm_eps", "depth", "types", "temperature", "provenance", "sha256",
    }  # fmt: skip
    assert story["target"] == {"name": "tiny", "fingerprint": "ab"}
    assert (story["format"], story["kind"], story["taps"]) == (1, "eagle3", [0, 1, 2])


def test_it_is_a_safetensors_file(tmp_path: Path) -> None:
    """As its description says: no gaps, the header a multiple of 8 bytes."""
    headfile.write(tmp_path, EAGLE.spec, EAGLE.tensors)
    raw = (tmp_path / "head.safetensors").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    assert length % 8 == 0
    ends = 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        assert begin == ends
        assert raw[8 + length + begin : 8 + length + end] == EAGLE.tensors[name].tobytes()
        ends = end
    assert 8 + length + ends == len(raw)


def test_an_old_head_is_replaced_and_other_files_stay(tmp_path: Path) -> None:
    headfile.write(tmp_path, EAGLE.spec, EAGLE.tensors)
    (tmp_path / "checkpoint").write_text("x")
    headfile.write(tmp_path, MEDUSA.spec, MEDUSA.tensors)
    assert headfile.read(tmp_path).spec == MEDUSA.spec
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint", "head.json", "head.safetensors"]


def test_a_failed_write_leaves_the_old_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    headfile.write(tmp_path, EAGLE.spec, EAGLE.tensors)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match=r"cannot be written \(No space left on device\)"):
        headfile.write(tmp_path, MEDUSA.spec, MEDUSA.tensors)
    assert headfile.read(tmp_path).spec == EAGLE.spec
    assert sorted(path.name for path in tmp_path.iterdir()) == ["head.json", "head.safetensors"]


def test_places_that_cannot_be_written_or_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="cannot be written"):
        headfile.write(tmp_path / "file", EAGLE.spec, EAGLE.tensors)
    for place in (tmp_path / "file", tmp_path / "nowhere", tmp_path):
        with pytest.raises(UsageError, match=r"has no head.json that can be read"):
            headfile.read(place)
    with pytest.raises(UsageError, match="no proper name"):
        headfile.read("a\0b")


def changed(**fields: Any) -> HeadSpec:
    return replace(EAGLE.spec, **fields)


def without(name: str) -> dict[str, Any]:
    return {other: array for other, array in EAGLE.tensors.items() if other != name}


def poisoned(name: str, place: int, pattern: bytes) -> dict[str, Any]:
    """A block's number replaced."""
    raw = bytearray(EAGLE.tensors[name].tobytes())
    raw[place : place + len(pattern)] = pattern
    return {**EAGLE.tensors, name: np.frombuffer(bytes(raw), np.uint8).reshape(EAGLE.tensors[name].shape)}


NAN, INFINITY = b"\x01\x7e", b"\x00\xfc"
MALFORMED: dict[str, tuple[HeadSpec, dict[str, Any]]] = {
    "tensors missing: down; unknown: none": (EAGLE.spec, without("down")),
    "tensors missing: none; unknown: extra": (EAGLE.spec, {**EAGLE.tensors, "extra": EAGLE.tensors["ids"]}),
    r"tap_norm is float32 \[64\]; it must be float32 \[192\]": (
        EAGLE.spec,
        {**EAGLE.tensors, "tap_norm": np.ones(64, np.float32)},
    ),
    r"embed_norm is float64": (EAGLE.spec, {**EAGLE.tensors, "embed_norm": np.ones(64)}),
    "out_norm holds a number that is not finite": (
        EAGLE.spec,
        {**EAGLE.tensors, "out_norm": np.full(64, np.nan, np.float32)},
    ),
    "fc holds a number": (EAGLE.spec, {**EAGLE.tensors, "fc": np.full((64, 192), np.inf, np.float32)}),
    r"q_proj is uint8 \[64, 80\]; it must be uint8 \[64, 136\]": (
        changed(types={**EAGLE.spec.types, "q_proj": "Q8_0"}),
        dict(EAGLE.tensors),
    ),
    "down has a block whose scale is not finite": (EAGLE.spec, poisoned("down", 20 * 7, NAN)),
    "head has a block whose scale is not finite": (EAGLE.spec, poisoned("head", 20 * 3 + 2, INFINITY)),
    "gate has a block whose scale is not finite": (EAGLE.spec, poisoned("gate", 34 * 5, INFINITY)),
    "up has a block whose scale is not finite": (EAGLE.spec, poisoned("up", 0, NAN)),
    "k_proj has type 'Q3_K'; known are F32, Q8_0": (
        changed(types={**EAGLE.spec.types, "k_proj": "Q3_K"}),
        dict(EAGLE.tensors),
    ),
    "types names nothing; it needs an entry": (changed(types={}), dict(EAGLE.tensors)),
    "ids are not ascending": (EAGLE.spec, {**EAGLE.tensors, "ids": EAGLE.tensors["ids"][::-1]}),
    "ids are not ascending token": (EAGLE.spec, {**EAGLE.tensors, "ids": EAGLE.tensors["ids"] - 400}),
    "ids is int64": (EAGLE.spec, {**EAGLE.tensors, "ids": EAGLE.tensors["ids"].astype(np.int64)}),
    r"ids is int32 \[99\]": (EAGLE.spec, {**EAGLE.tensors, "ids": EAGLE.tensors["ids"][1:]}),
    "hidden is 0": (changed(hidden=0), dict(EAGLE.tensors)),
    "depth is -1": (changed(depth=-1), dict(EAGLE.tensors)),
    "heads is 0": (changed(heads=0), dict(EAGLE.tensors)),
    "heads is 4, not a multiple of kv_heads, 3": (changed(kv_heads=3), dict(EAGLE.tensors)),
    "the size of hidden is 65, not": (changed(hidden=65), dict(EAGLE.tensors)),
    "the size of feed_forward is 97": (changed(feed_forward=97), dict(EAGLE.tensors)),
    r"taps are \[\]": (changed(taps=()), dict(EAGLE.tensors)),
    r"taps are \[1, 1, 2\]": (changed(taps=(1, 1, 2)), dict(EAGLE.tensors)),
    r"taps are \[-1\]": (changed(taps=(-1,)), dict(EAGLE.tensors)),
    "norm_eps is 0.0": (changed(norm_eps=0.0), dict(EAGLE.tensors)),
    "temperature is nan": (changed(temperature=float("nan")), dict(EAGLE.tensors)),
    "heads, kv_heads, head_dim, feed_forward must be 0": (replace(MEDUSA.spec, heads=4), dict(MEDUSA.tensors)),
    "kind medusa has one": (replace(MEDUSA.spec, taps=(1, 2)), dict(MEDUSA.tensors)),
}


@pytest.mark.parametrize("match", MALFORMED)
def test_malformed_heads_are_neither_written_nor_read(tmp_path: Path, match: str) -> None:
    spec, tensors = MALFORMED[match]
    with pytest.raises(UsageError, match=match):
        headfile.write(tmp_path, spec, tensors)
    assert list(tmp_path.iterdir()) == []


def rewritten(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    story = json.loads((folder / "head.json").read_text())
    change(story)
    (folder / "head.json").write_text(json.dumps(story))


CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "head.json has format 2; this version reads 1": lambda story: story.update(format=2),
    "head.json lacks 'taps'": lambda story: story.pop("taps"),
    "head.json lacks 'fingerprint'": lambda story: story.update(target={"name": "x"}),
    "is malformed .*'eagle4'": lambda story: story.update(kind="eagle4"),
    "is malformed .*True has the wrong type": lambda story: story.update(hidden=True),
    "is malformed .*64.5 has the wrong type": lambda story: story.update(hidden=64.5),
    "is malformed .*'few' has the wrong type": lambda story: story.update(taps="few"),
    "is malformed .*None has the wrong type": lambda story: story.update(temperature=None),
    "is not the one that head.json was written with": lambda story: story.update(sha256="00"),
    "tensors missing: heads.4": lambda story: story.update(depth=4),
}


@pytest.mark.parametrize("match", CHANGES)
def test_a_changed_json_is_refused(tmp_path: Path, match: str) -> None:
    headfile.write(tmp_path, MEDUSA.spec, MEDUSA.tensors)
    rewritten(tmp_path, CHANGES[match])
    with pytest.raises(UsageError, match=match) as caught:
        headfile.read(tmp_path)
    assert str(caught.value).startswith(f"head {tmp_path}: ")
    assert str(caught.value).endswith("train it again or give another folder")


@pytest.mark.parametrize("text", [b"", b"[1]", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_refused(tmp_path: Path, text: bytes) -> None:
    headfile.write(tmp_path, MEDUSA.spec, MEDUSA.tensors)
    (tmp_path / "head.json").write_bytes(text)
    with pytest.raises(UsageError, match=r"head.json (is no JSON|has format None)"):
        headfile.read(tmp_path)


def test_damage_is_seen(tmp_path: Path) -> None:
    headfile.write(tmp_path, MEDUSA.spec, MEDUSA.tensors)
    path = tmp_path / "head.safetensors"
    raw = path.read_bytes()
    for bad in (raw[:-1], raw + b"x", raw[:5000] + bytes([raw[5000] ^ 1]) + raw[5001:], b""):
        path.write_bytes(bad)
        with pytest.raises(UsageError, match="or damaged"):
            headfile.read(tmp_path)


HEADER = b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
BROKEN = {
    "too few": b"\1\2",
    "would have 99 bytes": (99).to_bytes(8, "little") + b"{}",
    "would have 4294967296": (1 << 32).to_bytes(8, "little"),
    "is no JSON": (2).to_bytes(8, "little") + b"}{",
    "lists no tensors": (2).to_bytes(8, "little") + b"[]",
    "nothing sensible of tensor a": (10).to_bytes(8, "little") + b'{"a":[1]} ',
    "does not fit": len(HEADER).to_bytes(8, "little") + HEADER + b"1234567",
    "has dtype F64": len(HEADER).to_bytes(8, "little") + HEADER.replace(b"F32", b"F64") + b"12345678",
    "tensor a does not": len(HEADER).to_bytes(8, "little") + HEADER.replace(b"[2]", b"[3]") + b"12345678",
    "sensible of": len(HEADER).to_bytes(8, "little") + HEADER.replace(b"[2]", b"1.5") + b"12345678",
}


@pytest.mark.parametrize("match", BROKEN)
def test_what_is_no_safetensors_file(match: str) -> None:
    with pytest.raises(UsageError, match=match):
        safetensors.unpacked(BROKEN[match])
    found = safetensors.unpacked(len(HEADER).to_bytes(8, "little") + HEADER + b"\0" * 8)
    assert found["a"].tolist() == [0.0, 0.0]


def test_only_known_dtypes_are_packed() -> None:
    with pytest.raises(UsageError, match="tensor a has dtype float64"):
        safetensors.packed({"a": np.zeros(3)})  # type: ignore[dict-item]
