"""What `outrider plan batch` prints and draws."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from outrider.cli.plan_answers import accepted
from outrider.cli.render import columns
from outrider.cli.sinks import print_json
from outrider.cli.tools import Tools
from outrider.core import expect
from outrider.core.expect import Acceptance
from outrider.cost import hardware
from outrider.cost.hardware import HERE, Machine, Roofline
from outrider.errors import UsageError
from outrider.plan import batch as planner
from outrider.plan.batch import Pairing, Point, Range
from outrider.plan.plot import Chart, Curve, check_file, draw

FREE_DRAFT = "ngram"
MOST_BATCH = 8192
GB = 1e9


@dataclass(frozen=True, slots=True)
class Asked:
    """The flags."""

    target: str
    draft: str
    hardware: str
    weights: str
    context: int
    alpha: Acceptance
    gamma: int | None
    most_batch: int

    def __post_init__(self) -> None:
        """Raises UsageError that names the flag."""
        expect.check_acceptance(self.alpha, "--alpha")
        if self.gamma is not None:
            expect.check_gamma(self.gamma, "--gamma")
            expect.tokens_per_pass(self.alpha, self.gamma)
        if self.context < 0:
            raise UsageError(f"--context is {self.context}: give 0 or more tokens")
        if not 1 <= self.most_batch <= MOST_BATCH:
            raise UsageError(f"--max-batch is {self.most_batch}: give 1 to {MOST_BATCH} sequences")

    def pairing(self, machine: Machine) -> Pairing:
        """The models on the machine. Raises UsageError for names that are not known."""
        weights = hardware.weights(self.weights)
        target = Roofline(machine, hardware.shape(self.target), weights)
        free = self.draft.lower() == FREE_DRAFT
        draft = None if free else Roofline(machine, hardware.shape(self.draft), weights)
        return Pairing(target, draft, self.context, self.alpha)


def batch(tools: Tools, asked: Asked, file: str | None, as_json: bool) -> int:
    """Prints speed by batch size, and where speculation stops paying; returns the exit status. Raises UsageError."""
    if file is not None:
        check_file("--plot", file)
    pair = asked.pairing(_machine(tools, asked.hardware))
    points = [planner.point(pair, size, asked.gamma) for size in planner.sizes(asked.most_batch)]
    where = planner.pays(pair, asked.gamma, asked.most_batch)
    if file is not None:
        draw(_chart(asked, points), file)
    if as_json:
        print_json(_data(asked, pair, points, where), sys.stdout)
        return 0
    target, draft = pair.target, pair.draft
    drafted = "n-gram lookup" if draft is None else draft.model.title
    print(
        f"{target.model.title} drafted by {drafted} on {target.machine.title}, {target.weights.name} weights, "
        f"{asked.context} tokens of context, {accepted(asked.alpha)}\n\n"
        f"{_verdict(asked, where)} A pass turns from memory-bound to compute-bound at "
        f"{target.critical_rows()} rows.\n\n{_table(points)}"
    )
    for note in _notes(pair):
        print(f"\nNote: {note}")
    return 0


def _machine(tools: Tools, name: str) -> Machine:
    """A machine by its name; HERE is measured with the default model, unless that was done before."""
    if name.lower() != HERE:
        return hardware.machine(name)
    from outrider.cli.measuring import profile_of
    from outrider.cli.profile import grids
    from outrider.cost.model import fit
    from outrider.cost.store import GIB

    site = tools.site(None, None)
    found = profile_of(site, grids(None, False), [], False)
    cost, memory = fit(found.profile.passes), found.place.memory_gib * GIB
    pass_s = cost.seconds(1, 1, 0)
    # As good as free as far as it was measured: then a row costs at most a pass of its own.
    row_s = cost.row_s or pass_s
    return hardware.measured(site.model, site.parameters, site.weight_bytes, memory, pass_s, row_s)


def _verdict(asked: Asked, where: Range) -> str:
    length = "at the best draft length" if asked.gamma is None else f"with gamma {asked.gamma}"
    if where.first is None:
        return f"Speculation does not pay {length} at any batch size up to {asked.most_batch}."
    starts = "" if where.first == 1 else f" from batch {where.first} on"
    if where.stops is None:
        return f"Speculation pays {length}{starts}, and still does at batch {asked.most_batch}."
    return f"Speculation pays {length}{starts}, and stops paying at batch {where.stops}."


def _table(points: Sequence[Point]) -> str:
    lines = [["batch", "plain tokens/s", "speculative", "speed-up", "gamma", "tokens a pass", "draft cost", "fits"]]
    for one in points:
        cells = [str(one.batch), f"{one.plain_tokens_per_s:.1f}", f"{one.tokens_per_s:.1f}", f"{one.speedup:.2f}"]
        cells += [str(one.gamma), f"{one.tokens_per_pass:.2f}", f"{one.draft_cost:.3f}", "yes" if one.fits else "no"]
        lines.append(cells)
    return columns(lines, "rrrrrrrl")


def _notes(pair: Pairing) -> list[str]:
    machine, target = pair.target.machine, pair.target
    one = machine.title if machine.name == HERE else f"one {machine.title}"
    memory = f"{machine.memory_bytes / GB:.0f} GB of {one}"
    most = planner.largest_that_fits(pair)
    found = []
    if most == 0:
        found.append(
            f"{pair.needed_bytes(1) / GB:.0f} GB of {target.weights.name} weights and one sequence do not fit the "
            f"{memory}; these are the figures of its bandwidth and arithmetic, as if they did."
        )
    elif most is not None:
        found.append(f"the {memory} hold {most} sequences at most.")
    if not pair.context:
        found.append("without --context no keys and values are read; long contexts keep speculation paying for longer.")
    found.append("a roofline is a lower bound on time: real passes cost more, mostly in the same ratios.")
    return found


def _data(asked: Asked, pair: Pairing, points: Sequence[Point], where: Range) -> dict[str, object]:
    """The stable names of --json; docs/planner.md lists them."""
    return {
        "target": pair.target.model.name,
        "draft": FREE_DRAFT if pair.draft is None else pair.draft.model.name,
        "hardware": pair.target.machine.name,
        "weights": pair.target.weights.name,
        "context": asked.context,
        "alpha": asked.alpha,
        "gamma": asked.gamma,
        "critical_rows": pair.target.critical_rows(),
        "pays_from": where.first,
        "crossover_batch": where.stops,
        "largest_batch_that_fits": planner.largest_that_fits(pair),
        "rows": [asdict(one) for one in points],
        "notes": _notes(pair),
    }


def _chart(asked: Asked, points: Sequence[Point]) -> Chart:
    curve = Curve(accepted(asked.alpha), [one.batch for one in points], [one.speedup for one in points])
    title = f"{asked.target} drafted by {asked.draft} on {asked.hardware}"
    return Chart(title, "batch (sequences)", "speed-up", [curve], level=1.0, log_x=True)
