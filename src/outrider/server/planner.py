"""/planner.json: the curves of the page's second tab, from the very functions that `outrider plan` uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from outrider.core import expect
from outrider.cost import hardware
from outrider.cost.hardware import Roofline
from outrider.errors import UsageError
from outrider.plan import batch as planner
from outrider.plan.batch import Pairing
from outrider.server.problems import BAD, Problem

MOST_GAMMA = 16
MOST_BATCH = 512
MOST_CONTEXT = 1 << 20
FREE_DRAFT = "ngram"
_STEPS = 50
_KNOWN = frozenset(["alpha", "gamma", "c", "verify", "target", "draft", "machine", "weights", "context", "batch"])
Json = dict[str, object]


def choices() -> Json:
    """What the planner's lists have."""
    return {
        "machines": [{"name": one.name, "title": one.title} for one in hardware.MACHINES],
        "models": [{"name": one.name, "title": one.title} for one in hardware.MODELS],
        "weights": [one.name for one in hardware.FORMATS],
        "most_gamma": MOST_GAMMA,
        "most_batch": MOST_BATCH,
    }


def plan(query: Mapping[str, str]) -> Json:
    """Speed-up by acceptance, by draft length and by batch size. Raises Problem for what is out of range or unknown."""
    for name in query:
        if name not in _KNOWN:
            raise Problem(BAD, f"the planner knows no {name!r}; it knows {', '.join(sorted(_KNOWN))}", name)
    alpha = _number(query, "alpha", 0.7, 0.0, 1.0)
    gamma = int(_number(query, "gamma", 4, 0, MOST_GAMMA))
    c = _number(query, "c", 0.1, 0.0, 10.0)
    verify = _number(query, "verify", 1.0, 0.01, 100.0)
    best = expect.best_gamma(alpha, c, lambda rows: _verify(verify, gamma, rows), MOST_GAMMA)
    return {
        "alpha": alpha,
        "gamma": gamma,
        "c": c,
        "verify": verify,
        "break_even": expect.break_even(gamma, c, verify),
        "speedup": expect.speedup(alpha, gamma, c, verify),
        "tokens_per_pass": expect.tokens_per_pass(alpha, gamma),
        "best_gamma": best.gamma,
        "best_speedup": best.speedup,
        "by_alpha": [[step / _STEPS, expect.speedup(step / _STEPS, gamma, c, verify)] for step in range(_STEPS + 1)],
        "by_gamma": [
            [length, expect.speedup(alpha, length, c, _verify(verify, gamma, length + 1))]
            for length in range(MOST_GAMMA + 1)
        ],
        "batch": _batch(query, alpha, gamma),
        "choices": choices(),
    }


def _verify(verify: float, gamma: int, rows: int) -> float:
    """T(rows) / T(1), on the line through T(1) and the given T(gamma + 1)."""
    return max(0.01, 1.0 + (verify - 1.0) * (rows - 1) / gamma) if gamma else verify


def _batch(query: Mapping[str, str], alpha: float, gamma: int) -> Json:
    """Speed-up by batch size on a machine; the draft cost there follows from both models."""
    try:
        machine = hardware.machine(query.get("machine", "h100"))
        weights = hardware.weights(query.get("weights", "fp16"))
        target = Roofline(machine, hardware.shape(query.get("target", "llama-70b")), weights)
        name = query.get("draft", "llama-1b")
        draft = None if name == FREE_DRAFT else Roofline(machine, hardware.shape(name), weights)
        pair = Pairing(target, draft, int(_number(query, "context", 0, 0, MOST_CONTEXT)), alpha)
        size = int(_number(query, "batch", 1, 1, MOST_BATCH))
        where = planner.pays(pair, gamma, MOST_BATCH)
        found: Json = {
            "here": asdict(planner.point(pair, size, gamma)),
            "best": asdict(planner.point(pair, size, None)),
            "points": [
                [one, planner.point(pair, one, gamma).speedup, planner.point(pair, one, None).speedup]
                for one in planner.sizes(MOST_BATCH)
            ],
            "pays_from": where.first,
            "stops_paying": where.stops,
            "critical_rows": target.critical_rows(),
            "largest_batch_that_fits": planner.largest_that_fits(pair),
        }
    except UsageError as error:
        raise Problem(BAD, str(error)) from None
    return found


def _number(query: Mapping[str, str], name: str, default: float, low: float, high: float) -> float:
    given = query.get(name)
    try:
        value = default if given is None else float(given)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise Problem(BAD, f"{name} is {given!r:.80}; give a number from {low:g} to {high:g}", name)
    return value
