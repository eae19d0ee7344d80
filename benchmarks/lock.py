"""What Python's interpreter lock costs a pass: a busy event loop beside the engine's thread.

    python benchmarks/lock.py [--streams 8] [--intervals 5,1,0.5]

A service decodes some streams while another thread computes in Python: not at all (quiet), in turns of 2 ms of work
and 2 ms of sleep (half), or without a pause (full), which no event loop does for long. Rounds are interleaved; the
figures are the time from one step's start to the next one's as a multiple of quiet. Needs two cores, of which the
engine uses --threads.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

import _report
from _report import Spread

from outrider.api import Chunk, Failed, Request
from outrider.engine.engine import Engine
from outrider.engine.service import Service
from outrider.loading import load

WORK_S = REST_S = 0.002
LOADS = {"quiet": None, "half": REST_S, "full": 0.0}
WARM_UP = 5


@contextmanager
def busy(rest_s: float | None) -> Iterator[None]:
    """Another thread computes WORK_S and rests rest_s, in turns; None: there is none."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            end = time.perf_counter() + WORK_S
            while time.perf_counter() < end:
                sum(range(50))
            if rest_s:
                time.sleep(rest_s)

    thread = threading.Thread(target=work)
    if rest_s is not None:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if rest_s is not None:
            thread.join()


def step_s(engine: Engine, streams: int, steps: int, rest_s: float | None) -> float:
    """Median seconds of a step that decodes so many streams plainly."""
    service = Service(engine, 1 << 30)

    def hear(what: Chunk | Failed) -> None:
        pass

    for index in range(streams):
        service.submit(Request((index + 1,), steps + 2 * WARM_UP, ignore_eos=True, speculate=False), hear)
    for _ in range(WARM_UP):
        service.step()
    found: list[float] = []
    with busy(rest_s):
        for _ in range(steps):
            start = time.perf_counter()
            service.step()
            found.append(time.perf_counter() - start)
    service.close()
    return median(found)


def measure(engine: Engine, arguments: argparse.Namespace) -> dict[float, dict[str, list[float]]]:
    """Seconds of a step by switch interval (ms) and load, a list by rounds."""
    found: dict[float, dict[str, list[float]]] = {
        interval: {name: [] for name in LOADS} for interval in arguments.intervals
    }
    before = sys.getswitchinterval()
    try:
        for _ in range(arguments.rounds):
            for interval, times in found.items():
                sys.setswitchinterval(interval / 1000)
                for name, rest_s in LOADS.items():
                    times[name].append(step_s(engine, arguments.streams, arguments.steps, rest_s))
    finally:
        sys.setswitchinterval(before)
    return found


def intervals(text: str) -> list[float]:
    """Such as 5,0.5."""
    return [float(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _report.add_common(parser)
    parser.add_argument("--streams", type=int, default=8, help="default 8")
    parser.add_argument("--steps", type=int, default=40, help="steps of a measurement; default 40")
    parser.add_argument(
        "--intervals", type=intervals, default=[5.0, 1.0, 0.5, 0.1], help="of sys.setswitchinterval, in ms"
    )
    arguments = parser.parse_args()
    _report.begin(arguments)
    llm = load(arguments.model, "none", threads=arguments.threads)
    assert isinstance(llm.generator, Engine)
    found = measure(llm.generator, arguments)
    ratios = {
        interval: {name: Spread.of_ratios(values, times["quiet"]) for name, values in times.items() if name != "quiet"}
        for interval, times in found.items()
    }
    if not arguments.json:
        _report.table(
            [f"{arguments.streams} streams, interval", "quiet step, ms", "half busy", "busy"],
            [
                [
                    f"{interval:g} ms",
                    Spread.of(found[interval]["quiet"]).text(1e3, 1),
                    *(spread.text() for spread in of_interval.values()),
                ]
                for interval, of_interval in ratios.items()
            ],
        )
    results = {
        f"{interval:g} ms": {
            "quiet_s": Spread.of(found[interval]["quiet"]).data(),
            **{name: spread.data() for name, spread in of_interval.items()},
        }
        for interval, of_interval in ratios.items()
    }
    _report.finish(arguments, {"streams": arguments.streams, "intervals": results})


if __name__ == "__main__":
    _report.start(main)
