"""The SHA-256 of a model's file, which names it: of a large one it takes seconds, so it is remembered.

<cache>/digests/<hash of the path>.json    size, times and inode that the file had, and its digest
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path

from outrider.models import cache, sources

FOLDER = "digests"
_SMALL_BYTES = 256 << 20  # read in a fraction of a second, if it has to be


def file_digest(file: Path, small_bytes: int = _SMALL_BYTES) -> str:
    """SHA-256 in hexadecimal: known of a model that was fetched, remembered of a file that has not changed, else read.

    A file has changed where its size, inode, or time of change does not match. Files under small_bytes are always read.
    Raises OSError where the file cannot be read; what cannot be remembered is read again.
    """
    for known in sources.cached():
        if known.path == file:
            return known.sha256
    status = file.stat()
    # The time of change cannot be set, so a file that was put in place with its old date is noticed too.
    stamp = [status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]
    note = cache.directory() / FOLDER / f"{hashlib.sha256(os.fsencode(os.path.abspath(file))).hexdigest()[:32]}.json"
    if status.st_size >= small_bytes:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            kept = json.loads(note.read_text("utf-8"))
            if kept["stamp"] == stamp:
                return str(kept["sha256"])
    with file.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if status.st_size >= small_bytes:
        with contextlib.suppress(OSError):
            _remember(note, json.dumps({"stamp": stamp, "sha256": found}))
    return found


def _remember(note: Path, text: str) -> None:
    note.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(".part", ".", note.parent)
    try:
        with open(descriptor, "w", encoding="utf-8") as opened:
            opened.write(text)
        os.replace(name, note)
    except OSError:
        os.unlink(name)
        raise
