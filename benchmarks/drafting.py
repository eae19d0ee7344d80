"""Where the microseconds of a step go, drafter by drafter.

    python benchmarks/drafting.py [--store FILE] [--drafters auto ngram] [--tokens 64]

The model answers prompts of Spec-Bench with each drafter in turn, with as much as pays and with a fixed number of
nodes. Every step is timed from inside; a figure is the median over all steps of all rounds, but those that read a
prompt.

- propose, observe: the drafter's two verbs
- policy: the policy's three
- checks: what is left of the drafting time: the engine's checks, and the wrappers for constraints and predictions
- target: of the pass only what drafting adds beside its rows, the reading of runner-up tokens (recycle): the time of a
  call times the rows of a pass
- step: all of it together, and as a share of a plain step

Answers are compared with the plain ones, and one that differs ends the run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import mean, median

import _prompts
import _report
from _wrapper import Wrapper

from outrider import loading
from outrider.api import Request
from outrider.backends.base import Extend, Want
from outrider.core.step import Budget, Load, Outcome, StepTime, View
from outrider.core.types import Draft
from outrider.drafters.base import Drafter
from outrider.drafters.expecting import ExpectingDrafter
from outrider.drafters.grammar import GrammarDrafter
from outrider.engine.engine import Engine
from outrider.errors import OutriderError
from outrider.llm import LLM
from outrider.models import gguf, sources
from outrider.models.tokenizer import Detokenizer
from outrider.policy.base import Policy
from outrider.policy.fixed import Fixed
from outrider.policy.goodput import paying

NAMES = ("ngram", "suffix", "recycle", "store", "auto")
WITH_STORE = ("store", "auto")
PLAIN = "plain"


@dataclass(slots=True)
class Clocks:
    """Seconds of the step at hand, and of all steps by column; `nodes` of drafts that were in a pass."""

    now: dict[str, float] = field(default_factory=dict)
    steps: list[dict[str, float]] = field(default_factory=list)

    def timed(self, column: str, start: float) -> None:
        self.now[column] = self.now.get(column, 0.0) + time.perf_counter() - start

    def close(self, outcomes: Sequence[Outcome], step: StepTime) -> None:
        """A step is over; all columns were timed but the last verb of the policy."""
        known = sum(self.now.get(column, 0.0) for column in ("propose", "observe", "budgets"))
        self.now["checks"] = step.draft_s - known
        self.now["total"], self.now["target"] = step.total_s, step.target_s
        self.now["nodes"] = sum(len(outcome.draft) for outcome in outcomes)
        self.now["tokens"] = sum(len(outcome.tokens) for outcome in outcomes)


class TimedDrafter(Wrapper):
    """A drafter under a clock."""

    def __init__(self, inner: Drafter, clocks: Clocks) -> None:
        super().__init__(inner)
        self._clocks = clocks

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        start = time.perf_counter()
        drafts = self._inner.propose(views, budgets)
        self._clocks.timed("propose", start)
        return drafts

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        start = time.perf_counter()
        self._inner.observe(outcomes)
        self._clocks.timed("observe", start)


class TimedPolicy:
    """A policy under a clock; it also closes the steps."""

    def __init__(self, inner: Policy, clocks: Clocks) -> None:
        self._inner = inner
        self._clocks = clocks
        self._reads = False

    def budgets(self, views: Sequence[View], load: Load) -> list[Budget]:
        self._clocks.now = {}
        self._reads = load.rows > load.sequences
        start = time.perf_counter()
        found = self._inner.budgets(views, load)
        self._clocks.timed("budgets", start)
        return found

    def admit(self, views: Sequence[View], drafts: Sequence[Draft], load: Load) -> list[Draft]:
        start = time.perf_counter()
        found = self._inner.admit(views, drafts, load)
        self._clocks.timed("budgets", start)
        return found

    def observe(self, outcomes: Sequence[Outcome], time_: StepTime) -> None:
        clocks = self._clocks
        clocks.close(outcomes, time_)
        start = time.perf_counter()
        self._inner.observe(outcomes, time_)
        clocks.timed("budgets", start)
        if not self._reads:
            clocks.steps.append(clocks.now)


@dataclass(frozen=True, slots=True)
class Contender:
    """A drafter and how much it drafts; None: plain decoding."""

    name: str
    drafter: Callable[[], Drafter] | None
    policy: Callable[[Drafter | None], Policy]


def contenders(llm: LLM, names: Sequence[str], store: str | None, gamma: int) -> list[Contender]:
    """Drafters that cost next to nothing, with as much as pays and with gamma nodes."""
    makers = {name: partial(loading.make_drafter, llm, name) for name in names if name != "store"}
    if store is not None:
        stored = [name for name in names if name in WITH_STORE]
        makers |= {f"{name} with store": partial(loading.make_drafter, llm, name, store) for name in stored}
    found = [Contender(PLAIN, None, lambda _: Fixed(0))]
    for name, make in makers.items():
        found.append(Contender(name, make, paying))
        found.append(Contender(f"{name}, {gamma} nodes", make, lambda _: Fixed(gamma)))
    return found


def answers(llm: LLM, who: Contender, prompts: Sequence[_prompts.Prompt], tokens: int) -> tuple[list[int], Clocks]:
    """All ids, and what the steps took."""
    clocks = Clocks()
    # Plain decoding is drafted for as well, nothing, so that its steps are seen.
    drafter = _Silent() if who.drafter is None else who.drafter()
    timed = TimedDrafter(drafter, clocks)
    engine = Engine(
        llm.backend,
        GrammarDrafter(ExpectingDrafter(timed)),
        TimedPolicy(who.policy(drafter), clocks),
        partial(Detokenizer, llm.tokenizer, skip_special=True),
        llm.tokenizer.eos_ids,
    )
    ids = [
        token
        for prompt in prompts
        for chunk in engine.generate([Request(prompt.ids, tokens)])
        for token in chunk.token_ids
    ]
    return ids, clocks


class _Silent:
    """Never has a guess."""

    name = "silent"

    def begin(self, seq: int, prompt: Sequence[int]) -> None:
        """Nothing to keep."""

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        raise AssertionError("nobody asks it: its budget is 0")

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Nothing to learn."""

    def end(self, seq: int) -> None:
        """Nothing to forget."""


