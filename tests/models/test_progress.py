"""Progress is a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import io
import sys

import pytest

from outrider.models import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_outside_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    shown = progress.on_stderr()
    shown.begin("Downloading x", 92_871_040)
    for done in range(0, 92_871_040, 10_000_000):
        shown.update(done)
    shown.end()
    shown.note("Waiting")
    assert stream.getvalue() == "Downloading x (93 MB)\nWaiting\n"


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    shown = progress.on_stderr()
    for what in ("Downloading [x]", "Unpacking y"):
        shown.begin(what, 2_000_000)
        shown.update(1_000_000)
        shown.end()
    shown.note("[done]")
    written = stream.getvalue()
    assert "Downloading [x]" in written
    assert "Unpacking y" in written
    assert "1.0/2.0 MB" in written
    assert "[done]" in written


def test_silence_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    shown = progress.Silent()
    shown.begin("x", 1)
    shown.update(1)
    shown.end()
    shown.note("y")
    assert capsys.readouterr() == ("", "")
