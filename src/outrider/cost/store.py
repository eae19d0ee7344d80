"""Profiles on disk, one file for each model, machine and grid: measured once, found again.

    <folder>/<24 digits of the key's hash>.json    {"key": ..., "profile": ...}

A file that is damaged, of another format, or for another key is as good as none.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from outrider.cost.types import DraftCost, PassCost, PhaseCost, Profile

FORMAT = 1  # another number when what is measured, or how it is written, changes
GIB = 2**30


@dataclass(frozen=True, slots=True)
class Place:
    """What a time depends on besides the model; it names no host and no user."""

    cpu: str
    cores: int  # that this process may use
    threads: int  # that compute a pass
    isa: str
    memory_gib: int

    @staticmethod
    def here(isa: str, threads: int) -> Place:
        """This machine."""
        pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return Place(_cpu(), len(os.sched_getaffinity(0)), threads, isa, round(pages / GIB))


@dataclass(frozen=True, slots=True)
class Key:
    """What a profile is of: the place, the model's file, and what was measured (any text that says it)."""

    place: Place
    model: str
    size_bytes: int
    changed_ns: int
    grid: str

    @staticmethod
    def of(place: Place, model: str, file: Path, grid: str) -> Key:
        """The key of a file as it is now. Raises OSError where it is not there."""
        state = file.stat()
        return Key(place, model, state.st_size, state.st_mtime_ns, grid)


class Store:
    """The profiles in a folder, which need not exist."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, key: Key) -> Profile | None:
        """The profile that was kept for this key; None where there is none that can be used."""
        try:
            raw = json.loads(self._path(key).read_text("utf-8"))
            return _profile(raw["profile"]) if raw["key"] == _data(key) else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def keep(self, key: Key, profile: Profile) -> None:
        """Keep a profile in place of the one before; all or nothing. Raises OSError where it cannot be written."""
        text = json.dumps({"key": _data(key), "profile": asdict(profile)}, indent=1)
        self._folder.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(".part", ".", self._folder)
        try:
            with open(descriptor, "w", encoding="utf-8") as stream:
                stream.write(text)
            os.replace(name, self._path(key))
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise

    def _path(self, key: Key) -> Path:
        digest = hashlib.sha256(json.dumps(_data(key), sort_keys=True).encode()).hexdigest()
        return self._folder / f"{digest[:24]}.json"


def _data(key: Key) -> dict[str, Any]:
    return {"format": FORMAT, **asdict(key)}


def _profile(raw: dict[str, Any]) -> Profile:
    """Raises ValueError, KeyError, TypeError or AttributeError for what no profile could have been written as."""
    drafters = {str(name): DraftCost(**_numbers(cost, ())) for name, cost in raw["drafters"].items()}
    return Profile(
        tuple(PassCost(**_numbers(cost, ("rows", "sequences", "rounds"))) for cost in raw["passes"]),
        tuple(PhaseCost(**_numbers(cost, ("rows",))) for cost in raw["phases"]),
        str(raw["measured"]),
        drafters,
    )


def _numbers(raw: dict[str, Any], counts: tuple[str, ...]) -> dict[str, Any]:
    for name, value in raw.items():
        whole = name in counts or name == "context"
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            raise ValueError(f"{name} is {value!r}")
        if not math.isfinite(value) or value < 0 or (value == 0 and (name in counts or name == "seconds")):
            raise ValueError(f"{name} is {value!r}")
    return raw


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
