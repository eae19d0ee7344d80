"""Horizontal bars as SVG, without a library: groups of bars, a whisker for the range, a line to compare with.

Colours are classes, so that the page decides them for light and dark; lengths are in SVG user units (pixels).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, LABELS, VALUES = 760, 140, 130
BAR, GAP, BETWEEN, HEAD = 16, 4, 14, 8
AXIS = 22


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: series is the number of its colour, low to high its whisker, text what stands at its end."""

    series: int
    value: float
    low: float
    high: float
    text: str


def bars(title: str, groups: Sequence[tuple[str, Sequence[Bar]]], line: float | None = None) -> str:
    """The groups below each other, each with its label; line is marked across all of them."""
    largest = max([bar.high for _, group in groups for bar in group] + [line or 0.0], default=0.0)
    step = _step(largest)
    most = step * -(-largest // step) or step
    scale = (WIDTH - LABELS - VALUES) / most
    shapes: list[str] = []
    top = float(HEAD)
    for label, group in groups:
        middle = top + len(group) * (BAR + GAP) / 2
        shapes.append(f'<text class="label" x="{LABELS - 10}" y="{middle + 2:.1f}">{escape(label)}</text>')
        for bar in group:
            shapes += _bar(bar, top, scale)
            top += BAR + GAP
        top += BETWEEN
    height = top + AXIS
    grid = "".join(_grid(step, most, scale, top))
    mark = "" if line is None else _upright("mark", LABELS + line * scale, top)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"{grid}{mark}{''.join(shapes)}</svg>"
    )


def _bar(bar: Bar, top: float, scale: float) -> Iterator[str]:
    length, middle = bar.value * scale, top + BAR / 2
    low, high = (LABELS + value * scale for value in (bar.low, bar.high))
    yield f'<rect class="s{bar.series}" x="{LABELS}" y="{top:.1f}" width="{length:.1f}" height="{BAR}" rx="2"/>'
    if bar.high > bar.low:
        yield (
            f'<path class="whisker" d="M{low:.1f} {middle:.1f}H{high:.1f}'
            f'M{low:.1f} {middle - 4:.1f}v8M{high:.1f} {middle - 4:.1f}v8"/>'
        )
    yield f'<text class="value" x="{max(high, LABELS + length) + 8:.1f}" y="{middle + 4:.1f}">{escape(bar.text)}</text>'


def _grid(step: float, most: float, scale: float, bottom: float) -> Iterator[str]:
    for number in range(round(most / step) + 1):
        at = LABELS + number * step * scale
        yield _upright("grid", at, bottom)
        yield f'<text class="tick" x="{at:.1f}" y="{bottom + AXIS - 6:.1f}">{number * step:g}</text>'


def _upright(name: str, x: float, bottom: float) -> str:
    return f'<path class="{name}" d="M{x:.1f} 2V{bottom:.1f}"/>'


def _step(largest: float) -> float:
    """A round distance of the axis' lines that makes at most six of them."""
    for exponent in range(-3, 9):
        for digit in (1, 2, 5):
            # Not 10.0**exponent * digit: 0.1 * 2 and the like should be the nearest float of what is printed.
            step = float(f"{digit}e{exponent}")
            if largest <= 6 * step:
                return step
    return max(largest, 1.0)
