"""`outrider plan here`: whether speculation pays on this machine, with this model, drafter and prompts."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from outrider.bench import questions
from outrider.cli import checks
from outrider.cli.measuring import Found, profile_of
from outrider.cli.profile import grids
from outrider.cli.render import columns, count
from outrider.cli.sinks import print_json
from outrider.cli.tools import Site, Tools
from outrider.cost.model import FittedCost, fit
from outrider.errors import UsageError
from outrider.plan import here, plot

GAMMAS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
MOST_GAMMA = 64
MOST_ROUNDS = 1000
LEAST_TOKENS = 8
OWN = "our own questions"


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of `outrider plan here`."""

    prompts: str | None
    most_prompts: int
    model: str | None
    drafter: str
    gammas: str | None
    threads: int | None
    max_tokens: int
    rounds: int
    quick: bool
    refresh: bool
    plot: str | None
    as_json: bool


@dataclass(frozen=True, slots=True)
class _Told:
    """All that is printed."""

    site: Site
    options: Options
    found: Found
    cost: FittedCost
    report: here.Report


def plan_here(tools: Tools, options: Options) -> int:
    """Measures, prints the two side by side, and judges; returns the exit status. Raises OutriderError."""
    gammas = _check(options)
    texts = spread(read(options.prompts), options.most_prompts)
    if len(texts) < 2:
        raise UsageError(f"{options.prompts or OWN}: {count(len(texts), 'prompt')} cannot be halved; give at least 2")
    site = tools.site(options.model, options.threads)
    prompts = [list(site.encode(text)) for text in texts]
    for number, prompt in enumerate(prompts, 1):
        if len(prompt) + LEAST_TOKENS > site.backend.context:
            raise UsageError(
                f"prompt {number} ({texts[number - 1][:40]!r}) has {len(prompt)} tokens and leaves no room for an "
                f"answer in the context of {site.backend.context}; shorten it"
            )
    found = profile_of(site, grids(None, options.quick), [options.drafter], options.refresh)
    cost = fit(found.profile.passes)
    name = options.drafter
    subject = here.Subject(
        generator=lambda gamma: site.generator(name if gamma else "none", gamma),
        drafter=lambda: site.drafter(name),
        cost=cost,
        clock=time.perf_counter,
    )
    report = here.plan(subject, prompts, here.Setting(gammas, options.max_tokens, options.rounds), _say)
    told = _Told(site, options, found, cost, report)
    if options.as_json:
        print_json(data(told), sys.stdout)
    else:
        print(text(told))
    if options.plot is not None:
        plot.draw(chart(told), options.plot)
    return 0


def _check(options: Options) -> tuple[int, ...]:
    """The draft lengths to choose from. Raises UsageError for nonsense, before a model is loaded."""
    for flag, value, least, most in (
        ("--most-prompts", options.most_prompts, 2, None),
        ("--max-tokens", options.max_tokens, LEAST_TOKENS, None),
        ("--rounds", options.rounds, 1, MOST_ROUNDS),
        ("--threads", options.threads, 1, None),
    ):
        if value is not None and (value < least or (most is not None and value > most)):
            raise UsageError(f"{flag} is {value}: give {least} or more" + (f", at most {most}" if most else ""))
    if options.drafter == "none":
        raise UsageError("--drafter is none, which is plain decoding: name the drafter to compare it with")
    checks.known_drafter("--drafter", options.drafter)
    if options.plot is not None:
        plot.check_file("--plot", options.plot)
    if options.gammas is None:
        return GAMMAS
    try:
        found = sorted({int(one) for one in options.gammas.split(",")})
    except ValueError:
        found = [0]
    if found[0] < 1 or found[-1] > MOST_GAMMA:
        raise UsageError(f"--gamma is {options.gammas!r}: give draft lengths from 1 to {MOST_GAMMA}, such as 2,4,8")
    return tuple(found)


def read(path: str | None) -> list[str]:
    """The prompts of a file: one a line, or the first turns of Spec-Bench's format; our own for None.

    Raises UsageError for a file that cannot be read or has none.
    """
    if path is None:
        return [question.turns[0] for question in questions.load(None)]
    try:
        raw = Path(path).read_bytes()
        lines = raw.decode("utf-8-sig").splitlines()
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a null character in the name
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"--prompts {path} cannot be read ({why}): give a text file, one prompt a line") from None
    found = [line.strip() for line in lines if line.strip()]
    if not found:
        raise UsageError(f"--prompts {path} has no prompts: give one a line, or Spec-Bench's format")
    if found[0].startswith("{"):
        return [question.turns[0] for question in questions.parse(raw, f"--prompts {path}")]
    return found


