"""Models from the hub: asked once, remembered, and every failure explained."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from outrider.errors import SourceError
from outrider.models import cache, hub
from outrider.models.progress import Silent


class FakeHub:
    """A hub with one repository, which counts how often it is asked."""

    def __init__(self, folder: Path, *files: str, failure: Exception | None = None) -> None:
        self.folder = folder
        self.files = list(files)
        self.failure = failure
        self.asked = 0

    def list_repo_files(self, repo_id: str) -> list[str]:
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        return ["README.md", *self.files]

    def hf_hub_download(self, repo_id: str, filename: str) -> str:
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        path = self.folder / repo_id / filename
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"GGUF" + filename.encode())
        return str(path)


@pytest.fixture
def fetch(tmp_path: Path) -> Callable[[str, FakeHub], Path]:
    return lambda name, fake: hub.fetch(name, tmp_path / "cache", Silent(), fake)


def test_the_only_model_of_a_repository(fetch: Callable[[str, FakeHub], Path], tmp_path: Path) -> None:
    fake = FakeHub(tmp_path / "hub", "a.gguf")
    path = fetch("owner/repo", fake)
    assert path.read_bytes() == b"GGUFa.gguf"
    assert fetch("owner/repo", FakeHub(tmp_path, failure=OSError("offline"))) == path
    assert [cached.source for cached in cache.contents(tmp_path / "cache")] == ["hf:owner/repo"]


def test_a_named_file_in_a_folder(fetch: Callable[[str, FakeHub], Path], tmp_path: Path) -> None:
    fake = FakeHub(tmp_path / "hub", "q4/a.gguf", "q8/a.gguf")
    assert fetch("owner/repo/q8/a.gguf", fake).read_bytes() == b"GGUFq8/a.gguf"
    assert fake.asked == 1


def test_a_file_that_went_away_is_fetched_again(fetch: Callable[[str, FakeHub], Path], tmp_path: Path) -> None:
    fake = FakeHub(tmp_path / "hub", "a.gguf")
    fetch("owner/repo/a.gguf", fake).unlink()
    assert fetch("owner/repo/a.gguf", fake).exists()
    assert fake.asked == 2


def test_names_that_share_a_folder_are_not_confused(fetch: Callable[[str, FakeHub], Path], tmp_path: Path) -> None:
    fake = FakeHub(tmp_path / "hub", "a.gguf", "c--b.gguf")
    assert fetch("owner/repo--c/b.gguf", fake) != fetch("owner/repo/c--b.gguf", fake)


def test_several_models_are_listed(fetch: Callable[[str, FakeHub], Path], tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"has 2 \.gguf files; name one of them:\s+hf:o/r/a\.gguf\s+hf:o/r/b\.GGUF"):
        fetch("o/r", FakeHub(tmp_path, "b.GGUF", "a.gguf"))


def test_a_repository_without_models(fetch: Callable[[str, FakeHub], Path], tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"hf:o/r has no \.gguf file"):
        fetch("o/r", FakeHub(tmp_path))


@pytest.mark.parametrize("name", ["o/r", "o/r/a.gguf"])
def test_an_unreachable_hub_is_explained(name: str, fetch: Callable[[str, FakeHub], Path], tmp_path: Path) -> None:
    fake = FakeHub(tmp_path, failure=ConnectionError("no route\nmany more lines"))
    with pytest.raises(SourceError, match=r"hf:o/r cannot be fetched \(ConnectionError: no route\); check"):
        fetch(name, fake)
    assert cache.contents(tmp_path / "cache") == []


@pytest.mark.parametrize("name", ["", "x", "x/", "/x", "a/b/c", "a/b/c.bin", "a b/c", "a/b?"])
def test_malformed_names_are_refused(name: str) -> None:
    with pytest.raises(SourceError, match="malformed; write hf:owner/repo"):
        hub.split(name)


def test_a_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(SourceError, match="pip install huggingface_hub"):
        hub.load_hub()


def test_the_library_has_what_we_call() -> None:
    library = pytest.importorskip("huggingface_hub")
    assert hub.load_hub() is library
    assert callable(library.list_repo_files)
    assert callable(library.hf_hub_download)


def test_the_library_keeps_its_retries_to_itself(
    tmp_path: Path, fetch: Callable[[str, FakeHub], Path], caplog: pytest.LogCaptureFixture
) -> None:
    class Noisy(FakeHub):
        def list_repo_files(self, repo_id: str) -> list[str]:
            logging.getLogger("huggingface_hub").warning("retrying in 1 s")
            return super().list_repo_files(repo_id)

    with pytest.raises(SourceError, match="cannot be fetched"):
        fetch("owner/repo", Noisy(tmp_path, failure=OSError("offline")))
    assert caplog.text == ""
    logging.getLogger("huggingface_hub").warning("heard again")
    assert "heard again" in caplog.text
