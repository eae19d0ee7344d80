"""Profiles on disk: found again by what they are of, and nothing else is taken for one."""

from __future__ import annotations

import json
import os
import platform
import socket
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from outrider.cost.store import Key, Place, Store
from outrider.cost.types import DraftCost, PassCost, PhaseCost, Profile

PLACE = Place("Some CPU", 4, 2, "avx2", 16)
PROFILE = Profile(
    (PassCost(1, 1, 256, 0.004, 9), PassCost(8, 2, 64, 0.007, 3)),
    (PhaseCost(1, 256, 0.003, 0.0005, 0.0004, 0.0001),),
    "2026-11-29 12:00 UTC",
    {"ngram": DraftCost(5e-6, 6e-8)},
)


@pytest.fixture
def key(tmp_path: Path) -> Key:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF and more")
    return Key.of(PLACE, "tiny", file, "a grid")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "profiles")


def only_file(tmp_path: Path) -> Path:
    (found,) = (tmp_path / "profiles").iterdir()
    return found


def test_what_is_kept_is_found(store: Store, key: Key) -> None:
    assert store.find(key) is None
    store.keep(key, PROFILE)
    assert store.find(key) == PROFILE


def test_a_later_profile_takes_the_place_of_an_earlier(store: Store, key: Key, tmp_path: Path) -> None:
    later = replace(PROFILE, drafters={}, measured="later")
    store.keep(key, PROFILE)
    store.keep(key, later)
    assert store.find(key) == later
    only_file(tmp_path)


@pytest.mark.parametrize(
    "other",
    [
        lambda key: replace(key, place=replace(PLACE, cpu="Another")),
        lambda key: replace(key, place=replace(PLACE, cores=8)),
        lambda key: replace(key, place=replace(PLACE, threads=1)),
        lambda key: replace(key, place=replace(PLACE, isa="portable")),
        lambda key: replace(key, place=replace(PLACE, memory_gib=32)),
        lambda key: replace(key, model="other"),
        lambda key: replace(key, size_bytes=1),
        lambda key: replace(key, changed_ns=1),
        lambda key: replace(key, grid="another grid"),
    ],
)
def test_of_anything_else_nothing_is_found(store: Store, key: Key, other: Callable[[Key], Key], tmp_path: Path) -> None:
    store.keep(key, PROFILE)
    assert store.find(other(key)) is None
    # Not even where a foreign file has the right name.
    only_file(tmp_path).rename(store._path(other(key)))
    assert store.find(other(key)) is None


def test_another_format_is_not_read(store: Store, key: Key, monkeypatch: pytest.MonkeyPatch) -> None:
    store.keep(key, PROFILE)
    monkeypatch.setattr("outrider.cost.store.FORMAT", 2)
    assert store.find(key) is None


def test_a_changed_model_file_has_another_key(key: Key, tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    os.utime(file, ns=(0, key.changed_ns + 1))
    assert Key.of(PLACE, "tiny", file, "a grid") != key


def without(name: str) -> Callable[[dict[str, Any]], None]:
    def change(profile: dict[str, Any]) -> None:
        del profile[name]

    return change


def first_pass(name: str, value: object) -> Callable[[dict[str, Any]], None]:
    def change(profile: dict[str, Any]) -> None:
        profile["passes"][0][name] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        *map(without, ("passes", "phases", "measured", "drafters")),
        first_pass("seconds", 0.0),
        first_pass("seconds", -1.0),
        first_pass("seconds", float("nan")),
        first_pass("seconds", float("inf")),
        first_pass("seconds", "0.1"),
        first_pass("rows", 0),
        first_pass("rows", 1.5),
        first_pass("rows", True),
        first_pass("context", -1),
        first_pass("surprise", 1),
        lambda profile: profile.update(passes=[{}]),
        lambda profile: profile.update(passes=[[1, 2]]),
        lambda profile: profile.update(passes=3),
        lambda profile: profile.update(drafters=[]),
        lambda profile: profile.update(drafters={"ngram": {"proposal_s": -1.0, "node_s": 0.0}}),
    ],
)
def test_a_damaged_profile_is_none(
    store: Store, key: Key, tmp_path: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    store.keep(key, PROFILE)
    file = only_file(tmp_path)
    whole = json.loads(file.read_text())
    change(whole["profile"])
    file.write_text(json.dumps(whole))
    assert store.find(key) is None
    store.keep(key, PROFILE)
    assert store.find(key) == PROFILE


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b"\xff\xfe", b"[" * 100_000, b'{"key": 1}'])
def test_what_is_no_profile_at_all_is_none(store: Store, key: Key, tmp_path: Path, content: bytes) -> None:
    store.keep(key, PROFILE)
    only_file(tmp_path).write_bytes(content)
    assert store.find(key) is None


def test_a_folder_that_cannot_be_made_is_an_error_for_the_caller(key: Key, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = Store(tmp_path / "file" / "profiles")
    assert store.find(key) is None
    with pytest.raises(OSError, match="Not a directory"):
        store.keep(key, PROFILE)


def test_a_full_disk_leaves_no_half_file(
    store: Store, key: Key, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.keep(key, PROFILE)

    def full(source: str, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space"):
        store.keep(key, replace(PROFILE, measured="later"))
    assert store.find(key) == PROFILE
    only_file(tmp_path)


def test_a_place_names_no_host_and_no_user() -> None:
    place = Place.here("avx2", 2)
    assert place.cores >= 1
    assert place.memory_gib >= 1
    assert place == Place.here("avx2", 2)
    told = json.dumps(asdict(place))
    assert all(name not in told for name in (socket.gethostname(), platform.node()) if name)