def spread(texts: Sequence[str], most: int) -> list[str]:
    """At most so many, evenly from all of them."""
    kept = min(most, len(texts))
    return [texts[index * len(texts) // kept] for index in range(kept)]


def data(told: _Told) -> dict[str, Any]:
    """For programs; the names are those of the report (plan.here), costs are ratios and times seconds."""
    report, place = told.report, told.found.place
    rows = range(1, 2 + max(one.gamma for one in report.expected))
    return {
        "model": told.site.model,
        "drafter": told.options.drafter,
        "machine": asdict(place),
        "prompts": {"fitted": report.prompts_fitted, "measured": report.prompts_measured},
        "context": report.context,
        "pass_seconds": [{"rows": n, "seconds": told.cost.seconds(1, n, report.context)} for n in rows],
        "drift": report.drift,
        "acceptance_per_position": list(report.acceptance_per_position),
        "expected": [asdict(one) for one in report.expected],
        "best_gamma": report.chosen.gamma,
        "break_even": report.chosen.break_even,
        "expected_speedup": report.chosen.speedup,
        "expected_range": [report.expected_low, report.expected_high],
        "hindsight_speedup": report.hindsight,
        "measured": asdict(report.measured),
        "measured_speedup": report.measured.speedup,
        "verdict": report.verdict,
        "gamma": report.gamma,
        "because": report.because,
    }


def text(told: _Told) -> str:
    """For people."""
    report, chosen, measured = told.report, told.report.chosen, told.report.measured
    head = (
        f"{told.site.model} with drafter {told.options.drafter}: expected from "
        f"{count(report.prompts_fitted, 'prompt')}, measured on {report.prompts_measured} others"
    )
    some = [n for n in (1, 2, 3, 5, 9, 17) if n <= 1 + report.expected[-1].gamma]
    passes = ", ".join(f"{n}: {1000 * told.cost.seconds(1, n, report.context):.2f}" for n in some)
    shares = " ".join(f"{100 * share:.0f}" for share in report.acceptance_per_position[:8]) or "nothing was drafted"
    facts = (
        f"milliseconds of a pass by rows, after {report.context:.0f} tokens: {passes}\n"
        f"accepted by position, % of the drafted tokens that were reached: {shares}"
    )
    sides = [
        ["", "expected", "measured"],
        ["tokens a pass", f"{chosen.tokens_per_pass:.2f}", f"{measured.tokens_per_pass:.2f}"],
        [
            "times plain",
            f"{chosen.speedup:.2f} ({report.expected_low:.2f}-{report.expected_high:.2f})",
            f"{measured.speedup:.2f} ({measured.low:.2f}-{measured.high:.2f})",
        ],
    ]
    with_gamma = f", with a gamma of {report.gamma}" if report.gamma else ""
    hindsight = (
        f"With their own acceptance, {report.hindsight:.2f} would have been expected of the other prompts. The range\n"
        "of the expectation is from drawing its prompts again and again, that of the measurement from its rounds."
    )
    return "\n\n".join(
        (
            head,
            facts,
            _lengths(report),
            f"gamma {chosen.gamma}, on the other prompts\n{columns(sides, 'lrr')}\n{hindsight}",
            f"Leave it {report.verdict}{with_gamma}, because {report.because}.",
        )
    )


def _lengths(report: here.Report) -> str:
    head = ["gamma", "drafted a pass", "tokens a pass", "step cost", "acceptance", "breaks even at", "times plain", ""]
    lines = [
        [
            str(one.gamma),
            f"{one.drafted_per_pass:.2f}",
            f"{one.tokens_per_pass:.2f}",
            f"{one.step_cost:.2f}",
            f"{one.alpha:.3f}",
            "never" if one.break_even is None else f"{one.break_even:.3f}",
            f"{one.speedup:.2f}",
            "<" if one is report.chosen else "",
        ]
        for one in report.expected
    ]
    return columns([head, *lines], "rrrrrrrl")


def chart(told: _Told) -> plot.Chart:
    """The expected speed-up by draft length, with what was measured as the mark."""
    report = told.report
    curve = plot.Curve("expected", [one.gamma for one in report.expected], [one.speedup for one in report.expected])
    return plot.Chart(
        f"{told.options.drafter} on {told.site.model}",
        "drafted tokens (gamma)",
        "times the speed of plain decoding",
        [curve],
        level=1.0,
        mark=(report.measured.gamma, report.measured.speedup),
    )


def _say(line: str) -> None:
    print(f"outrider: {line}", file=sys.stderr, flush=True)
