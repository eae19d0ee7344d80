"""A folder of the cache is complete or absent, whoever is killed or races."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from outrider.errors import SourceError
from outrider.models import cache
from outrider.models.cache import Marker


def _never() -> None:
    raise AssertionError("nobody else holds the lock")


def _stage(staging: Path, content: bytes = b"model") -> Path:
    built = staging / "model"
    built.mkdir()
    (built / "m.gguf").write_bytes(content)
    cache.write_marker(built, Marker("pypi:x==1", "m.gguf", len(content), "ab"))
    return built


def _publish(folder: Path, content: bytes = b"model") -> None:
    with cache.making(folder, _never) as staging:
        cache.publish(_stage(staging, content), folder, lambda: cache.look_up(folder) is not None)


def test_the_directory_can_be_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(cache.ENVIRONMENT, str(tmp_path))
    assert cache.directory() == tmp_path
    monkeypatch.setenv(cache.ENVIRONMENT, "~/models")
    assert cache.directory() == Path.home() / "models"
    monkeypatch.delenv(cache.ENVIRONMENT)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.directory().name == "outrider"


def test_publish_and_look_up(tmp_path: Path) -> None:
    folder = tmp_path / "pypi" / "x-1"
    assert cache.look_up(folder) is None
    _publish(folder)
    found = cache.look_up(folder)
    assert found is not None
    assert (found.source, found.path, found.size_bytes) == ("pypi:x==1", folder / "m.gguf", 5)
    assert found.path.read_bytes() == b"model"
    assert cache.contents(tmp_path) == [found]
    assert [path.name for path in folder.parent.iterdir() if path.name != ".x-1.lock"] == ["x-1"]


def test_a_second_publication_leaves_the_first(tmp_path: Path) -> None:
    folder = tmp_path / "pypi" / "x-1"
    _publish(folder)
    _publish(folder, b"other")
    assert (folder / "m.gguf").read_bytes() == b"model"


@pytest.mark.parametrize("damage", ["size", "file", "marker", "json", "types", "a file in the way"])
def test_a_damaged_folder_is_not_found_and_is_replaced(damage: str, tmp_path: Path) -> None:
    folder = tmp_path / "pypi" / "x-1"
    _publish(folder)
    marker = folder / cache.MARKER
    if damage == "size":
        (folder / "m.gguf").write_bytes(b"mod")
    elif damage == "file":
        (folder / "m.gguf").unlink()
    elif damage == "marker":
        marker.unlink()
    elif damage == "json":
        marker.write_text("{")
    elif damage == "types":
        marker.write_text(json.dumps(["source"]))
    else:
        shutil.rmtree(folder)
        folder.write_bytes(b"in the way")
    assert cache.look_up(folder) is None
    assert cache.contents(tmp_path) == []
    _publish(folder)
    assert cache.look_up(folder) is not None


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "pypi" / "x-1"

    def interrupted() -> None:
        with cache.making(folder, _never) as staging:
            _stage(staging)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [path.name for path in folder.parent.iterdir()] == [".x-1.lock"]


def test_leftovers_of_killed_processes_go(tmp_path: Path) -> None:
    folder = tmp_path / "pypi" / "x-1"
    code = (
        "import os, pathlib, sys\nfrom outrider.models import cache\n"
        "with cache.making(pathlib.Path(sys.argv[1]), print) as staging:\n"
        "    (staging / 'half').write_bytes(b'x' * 1000)\n    os.kill(os.getpid(), 9)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(folder)], check=False)
    assert killed.returncode == -9
    assert len(list(folder.parent.glob(".x-1.*.part/half"))) == 1
    assert cache.contents(tmp_path) == []
    _publish(folder)
    assert sorted(path.name for path in folder.parent.iterdir()) == [".x-1.lock", "x-1"]


def test_another_process_is_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "pypi" / "x-1"
    code = (
        "import pathlib, sys\nfrom outrider.models import cache\n"
        "with cache.making(pathlib.Path(sys.argv[1]), print) as staging:\n"
        "    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == "held\n"
        waits: list[bool] = []

        def waiting() -> None:
            waits.append(True)
            assert other.stdin is not None
            other.stdin.close()

        with cache.making(folder, waiting):
            assert waits == [True]
            assert other.wait() == 0


def test_without_locks_the_rename_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    folder = tmp_path / "pypi" / "x-1"
    with cache.making(folder, _never) as first, cache.making(folder, _never) as second:
        assert first.exists()
        assert second.exists()
        for staging in (first, second):
            cache.publish(_stage(staging), folder, lambda: cache.look_up(folder) is not None)
    assert cache.look_up(folder) is not None
    assert sorted(path.name for path in folder.parent.iterdir()) == [".x-1.lock", "x-1"]


def test_a_folder_that_keeps_changing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "pypi" / "x-1"
    with cache.making(folder, _never) as staging:
        built = _stage(staging)

        def busy(source: Path, target: Path) -> None:
            raise OSError(errno.ENOTEMPTY, "directory not empty") if source == built else FileNotFoundError(source)

        monkeypatch.setattr(os, "rename", busy)
        with pytest.raises(SourceError, match="changed by another process"):
            cache.publish(built, folder, lambda: False)


@pytest.mark.parametrize(
    ("number", "words"), [(errno.ENOSPC, "no space left"), (errno.EDQUOT, "no space left"), (errno.EROFS, "Read-only")]
)
def test_a_bad_disk_is_explained(number: int, words: str) -> None:
    with pytest.raises(SourceError, match=rf"{words}.*OUTRIDER_CACHE"), cache.explained(Path("some") / "place"):
        raise OSError(number, os.strerror(number))


def test_a_cache_that_is_no_directory_is_explained(tmp_path: Path) -> None:
    (tmp_path / "cache").write_bytes(b"")
    with pytest.raises(SourceError, match="OUTRIDER_CACHE"), cache.making(tmp_path / "cache" / "pypi" / "x", _never):
        raise AssertionError("not reached")
