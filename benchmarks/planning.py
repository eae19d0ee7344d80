"""What is predicted beside what is measured: T of passes that the fit never saw, and the speed-up on other prompts.

    python benchmarks/planning.py [--gamma 2 4 8] [--per-group 16]

T: the full profile is measured and fitted as `outrider profile` does it, then passes of other sizes and contexts are
measured. Speed-up: as `outrider plan here` does it, expected from one half of Spec-Bench's prompts and measured on the
other half, once for each draft length; "hindsight" is what the other half's own acceptance would have let expect, so
what is left between it and the measurement is the model's error and not the prompts'. What is kept differs so much from
prompt to prompt that halves of fewer than some 50 prompts differ by more than a tenth; a draft length takes minutes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from functools import partial

import _prompts
import _report
import numpy as np

from outrider.backends.native import NativeBackend
from outrider.cost.model import FittedCost, fit
from outrider.cost.profile import FULL, Grid, Line, measure
from outrider.cost.types import PassCost
from outrider.drafters.ngram import NgramDrafter
from outrider.engine.engine import Engine
from outrider.models import gguf, sources
from outrider.models.tokenizer import Detokenizer, Tokenizer
from outrider.plan import here
from outrider.policy.fixed import Fixed

UNSEEN = Grid(
    (
        Line(1, 128, (1, 2, 3, 5, 8, 13, 20)),
        Line(1, 512, (1, 2, 3, 5, 8, 13, 48)),
        Line(1, 1536, (1, 3, 5, 8, 13)),
        Line(3, 192, (1, 3, 5)),
        Line(6, 128, (1, 2, 4)),
    ),
    (),
    15.0,
)
ALLOWED = 0.15


def summary(errors: Sequence[float]) -> str:
    """Such as 3.1 % on average, 9.0 % at most, 100 % of 30 within 15 %."""
    found = np.abs(errors)
    within = 100 * float((found <= ALLOWED).mean())
    mean, most = 100 * found.mean(), 100 * found.max()
    return f"{mean:.1f} % on average, {most:.1f} % at most, {within:.0f} % of {len(found)} within {100 * ALLOWED:.0f} %"


def show_passes(cost: FittedCost, unseen: Sequence[PassCost]) -> None:
    """Each pass that the fit never saw."""
    rows = [
        [
            f"{one.sequences} x {one.rows // one.sequences}",
            str(one.context),
            f"{1e3 * one.seconds:.3f}",
            f"{1e3 * cost.seconds(one.sequences, one.rows, one.context):.3f}",
            f"{100 * error:+.1f} %",
        ]
        for one, error in zip(unseen, cost.errors(unseen), strict=True)
    ]
    _report.table(["sequences x rows", "context", "measured, ms", "predicted, ms", "off by"], rows)


def show_plans(reports: Sequence[here.Report]) -> None:
    """One line a draft length."""
    rows = [
        [
            f"gamma {one.chosen.gamma}",
            f"{one.chosen.tokens_per_pass:.2f}",
            f"{one.measured.tokens_per_pass:.2f}",
            f"{one.chosen.speedup:.2f} ({one.expected_low:.2f}-{one.expected_high:.2f})",
            f"{one.hindsight:.2f}",
            f"{one.measured.speedup:.2f} ({one.measured.low:.2f}-{one.measured.high:.2f})",
            f"{100 * (one.chosen.speedup / one.measured.speedup - 1):+.1f} %",
            f"{100 * (one.hindsight / one.measured.speedup - 1):+.1f} %",
        ]
        for one in reports
    ]
    head = ["n-gram", "tokens a pass: expected", "measured", "speed-up: expected", "hindsight", "measured"]
    _report.table([*head, "expected off by", "hindsight off by"], rows)


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _report.add_common(parser)
    _prompts.add_options(parser)
    parser.set_defaults(per_group=16)
    parser.add_argument("--gamma", type=int, nargs="+", default=[4], help="draft lengths, each planned alone")
    parser.add_argument("--max-tokens", type=int, default=128)
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    arguments = parsed()
    _report.begin(arguments)
    file = gguf.read(sources.resolve(arguments.model))
    backend, tokenizer = NativeBackend(file, threads=arguments.threads), Tokenizer(file.tokenizer)
    profile = measure(backend, FULL, time.perf_counter, "")
    cost = fit(profile.passes)
    unseen = measure(backend, UNSEEN, time.perf_counter, "").passes
    if not arguments.json:
        show_passes(cost, unseen)
        print(f"\nT where it was measured: {summary(cost.errors(profile.passes).tolist())}")
        print(f"T where it was not:      {summary(cost.errors(unseen).tolist())}")

    def generator(gamma: int) -> Engine:
        text = partial(Detokenizer, tokenizer, skip_special=True)
        return Engine(backend, NgramDrafter() if gamma else None, Fixed(gamma), text, tokenizer.eos_ids)

    subject = here.Subject(generator, NgramDrafter, cost, time.perf_counter)
    prompts = [one.ids for one in _prompts.prompts(arguments.questions, arguments.per_group, file.tokenizer)]
    reports = [
        here.plan(subject, prompts, here.Setting((gamma,), arguments.max_tokens, arguments.rounds), _report.say)
        for gamma in arguments.gamma
    ]
    if not arguments.json:
        show_plans(reports)
    passes = [
        {"rows": one.rows, "sequences": one.sequences, "context": one.context, "seconds": one.seconds, "error": error}
        for one, error in zip(unseen, cost.errors(unseen).tolist(), strict=True)
    ]
    plans = [
        {
            "gamma": one.chosen.gamma,
            "expected": one.chosen.speedup,
            "expected_range": [one.expected_low, one.expected_high],
            "hindsight": one.hindsight,
            "measured": {"median": one.measured.speedup, "low": one.measured.low, "high": one.measured.high},
        }
        for one in reports
    ]
    fitted = cost.errors(profile.passes).tolist()
    _report.finish(arguments, {"fit_errors": fitted, "unseen": passes, "prompts": len(prompts), "plans": plans})


if __name__ == "__main__":
    _report.start(main)
