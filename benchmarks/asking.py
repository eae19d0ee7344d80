"""When to ask a head beside what can be looked up, against the truth: known answers, known costs.

    python benchmarks/asking.py [--head FOLDER] [--store FILE] [--questions FILE] [--per-group 160]

The model answers prompts that nobody trained on once, plainly, and the head says at every place what it would guess.
All else replays that under a clock of which every pass of n rows takes T(n), --pass-ms times --ratios, a chain of the
head what drafters/head.py says of its share of the weights, and drafting without it --draft-us and --node-us for each
node. So the figures depend on nothing but the clock.

- as it is: `auto`'s blend with its rule for asking (drafters/worth.py)
- always, never: without a rule; never is the blend that knows of no head
- without floors: looking for all nodes that a budget allows (docs/policy.md)
- chains: ended where the likeliest tokens are together less likely than so much
- head alone

Both clocks of benchmarks/_clock.py are printed where none is given.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast
from unittest.mock import patch

import _prompts
import _report
from _clock import ASK_S, CLOCKS, NODE_S, OTHER_S, PASS_S, Clock, Sum, costing, parsed, replay
from _replay import Written, chains, write

from outrider import loading
from outrider.backends.base import Head, HeadChain, HeadDrawn, HeadHost
from outrider.core.step import Budget, Load, StepTime, View
from outrider.cost.model import StepCost
from outrider.drafters import blended
from outrider.drafters import head as heads
from outrider.drafters.base import Drafter
from outrider.drafters.blended import BlendedDrafter, Sourced
from outrider.drafters.head import HeadDrafter
from outrider.drafters.store import StoreDrafter
from outrider.drafters.storefile import StoreFile
from outrider.drafters.suffix import SuffixDrafter
from outrider.drafters.worth import Worth
from outrider.errors import UsageError
from outrider.models import headfile, shipped
from outrider.policy.base import Policy
from outrider.policy.goodput import MOST_NODES, Goodput

CHAINS = (0.2, 0.35, 0.5, 0.65)
_LEAST = 0.1  # of the chains that are recorded
_PROMPTS = Path(__file__).resolve().parents[1] / "training" / "fit.jsonl"


class Recalled:
    """A Head that says again what was recorded, answer by answer, and counts what that would have taken."""

    def __init__(self, head: Head, pass_s: float, said: Sequence[dict[int, HeadDrawn]]) -> None:
        self.share, self.independent = head.share, head.independent
        self._pass_s, self._said, self._answer = pass_s, said, -1
        self.asked, self._seconds = 0, 0.0

    def begin(self, seq: int) -> bool:
        self._answer += 1
        return True

    def end(self, seq: int) -> None:
        """Nothing is kept."""

    def draft(self, items: Sequence[HeadChain]) -> list[HeadDrawn]:
        return [self._draft(item) for item in items]

    def spent(self) -> float:
        """Seconds of the asks since it was called last."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def _draft(self, item: HeadChain) -> HeadDrawn:
        said = self._said[self._answer][item.position]
        steps, together = 0, 1.0
        while steps < min(item.steps, len(said.tokens)) and together >= item.least:
            together *= said.likely[steps][0][1]
            steps += 1
        self.asked += 1
        self._seconds += self._pass_s * self.share * heads.chain_cost(steps)
        return HeadDrawn(said.tokens[:steps], said.likely[:steps])


@dataclasses.dataclass(frozen=True, slots=True)
class Asked(Clock):
    """A clock that also counts what a recalled head takes."""

    head: Recalled

    def step(self, asked: bool, drafted: int, rows: int, context: int) -> StepTime:
        found, more_s = Clock.step(self, asked, drafted, rows, context), self.head.spent()
        return StepTime(found.total_s + more_s, found.draft_s + more_s, found.target_s)


@dataclasses.dataclass(frozen=True, slots=True)
class Trial:
    """What is replayed, and how."""

    written: Sequence[Written]
    said: Sequence[dict[int, HeadDrawn]]
    head: Head
    store: StoreFile
    cost: StepCost
    draft_s: float
    node_s: float
    other_s: float

    def run(
        self,
        make: Callable[[Head | None, StoreFile], Drafter],
        with_head: bool = True,
        policy: Callable[..., Policy] = Goodput,
    ) -> tuple[Sum, float]:
        """The sums, and the share of passes before which the head was asked."""
        recalled = Recalled(self.head, self.cost.seconds(1, 1, 256), self.said)
        drafter = make(recalled if with_head else None, self.store)
        clock = Asked(self.cost, self.draft_s, self.node_s, self.other_s, recalled)
        weighs = with_head and isinstance(drafter, BlendedDrafter)
        sums = replay(drafter, lambda: policy(self.cost, weighs=weighs), False, False, self.written, clock, None)
        return sums["all"], recalled.asked / sums["all"].passes


