"""The goodput policy against plain decoding and against every fixed draft length, measured in turn.

    python benchmarks/goodput.py [--drafter auto] [--store FILE] [--gamma 1 2 4 8] [--no-profile] [--clock free]

Three questions, each with the floor that the policy has to hold:
- never slower: a prompt and an answer of random words, with drafters that guess nothing, everything wrong, or slowly;
  against plain decoding, after the first 32 tokens (0.97). Each answer has a policy that knows nothing yet.
- it comes back: an answer that is random first and a copy of the prompt afterwards; the copy's speed against that of
  the best fixed draft length (0.90).
- mixed text: the model's own answers to prompts of Spec-Bench; against the best fixed length (0.95).

The last two are asked of one drafter, --drafter.

The texts of the first two are scripted: every pass is computed and every row's token drawn, as always, but the script's
token takes its place. So the cost is the model's and the text is known. Best means best over all rounds together.

With --clock nothing is measured: passes take what that clock of benchmarks/_clock.py says, and drafting its share, so
that what comes out depends on the texts alone, and not on how busy the machine is.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeAlias, cast
from unittest.mock import patch

import _prompts
import _report
from _clock import ASK_S, CLOCKS, NODE_S, OTHER_S, PASS_S, costing
from _pretended import Passes, Pretended, Priced, PricedHead
from _report import Spread

from outrider import loading
from outrider.api import Request
from outrider.backends.base import Backend, Extend
from outrider.backends.native import NativeBackend
from outrider.cost import profile
from outrider.cost.model import StepCost, fit
from outrider.drafters.base import Drafter
from outrider.drafters.ngram import NgramDrafter
from outrider.engine.engine import Engine
from outrider.errors import OutriderError
from outrider.models import gguf, sources
from outrider.models.tokenizer import Detokenizer
from outrider.policy.base import Policy
from outrider.policy.fixed import Fixed
from outrider.policy.goodput import paying
from outrider.testing import drafters

PROMPT_TOKENS = 192
LEARNING_TOKENS = 32
PLAIN, OURS = "plain", "goodput"
FLOORS = {"never slower": 0.97, "it comes back": 0.90, "mixed text": 0.95}


class Scripted:
    """A backend that computes every pass and then says what the script says."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.script: Sequence[int] = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def extend(self, items: Sequence[Extend]) -> Any:
        starts = [self._backend.length(item.seq) for item in items]
        return _ScriptedScores(self._backend.extend(items), items, starts, self.script)


class _ScriptedScores:
    def __init__(self, scores: Any, items: Sequence[Extend], starts: Sequence[int], script: Sequence[int]) -> None:
        self._scores = scores
        self._items = items
        self._starts = starts
        self._script = script

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scores, name)

    def token(self, item: int, row: int, *adjust: Any) -> int:
        self._scores.token(item, row, *adjust)
        position, parents = self._starts[item], self._items[item].parents
        if parents is None:
            position += row
        else:
            while parents[row] >= 0:
                row, position = parents[row], position + 1
        return self._script[min(position + 1, len(self._script) - 1)]


