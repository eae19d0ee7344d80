"""How long an n-gram guess should be: rules compared on the model's own answers, without a stop-watch.

    python benchmarks/drafts.py [--per-group 8] [--tokens 128] [--longest 4 6] [--gamma 3 4 8]

The answers are written once, plainly. Then every rule drafts along them: a pass of n rows is charged what it costs on
this machine (measured before), so the speed-up printed is what the rule would give if nothing else took time. "match +
1" is the rule of drafters/ngram.py; "fixed" drafts gamma tokens after any match.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import _prompts
import _report

from outrider.api import Request, Sampling
from outrider.backends.native import NativeBackend
from outrider.core.step import Budget, Outcome, Tokens, View
from outrider.core.types import EMPTY
from outrider.cost import profile
from outrider.drafters.base import Drafter
from outrider.drafters.ngram import NgramDrafter
from outrider.engine.engine import Engine
from outrider.errors import OutriderError
from outrider.models import gguf, sources
from outrider.models.tokenizer import Detokenizer, Tokenizer
from outrider.policy.fixed import Fixed

CONTEXT = 256
ROUND_S = 2.0  # for measuring passes, a round


class FixedLength:
    """The n-gram drafter without its rule: the continuation of the longest match, as long as the budget."""

    name = "fixed"

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._tokens: list[int] = []
        self._next: dict[tuple[int, ...], int] = {}

    def begin(self, seq: int, prompt: Sequence[int]) -> None:
        self._tokens, self._next = [], {}
        self._extend(prompt)

    def _extend(self, new: Sequence[int]) -> None:
        for token in new:
            end = len(self._tokens)
            for start in range(max(0, end - self._longest), end):
                self._next[tuple(self._tokens[start:end])] = end
            self._tokens.append(token)

    def guess(self, count: int) -> tuple[int, ...]:
        """At most `count` tokens; none without a match."""
        end = len(self._tokens)
        for start in range(max(0, end - self._longest), end):
            found = self._next.get(tuple(self._tokens[start:]))
            if found is not None:
                follow = self._tokens[found : found + count]
                return tuple(follow[i % len(follow)] for i in range(count))
        return ()

    def observe(self, tokens: Sequence[int]) -> None:
        self._extend(tokens)


class AsBuilt:
    """The production drafter behind the same three verbs."""

    name = "match + 1"

    def __init__(self, longest: int) -> None:
        self._drafter: Drafter = NgramDrafter(longest)
        self._known: list[int] = []

    def begin(self, seq: int, prompt: Sequence[int]) -> None:
        self._known = list(prompt)
        self._drafter.begin(seq, prompt)

    def guess(self, count: int) -> tuple[int, ...]:
        """At most `count` tokens; none without a match."""
        (draft,) = self._drafter.propose([View(0, Tokens(self._known), Sampling())], [Budget(count, count)])
        return draft.tokens

    def observe(self, tokens: Sequence[int]) -> None:
        self._known += tokens
        self._drafter.observe([Outcome(0, EMPTY, (), tuple(tokens))])


@dataclass(slots=True)
class Sum:
    """What a rule did over some answers; cost in units of a one-row pass."""

    tokens: int = 0
    passes: int = 0
    drafted: int = 0
    accepted: int = 0
    cost: float = 0.0


def replay(drafter: FixedLength | AsBuilt, gamma: int, prompt: list[int], answer: list[int], cost: list[float]) -> Sum:
    """Draft along a known answer; the first token comes with the prompt."""
    total = Sum(tokens=len(answer) - 1)
    drafter.begin(0, [*prompt, answer[0]])
    at = 1
    while at < len(answer):
        draft = drafter.guess(min(gamma, len(answer) - at - 1))
        kept = 0
        while kept < len(draft) and draft[kept] == answer[at + kept]:
            kept += 1
        total.passes += 1
        total.drafted += len(draft)
        total.accepted += kept
        total.cost += cost[1 + len(draft)]
        drafter.observe(answer[at : at + kept + 1])
        at += kept + 1
    return total


def pass_costs(backend: NativeBackend, most: int, rounds: int) -> list[float]:
    """Cost of a pass by its rows (index 0 unused), in units of a one-row pass."""
    grid = profile.Grid((profile.Line(1, CONTEXT, tuple(range(1, most + 1))),), (), ROUND_S * rounds)
    costs = profile.measure(backend, grid, perf_counter, "").passes
    return [0.0, *(cost.seconds / costs[0].seconds for cost in costs)]


def answers(engine: Engine, prompts: list[_prompts.Prompt], tokens: int) -> list[list[int]]:
    """The plain answers, all in one batch."""
    requests = [Request(prompt.ids, tokens, ignore_eos=True) for prompt in prompts]
    found: list[list[int]] = [[] for _ in prompts]
    for chunk in engine.generate(requests):
        found[chunk.request] += chunk.token_ids
    return found


def measure(arguments: argparse.Namespace) -> None:
    file = gguf.read(sources.resolve(arguments.model))
    backend = NativeBackend(file, threads=arguments.threads)
    tokenizer = Tokenizer(file.tokenizer)
    engine = Engine(backend, None, Fixed(0), lambda: Detokenizer(tokenizer, skip_special=True), tokenizer.eos_ids)
    prompts = _prompts.prompts(arguments.questions, arguments.per_group, file.tokenizer)
    cost = pass_costs(backend, max(arguments.gamma) + 1, arguments.rounds)
    written = answers(engine, prompts, arguments.tokens)
    groups = [*dict.fromkeys(prompt.group for prompt in prompts)]
    rows, results = [], []
    makers: tuple[type[FixedLength] | type[AsBuilt], ...] = (FixedLength, AsBuilt)
    for make in makers:
        for longest in arguments.longest:
            for gamma in arguments.gamma:
                sums = [replay(make(longest), gamma, p.ids, a, cost) for p, a in zip(prompts, written, strict=True)]
                speed = {
                    group: _ratio([s for s, p in zip(sums, prompts, strict=True) if p.group == group])
                    for group in groups
                }
                tau = sum(s.tokens for s in sums) / sum(s.passes for s in sums)
                kept = sum(s.accepted for s in sums) / max(1, sum(s.drafted for s in sums))
                name = f"{make.name}, n {longest}, gamma {gamma}"
                cells = [f"{_ratio(sums):.3f}", f"{tau:.2f}", f"{kept:.2f}", *(f"{x:.2f}" for x in speed.values())]
                rows.append([name, *cells])
                results.append(
                    {
                        "rule": make.name,
                        "longest": longest,
                        "gamma": gamma,
                        "speedup": _ratio(sums),
                        "tokens_per_pass": tau,
                        "acceptance": kept,
                        "groups": speed,
                    }
                )
    if not arguments.json:
        print("cost    " + ", ".join(f"{n}: {c:.2f}" for n, c in enumerate(cost) if n))
        _report.table(["rule", "speed-up", "tau", "kept", *groups], rows)
    _report.finish(arguments, {"cost": cost[1:], "rules": results})


def _ratio(sums: Sequence[Sum]) -> float:
    return sum(s.tokens for s in sums) / sum(s.cost for s in sums)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _report.add_common(parser, rounds=15)
    _prompts.add_options(parser)
    parser.set_defaults(per_group=8)
    parser.add_argument("--tokens", type=int, default=128, help="length of each answer; default 128")
    parser.add_argument("--longest", type=int, nargs="+", default=[4, 6], help="longest n-grams looked up")
    parser.add_argument("--gamma", type=int, nargs="+", default=[2, 3, 4, 6, 8], help="most tokens drafted")
    arguments = parser.parse_args()
    try:
        _report.begin(arguments)
        measure(arguments)
    except OutriderError as error:
        print(f"drafts.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
