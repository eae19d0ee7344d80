"""Where fetched models live: one folder a model, complete or absent, with a marker that says what it is.

    <cache>/<kind>/<name>/source.json    the marker: source, file, size, sha256
    <cache>/<kind>/<name>/<file>         the model, unless the marker names a file elsewhere (another cache)

A folder is made beside its place and renamed, so that a killed process leaves nothing half-made; a lock keeps two
processes from fetching the same thing twice, but correctness does not depend on it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from outrider.errors import SourceError

MARKER = "source.json"
ENVIRONMENT = "OUTRIDER_CACHE"
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Marker:
    """What a folder holds; `file` is relative to the folder, or absolute."""

    source: str
    file: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Cached:
    """A model that needs no network any more."""

    source: str
    path: Path
    size_bytes: int
    sha256: str


def directory() -> Path:
    """The cache directory: $OUTRIDER_CACHE where it is set, the user's cache directory otherwise."""
    if chosen := os.environ.get(ENVIRONMENT):
        return Path(chosen).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("outrider", appauthor=False)


def look_up(folder: Path) -> Cached | None:
    """What a folder holds, if the marker is well-formed and the file has its size; None otherwise. Reads no data."""
    try:
        raw = json.loads((folder / MARKER).read_text("utf-8"))
        marker = Marker(str(raw["source"]), str(raw["file"]), int(raw["size_bytes"]), str(raw["sha256"]))
        path = folder / marker.file
        if path.stat().st_size != marker.size_bytes:
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Cached(marker.source, path, marker.size_bytes, marker.sha256)


def contents(root: Path) -> list[Cached]:
    """Every complete model under a cache directory, by source."""
    found = (look_up(marker.parent) for marker in root.glob(f"*/[!.]*/{MARKER}"))
    return sorted((cached for cached in found if cached is not None), key=lambda cached: cached.source)


def write_marker(folder: Path, marker: Marker) -> None:
    """Put the marker into a folder that is being made."""
    (folder / MARKER).write_text(json.dumps(asdict(marker), indent=1) + "\n", "utf-8")


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn a full or unwritable disk into a SourceError that says where and what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise SourceError(f"no space left for {folder}; free some, or set {ENVIRONMENT} to another disk") from error
        raise SourceError(
            f"{folder} cannot be written ({error.strerror or error}); set {ENVIRONMENT} to a directory that can"
        ) from error


@contextmanager
def making(folder: Path, waiting: Callable[[], None]) -> Iterator[Path]:
    """A temporary directory beside `folder`, on the same file system, removed at the end.

    Holds the folder's lock meanwhile, where the file system has locks; calls `waiting` before it waits for another
    process. Left-overs of killed processes go first.
    """
    with explained(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.parent / f".{folder.name}.lock", waiting) as alone:
        if alone:
            for leftover in folder.parent.glob(f".{folder.name}.*.part"):
                shutil.rmtree(leftover, ignore_errors=True)
        with explained(folder):
            staging = Path(tempfile.mkdtemp(".part", f".{folder.name}.", folder.parent))
        try:
            yield staging
        finally:
            shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def _locked(path: Path, waiting: Callable[[], None]) -> Iterator[bool]:
    """Hold an advisory lock, which the system drops if the process dies; False where locks are not to be had."""
    with explained(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        yield _lock(descriptor, waiting)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, waiting: Callable[[], None]) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        waiting()
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:
        return False  # some network file systems have no locks
    return True


def publish(staged: Path, folder: Path, is_complete: Callable[[], bool]) -> None:
    """Make a complete folder appear at its place, all at once and on the disk.

    Where another process was faster, and `is_complete` says so, its folder stays; a damaged one is moved aside, into
    the directory that holds `staged`.
    """
    for path in (*staged.iterdir(), staged):
        _sync(path)
    for attempt in range(_ATTEMPTS):
        try:
            os.rename(staged, folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            if is_complete():
                return
            # FileNotFoundError: another process has moved it aside between the two renames.
            with contextlib.suppress(FileNotFoundError):
                os.rename(folder, staged.parent / f"damaged-{attempt}")
        else:
            _sync(folder.parent)
            return
    raise SourceError(f"{folder} keeps being changed by another process; try again")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
