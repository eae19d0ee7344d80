"""Tokens per second over prompts of Spec-Bench: plain, with n-gram drafts, and llama.cpp, measured in turn.

    python benchmarks/decode.py [--gamma 1 2 3 4 5 6 8] [--longest 2 3 4] [--q4-0]

Single stream, greedy, end of text ignored, prefill excluded: from the first token (chunk) to the last, as a caller sees
it. A round measures every prompt, and for each of them every engine; speeds are sums of tokens over sums of seconds,
ratios are taken within a round.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

import _peer
import _prompts
import _report
from _report import Spread

from outrider import _native
from outrider.api import Request
from outrider.backends.native import NativeBackend
from outrider.drafters.ngram import NgramDrafter
from outrider.engine.engine import Engine
from outrider.errors import OutriderError
from outrider.models import gguf, sources
from outrider.models.tokenizer import Detokenizer, Tokenizer
from outrider.policy.fixed import Fixed

PLAIN, NGRAM = "plain", "n-gram"
ALL = "all"


@dataclass(frozen=True, slots=True)
class Run:
    """One answer: its ids, and the tokens and seconds after the first chunk."""

    ids: list[int]
    tokens: int
    seconds: float
    passes: int


Runner = Callable[[list[int], int], Run]


@dataclass(slots=True)
class Round:
    """Sums of one engine in one round, by group and over all."""

    tokens: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    produced: int = 0
    passes: int = 0

    def add(self, group: str, run: Run) -> None:
        for name in (group, ALL):
            self.tokens[name] = self.tokens.get(name, 0) + run.tokens
            self.seconds[name] = self.seconds.get(name, 0.0) + run.seconds
        self.produced += len(run.ids)
        self.passes += run.passes

    def speed(self, group: str) -> float:
        return self.tokens[group] / self.seconds[group]


Rounds = dict[str, list[Round]]


def own(engine: Engine, ids: list[int], count: int) -> Run:
    """Our engine, timed from outside."""
    found: list[int] = []
    start, first, passes = 0.0, 0, 0
    for chunk in engine.generate([Request(ids, count, ignore_eos=True)]):
        found.extend(chunk.token_ids)
        if not first and found:
            start, first = time.perf_counter(), len(found)
        if chunk.usage is not None:
            passes = chunk.usage.passes
    return Run(found, len(found) - first, time.perf_counter() - start, passes)


def peers(peer: _peer.Peer, ids: list[int], count: int) -> Run:
    """A peer, timed by itself."""
    found, seconds = peer.greedy(ids, count)
    return Run(found, count - 1, seconds, count)


def measure(runners: dict[str, Runner], prompts: Sequence[_prompts.Prompt], rounds: int, count: int) -> Rounds:
    """Interleaved, with one answer of each engine before, to warm up. Raises OutriderError where speculation shows."""
    results: Rounds = {name: [] for name in runners}
    for runner in runners.values():
        runner(prompts[0].ids, count)
    for number in range(rounds):
        for of_engine in results.values():
            of_engine.append(Round())
        for prompt in prompts:
            answers = {name: runner(prompt.ids, count) for name, runner in runners.items()}
            for name, run in answers.items():
                results[name][-1].add(prompt.group, run)
                if name.startswith(NGRAM) and run.ids != answers[PLAIN].ids:
                    raise OutriderError(f"{name} changed an answer of group {prompt.group}: that is a bug, not a speed")
        _report.say(f"round {number + 1} of {rounds} done")
    return results


def ratios(results: Rounds, name: str, base: str, group: str) -> Spread:
    """How many times as fast as `base`."""
    above, below = ([item.speed(group) for item in results[key]] for key in (name, base))
    return Spread.of_ratios(above, below)


def show(results: Rounds, groups: Sequence[str]) -> None:
    """Speeds and ratios, by group."""
    _report.table(
        ["tokens per second", *groups, "tokens a pass"],
        [
            [
                name,
                *(Spread.of([item.speed(group) for item in of_engine]).text(digits=1) for group in groups),
                f"{median(item.produced / item.passes for item in of_engine):.2f}",
            ]
            for name, of_engine in results.items()
        ],
    )
    for base in (name for name in results if not name.startswith(NGRAM)):
        _report.table(
            [f"times {base}", *groups],
            [[name, *(ratios(results, name, base, g).text() for g in groups)] for name in results if name != base],
        )


def data(results: Rounds, groups: Sequence[str]) -> list[dict[str, object]]:
    """The same for programs."""
    bases = [name for name in results if not name.startswith(NGRAM)]
    return [
        {
            "engine": name,
            "tokens_per_s": {g: Spread.of([item.speed(g) for item in of_engine]).data() for g in groups},
            "tokens_per_pass": median(item.produced / item.passes for item in of_engine),
            "times": {base: {g: ratios(results, name, base, g).data() for g in groups} for base in bases},
        }
        for name, of_engine in results.items()
    ]


def our_runners(arguments: argparse.Namespace, path: Path, threads: int) -> dict[str, Runner]:
    """Plain decoding and every combination of draft length and n-gram length, over one backend."""
    file = gguf.read(path)
    backend, tokenizer = NativeBackend(file, threads=threads), Tokenizer(file.tokenizer)
    text = partial(Detokenizer, tokenizer, skip_special=True)
    found: dict[str, Runner] = {PLAIN: partial(own, Engine(backend, None, Fixed(0), text, tokenizer.eos_ids))}
    for longest in arguments.longest or [None]:
        for gamma in arguments.gamma:
            drafter = NgramDrafter() if longest is None else NgramDrafter(longest)
            engine = Engine(backend, drafter, Fixed(gamma), text, tokenizer.eos_ids)
            found[f"{NGRAM}{'' if longest is None else f' {longest}'}, gamma {gamma}"] = partial(own, engine)
    return found


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _report.add_common(parser)
    _peer.add_options(parser)
    _prompts.add_options(parser)
    parser.add_argument("--gamma", type=int, nargs="+", default=[8], help="draft lengths")
    parser.add_argument("--longest", type=int, nargs="+", help="longest n-grams to look up; default: Outrider's")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--q4-0", action="store_true", help="also llama.cpp on the model requantised to Q4_0")
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    arguments = parsed()
    _report.begin(arguments)
    path = sources.resolve(arguments.model)
    python = _peer.python_of(arguments)
    threads = arguments.threads or _native.usable_cores()
    prompts = _prompts.prompts(arguments.questions, arguments.per_group, gguf.read(path).tokenizer)
    runners = our_runners(arguments, path, threads)
    others: dict[str, _peer.Peer] = {}
    if python is not None:
        others["llama.cpp"] = _peer.Peer(python, path, threads)
        if arguments.q4_0:
            others["llama.cpp Q4_0"] = _peer.Peer(python, _peer.as_q4_0(python, path), threads)
    elif arguments.q4_0:
        raise OutriderError("--q4-0 asks for a peer and --no-peer for none; leave one of them out")
    runners |= {name: partial(peers, peer) for name, peer in others.items()}
    results = measure(runners, prompts, arguments.rounds, arguments.max_tokens)
    for peer in others.values():
        peer.close()
    groups = [*dict.fromkeys(prompt.group for prompt in prompts), ALL]
    if not arguments.json:
        show(results, groups)
    _report.finish(arguments, {"threads": threads, "prompts": len(prompts), "engines": data(results, groups)})


if __name__ == "__main__":
    _report.start(main)
