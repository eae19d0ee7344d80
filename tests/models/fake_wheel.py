"""A wheel with a small model in it, and interpreters whose pip does what a test wants."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

from outrider.models.pypi import Package, Pip

MODEL = b"GGUF" + bytes(range(256)) * 40
MEMBER = "fake_model/Fake.Q4_1.gguf"


def make_wheel(folder: Path, content: bytes = MODEL, member: str = MEMBER) -> tuple[Path, Package]:
    """A wheel file and the table entry that describes it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        # ZipInfo's own date: the same arguments give the same bytes, in any process.
        archive.writestr(zipfile.ZipInfo("fake_model/__init__.py"), "raise SystemExit('never executed')")
        archive.writestr(zipfile.ZipInfo(member), content, zipfile.ZIP_DEFLATED)
    path = folder / "fake_model-1.0-py3-none-any.whl"
    path.write_bytes(buffer.getvalue())
    package = Package(
        name="fake-model",
        version="1.0",
        wheel_bytes=path.stat().st_size,
        wheel_sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        member=MEMBER,
        member_bytes=len(content),
        member_sha256=hashlib.sha256(content).hexdigest(),
    )
    return path, package


def make_pip(folder: Path, script: str) -> Pip:
    """An "interpreter" that is a shell script; $dest is where pip is told to download to, each call is logged."""
    path = folder / "python"
    lines = (
        "#!/bin/sh",
        f'echo "$@" >> "{folder}/calls"',
        'while [ $# -gt 0 ]; do [ "$1" = --dest ] && dest="$2"; last="$1"; shift; done',
        script,
    )
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o755)
    return Pip(str(path))


def calls(folder: Path) -> list[str]:
    """The command lines that the fake interpreter was started with."""
    log = folder / "calls"
    return log.read_text().splitlines() if log.exists() else []
