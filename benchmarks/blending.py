"""What each source of drafts is worth, alone and blended: the figures behind drafters/*.py.

    python benchmarks/blending.py --store FILE [--per-group 12] [--tokens 128]

The model answers prompts of Spec-Bench once, plainly. All else replays these answers, so nothing here depends on how
busy the machine is:

- a score and what became of it: of the first guess of each source at each token, by score, the share that came true
- recycled candidates: by rank, the share that was the next token
- weights: those of drafters/blended.py fitted anew to the answers of every second prompt (stochastic gradient, from
  nothing), in the form (word, named, unsaid) and the bias
- tokens a pass on the other prompts, by members and nodes, with the weights as shipped. Runner-up tokens of rejected
  rows are not replayed, so recycle is a little better than this says.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import _prompts
import _report
from _replay import Walk, Written, write

from outrider import _native, loading
from outrider.api import Sampling
from outrider.core import tree
from outrider.core.step import Budget, Outcome, Tokens, View
from outrider.core.types import EMPTY
from outrider.drafters.blended import BlendedDrafter, Sourced
from outrider.drafters.recycle import FOLLOWERS, RecycleDrafter
from outrider.drafters.store import StoreDrafter
from outrider.drafters.storefile import StoreFile
from outrider.drafters.suffix import SuffixDrafter
from outrider.errors import OutriderError
from outrider.models import gguf, sources

NODES = (2, 4, 7, 12)
BUCKETS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
RATES = (0.02, 0.01, 0.005, 0.003, 0.002, 0.001)  # of the fit, an epoch each
START = (0.5, 0.0, 0.0), -0.5
FIT_NODES, FIT_DEPTH, FIT_LEAST = 16, 8, 0.02
AHEAD = 5  # tokens of the answer that a draft is judged by in the fit

Weights: TypeAlias = list[tuple[float, float, float]]


def calibrated(member: Sourced, written: Sequence[Written]) -> list[list[int]]:
    """By score bucket: first guesses, and those that came true."""
    walk, found = Walk(member), [[0, 0] for _ in BUCKETS]
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


def fitted(make: Callable[[], Sequence[Sourced]], written: Sequence[Written]) -> tuple[Weights, float]:
    """Weights and bias after all epochs; every answer goes on from the weights of the one before.

    Members are fresh in each epoch: a memory that has met the answers would know them.
    """
    each, bias = START
    weights = [each] * len(make())
    for rate in RATES:
        members = make()
        for one in written:
            view = View(0, Tokens([*one.prompt, one.answer[0]]), Sampling())
            for member in members:
                member.begin(0, one.prompt)
            blend = _native.Blend([member.source(view) for member in members], weights, bias, rate)
            for at in range(len(one.answer)):
                if at:
                    blend.grow(FIT_NODES, FIT_DEPTH, FOLLOWERS, FIT_LEAST)
                    blend.learn(one.answer[at : at + AHEAD])
                outcome = Outcome(0, EMPTY, (), (one.answer[at],), one.behind[at : at + 1])
                for member in members:
                    member.observe([outcome])
            for member in members:
                member.end(0)
            weights, bias = blend.weights, blend.bias
    return weights, bias


def replayed(drafter: BlendedDrafter, written: Sequence[Written], nodes: int) -> dict[str, float]:
    """Tokens a pass, of all answers and by group."""
    walk, sums = Walk(drafter), {"all": [0, 0]}
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
    path = sources.resolve(arguments.model)
    llm, store = loading.load(path, "none", threads=arguments.threads), StoreFile(arguments.store)
    prompts = _prompts.prompts(arguments.questions, arguments.per_group, gguf.read(path).tokenizer)
    written = [write(llm, prompt, arguments.tokens) for prompt in prompts]
    fit, test = written[1::2], written[::2]

    def members(names: str) -> list[Sourced]:
        made: dict[str, Sourced] = {
            "suffix": SuffixDrafter(),
            "store": StoreDrafter(store),
            "recycle": RecycleDrafter(llm.backend.vocab),
        }
        return [made[name] for name in names.split(", ")]

    alone = {name: calibrated(members(name)[0], written) for name in ("suffix", "store", "recycle")}
    groups = ("suffix", "suffix, recycle", "suffix, store", "suffix, store, recycle")
    weights = {names: fitted(partial(members, names), fit) for names in groups}
    taus = {
        f"{names}: {nodes}": replayed(BlendedDrafter(members(names)), test, nodes)
        for names in groups
        for nodes in NODES
    }
    if not arguments.json:
        show(alone, ranks(written), weights, taus)
    data = {"alone": alone, "ranks": ranks(written), "weights": weights, "tokens_per_pass": taus}
    _report.finish(arguments, {"store_tokens": store.tokens, "answers": len(written), **data})


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
    parser.add_argument("--model", help="a source as for `outrider run --model`; default: the default model")
    parser.add_argument("--threads", type=int, help="default: all cores this process may use")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    _prompts.add_options(parser)
    parser.set_defaults(per_group=12)
    parser.add_argument("--store", required=True, help="a store of the model's tokenizer (outrider store build)")
    parser.add_argument("--tokens", type=int, default=128, help="of each answer; default 128")
    arguments = parser.parse_args()
    _report.begin(arguments)
    run(arguments)


if __name__ == "__main__":
    try:
        main()
    except OutriderError as error:
        sys.exit(str(error))
