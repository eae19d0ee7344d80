"""Free memory: what the system says, and less where a container has less."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from outrider.machine import free_memory_bytes

HALF = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def put(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


MEMINFO = "MemTotal:       16000000 kB\nMemFree:         1000000 kB\nMemAvailable:    8000000 kB\n"


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({"proc/meminfo": MEMINFO}, 8_000_000 * 1024),
        ({"proc/meminfo": "MemTotal: 5 kB\n"}, HALF),
        ({"proc/meminfo": "MemAvailable: none\n"}, HALF),
        ({}, HALF),
        (
            {
                "proc/meminfo": MEMINFO,
                "sys/fs/cgroup/memory.max": "5000\n",
                "sys/fs/cgroup/memory.current": "3000\n",
            },
            2000,
        ),
        (
            {
                "proc/meminfo": MEMINFO,
                "sys/fs/cgroup/memory.max": "max\n",
                "sys/fs/cgroup/memory.current": "3000\n",
            },
            8_000_000 * 1024,
        ),
        (
            {
                "proc/meminfo": MEMINFO,
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "5000\n",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": "6000\n",
            },
            0,
        ),
    ],
)
def test_free_memory(tmp_path: Path, files: dict[str, str], free: int) -> None:
    for name, text in files.items():
        put(tmp_path, name, text)
    assert free_memory_bytes(tmp_path) == free


def test_of_this_machine() -> None:
    assert 0 < free_memory_bytes() <= 2 * HALF
