"""Curves as an image file. matplotlib is an extra and is imported only when a curve is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from outrider.errors import UsageError

ENDINGS = (".png", ".svg")
SIZE_IN = (7.0, 4.2)
DPI = 150


@dataclass(frozen=True, slots=True)
class Curve:
    """A line through points, named in the legend."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True, slots=True)
class Chart:
    """Curves over one axis. level: a horizontal line to compare with; mark: a point that is the answer."""

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    level: float | None = None
    mark: tuple[float, float] | None = None
    log_x: bool = False


def check_file(flag: str, path: str) -> None:
    """Raises UsageError unless the path names an image format that is drawn."""
    if not path.lower().endswith(ENDINGS):
        raise UsageError(f"{flag} is {path!r}: give a file that ends in {' or '.join(ENDINGS)}")


def draw(chart: Chart, path: str) -> None:
    """Writes the chart. Raises UsageError without matplotlib, or where the file cannot be written."""
    try:
        # The object interface: pyplot would choose a window system and keep every figure alive.
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError("--plot needs matplotlib, which is not here: install 'outrider[plot]'") from error
    figure = Figure(figsize=SIZE_IN, layout="constrained")
    axes = figure.subplots()
    for curve in chart.curves:
        axes.plot(curve.x, curve.y, label=curve.name, marker="." if len(curve.x) <= 64 else None)
    if chart.level is not None:
        axes.axhline(chart.level, color="grey", linewidth=1, linestyle="--")
    if chart.mark is not None:
        axes.plot(*chart.mark, marker="o", markersize=9, color="black", markerfacecolor="none", linestyle="none")
    if chart.log_x:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:.0f}")
    axes.set(title=chart.title, xlabel=chart.x_label, ylabel=chart.y_label)
    axes.grid(alpha=0.3)
    axes.legend()
    try:
        figure.savefig(Path(path), dpi=DPI)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}; give another --plot") from error
