"""What each source of drafts is worth, alone and blended: the figures behind drafters/*.py.

    python benchmarks/blending.py [--store FILE] [--head FOLDER] [--data FILE] [--tokens 128]

The model answers the questions of `outrider bench`, and others of its own, once, plainly; never Spec-Bench's, which is
there to measure with.
All else walks along these answers, so nothing here depends on how busy the machine is:

- a score and what became of it: of the first guess of each source at each token, by score, the share that came true
- recycled candidates: by rank, the share that was the next token
- weights: those of drafters/blended.py fitted anew (stochastic gradient, from nothing), in the form (word, named,
  unsaid) and the bias
- tokens a pass, by members and nodes, with the weights as shipped. Runner-up tokens of rejected rows are not replayed,
  so recycle is a little better than this says.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias, cast

import _prompts
import _report
from _replay import Walk, Written, write

from outrider import _native, loading
from outrider.backends.base import Backend, HeadHost
from outrider.bench import questions
from outrider.core import tree
from outrider.core.step import Budget, Outcome, View
from outrider.core.types import Draft
from outrider.drafters.base import Drafter
from outrider.drafters.blended import BlendedDrafter, Looking, Sourced
from outrider.drafters.head import HeadDrafter
from outrider.drafters.recycle import FOLLOWERS, RecycleDrafter
from outrider.drafters.store import StoreDrafter
from outrider.drafters.storefile import StoreFile
from outrider.drafters.suffix import SuffixDrafter
from outrider.models import headfile

NODES = (2, 4, 7, 12)
BUCKETS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
RATES = (0.02, 0.01, 0.005, 0.003, 0.002, 0.001)  # of the fit, an epoch each
START = (0.5, 0.0, 0.0), -0.5
FIT_NODES, FIT_DEPTH, FIT_LEAST = 16, 8, 0.02
AHEAD = 5  # tokens of the answer that a draft is judged by in the fit

Weights: TypeAlias = list[tuple[float, float, float]]


class Fit:
    """Weights that one answer hands on to the next."""

    def __init__(self, members: int) -> None:
        each, self.bias = START
        self.weights: Weights = [each] * members

    def learn(
        self, members: Sequence[Sourced], written: Sequence[Written], backend: Backend | None, rate: float
    ) -> None:
        """An epoch, with members that know nothing yet: what they remember of these answers would be believed."""
        for one in written:
            walk = Walk(_Together(members), backend)
            view = walk.begin(one)
            blend = _native.Blend([member.source(view) for member in members], self.weights, self.bias, rate)
            for at in range(1, len(one.answer)):
                for member in members:
                    if isinstance(member, Looking):
                        member.look([view], [Budget(FIT_NODES, FIT_DEPTH)])
                blend.grow(FIT_NODES, FIT_DEPTH, FOLLOWERS, FIT_LEAST)
                blend.learn(one.answer[at : at + AHEAD])
                walk.step(one, at, at + 1)
            walk.end()
            self.weights, self.bias = blend.weights, blend.bias


class _Together:
    """Members that hear of everything and draft nothing."""

    name = "together"

    def __init__(self, members: Sequence[Sourced]) -> None:
        self._members = members

    def begin(self, seq: int, prompt: Sequence[int]) -> None:
        for member in self._members:
            member.begin(seq, prompt)

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        return [Draft((), ()) for _ in views]

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        for member in self._members:
            member.observe(outcomes)

    def end(self, seq: int) -> None:
        for member in self._members:
            member.end(seq)


def calibrated(member: Sourced, written: Sequence[Written], backend: Backend | None) -> list[list[int]]:
    """By score bucket: first guesses, and those that came true."""
    walk, found = Walk(member, backend), [[0, 0] for _ in BUCKETS]
    for one in written:
        walk.begin(one)
        for at in range(1, len(one.answer)):
            draft = walk.draft(Budget(1, 1))
            if draft.tokens and draft.score is not None:
                bucket = found[next(place for place, most in enumerate(BUCKETS) if draft.score[0] <= most + 1e-9)]
                bucket[0] += 1
                bucket[1] += draft.tokens[0] == one.answer[at]
            walk.step(one, at, at + 1)
        walk.end()
    return found


def ranks(written: Sequence[Written]) -> list[float]:
    """By rank, the share of a token's followers that came next, where the token had come before in any answer."""
    table: dict[int, tuple[int, ...]] = {}
    tried, kept = [0] * FOLLOWERS, [0] * FOLLOWERS
    for one in written:
        for (token, followers), new in zip(one.behind, one.answer, strict=True):
            for rank, follower in enumerate(table.get(token, ())):
                tried[rank] += 1
                kept[rank] += follower == new
            table[token] = followers
    return [k / max(t, 1) for k, t in zip(kept, tried, strict=True)]


