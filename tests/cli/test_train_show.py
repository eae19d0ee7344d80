"""What a long run shows: lines for a log, a bar for a terminal."""

from __future__ import annotations

import io

import pytest

from outrider.cli import train_show
from outrider.train.types import Acceptance, Phase, Progress


class Ticks:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def step(number: int, acceptance: Acceptance | None = None, note: str = "") -> Progress:
    return Progress(Phase.TRAIN, number, 90, 100 * number, 1570.4, 1000.0, 1.5, 0, acceptance, note)


def test_lines_for_a_log() -> None:
    out, clock = io.StringIO(), Ticks()
    telling = train_show.Training(train_show.Lines(out, clock))
    better = Acceptance((0.5,), 12, 8)
    for report in (step(1, note="a note"), step(2), step(3, better), step(4, better), step(5)):
        telling.report(report)
        clock.now += 8
    assert out.getvalue().splitlines() == [
        "outrider: a note",
        "outrider: after 300 tokens, held-out: 1.500 tokens a pass (0.500)",
        "outrider: training: step 4 of 90, 1,570 tokens a second, loss 1.500, 17 min left",
    ]


def test_a_bar_for_a_terminal() -> None:
    out = io.StringIO()
    bar = train_show.Bar(out)
    telling = train_show.Training(bar)
    telling.report(Progress(Phase.READ, 0, None, 0, 0.0, None, float("nan"), 0, None))
    telling.report(step(1, Acceptance((0.5,), 12, 8)))
    bar.end("done [not markup]")
    bar.clear()
    assert "held-out: 1.500 tokens a pass" in out.getvalue()
    assert "done [not markup]" in out.getvalue()


@pytest.mark.parametrize(
    ("seconds", "says"), [(0.4, "0 s"), (89.0, "89 s"), (90.0, "2 min"), (5300.0, "88 min"), (7500.0, "2 h 5 min")]
)
def test_times(seconds: float, says: str) -> None:
    assert train_show.span(seconds) == says