def follower_s(llm: LLM, ids: Sequence[int], rounds: int) -> float:
    """Seconds that the eight likeliest tokens of one row take."""
    seq, found = llm.backend.open(), []
    want = [Want.NONE] * (len(ids) - 1) + [Want.TOKEN]
    scores = llm.backend.extend([Extend(seq, ids, None, want)])
    for _ in range(20 * rounds):
        start = time.perf_counter()
        scores.top(0, len(ids) - 1, 8)
        found.append(time.perf_counter() - start)
    llm.backend.close(seq)
    return median(found)


def line(name: str, clocks: Clocks, plain_s: float, row_s: float, reads: bool) -> dict[str, float | str]:
    """The figures of one contender, in microseconds."""
    us = {
        column: 1e6 * median(step.get(column, 0.0) for step in clocks.steps)
        for column in ("propose", "observe", "budgets", "checks")
    }
    nodes = mean(step["nodes"] for step in clocks.steps)
    us["target"] = 1e6 * row_s * (nodes + 1.0) if reads else 0.0
    tau = mean(step["tokens"] for step in clocks.steps)
    step_us = sum(us.values())
    return {"name": name, "nodes": nodes, "tokens": tau, **us, "step": step_us, "share": 1e-6 * step_us / plain_s}


def run(arguments: argparse.Namespace) -> None:
    """Measure and print."""
    path = sources.resolve(arguments.model)
    llm, data = loading.load(path, "none", threads=arguments.threads), gguf.read(path).tokenizer
    prompts = _prompts.prompts(arguments.questions, arguments.per_group, data)
    everybody = contenders(llm, arguments.drafters, arguments.store, arguments.gamma)
    all_of = {who.name: Clocks() for who in everybody}
    reads: dict[str, bool] = {}
    expected: list[int] = []
    for number in range(arguments.rounds):
        for who in everybody:
            reads[who.name] = who.drafter is not None and int(getattr(who.drafter(), "followers", 0)) > 0
            ids, clocks = answers(llm, who, prompts, arguments.tokens)
            expected = expected or ids
            if ids != expected:
                raise OutriderError(f"round {number + 1}: the answers with {who.name} differ")
            all_of[who.name].steps += clocks.steps
        _report.say(f"round {number + 1} of {arguments.rounds} done")
    row_s = follower_s(llm, prompts[0].ids, arguments.rounds)
    plain_s = median(step["total"] for step in all_of[PLAIN].steps)
    lines = [line(name, clocks, plain_s, row_s, reads[name]) for name, clocks in all_of.items()]
    if not arguments.json:
        print(f"plain   {1e3 * plain_s:.2f} ms a step; the likeliest tokens of a row {1e6 * row_s:.1f} us")
        head = ["", "nodes", "tokens/pass", "propose", "observe", "policy", "checks", "target", "step, us", "of plain"]
        _report.table(head, [cells(found) for found in lines])
    _report.finish(arguments, {"plain_s": plain_s, "row_s": row_s, "lines": lines})


def cells(found: dict[str, float | str]) -> list[str]:
    numbers = [f"{found[column]:.1f}" for column in ("propose", "observe", "budgets", "checks", "target", "step")]
    share = float(found["share"])
    return [str(found["name"]), f"{found['nodes']:.2f}", f"{found['tokens']:.2f}", *numbers, f"{100 * share:.1f} %"]


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _report.add_common(parser)
    _prompts.add_options(parser)
    parser.set_defaults(per_group=1)
    parser.add_argument("--drafters", nargs="+", choices=NAMES, default=NAMES, help="default: all")
    parser.add_argument("--store", help="a store of the model's tokenizer (outrider store build)")
    parser.add_argument("--tokens", type=int, default=64, help="of each answer; default 64")
    parser.add_argument("--gamma", type=int, default=8, help="nodes of the fixed drafts; default 8")
    arguments = parser.parse_args()
    _report.begin(arguments)
    run(arguments)


if __name__ == "__main__":
    _report.start(main)