def fitted(make: Callable[[], Sequence[Sourced]], written: Sequence[Written], backend: Backend | None) -> Fit:
    """The weights after all epochs."""
    fit = Fit(len(make()))
    for rate in RATES:
        fit.learn(make(), written, backend, rate)
    return fit


def replayed(drafter: Drafter, written: Sequence[Written], nodes: int, backend: Backend | None) -> dict[str, float]:
    """Tokens a pass, of all answers and by group."""
    walk, sums = Walk(drafter, backend), {"all": [0, 0]}
    for one in written:
        walk.begin(one)
        at, group = 1, sums.setdefault(one.group, [0, 0])
        while at < len(one.answer):
            end = at + len(tree.follow(walk.draft(Budget(nodes, nodes)), one.answer[at:])) + 1
            for counts in (sums["all"], group):
                counts[0] += min(end, len(one.answer)) - at
                counts[1] += 1
            walk.step(one, at, min(end, len(one.answer)))
            at = end
        walk.end()
    return {name: tokens / passes for name, (tokens, passes) in sums.items()}


def run(arguments: argparse.Namespace) -> None:
    """Write, replay and print."""
    llm = loading.load(arguments.model, "none", threads=arguments.threads)
    backend = llm.backend
    store = None if arguments.store is None else StoreFile(arguments.store)
    head = None if arguments.head is None else cast(HeadHost, backend).attach(headfile.read(arguments.head))
    asked = [_prompts.Prompt(one.task, llm.encode(one.turns[0])) for one in questions.load(None)]
    if arguments.data is not None:
        lines = [json.loads(line) for line in arguments.data.read_text("utf-8").splitlines()]
        asked += [
            _prompts.Prompt("own", llm.encode(llm.tokenizer.decode(line["prompt"], skip_special=False)))
            for line in lines
        ]
    written = [write(llm, prompt, arguments.tokens) for prompt in asked]

    def member(name: str) -> Sourced:
        if name == "store":
            assert store is not None
            return StoreDrafter(store)
        if name == "head":
            assert head is not None
            return HeadDrafter(head)
        return SuffixDrafter() if name == "suffix" else RecycleDrafter(backend.vocab)

    there = ["suffix", *(["store"] if store else []), *(["head"] if head else [])]
    sets = [there[: count + 1] for count in range(len(there))] + [["suffix", "recycle"]]

    def members(names: Sequence[str]) -> list[Sourced]:
        return [member(name) for name in names]

    def along(names: Sequence[str]) -> Backend | None:
        return backend if "head" in names else None

    alone = {name: calibrated(member(name), written, along([name])) for name in (*there, "recycle")}
    weights: dict[str, tuple[Weights, float]] = {}
    for names in sets:
        fit = fitted(partial(members, names), written, along(names))
        weights[", ".join(names)] = fit.weights, fit.bias
    taus = {
        f"{', '.join(names)}: {nodes}": replayed(BlendedDrafter(members(names)), written, nodes, along(names))
        for names in sets
        for nodes in NODES
    }
    if not arguments.json:
        show(alone, ranks(written), weights, taus)
    data = {"alone": alone, "ranks": ranks(written), "weights": weights, "tokens_per_pass": taus}
    _report.finish(arguments, {"answers": len(written), **data})


def show(
    alone: dict[str, list[list[int]]],
    by_rank: list[float],
    weights: dict[str, tuple[Weights, float]],
    taus: dict[str, dict[str, float]],
) -> None:
    """The tables."""
    shares = [
        [name, *(f"{kept / tried:.2f}" if tried else "-" for tried, kept in rows)] for name, rows in alone.items()
    ]
    _report.table(["came true, by score up to", *(f"{most:.1f}" for most in BUCKETS)], shares)
    print("by rank   " + ", ".join(f"{share:.3f}" for share in by_rank))
    for names, (found, bias) in weights.items():
        rounded = "; ".join(f"({word:.2f}, {named:.2f}, {unsaid:.2f})" for word, named, unsaid in found)
        print(f"weights   {names}: {rounded}; bias {bias:.2f}")
    head = ["tokens a pass, by members and nodes", *next(iter(taus.values()))]
    _report.table(head, [[name, *(f"{tau:.2f}" for tau in row.values())] for name, row in taus.items()])


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _report.add_model(parser)
    parser.add_argument("--store", help="a store of the model's own text (outrider train --kind store)")
    parser.add_argument("--data", type=Path, help="questions of a data.jsonl (outrider train) that store and head lack")
    parser.add_argument("--head", help="a folder with a drafting head for the model (outrider train)")
    parser.add_argument("--tokens", type=int, default=128, help="of each answer; default 128")
    arguments = parser.parse_args()
    _report.begin(arguments)
    run(arguments)


if __name__ == "__main__":
    _report.start(main)