def spin(seconds: float) -> None:
    """Wait as a busy drafter would."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


Make: TypeAlias = Callable[[Drafter | None], Policy]


def fixed(gamma: int) -> Make:
    """Always so many nodes, whoever drafts."""
    return lambda _: Fixed(gamma)


@dataclass(frozen=True, slots=True)
class Bench:
    """What all measurements share. engine makes a fresh one for a drafter and a policy."""

    engine: Callable[[Drafter | None, Make, bool], Engine]
    drafter: Callable[[], Drafter]
    scripted: Scripted
    cost: StepCost | None
    gammas: Sequence[int]
    rounds: int
    vocab: int
    clock: Callable[[], float]
    wait: Callable[[float], None]

    def ours(self, drafter: Drafter | None) -> Policy:
        """As outrider.load makes it for a drafter, but for the cost."""
        return paying(drafter, self.cost)

    def policies(self) -> dict[str, Make]:
        """Ours, and every fixed length."""
        return {OURS: self.ours, **{f"gamma {gamma}": fixed(gamma) for gamma in self.gammas}}

    def timed(self, engine: Engine, ids: Sequence[int], count: int, skip: int) -> tuple[int, float]:
        """Tokens and seconds of an answer, from the first chunk on that ends behind its first `skip` tokens."""
        found, first, start = 0, 0, 0.0
        for chunk in engine.generate([Request(ids, count, ignore_eos=True)]):
            found += len(chunk.token_ids)
            if not first and found > skip:
                start, first = self.clock(), found
        return found - first, self.clock() - start


def never_slower(bench: Bench, count: int) -> dict[str, Spread]:
    """Speed against plain decoding, by drafter."""
    makers: dict[str, Callable[[], Drafter]] = {
        "n-gram": NgramDrafter,
        bench.drafter().name: bench.drafter,
        "one id for ever": partial(drafters.constant, 5000),
        "random ids": partial(drafters.uniform, bench.vocab, 1),
        "n-gram, 5 ms late": lambda: Priced(NgramDrafter(), bench.wait, 5e-3, 0.0),
        "one id, 1 ms a node": lambda: Priced(drafters.constant(5000), bench.wait, 0.0, 1e-3),
    }
    speeds: dict[str, list[float]] = {name: [] for name in (PLAIN, *makers)}
    for number in range(bench.rounds):
        chance = random.Random(number)
        text = [chance.randrange(1000, bench.vocab) for _ in range(PROMPT_TOKENS + count)]
        bench.scripted.script = text
        for name in speeds:
            drafter = None if name == PLAIN else makers[name]()
            engine = bench.engine(drafter, fixed(0) if drafter is None else bench.ours, True)
            tokens, seconds = bench.timed(engine, text[:PROMPT_TOKENS], count, LEARNING_TOKENS)
            speeds[name].append(tokens / seconds)
        _report.say(f"never slower: round {number + 1} of {bench.rounds} done")
    return {name: Spread.of_ratios(speeds[name], speeds[PLAIN]) for name in makers}


def comes_back(bench: Bench, count: int) -> dict[str, Spread]:
    """Speed on the copy against the best fixed length, of all policies."""
    half = min(count, PROMPT_TOKENS)
    speeds: dict[str, list[float]] = {name: [] for name in bench.policies()}
    for number in range(bench.rounds):
        chance = random.Random(100 + number)
        text = [chance.randrange(1000, bench.vocab) for _ in range(PROMPT_TOKENS + half)]
        bench.scripted.script = text + text[:half]
        for name, policy in bench.policies().items():
            engine = bench.engine(bench.drafter(), policy, True)
            tokens, seconds = bench.timed(engine, text[:PROMPT_TOKENS], 2 * half, half)
            speeds[name].append(tokens / seconds)
        _report.say(f"it comes back: round {number + 1} of {bench.rounds} done")
    return _against_best(speeds)


def mixed(bench: Bench, prompts: Sequence[_prompts.Prompt], count: int) -> dict[str, Spread]:
    """Speed over all prompts against the best fixed length; in a round, a policy goes through all of them."""
    speeds: dict[str, list[float]] = {name: [] for name in bench.policies()}
    for number in range(bench.rounds):
        engines = {name: bench.engine(bench.drafter(), make, False) for name, make in bench.policies().items()}
        runs: dict[str, list[tuple[int, float]]] = {name: [] for name in engines}
        for prompt in prompts:
            for name, engine in engines.items():
                runs[name].append(bench.timed(engine, prompt.ids, count, 0))
        for name, of_policy in runs.items():
            speeds[name].append(sum(tokens for tokens, _ in of_policy) / sum(seconds for _, seconds in of_policy))
        _report.say(f"mixed text: round {number + 1} of {bench.rounds} done")
    return _against_best(speeds)


def _against_best(speeds: dict[str, list[float]]) -> dict[str, Spread]:
    best = max((name for name in speeds if name != OURS), key=lambda name: Spread.of(speeds[name]).middle)
    return {name: Spread.of_ratios(of_policy, speeds[best]) for name, of_policy in speeds.items()}


def prepare(arguments: argparse.Namespace, stack: ExitStack) -> tuple[Bench, list[_prompts.Prompt]]:
    """Load the model and, unless that is not wanted or a clock is given, measure what its passes cost."""
    path = sources.resolve(arguments.model)
    llm, data = loading.load(path, "none", threads=arguments.threads), gguf.read(path).tokenizer
    backend = llm.backend
    clock, wait = time.perf_counter, spin
    cost = None
    if arguments.clock:
        clock = pretended = Pretended()
        wait = pretended.wait
        cost = costing(PASS_S, CLOCKS[arguments.clock])
        attach = NativeBackend.attach
        stack.enter_context(
            patch.object(NativeBackend, "attach", lambda *given: PricedHead(attach(*given), wait, PASS_S))
        )
        backend = cast(Backend, Passes(backend, pretended, cost, OTHER_S))
    elif arguments.profile:
        date = datetime.now(UTC).isoformat(timespec="seconds")
        cost = fit(profile.measure(backend, profile.QUICK, time.perf_counter, date).passes)
    scripted = Scripted(backend)

    def engine(drafter: Drafter | None, make_policy: Make, by_script: bool) -> Engine:
        computed = cast(Backend, scripted) if by_script else backend
        text = partial(Detokenizer, llm.tokenizer, skip_special=True)
        if arguments.clock and drafter is not None:
            drafter = Priced(drafter, wait, ASK_S, NODE_S)
        return Engine(computed, drafter, make_policy(drafter), text, llm.tokenizer.eos_ids, clock=clock)

    prompts = _prompts.prompts(arguments.questions, arguments.per_group, data)
    drafter = partial(loading.make_drafter, llm, arguments.drafter, arguments.store)
    known = cost if arguments.profile else None
    bench = Bench(engine, drafter, scripted, known, arguments.gamma, arguments.rounds, backend.vocab, clock, wait)
    return bench, prompts


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _report.add_common(parser)
    _prompts.add_options(parser)
    parser.add_argument("--gamma", type=int, nargs="+", default=[1, 2, 4, 8], help="fixed lengths")
    parser.add_argument("--max-tokens", type=int, default=128, help="length of each answer; default 128")
    parser.add_argument("--drafter", default="auto", help="who drafts; default auto")
    parser.add_argument("--store", help="a store for auto")
    parser.set_defaults(per_group=2)
    parser.add_argument("--no-profile", dest="profile", action="store_false", help="let the policy start from a prior")
    parser.add_argument("--clock", choices=tuple(CLOCKS), help="measure nothing: pretend that passes take so long")
    arguments = parser.parse_args()
    if arguments.max_tokens < 2 * LEARNING_TOKENS:
        raise OutriderError(f"--max-tokens is {arguments.max_tokens}; an answer needs at least {2 * LEARNING_TOKENS}")
    _report.begin(arguments, timed=not arguments.clock)
    with ExitStack() as stack:
        bench, prompts = prepare(arguments, stack)
        found = {
            "never slower": never_slower(bench, arguments.max_tokens),
            "it comes back": comes_back(bench, arguments.max_tokens),
            "mixed text": mixed(bench, prompts, arguments.max_tokens),
        }
    if not arguments.json:
        for name, spreads in found.items():
            _report.table(
                [f"{name} (floor {FLOORS[name]})", "speed"], [[who, spread.text()] for who, spread in spreads.items()]
            )
    data = {
        name: {"floor": FLOORS[name], **{who: spread.data() for who, spread in spreads.items()}}
        for name, spreads in found.items()
    }
    _report.finish(arguments, {"profile": arguments.profile, "clock": arguments.clock, "questions": data})


if __name__ == "__main__":
    _report.start(main)