class Floorless(Goodput):
    """Asks for all nodes, however unlikely."""

    def budgets(self, views: Sequence[View], load: Load) -> list[Budget]:
        return [Budget(budget.nodes, budget.depth) for budget in super().budgets(views, load)]


def blend(head: Head | None, store: StoreFile) -> Drafter:
    members: list[Sourced] = [SuffixDrafter(), StoreDrafter(store)]
    return BlendedDrafter([*members, *([] if head is None else [HeadDrafter(head)])])


def alone(head: Head | None, store: StoreFile) -> Drafter:
    assert head is not None
    return HeadDrafter(head)


def trials(trial: Trial) -> dict[str, tuple[Sum, float]]:
    """By name."""
    found = {
        "never": trial.run(blend, False),
        "never, without floors": trial.run(blend, False, Floorless),
        "as it is": trial.run(blend),
        "as it is, without floors": trial.run(blend, policy=Floorless),
    }
    with (
        patch.object(Worth, "pays", lambda *_: True),
        patch.object(Worth, "compares", lambda *_: False),
        patch.object(blended, "_RUN", math.inf),
    ):
        found["always"] = trial.run(blend)
    for least in CHAINS:
        with patch.object(heads, "LEAST_BESIDE", least):
            found[f"as it is, chains {least}"] = trial.run(blend)
    for least in CHAINS:
        with patch.object(heads, "LEAST", least):
            found[f"head alone, chains {least}"] = trial.run(alone)
    return found


def run(arguments: argparse.Namespace) -> None:
    """Write, record, replay and print."""
    llm = loading.load(arguments.model, "none", threads=arguments.threads)
    host = cast(HeadHost, llm.backend)
    ships = shipped.find(host.fingerprint)
    folder, store = arguments.head or ships.head, arguments.store or ships.store
    if folder is None or store is None:
        raise UsageError("nothing ships for this model; give --head and --store")
    texts = [text for group in _prompts.turns(arguments.questions, arguments.per_group).values() for text in group]
    written = [write(llm, _prompts.Prompt("own", llm.encode(text)), arguments.tokens) for text in texts]
    head = host.attach(headfile.read(Path(folder)))
    said = chains(written, llm.backend, head, MOST_NODES, heads.WIDTH, _LEAST)
    results: dict[str, dict[str, dict[str, float]]] = {}
    clocks = {"given": tuple(arguments.ratios)} if arguments.ratios else CLOCKS
    for name, ratios in clocks.items():
        cost = costing(1e-3 * arguments.pass_ms, ratios)
        times = (1e-6 * us for us in (arguments.draft_us, arguments.node_us, arguments.other_us))
        found = trials(Trial(written, said, head, StoreFile(store), cost, *times))
        results[name] = {
            how: {
                "tokens_per_pass": total.tokens / total.passes,
                "speed": total.plain_s / total.seconds,
                "drafted": total.drafted / total.passes,
                "nodes": total.nodes / total.passes,
                "asked": asked,
            }
            for how, (total, asked) in found.items()
        }
        if not arguments.json:
            rows = [
                [how, *(f"{row[what]:.3f}" for what in ("tokens_per_pass", "speed", "drafted", "nodes", "asked"))]
                for how, row in results[name].items()
            ]
            _report.table([f"rows {name}", "tokens a pass", "of plain", "drafted", "in a pass", "asked"], rows)
    _report.finish(arguments, {"answers": len(written), "results": results})


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _report.add_model(parser)
    parser.add_argument("--head", type=Path, help="a folder with a head of the model; default: what ships for it")
    parser.add_argument("--store", type=Path, help="a store of its tokenizer; default: what ships for it")
    _prompts.add_options(parser, _PROMPTS)
    parser.set_defaults(per_group=160)
    parser.add_argument("--tokens", type=int, default=128, help="of each answer; default 128")
    for name, seconds, what in (
        ("--draft-us", ASK_S, "of drafting, the head left out"),
        ("--node-us", NODE_S, "of each node drafted"),
        ("--other-us", OTHER_S, "of the engine"),
    ):
        parser.add_argument(name, type=float, default=1e6 * seconds, help=f"{what}; default %(default).0f")
    parser.add_argument("--pass-ms", type=float, default=1e3 * PASS_S, help="T(1); default %(default).1f")
    arguments = parsed(parser)
    _report.begin(arguments)
    run(arguments)


if __name__ == "__main__":
    _report.start(main)
