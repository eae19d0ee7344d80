"""Where the time of a decode step goes: the C++ pass, drafting, and Python's share, plain and with n-gram drafts.

    python benchmarks/step.py [--gamma 4]

The C++ engine's calls are timed where Python enters them; drafting is what the engine's own statistics say; the rest
of the time between two steps is Python's: planning, verdicts, text, chunks, and the caller's loop. The clock itself
costs about 0.1 microseconds a call, some of which is counted as Python's.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any, ParamSpec, TypeVar

import _prompts
import _report
from _report import Spread

from outrider.api import Request
from outrider.backends.native import NativeBackend
from outrider.drafters.base import Drafter
from outrider.drafters.ngram import NgramDrafter
from outrider.engine.engine import Engine
from outrider.models import gguf, sources
from outrider.models.tokenizer import Detokenizer, Tokenizer
from outrider.policy.fixed import Fixed

_P = ParamSpec("_P")
_R = TypeVar("_R")
PARTS = ("whole step", "C++: pass", "C++: tokens of rows", "C++: commit", "drafting", "Python")


class Spent:
    """Seconds by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def call(self, name: str, verb: Callable[_P, _R], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        start = time.perf_counter()
        try:
            return verb(*args, **kwargs)
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


class TimedScores:
    """The C++ scores of a pass, timed."""

    def __init__(self, scores: Any, spent: Spent) -> None:
        self._scores = scores
        self._spent = spent

    def token(self, item: int, row: int) -> int:
        return int(self._spent.call("C++: tokens of rows", self._scores.token, item, row))


class TimedNative:
    """The C++ engine behind a NativeBackend, timed; what does not belong to a step goes through as it is."""

    def __init__(self, engine: Any, spent: Spent) -> None:
        self._engine = engine
        self._spent = spent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def extend(self, items: Any) -> TimedScores:
        return TimedScores(self._spent.call("C++: pass", self._engine.extend, items), self._spent)

    def commit(self, items: Any) -> None:
        self._spent.call("C++: commit", self._engine.commit, items)


@dataclass(frozen=True, slots=True)
class Step:
    """Mean seconds of a step's parts over one answer."""

    parts: dict[str, float]


def run(engine: Engine, spent: Spent, ids: Sequence[int], count: int) -> Step:
    """One answer; counted from its first chunk on."""
    start, steps, draft_s = 0.0, -1, 0.0
    for chunk in engine.generate([Request(ids, count, ignore_eos=True)]):
        steps += 1
        if steps == 0:
            spent.seconds.clear()
            start = time.perf_counter()
        if chunk.usage is not None:
            draft_s = chunk.usage.draft_s
    whole = time.perf_counter() - start
    native = dict(spent.seconds)
    rest = whole - sum(native.values()) - draft_s
    seconds = {"whole step": whole, **native, "drafting": draft_s, "Python": rest}
    return Step({name: seconds[name] / steps for name in PARTS})


def measure(
    engines: dict[str, Engine], spent: Spent, prompts: Sequence[_prompts.Prompt], rounds: int, count: int
) -> dict[str, list[Step]]:
    """Interleaved; of each round the median over the prompts. One answer of each engine before warms up."""
    found: dict[str, list[Step]] = {name: [] for name in engines}
    for engine in engines.values():
        run(engine, spent, prompts[0].ids, count)
    for _ in range(rounds):
        steps: dict[str, list[Step]] = {name: [] for name in engines}
        for prompt in prompts:
            for name, engine in engines.items():
                steps[name].append(run(engine, spent, prompt.ids, count))
        for name, of_engine in steps.items():
            found[name].append(Step({part: median(step.parts[part] for step in of_engine) for part in PARTS}))
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _report.add_common(parser)
    _prompts.add_options(parser)
    parser.add_argument("--gamma", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=128)
    arguments = parser.parse_args()
    _report.begin(arguments)
    file = gguf.read(sources.resolve(arguments.model))
    prompts = _prompts.prompts(arguments.questions, arguments.per_group, file.tokenizer)
    backend, tokenizer, spent = NativeBackend(file, threads=arguments.threads), Tokenizer(file.tokenizer), Spent()
    # The only way to stand between the backend's Python and its C++.
    vars(backend)["_engine"] = TimedNative(vars(backend)["_engine"], spent)
    text = partial(Detokenizer, tokenizer, skip_special=True)
    drafters: dict[str, tuple[Drafter | None, int]] = {
        "plain": (None, 0),
        f"n-gram, gamma {arguments.gamma}": (NgramDrafter(), arguments.gamma),
    }
    engines = {name: Engine(backend, who, Fixed(n), text, tokenizer.eos_ids) for name, (who, n) in drafters.items()}
    rounds = measure(engines, spent, prompts, arguments.rounds, arguments.max_tokens)
    found = {
        name: {part: Spread.of([step.parts[part] for step in of_engine]) for part in PARTS}
        for name, of_engine in rounds.items()
    }
    if not arguments.json:
        rows = [[part, *(of_engine[part].text(1e3, 3) for of_engine in found.values())] for part in PARTS]
        _report.table(["ms of a step", *found], rows)
    data = {name: {part: spread.data() for part, spread in parts.items()} for name, parts in found.items()}
    _report.finish(arguments, {"threads": backend.capabilities.threads, "seconds": data})


if __name__ == "__main__":
    _report.start(main)
