"""What `outrider plan breakeven`, `speedup` and `gamma` print and draw."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from outrider.cli.render import columns, count
from outrider.cli.sinks import print_json
from outrider.core import expect
from outrider.core.expect import Acceptance
from outrider.plan.plot import Chart, Curve, check_file, draw

SOME_GAMMAS = (1, 2, 3, 4, 6, 8, 12, 16)
SOME_ALPHAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
LONGEST_DRAWN = 16
FINE = 100

SpeedupOf: TypeAlias = Callable[[Acceptance, int], float]


@dataclass(frozen=True, slots=True)
class Drafting:
    """A draft length, c, and the verifying pass of that length over a plain one."""

    gamma: int
    draft_cost: float
    verify_cost: float

    def __post_init__(self) -> None:
        """Raises UsageError that names the flag."""
        expect.check_gamma(self.gamma, "--gamma")
        expect.check_cost(self.draft_cost, "--draft-cost")
        expect.check_verify_cost(self.verify_cost, "--verify-cost")

    def verify(self, gamma: int) -> float:
        """The verifying pass of another length: what it costs above a plain one grows with the drafted rows."""
        if gamma == self.gamma or not self.gamma:
            return self.verify_cost
        return max(1 + (self.verify_cost - 1) * gamma / self.gamma, sys.float_info.min)

    def speedup(self, alpha: Acceptance, gamma: int) -> float:
        """What another acceptance and length bring."""
        return expect.speedup(alpha, gamma, self.draft_cost, self.verify(gamma))

    def words(self) -> str:
        """The three in a phrase."""
        verifying = "" if self.verify_cost == 1 else f" and a verifying pass of {self.verify_cost:g}"
        return f"Drafting {count(self.gamma, 'token')} at a draft cost of {self.draft_cost:g}{verifying}"


def breakeven(drafting: Drafting, file: str | None, as_json: bool) -> int:
    """Prints the acceptance from which on a draft length pays; returns the exit status. Raises UsageError."""
    alpha = expect.break_even(drafting.gamma, drafting.draft_cost, drafting.verify_cost)
    if file is not None:
        _draw(_breakeven_chart(drafting, alpha), file)
    if as_json:
        print_json({"alpha": alpha}, sys.stdout)
        return 0
    if not drafting.gamma:
        print("With nothing drafted there is nothing to win or lose: the speed-up is 1 at any acceptance.")
        return 0
    if alpha is None:
        print(f"{drafting.words()} never pays: it costs more than it saves even if all tokens are accepted.")
    else:
        print(f"{drafting.words()} pays from an acceptance of {alpha:.4f} on; below it, it slows decoding down.")
    lines = [[f"{one:.1f}", f"{drafting.speedup(one, drafting.gamma):.2f}"] for one in SOME_ALPHAS]
    print(f"\n{columns([['acceptance', 'speed-up'], *lines], 'rr')}")
    return 0


def speedup(alpha: Acceptance, drafting: Drafting, file: str | None, as_json: bool) -> int:
    """Prints what a draft length brings; returns the exit status. Raises UsageError."""
    expect.check_acceptance(alpha, "--alpha")
    tau = expect.tokens_per_pass(alpha, drafting.gamma)
    found = drafting.speedup(alpha, drafting.gamma)
    if file is not None:
        _draw(_speedup_chart(alpha, drafting, found), file)
    if as_json:
        print_json({"tokens_per_pass": tau, "speedup": found}, sys.stdout)
        return 0
    print(f"{drafting.words()} brings {tau:.4f} tokens a pass, {found:.2f} times the speed of plain decoding.\n")
    print(_table(alpha, drafting.gamma, drafting.speedup))
    return 0


def best_gamma(
    alpha: Acceptance, draft_cost: float, verify_costs: Sequence[float] | None, file: str | None, as_json: bool
) -> int:
    """Prints the best draft length; returns the exit status.

    verify_costs are T(n) / T(1) for n = 2, 3, ... rows; the search ends where they end. Raises UsageError.
    """
    expect.check_acceptance(alpha, "--alpha")
    expect.check_cost(draft_cost, "--draft-cost")
    for cost in verify_costs or ():
        expect.check_verify_cost(cost, "--verify-costs")
    most = expect.MOST_GAMMA if verify_costs is None else len(verify_costs)
    most = most if isinstance(alpha, float) else min(most, len(alpha))

    def verify(rows: int) -> float:
        return 1.0 if verify_costs is None or rows < 2 else verify_costs[rows - 2]

    def speedup_of(alpha: Acceptance, gamma: int) -> float:
        return expect.speedup(alpha, gamma, draft_cost, verify(gamma + 1))

    best = expect.best_gamma(alpha, draft_cost, verify, most)
    if file is not None:
        gammas = range(min(most, max(2 * best.gamma, LONGEST_DRAWN)) + 1)
        curve = _over_gamma(alpha, gammas, speedup_of)
        _draw(_gamma_chart(curve, (best.gamma, best.speedup)), file)
    if as_json:
        print_json({"gamma": best.gamma, "speedup": best.speedup}, sys.stdout)
        return 0
    if best.gamma:
        ended = ", the longest draft that was tried" if best.gamma == most else ""
        print(f"Draft {count(best.gamma, 'token')}{ended}: {best.speedup:.2f} times the speed of plain decoding.\n")
    else:
        print("Do not draft: at this acceptance and draft cost no length is faster than plain decoding.\n")
    print(_table(alpha, best.gamma, speedup_of, most))
    return 0


def accepted(alpha: Acceptance) -> str:
    """An acceptance in words."""
    return f"acceptance {alpha:g}" if isinstance(alpha, float) else f"acceptance {', '.join(f'{a:g}' for a in alpha)}"


def _table(alpha: Acceptance, marked: int, speedup_of: SpeedupOf, most: int | None = None) -> str:
    """Draft lengths around the one that is the answer, which gets a mark."""
    known = [most] if most is not None else []
    longest = min([*known, *([] if isinstance(alpha, float) else [len(alpha)])], default=expect.MOST_GAMMA)
    gammas = sorted({gamma for gamma in (*SOME_GAMMAS, marked - 1, marked, marked + 1) if 0 < gamma <= longest})
    lines = [["gamma", "tokens a pass", "speed-up", ""]]
    for gamma in gammas:
        tau = expect.tokens_per_pass(alpha, gamma)
        lines.append([str(gamma), f"{tau:.2f}", f"{speedup_of(alpha, gamma):.2f}", "<" if gamma == marked else ""])
    return columns(lines, "rrrl")


def _breakeven_chart(drafting: Drafting, alpha: float | None) -> Chart:
    gammas = range(1, max(LONGEST_DRAWN, drafting.gamma) + 1)
    found = [(g, expect.break_even(g, drafting.draft_cost, drafting.verify(g))) for g in gammas]
    some = [(g, a) for g, a in found if a is not None]
    curve = Curve(f"draft cost {drafting.draft_cost:g}", [g for g, _ in some], [a for _, a in some])
    mark = (drafting.gamma, alpha) if alpha is not None and drafting.gamma else None
    return Chart("Where speculation starts to pay", "drafted tokens (gamma)", "acceptance", [curve], mark=mark)


def _speedup_chart(alpha: Acceptance, drafting: Drafting, found: float) -> Chart:
    if not isinstance(alpha, float):
        return _gamma_chart(_over_gamma(alpha, range(len(alpha) + 1), drafting.speedup), (drafting.gamma, found))
    alphas = [step / FINE for step in range(FINE + 1)]
    name = f"{count(drafting.gamma, 'drafted token')}, draft cost {drafting.draft_cost:g}"
    curve = Curve(name, alphas, [drafting.speedup(one, drafting.gamma) for one in alphas])
    return Chart("Speed-up by acceptance", "acceptance (alpha)", "speed-up", [curve], 1.0, (alpha, found))


def _over_gamma(alpha: Acceptance, gammas: Sequence[int], speedup_of: SpeedupOf) -> Curve:
    return Curve(accepted(alpha), gammas, [speedup_of(alpha, gamma) for gamma in gammas])


def _gamma_chart(curve: Curve, mark: tuple[float, float]) -> Chart:
    return Chart("Speed-up by draft length", "drafted tokens (gamma)", "speed-up", [curve], 1.0, mark)


def _draw(chart: Chart, file: str) -> None:
    check_file("--plot", file)
    draw(chart, file)
