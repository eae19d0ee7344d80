"""Curves as image files."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from outrider.errors import UsageError
from outrider.plan.plot import Chart, Curve, check_file, draw

CHART = Chart("Title", "x name", "y name", [Curve("a curve", [1, 2, 4], [0.5, 1.5, 1.0])], 1.0, (2, 1.5), log_x=True)


def test_svg_and_png(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw(CHART, str(tmp_path / "curve.svg"))
    assert ElementTree.parse(tmp_path / "curve.svg").getroot().tag.endswith("svg")
    draw(CHART, str(tmp_path / "curve.PNG"))
    assert (tmp_path / "curve.PNG").read_bytes().startswith(b"\x89PNG")


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(UsageError, match=r"nowhere.*No such file"):
        draw(CHART, str(tmp_path / "nowhere" / "curve.svg"))


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=r"install 'outrider\[plot\]'"):
        draw(CHART, str(tmp_path / "curve.svg"))


@pytest.mark.parametrize("name", ["curve.pdf", "curve", "svg"])
def test_other_formats_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"--plot is '{name}'"):
        check_file("--plot", name)
