"""`outrider profile`: what a pass costs on this machine, by its rows, sequences and context."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from outrider.cli import checks
from outrider.cli.bars import bars, has_blocks
from outrider.cli.measuring import Found, profile_of
from outrider.cli.render import columns
from outrider.cli.sinks import print_json
from outrider.cli.tools import Site, Tools
from outrider.cost.model import FittedCost, fit
from outrider.cost.profile import FULL, QUICK, Grid, at_context
from outrider.cost.types import PassCost, PhaseCost, Profile
from outrider.errors import UsageError
from outrider.plan import plot

USUAL_CONTEXT = 256
SOME_ROWS = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of `outrider profile`."""

    model: str | None
    drafter: str
    context: int | None
    threads: int | None
    quick: bool
    refresh: bool
    plot: str | None
    as_json: bool


def profile(tools: Tools, options: Options) -> int:
    """Measures, or finds what was measured before, and prints; returns the exit status. Raises OutriderError."""
    if options.context is not None and options.context < 0:
        raise UsageError(f"--context is {options.context}: give 0 or more tokens")
    if options.context is not None and options.quick:
        raise UsageError("--quick and --context do not go together: one context alone is quick already")
    if options.threads is not None and options.threads < 1:
        raise UsageError(f"--threads is {options.threads}: give 1 or more")
    if options.plot is not None:
        plot.check_file("--plot", options.plot)
    checks.known_drafter("--drafter", options.drafter)
    site = tools.site(options.model, options.threads)
    drafters = [] if options.drafter == "none" else [options.drafter]
    found = profile_of(site, grids(options.context, options.quick), drafters, options.refresh)
    fitted = fit(found.profile.passes)
    shown = USUAL_CONTEXT if options.context is None else options.context
    if options.as_json:
        print_json(data(site, found, fitted, shown), sys.stdout)
    else:
        print(text(site, found, fitted, shown, has_blocks(sys.stdout)))
    if options.plot is not None:
        plot.draw(chart(site.model, found.profile, fitted), options.plot)
    return 0


def grids(context: int | None, quick: bool) -> list[Grid]:
    """What would do, best first: the full grid, where it is there, is more than a quick one asks for."""
    if context is not None:
        return [at_context(context)]
    return [QUICK, FULL] if quick else [FULL]


def data(site: Site, found: Found, fitted: FittedCost, context: int) -> dict[str, Any]:
    """For programs. rows: the passes of one sequence after `context`; passes: all that was measured."""
    able, known = site.backend.capabilities, found.profile
    errors = abs(fitted.errors(known.passes))
    return {
        "model": site.model,
        "isa": able.isa,
        "threads": able.threads,
        "context": context,
        "rows": [{"n": cost.rows, "seconds": cost.seconds} for cost in known.one_sequence(context)],
        "machine": asdict(found.place),
        "measured": known.measured,
        "kept": found.kept,
        "passes": [asdict(cost) for cost in known.passes],
        "phases": [_shares(cost) for cost in known.phases],
        "drafters": {name: asdict(cost) for name, cost in known.drafters.items()},
        "fit": {**fitted.coefficients, "mean_error": float(errors.mean()), "largest_error": float(errors.max())},
    }


def _shares(cost: PhaseCost) -> dict[str, float]:
    parts = {"linear": cost.linear_s, "attention": cost.attention_s, "head": cost.head_s, "other": cost.other_s}
    whole = cost.seconds
    shares = {name: seconds / whole if whole else 0.0 for name, seconds in parts.items()}
    return {"rows": cost.rows, "context": cost.context, "seconds": whole, **shares}


