"""What every figure comes with: the machine, the date, the command, and the spread over interleaved rounds."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from outrider import _native
from outrider.errors import OutriderError

LEAST_ROUNDS = 5  # fewer only show that a script works
QUIET_LOAD = 0.5  # above it something else computes, and the figures are its neighbour's as well


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of several measurements, and their range."""

    middle: float
    low: float
    high: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        return Spread(median(values), min(values), max(values))

    @staticmethod
    def of_ratios(above: Sequence[float], below: Sequence[float]) -> Spread:
        """Of above[i] / below[i]: both were measured in round i, so what slowed the machine then slowed both."""
        return Spread.of([a / b for a, b in zip(above, below, strict=True)])

    def text(self, scale: float = 1.0, digits: int = 2) -> str:
        """Such as 0.45 (0.43-0.51), or 0.45 alone where nothing differs."""
        middle, low, high = (f"{scale * value:.{digits}f}" for value in (self.middle, self.low, self.high))
        return middle if low == high else f"{middle} ({low}-{high})"

    def data(self) -> dict[str, float]:
        return {"median": self.middle, "low": self.low, "high": self.high}


def machine() -> dict[str, str | int | list[str]]:
    """Where and when, and with what command."""
    return {
        "cpu": _cpu(),
        "cores": _native.usable_cores(),
        "isas": _native.isas(),
        "python": platform.python_version(),
        "load": f"{os.getloadavg()[0]:.1f} processes in the last minute",
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def add_model(parser: argparse.ArgumentParser) -> None:
    """The options of all scripts that load a model."""
    parser.add_argument("--model", help="a source as for `outrider run --model`; default: the default model")
    parser.add_argument("--threads", type=int, help="default: all cores this process may use")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")


def add_common(parser: argparse.ArgumentParser, rounds: int = LEAST_ROUNDS) -> None:
    """And of those that measure time, in rounds."""
    add_model(parser)
    parser.add_argument("--rounds", type=int, default=rounds, help=f"default {rounds}; quote nothing below 5")


def start(main: Callable[[], None]) -> None:
    """Run a script; what it cannot do is one line and status 1."""
    try:
        main()
    except OutriderError as error:
        sys.exit(str(error))


def begin(arguments: argparse.Namespace, timed: bool = True) -> None:
    """Check the rounds, where a script has them, and, unless a program reads on, say where and when.

    timed: whether the machine's own speed is measured.
    """
    rounds = vars(arguments).get("rounds")
    if rounds is not None and rounds < 1:
        raise OutriderError(
            f"--rounds is {rounds}; measure at least once, and {LEAST_ROUNDS} times for a figure to quote"
        )
    if rounds is not None and rounds < LEAST_ROUNDS:
        say(f"--rounds {rounds} shows that the script works; quote figures of at least {LEAST_ROUNDS} rounds")
    load = os.getloadavg()[0]
    if timed and rounds is not None and load > QUIET_LOAD:
        say(f"the machine is busy (load {load:.1f}): wait until it is quiet, or do not quote what follows")
    if not arguments.json:
        for name, value in machine().items():
            print(f"{name:8}{', '.join(value) if isinstance(value, list) else value}")


def finish(arguments: argparse.Namespace, results: dict[str, object]) -> None:
    """Print the JSON object, if it was asked for."""
    if arguments.json:
        rounds = {"rounds": arguments.rounds} if "rounds" in arguments else {}
        print(json.dumps({"machine": machine(), **rounds, **results}))


def say(text: str) -> None:
    """To the person, not into the results."""
    print(text, file=sys.stderr, flush=True)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under their heads, aligned to the right but for the first column."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    print()
    for row in (head, *rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        print("  ".join(cells).rstrip())
