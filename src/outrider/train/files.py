"""Files that grow by whole records, whatever kills the process: one writer at a time, every byte of a record."""

from __future__ import annotations

import errno
import fcntl
from io import FileIO

FULL = (errno.ENOSPC, errno.EDQUOT)  # numbers of the errors of a disk that has no room


def alone(descriptor: int) -> bool:
    """Claims an open file until it is closed; False where another process has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # some network file systems have no locks
    return True


def write(stream: FileIO, raw: bytes) -> None:
    """All of it: a disk that is nearly full takes a part. Raises OSError; then the file may end in a part.

    The stream is unbuffered, so that what was written survives a kill.
    """
    left = memoryview(raw)
    while left:
        left = left[stream.write(left) :]