def text(site: Site, found: Found, fitted: FittedCost, context: int, blocks: bool) -> str:
    """For people: the table by rows with its bars, the other contexts and batches, the shares, and how to read them."""
    able, place, known = site.backend.capabilities, found.place, found.profile
    again = "kept; --refresh measures anew" if found.kept else "just now"
    head = (
        f"{site.model}, {able.isa}, {able.threads} threads; {place.cpu}, {place.cores} cores, {place.memory_gib} GiB\n"
        f"measured {known.measured} ({again}); medians"
    )
    parts = [head, _rows_table(known.one_sequence(context), context, blocks)]
    others = [_grid_line(known, one) for one in known.contexts if one != context]
    if others:
        lines = [["context", *(f"{rows} rows" if rows > 1 else "1 row" for rows in SOME_ROWS)], *others]
        parts.append(f"Milliseconds after other contexts\n{columns(lines, 'r' * len(lines[0]))}")
    parts += [_batches(known), _phases(known.phases), _drafters(known), _fit(fitted, known)]
    return "\n\n".join(part for part in parts if part)


def _rows_table(costs: Sequence[PassCost], context: int, blocks: bool) -> str:
    one = costs[0].seconds
    drawn = bars([cost.seconds for cost in costs], blocks)
    lines = [["rows", "ms", "times one row", "pays from", ""]]
    for cost, bar in zip(costs, drawn, strict=True):
        ratio = cost.seconds / one
        pays = f"{max(0.0, ratio - 1):.2f}" if cost.rows > 1 else "-"
        lines.append([str(cost.rows), f"{1000 * cost.seconds:.3f}", f"{ratio:.2f}", pays, bar])
    return (
        f"A pass of one sequence after {context} tokens\n{columns(lines, 'rrrrl')}\n"
        "A pass of n rows checks n - 1 drafted tokens. It pays once, on average, more of them are accepted than\n"
        "'pays from' says (drafting itself left out)."
    )


def _grid_line(known: Profile, context: int) -> list[str]:
    by_rows = {cost.rows: f"{1000 * cost.seconds:.3f}" for cost in known.one_sequence(context)}
    return [str(context), *(by_rows.get(rows, "-") for rows in SOME_ROWS)]


def _batches(known: Profile) -> str:
    batches = [cost for cost in known.passes if cost.sequences > 1]
    if not batches:
        return ""
    lines = [
        [str(cost.sequences), str(cost.rows), str(cost.context), f"{1000 * cost.seconds:.3f}"]
        for cost in sorted(batches, key=lambda cost: (cost.sequences, cost.context, cost.rows))
    ]
    return f"Passes of several sequences\n{columns([['sequences', 'rows', 'context', 'ms'], *lines], 'rrrr')}"


def _phases(phases: Sequence[PhaseCost]) -> str:
    if not phases:
        return ""
    lines = [["rows", "context", "linear", "attention", "head", "else"]]
    for cost in sorted(phases, key=lambda cost: (cost.context, cost.rows)):
        shares = _shares(cost)
        percents = [f"{100 * shares[name]:.0f} %" for name in ("linear", "attention", "head", "other")]
        lines.append([str(cost.rows), str(cost.context), *percents])
    return f"Where the time of a pass goes\n{columns(lines, 'rrrrrr')}"


def _drafters(known: Profile) -> str:
    return "\n".join(
        f"Drafter {name}: {1e6 * cost.proposal_s:.1f} us a step and {1e6 * cost.node_s:.2f} us a drafted token"
        for name, cost in known.drafters.items()
    )


def _fit(fitted: FittedCost, known: Profile) -> str:
    errors = abs(fitted.errors(known.passes))
    return f"The fitted T is off by {100 * errors.mean():.1f} % on average, {100 * errors.max():.1f} % at most."


def chart(model: str, known: Profile, fitted: FittedCost) -> plot.Chart:
    """T by rows, one curve a context as measured, and the fit of the shortest beside it."""
    curves = []
    for context in known.contexts:
        costs = known.one_sequence(context)
        name = f"after {context} tokens"
        curves.append(plot.Curve(name, [cost.rows for cost in costs], [1000 * cost.seconds for cost in costs]))
        rows = list(range(1, costs[-1].rows + 1))
        fit_ms = [1000 * fitted.seconds(1, n, context) for n in rows]
        curves.append(plot.Curve(f"{name}, fitted", rows, fit_ms))
    return plot.Chart(f"What a pass costs: {model}", "rows of a pass", "milliseconds", curves, log_x=True)
