"""The time to read a prompt of 512 tokens, beside llama.cpp's on the same file, both measured in turn.

python benchmarks/prefill.py [--tokens 512]
"""

from __future__ import annotations

import argparse

import _peer
import _report
from _report import Spread
from passes import engines_of, spread_ids


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _report.add_common(parser, rounds=9)
    _peer.add_options(parser)
    parser.add_argument("--tokens", type=int, default=512, help="length of the prompt; default 512")
    parser.add_argument("--isa", nargs="+", help="instruction sets; default: the best here")
    arguments = parser.parse_args()
    _report.begin(arguments)
    engines, threads = engines_of(arguments)
    times: dict[str, list[float]] = {name: [] for name in engines}
    for number in range(arguments.rounds + 1):
        for name, engine in engines.items():
            seconds = engine.fill(spread_ids(arguments.tokens))
            if number:  # the first round warms up
                times[name].append(seconds)
    for engine in engines.values():
        engine.close()
    bases = list(engines)
    if not arguments.json:
        _report.table(
            [f"{arguments.tokens} tokens", "ms", "tokens per second", *(f"times as fast as {base}" for base in bases)],
            [
                [
                    name,
                    Spread.of(seconds).text(1e3, 1),
                    Spread.of([arguments.tokens / second for second in seconds]).text(digits=0),
                    *(Spread.of_ratios(times[base], seconds).text() for base in bases),
                ]
                for name, seconds in times.items()
            ],
        )
    results = [
        {
            "engine": name,
            "seconds": Spread.of(seconds).data(),
            "times_as_fast_as": {base: Spread.of_ratios(times[base], seconds).data() for base in bases},
        }
        for name, seconds in times.items()
    ]
    _report.finish(arguments, {"threads": threads, "tokens": arguments.tokens, "engines": results})


if __name__ == "__main__":
    _report.start(main)
