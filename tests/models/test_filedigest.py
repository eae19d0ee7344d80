"""The digest of a model's file: right always, and read once."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from outrider.models import cache, filedigest
from outrider.models.filedigest import file_digest


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(cache.ENVIRONMENT, str(tmp_path / "cache"))
    path = tmp_path / "a.gguf"
    path.write_bytes(b"weights")
    return path


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def notes(model: Path) -> list[Path]:
    return list((model.parent / "cache" / filedigest.FOLDER).glob("*"))


def test_a_large_file_is_read_once(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert file_digest(model, 1) == sha256(b"weights")
    with monkeypatch.context() as patch:
        patch.setattr(hashlib, "file_digest", lambda *_: pytest.fail("it was read again"))
        assert file_digest(model, 1) == sha256(b"weights")
    (note,) = notes(model)
    assert note.suffix == ".json"


def test_a_file_that_changed_is_read_again(model: Path) -> None:
    file_digest(model, 1)
    before = model.stat()
    model.write_bytes(b"WEIGHTS")
    os.utime(model, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file_digest(model, 1) == sha256(b"WEIGHTS"), "also where size and date are the old ones"
    model.write_bytes(b"more weights")
    assert file_digest(model, 1) == sha256(b"more weights")
    assert len(notes(model)) == 1


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"stamp": 3}'])
def test_a_damaged_note_costs_a_reading(model: Path, text: str) -> None:
    file_digest(model, 1)
    (note,) = notes(model)
    note.write_text(text)
    assert file_digest(model, 1) == sha256(b"weights")


def test_a_small_file_leaves_no_note(model: Path) -> None:
    assert file_digest(model) == sha256(b"weights")
    assert notes(model) == []


def test_a_cache_that_cannot_be_written_does_no_harm(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.ENVIRONMENT, str(model / "no-folder"))
    assert file_digest(model, 1) == sha256(b"weights")
