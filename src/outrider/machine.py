"""What this machine has free."""

from __future__ import annotations

import os
from pathlib import Path

# (limit, usage) of the memory of a container, as control groups of version 2 and 1 tell it.
_GROUPS = (
    ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current"),
    ("sys/fs/cgroup/memory/memory.limit_in_bytes", "sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def free_memory_bytes(root: Path = Path("/")) -> int:
    """Memory that can be had without swapping, within what a container allows; never below 0.

    Where the system does not tell (it is no Linux), half of what is built in.
    """
    free = _available(root / "proc/meminfo")
    for limit, usage in _GROUPS:
        allowed, used = _number(root / limit), _number(root / usage)
        if allowed is not None and used is not None:
            free = min(free, allowed - used)
    return max(free, 0)


def _available(meminfo: Path) -> int:
    try:
        for line in meminfo.read_text().splitlines():
            name, _, rest = line.partition(":")
            if name == "MemAvailable":
                return int(rest.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _number(path: Path) -> int | None:
    """What a file says; None where it says nothing, or "max"."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
