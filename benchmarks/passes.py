"""The cost of one pass for n rows, beside llama.cpp's on the same file, both measured in turn.

    python benchmarks/passes.py [--context 256 2048] [--isa avx512vnni avx2]

A round measures every number of rows, and for each of them every engine; a measurement is the median of a few passes
in a row after one that is not counted. Ratios are taken within a round.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Protocol

import _peer
import _report
from _report import Spread

from outrider import _native
from outrider.backends.base import Extend, Want
from outrider.backends.native import NativeBackend
from outrider.backends.native.backend import ISA_VARIABLE
from outrider.models import gguf, sources

ROWS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 32, 64)
CHUNK = 512
PEER = "llama.cpp"

Times = dict[str, dict[int, list[float]]]  # engine -> rows -> seconds of each round


class Measured(Protocol):
    """An engine whose passes can be timed."""

    def fill(self, tokens: Sequence[int]) -> float: ...
    def passes(self, tokens: Sequence[int], position: int, repeats: int) -> list[float]: ...
    def close(self) -> None: ...


class Own:
    """Our native backend with one instruction set."""

    def __init__(self, path: Path, isa: str, threads: int | None) -> None:
        self._backend = NativeBackend(gguf.read(path), isa=isa, threads=threads)
        self._seq = self._backend.open()

    def fill(self, tokens: Sequence[int]) -> float:
        """Read a prompt into the empty sequence; the seconds this took."""
        self._backend.truncate(self._seq, 0)
        start = time.perf_counter()
        for first in range(0, len(tokens), CHUNK):
            part = tokens[first : first + CHUNK]
            self._backend.extend([Extend(self._seq, part, None, [Want.NONE] * len(part))])
            self._backend.commit([(self._seq, range(len(part)))])
        return time.perf_counter() - start

    def passes(self, tokens: Sequence[int], position: int, repeats: int) -> list[float]:
        """Seconds of passes over the tokens as rows, each row's token taken; the first pass is not counted."""
        item = Extend(self._seq, tokens, None, [Want.TOKEN] * len(tokens))
        seconds = []
        for _ in range(repeats + 1):
            start = time.perf_counter()
            scores = self._backend.extend([item])
            for row in range(len(tokens)):
                scores.token(0, row)
            seconds.append(time.perf_counter() - start)
            self._backend.commit([(self._seq, ())])
        return seconds[1:]

    def close(self) -> None:
        """Nothing outlives the process."""


def spread_ids(count: int, first: int = 0) -> list[int]:
    """Ids from all over the vocabulary, so that no embedding row stays warm in a cache."""
    return [(first + index) * 7919 % 49000 for index in range(count)]


def measure(engines: dict[str, Measured], context: int, rows: Sequence[int], rounds: int, repeats: int) -> Times:
    """Interleaved: round by round, rows by rows, engine by engine."""
    times: Times = {name: {n: [] for n in rows} for name in engines}
    for engine in engines.values():
        engine.fill(spread_ids(context))
    for _ in range(rounds):
        for n in rows:
            for name, engine in engines.items():
                times[name][n].append(median(engine.passes(spread_ids(n, context), context, repeats)))
    return times


def show(times: Times, context: int, peer: str | None) -> None:
    """One table a context; ratios to the engine's own one row and to the peer's."""
    for name, of_rows in times.items():
        one = of_rows[1]
        head = [f"{name}, {context} tokens", "ms", "to its own 1 row"]
        columns = [[Spread.of(of_rows[n]).text(1e3), Spread.of_ratios(of_rows[n], one).text()] for n in of_rows]
        if peer is not None and name != peer:
            head += [f"to {peer}'s 1 row", f"to {peer}'s n rows"]
            for cells, n in zip(columns, of_rows, strict=True):
                theirs = times[peer]
                cells += [Spread.of_ratios(of_rows[n], theirs[m]).text() for m in (1, n)]
        _report.table(head, [[f"{n} rows", *cells] for n, cells in zip(of_rows, columns, strict=True)])


def data(times: Times, context: int, peer: str | None) -> dict[str, object]:
    """The same for programs."""
    rows = [
        {
            "engine": name,
            "n": n,
            "seconds": Spread.of(seconds).data(),
            "to_own_one_row": Spread.of_ratios(seconds, of_rows[1]).data(),
            **({"to_peer_one_row": Spread.of_ratios(seconds, times[peer][1]).data()} if peer else {}),
        }
        for name, of_rows in times.items()
        for n, seconds in of_rows.items()
    ]
    return {"context": context, "rows": rows}


def engines_of(arguments: argparse.Namespace) -> tuple[dict[str, Measured], int]:
    """Our backend with each instruction set asked for, then the peer unless it was left out; and their threads."""
    path = sources.resolve(arguments.model)
    python = _peer.python_of(arguments)
    threads = arguments.threads or _native.usable_cores()
    chosen = arguments.isa or [os.environ.get(ISA_VARIABLE) or _native.isas()[0]]
    engines: dict[str, Measured] = {isa: Own(path, isa, threads) for isa in chosen}
    if python is not None:
        engines[PEER] = _peer.Peer(python, path, threads)
    return engines, threads


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _report.add_common(parser, rounds=9)
    _peer.add_options(parser)
    parser.add_argument("--context", type=int, nargs="+", default=[256, 2048], help="tokens before the rows")
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS), help="1 is always measured")
    parser.add_argument("--isa", nargs="+", help="instruction sets; default: the best here")
    parser.add_argument("--repeats", type=int, default=5, help="passes of one measurement")
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    arguments = parsed()
    _report.begin(arguments)
    engines, threads = engines_of(arguments)
    peer = PEER if PEER in engines else None
    rows = sorted({1, *arguments.rows})
    found = []
    for context in arguments.context:
        times = measure(engines, context, rows, arguments.rounds, arguments.repeats)
        found.append(data(times, context, peer))
        if not arguments.json:
            show(times, context, peer)
    for engine in engines.values():
        engine.close()
    _report.finish(arguments, {"threads": threads, "passes": found})


if __name__ == "__main__":
    _report.start(main)
