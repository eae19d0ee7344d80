"""`outrider profile`: what a pass costs on this machine, by its number of rows."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict

from outrider.backends.base import Capabilities
from outrider.cli.render import columns
from outrider.cli.sinks import print_json
from outrider.cli.tools import Tools
from outrider.cost.profile import ROUNDS, PassCost, measure
from outrider.errors import UsageError


def profile(tools: Tools, model: str | None, context: int, threads: int | None, as_json: bool) -> int:
    """Measures and prints; returns the exit status. Raises OutriderError."""
    if context < 0:
        raise UsageError(f"--context is {context}: give 0 or more tokens")
    if threads is not None and threads < 1:
        raise UsageError(f"--threads is {threads}: give 1 or more")
    name, backend = tools.backend(model, threads)
    costs = measure(backend, context, time.perf_counter)
    able = backend.capabilities
    if as_json:
        rows = [asdict(cost) for cost in costs]
        print_json(
            {"model": name, "isa": able.isa, "threads": able.threads, "context": context, "rows": rows}, sys.stdout
        )
    else:
        print(table(name, able, context, costs))
    return 0


def table(name: str, able: Capabilities, context: int, costs: list[PassCost]) -> str:
    """The costs as a table that says what each size of pass has to bring in."""
    one = costs[0].seconds
    lines = [["rows", "ms a pass", "times one row", "pays from"]]
    for cost in costs:
        ratio = cost.seconds / one
        pays = f"{max(0.0, ratio - 1):.2f}" if cost.n > 1 else "-"
        lines.append([str(cost.n), f"{1000 * cost.seconds:.3f}", f"{ratio:.2f}", pays])
    return (
        f"{name}, {able.isa}, {able.threads} threads, {context} tokens of context; median of {ROUNDS} rounds\n\n"
        f"{columns(lines, 'rrrr')}\n\n"
        "A pass of n rows checks n - 1 drafted tokens. It pays once, on average, more of them are accepted than the\n"
        "last column says (drafting itself left out)."
    )
