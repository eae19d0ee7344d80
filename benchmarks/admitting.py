"""How much the policy drafts, against the truth: known answers, known costs, and what would have been best.

    python benchmarks/admitting.py [--store FILE] [--drafter auto] [--ratios 1 1.07 1.14 ...] [--per-group 8] [--busy]

The model answers prompts of Spec-Bench once, plainly; all else replays these answers with a drafter, under a clock of
which every pass of n rows takes T(n): as measured by a quick profile, or 1 ms times --ratios. What drafting takes is
--draft-us and --node-us, what else a step takes --other-us. So the figures are exact, but for T itself. With --busy the
policy is told the times of a machine that others use as well: spells of passes that take up to 2.5 times as long, and
single ones that take up to 5 times; the figures count the true times.

- fixed: that many nodes always
- by score: the prefix of each draft with the highest goodput, the drafter's scores taken for chances
- goodput: the policy as it is, from a prior of T; with the measured T; and a fresh one for each answer, of which the
  first tokens are learning
- oracle: drafts exactly what will be kept of the same drafts; nobody can do better with this drafter

Runner-up tokens of rejected rows are not replayed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial

import _prompts
import _report
from _clock import Busy, Clock, costing, parsed, replay
from _replay import write

from outrider import loading
from outrider.core import tree
from outrider.core.step import Budget, Load, Outcome, StepTime, View
from outrider.core.types import Draft
from outrider.cost import profile
from outrider.cost.model import fit
from outrider.models import gguf, sources
from outrider.policy.base import Policy
from outrider.policy.fixed import Fixed
from outrider.policy.goodput import MOST_NODES, Goodput

FIXED = (1, 2, 3, 4, 5, 6, 7, 8, 12)


class ByScore:
    """Asks for all there is and takes scores for chances."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def budgets(self, views: Sequence[View], load: Load) -> list[Budget]:
        return [Budget(MOST_NODES, MOST_NODES)] * len(views)

    def admit(self, views: Sequence[View], drafts: Sequence[Draft], load: Load) -> list[Draft]:
        return [self._best(draft, len(view.tokens)) for view, draft in zip(views, drafts, strict=True)]

    def observe(self, outcomes: Sequence[Outcome], time_: StepTime) -> None:
        """Nothing to learn: it believes."""

    def _best(self, draft: Draft, context: int) -> Draft:
        kept: list[float] = []
        for parent, score in zip(draft.parents, draft.score or (), strict=True):
            kept.append(score * (kept[parent] if parent >= 0 else 1.0))
        order = sorted(range(len(kept)), key=kept.__getitem__, reverse=True)
        best, tokens, highest = 0, 1.0, 1.0 / self._clock.step(True, len(draft), 1, context).total_s
        for count, node in enumerate(order, 1):
            tokens += kept[node]
            goodput = tokens / self._clock.step(True, len(draft), 1 + count, context).total_s
            if goodput > highest:
                best, highest = count, goodput
        return tree.keep(draft, sorted(order[:best]))


def run(arguments: argparse.Namespace) -> None:
    """Write, replay and print."""
    path = sources.resolve(arguments.model)
    llm = loading.load(path, "none", threads=arguments.threads)
    if arguments.ratios:
        cost = costing(1e-3, arguments.ratios)
    else:
        date = datetime.now(UTC).isoformat(timespec="seconds")
        cost = fit(profile.measure(llm.backend, profile.QUICK, time.perf_counter, date).passes)
    unit_s = cost.seconds(1, 1, 256)
    share = unit_s / 3.6e-3 if arguments.ratios else 1.0
    clock = Clock(cost, *(1e-6 * share * us for us in (arguments.draft_us, arguments.node_us, arguments.other_us)))
    prompts = _prompts.prompts(arguments.questions, arguments.per_group, gguf.read(path).tokenizer)
    written = [write(llm, prompt, arguments.tokens) for prompt in prompts]
    makers: dict[str, tuple[Callable[[], Policy], bool, bool]] = {
        **{f"fixed {nodes}": (partial(Fixed, nodes), False, False) for nodes in FIXED},
        "by score": (partial(ByScore, clock), False, False),
        "goodput": (Goodput, False, False),
        "goodput, T measured": (partial(Goodput, cost), False, False),
        "goodput, fresh": (Goodput, True, False),
        "oracle": (partial(Fixed, MOST_NODES), False, True),
    }
    found = {
        name: replay(
            loading.make_drafter(llm, arguments.drafter, arguments.store, "none"),
            *how,
            written,
            clock,
            Busy() if arguments.busy else None,
        )
        for name, how in makers.items()
    }
    if not arguments.json:
        print("T(n)    " + ", ".join(f"{n}: {cost.seconds(1, n, 256) / unit_s:.2f}" for n in range(1, 18)))
        rows = [
            [name, f"{sums['all'].nodes / sums['all'].passes:.2f}", *(total.cell() for total in sums.values())]
            for name, sums in found.items()
        ]
        _report.table(["tokens a pass, speed", "nodes", *next(iter(found.values()))], rows)
    data = {
        name: {
            group: {"tokens_per_pass": total.tokens / total.passes, "speed": total.plain_s / total.seconds}
            for group, total in sums.items()
        }
        for name, sums in found.items()
    }
    _report.finish(arguments, {"answers": len(written), "results": data})


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _report.add_model(parser)
    _prompts.add_options(parser)
    parser.set_defaults(per_group=8)
    parser.add_argument("--drafter", default="auto", help="default auto")
    parser.add_argument("--store", help="a store of the model's tokenizer (outrider store build)")
    parser.add_argument("--draft-us", type=float, default=60.0, help="microseconds of asking, at T(1) = 3.6 ms")
    parser.add_argument("--node-us", type=float, default=2.0, help="of each node drafted")
    parser.add_argument("--other-us", type=float, default=60.0, help="of the engine")
    parser.add_argument("--tokens", type=int, default=128, help="of each answer; default 128")
    parser.add_argument("--busy", action="store_true", help="show the policy the times of a busy machine")
    arguments = parsed(parser)
    _report.begin(arguments)
    run(arguments)


if __name__ == "__main__":
    _report.start(main)
