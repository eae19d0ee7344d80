"""How a long run shows that it is alive: a bar on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

from outrider.train.types import Progress

QUIET_S = 20.0  # between two lines of a log


class Show(Protocol):
    """Told how far a stage is; one stage at a time."""

    def begin(self, what: str, total: float | None) -> None: ...
    def at(self, done: float, says: str, total: float | None = None) -> None:
        """How far it is; total where it was not known at the beginning."""
        ...

    def note(self, text: str) -> None:
        """A line that stays."""
        ...

    def end(self, text: str) -> None:
        """The stage is over, with a line that stays."""
        ...


class Lines:
    """Plain lines for a log, at most one in QUIET_S."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._what = ""
        self._said = 0.0

    def begin(self, what: str, total: float | None) -> None:
        self._what, self._said = what, self._clock()

    def at(self, done: float, says: str, total: float | None = None) -> None:
        if self._clock() - self._said >= QUIET_S:
            self._said = self._clock()
            self.note(f"{self._what}: {says}")

    def note(self, text: str) -> None:
        print(f"outrider: {text}", file=self._stream, flush=True)

    def end(self, text: str) -> None:
        self.note(text)


class Bar:
    """A bar, which goes away at the end of a stage."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Display

        says = TextColumn("{task.fields[says]}", markup=False)
        columns = (TextColumn("{task.description}", markup=False), BarColumn(24), says)
        self._display = Display(*columns, console=Console(file=stream), transient=True)

    def begin(self, what: str, total: float | None) -> None:
        self.clear()
        self._display.add_task(what, total=total, says="")
        self._display.start()

    def at(self, done: float, says: str, total: float | None = None) -> None:
        task = self._display.task_ids[-1]
        if total is None:
            self._display.update(task, completed=done, says=says)
        else:
            self._display.update(task, completed=done, says=says, total=total)

    def note(self, text: str) -> None:
        self._display.console.print(text, highlight=False, markup=False)

    def end(self, text: str) -> None:
        self.clear()
        self.note(text)

    def clear(self) -> None:
        """Takes the bar away."""
        self._display.stop()
        for task in self._display.task_ids:
            self._display.remove_task(task)


@contextmanager
def on_stderr() -> Iterator[Show]:
    """A bar where standard error is a terminal, lines where it is not; a bar is gone in the end, whatever happens."""
    if not sys.stderr.isatty():
        yield Lines(sys.stderr)
        return
    bar = Bar(sys.stderr)
    try:
        yield bar
    finally:
        bar.clear()


class Training:
    """Shows what a trainer reports."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._phase = ""
        self._acceptance = ""

    def report(self, now: Progress) -> None:
        """One report of train.run."""
        if now.phase.value != self._phase:
            self._phase = now.phase.value
            self._show.begin(self._phase, now.steps)
        if now.note:
            self._show.note(now.note)
        if now.acceptance is not None and str(now.acceptance) != self._acceptance:
            self._acceptance = str(now.acceptance)
            self._show.note(f"after {now.trained_tokens:,} tokens, held-out: {self._acceptance}")
        if now.step:
            self._show.at(now.step, _says(now), now.steps)


def _says(now: Progress) -> str:
    of = "" if now.steps is None else f" of {now.steps:,}"
    left = "" if now.left_s is None else f", {span(now.left_s)} left"
    return f"step {now.step:,}{of}, {now.tokens_per_s:,.0f} tokens a second, loss {now.loss:.3f}{left}"


def span(seconds: float) -> str:
    """A time for people: 40 s, 12 min, 2 h 5 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
