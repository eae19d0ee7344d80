"""Features in a folder, where later runs find them by the text that they are of.

Half of a first epoch goes into computing states, a resumed run would compute all of them again, and so would the next
run on the same text. A folder belongs to one target and one choice of states. It grows by whole texts: the arrays are
appended to `states.bin`, then a line of `states.index` says where they lie. A text whose bytes do not fit their
checksum, as after a crash of the machine, counts as missing.

Dimensions: n tokens of a text, T taps, H hidden, K kept ids of a law.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from outrider.errors import UsageError
from outrider.train import files
from outrider.train.corpus import Text
from outrider.train.features import KEPT, Features

ARRAYS, INDEX = "states.bin", "states.index"
_FORMAT = 1
_LEFT_FREE = 1 << 30  # bytes of the disk that are left to others
_FULL = (*files.FULL, errno.EFBIG)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a text's arrays lie."""

    at: int
    size: int
    checksum: int


class StateFolder:
    """Opened for one run at a time, until `close`.

    Raises UsageError for a folder of another target or other states, one that another run has open, and one that cannot
    be read or made.
    """

    def __init__(self, folder: Path, target: str, taps: Sequence[int], width: int) -> None:
        self._folder, self._width = folder, width  # T * H
        self._places: dict[str, _Place] = {}
        self._full = False
        head = {"format": _FORMAT, "target": target, "taps": list(taps), "width": width, "kept": KEPT}
        with ExitStack() as opened:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                self._index = opened.enter_context(open(folder / INDEX, "a+b", buffering=0))
                if not files.alone(self._index.fileno()):
                    raise UsageError(f"{folder} is in use by another run: wait for it, or name another folder")
                self._read_index(head)
                self._arrays = opened.enter_context(open(folder / ARRAYS, "a+b", buffering=0))
            except OSError as error:
                raise UsageError(f"{folder} cannot keep states ({error.strerror}): name another folder") from None
            self._opened = opened.pop_all()

    def has(self, text: Text) -> bool:
        """Whether there is something for a text; find may still turn out that it is damaged."""
        return _key(text) in self._places

    def find(self, text: Text) -> Features | None:
        """A text's features, bit for bit as they were added; None where there are none."""
        place = self._places.get(_key(text))
        if place is None:
            return None
        raw = os.pread(self._arrays.fileno(), place.size, place.at)
        if len(raw) != place.size or zlib.crc32(raw) != place.checksum or place.size != self._size(text):
            del self._places[_key(text)]
            return None
        rows, starts = len(text.ids) - 1, text.starts
        law = np.frombuffer(raw, np.int32, starts * KEPT)
        halves = np.frombuffer(raw, np.float16, offset=law.nbytes)
        chance, states = halves[: starts * KEPT], halves[starts * KEPT :]
        return Features(states.reshape(rows, self._width), law.reshape(starts, KEPT), chance.reshape(starts, KEPT))

    def add(self, text: Text, features: Features) -> bool:
        """Keep them. False where the disk has no room, and from then on."""
        raw = features.law.tobytes() + features.chance.tobytes() + features.states.tobytes()
        if self._full or shutil.disk_usage(self._folder).free < len(raw) + _LEFT_FREE:
            self._full = True
            return False
        place = _Place(os.fstat(self._arrays.fileno()).st_size, len(raw), zlib.crc32(raw))
        try:
            files.write(self._arrays, raw)
            line = {"text": _key(text), "at": place.at, "size": place.size, "checksum": place.checksum}
            files.write(self._index, f"{json.dumps(line)}\n".encode())
        except OSError as error:
            if error.errno not in _FULL:
                raise UsageError(f"{self._folder} cannot be written ({error.strerror}): name another folder") from None
            self._full = True
            return False
        self._places[_key(text)] = place
        return True

    def close(self) -> None:
        """Let others have it."""
        self._opened.close()

    def _size(self, text: Text) -> int:
        return 6 * text.starts * KEPT + 2 * (len(text.ids) - 1) * self._width

    def _read_index(self, head: dict[str, object]) -> None:
        self._index.seek(0)
        written = self._index.read()
        first, *lines = written.split(b"\n")
        if not written:
            files.write(self._index, f"{json.dumps(head)}\n".encode())
            return
        if _parsed(first) != head:
            raise UsageError(f"{self._folder} has states of another model, or other ones of this: name another folder")
        for line in lines:
            # A line that is not whole, as of a run that was killed while it wrote it, is no loss.
            with suppress(KeyError, TypeError):
                entry = _parsed(line)
                self._places[entry["text"]] = _Place(entry["at"], entry["size"], entry["checksum"])
        if not written.endswith(b"\n"):
            files.write(self._index, b"\n")


def _key(text: Text) -> str:
    return hashlib.sha256(text.ids.tobytes() + text.prompt.to_bytes(8, "little")).hexdigest()[:32]


def _parsed(line: bytes) -> Any:
    """A line's value; None where it is not whole."""
    with suppress(ValueError):
        return json.loads(line)
    return None
