"""How a fetch shows that it is alive: a bar on a terminal, one line elsewhere, nothing in tests."""

from __future__ import annotations

import sys
from typing import Protocol, TextIO

_MEGABYTE = 1_000_000


class Progress(Protocol):
    """Told about long steps, one at a time; end comes after every begin, also when the step failed."""

    def begin(self, what: str, total_bytes: int) -> None: ...
    def update(self, done_bytes: int) -> None: ...
    def end(self) -> None: ...
    def note(self, text: str) -> None:
        """Something that happens outside of steps, such as waiting for another process."""
        ...


class Silent:
    """Shows nothing."""

    def begin(self, what: str, total_bytes: int) -> None:
        pass

    def update(self, done_bytes: int) -> None:
        pass

    def end(self) -> None:
        pass

    def note(self, text: str) -> None:
        pass


class Lines:
    """One plain line a step, for logs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def begin(self, what: str, total_bytes: int) -> None:
        self.note(f"{what} ({total_bytes / _MEGABYTE:.0f} MB)")

    def update(self, done_bytes: int) -> None:
        pass

    def end(self) -> None:
        pass

    def note(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


class Bar:
    """A bar with bytes, speed and time left, which goes away at the end of a step."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
        from rich.progress import Progress as Display

        columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn())
        console = Console(file=stream)
        self._display = Display(*columns, TransferSpeedColumn(), TimeRemainingColumn(), console=console, transient=True)

    def begin(self, what: str, total_bytes: int) -> None:
        for task in self._display.task_ids:
            self._display.remove_task(task)
        self._display.add_task(what, total=total_bytes)
        self._display.start()

    def update(self, done_bytes: int) -> None:
        self._display.update(self._display.task_ids[0], completed=done_bytes)

    def end(self) -> None:
        self._display.stop()

    def note(self, text: str) -> None:
        self._display.console.print(text, highlight=False, markup=False)


def on_stderr() -> Progress:
    """A bar where standard error is a terminal, plain lines where it is not."""
    return Bar(sys.stderr) if sys.stderr.isatty() else Lines(sys.stderr)
