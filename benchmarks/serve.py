"""Servers under load, on loopback: tokens per second and latencies by the number of streams.

    python benchmarks/serve.py [--streams 1 2 4 8 16 32] [--modes off fixed goodput] [--llamacpp PROGRAM]
                               [--vllm-python PYTHON --vllm-folder FOLDER]

Each stream asks prompts of Spec-Bench one after the other, greedy, as many tokens each time whatever the model says;
the prompts go out as ids, so that every server reads the same. Servers are started anew for each number of streams, and
no server hears a prompt twice: ours would remember its answer. A round asks every server in turn the same prompts; the
others are idle meanwhile. `off` is asked without speculation, `goodput` with as much as pays, `fixed` with a
fixed draft length. Every server keeps beginnings of prompts, as it does unasked.
Figures to quote need 5 rounds; they may be measured in pieces, with fewer --streams each.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import _asking
import _prompts
import _report
import _servers
from _asking import Place, Told
from _report import Spread

from outrider import _native
from outrider.errors import OutriderError
from outrider.models import gguf, sources

OFF, FIXED, GOODPUT = "off", "fixed", "goodput"
LLAMACPP, VLLM = "llama.cpp", "vLLM"
CONTEXT = 2048
MOST_PROMPT = 1024  # longer ones would make prefill the figure


@dataclass(frozen=True, slots=True)
class Load:
    """What one server did in one round at one number of streams."""

    tokens_per_s: float
    first_s: tuple[float, ...]  # of every answer
    token_s: tuple[float, ...]

    def percentile(self, values: Sequence[float], share: float) -> float:
        ordered = sorted(values)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass(frozen=True, slots=True)
class Contender:
    """A server, and what is asked of it besides."""

    place: Place
    extra: dict[str, object]


Results = dict[tuple[int, str], list[Load]]


async def drive(contender: Contender, prompts: Sequence[list[int]], streams: int, answers: int, most: int) -> Load:
    """So many streams, each with so many answers one after the other; prompts [streams * answers]."""
    work = [prompts[stream::streams][:answers] for stream in range(streams)]

    async def stream(asked: Sequence[list[int]]) -> list[Told]:
        return [await _asking.complete(contender.place, prompt, most, contender.extra) for prompt in asked]

    start = time.perf_counter()
    told = [one for many in await asyncio.gather(*map(stream, work)) for one in many]
    seconds = time.perf_counter() - start
    tokens = sum(one.tokens for one in told)
    return Load(tokens / seconds, tuple(one.first_s for one in told), tuple(one.token_s for one in told))


@contextmanager
def ours(arguments: argparse.Namespace, model: Path, threads: int) -> Iterator[dict[str, Contender]]:
    """Our servers: one for each mode, or one would find the beginnings of prompts that another has read."""
    slots = max(arguments.streams)
    with ExitStack() as stack:
        found: dict[str, Contender] = {}
        for mode in arguments.modes:
            port = _servers.free_port()
            more = ["--gamma", str(arguments.gamma)] if mode == FIXED else []
            command = _servers.outrider(model, port, threads, slots, *more)
            place, _ = stack.enter_context(_servers.running(command, port))
            found[mode] = Contender(place, {"speculate": False} if mode == OFF else {})
        yield found


@contextmanager
def peers(arguments: argparse.Namespace, model: Path, threads: int, streams: int) -> Iterator[dict[str, Contender]]:
    """The other servers, started for one number of streams."""
    with ExitStack() as stack:
        found: dict[str, Contender] = {}
        if arguments.llamacpp is not None:
            port = _servers.free_port()
            command = _servers.llamacpp(arguments.llamacpp, model, port, threads, streams, CONTEXT)
            place, _ = stack.enter_context(_servers.running(command, port))
            found[LLAMACPP] = Contender(place, {})
        if arguments.vllm_python is not None:
            port = _servers.free_port()
            folder = arguments.vllm_folder
            python_command, environment = _servers.vllm(arguments.vllm_python, folder, port, streams, CONTEXT)
            place, _ = stack.enter_context(_servers.running(python_command, port, str(folder), environment=environment))
            found[VLLM] = Contender(place, {})
        yield found


def measure(arguments: argparse.Namespace, model: Path, threads: int, prompts: Sequence[list[int]]) -> Results:
    """Every server at every number of streams, in turn, round by round; all are started anew for each number."""
    results: Results = {}
    for streams in arguments.streams:
        each = streams * arguments.answers
        if each * (arguments.rounds + 1) > len(prompts):
            raise OutriderError(
                f"{streams} streams need {each * (arguments.rounds + 1)} prompts, and there are {len(prompts)}: give "
                "fewer --rounds or --answers"
            )
        supply = iter(prompts)
        with ours(arguments, model, threads) as own, peers(arguments, model, threads, streams) as others:
            contenders = {**own, **others}
            asked = list(itertools.islice(supply, each))
            for contender in contenders.values():  # to warm up
                asyncio.run(drive(contender, asked, streams, arguments.answers, arguments.max_tokens))
            for number in range(arguments.rounds):
                # Who goes first moves on, so that nobody always runs behind the same neighbour.
                names = list(contenders)
                asked = list(itertools.islice(supply, each))
                for name in names[number % len(names) :] + names[: number % len(names)]:
                    load = asyncio.run(drive(contenders[name], asked, streams, arguments.answers, arguments.max_tokens))
                    results.setdefault((streams, name), []).append(load)
                _report.say(f"{streams} streams: round {number + 1} of {arguments.rounds} done")
    return results


def show(results: Results, arguments: argparse.Namespace) -> None:
    """Throughput, its ratio to plain decoding, and latencies."""
    names = list(dict.fromkeys(name for _, name in results))
    base = OFF if OFF in names else names[0]
    levels = arguments.streams
    head = [f"{level}" for level in levels]

    def cells(name: str, of: str) -> list[str]:
        return [
            Spread.of([load.tokens_per_s for load in results[level, name]]).text(digits=0)
            if of == "speed"
            else Spread.of_ratios(
                [load.tokens_per_s for load in results[level, name]],
                [load.tokens_per_s for load in results[level, base]],
            ).text()
            for level in levels
        ]

    _report.table(["tokens per second, by streams", *head], [[name, *cells(name, "speed")] for name in names])
    _report.table([f"times {base}", *head], [[name, *cells(name, "ratio")] for name in names if name != base])
    for title, field in (("first token, ms: median / 99 %", "first_s"), ("a token, ms: median / 99 %", "token_s")):
        rows = []
        for name in names:
            row = [name]
            for level in levels:
                values = [value for load in results[level, name] for value in getattr(load, field)]
                middle, high = (results[level, name][0].percentile(values, share) for share in (0.5, 0.99))
                row.append(f"{1000 * middle:.1f} / {1000 * high:.1f}")
            rows.append(row)
        _report.table([title, *head], rows)


def data(results: Results) -> list[dict[str, object]]:
    """The same for programs."""
    found: list[dict[str, object]] = []
    for (streams, name), loads in results.items():
        entry: dict[str, object] = {"streams": streams, "server": name}
        entry["tokens_per_s"] = Spread.of([load.tokens_per_s for load in loads]).data()
        for field in ("first_s", "token_s"):
            values = [value for load in loads for value in getattr(load, field)]
            entry[field] = {f"p{share}": loads[0].percentile(values, share / 100) for share in (50, 90, 99)}
        found.append(entry)
    return found


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _report.add_common(parser)
    _prompts.add_options(parser)
    parser.set_defaults(per_group=80)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--modes", nargs="+", choices=[OFF, FIXED, GOODPUT], default=[OFF, FIXED, GOODPUT])
    parser.add_argument("--gamma", type=int, default=4, help="the fixed draft length; default 4")
    parser.add_argument("--answers", type=int, default=2, help="of each stream, one after the other; default 2")
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--llamacpp", type=Path, help="llama.cpp's server, an executable")
    parser.add_argument("--vllm-python", type=Path, help="an interpreter that has vLLM's CPU build")
    parser.add_argument("--vllm-folder", type=Path, help="the model as a Hugging Face folder")
    found = parser.parse_args()
    if (found.vllm_python is None) != (found.vllm_folder is None):
        raise OutriderError("--vllm-python and --vllm-folder go together")
    return found


def main() -> None:
    """Measure and print."""
    arguments = parsed()
    _report.begin(arguments)
    model = sources.resolve(arguments.model)
    threads = arguments.threads or _native.usable_cores()
    found = _prompts.prompts(arguments.questions, arguments.per_group, gguf.read(model).tokenizer)
    prompts = [prompt.ids for prompt in found if len(prompt.ids) <= MOST_PROMPT]
    random.Random(0).shuffle(prompts)  # the groups come one after the other
    results = measure(arguments, model, threads, prompts)
    if not arguments.json:
        show(results, arguments)
    _report.finish(arguments, {"loads": data(results)})


if __name__ == "__main__":
    try:
        main()
    except OutriderError as error:
        raise SystemExit(f"serve.py: {error}") from None
