"""What speculative decoding is expected to bring, in closed form.

tau: tokens per pass, the recovered or bonus token included. c: what one draft step costs, in passes of one row.
Costs are ratios to a pass of one row, T(1); T(n) is a pass of n rows, and gamma drafted tokens make n = gamma + 1.

Dimensions: g draft length (gamma), n draft nodes of a tree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from outrider.errors import UsageError

# One probability for all positions, or one for each, conditional on reaching it.
Acceptance: TypeAlias = float | Sequence[float]

MOST_GAMMA = 1024
_SIBLINGS_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Choice:
    """A draft length and what it brings against plain decoding."""

    gamma: int
    speedup: float


def tokens_per_pass(alpha: Acceptance, gamma: int) -> float:
    """tau of a chain of gamma drafted tokens.

    With one alpha for all positions (1 - alpha**(gamma + 1)) / (1 - alpha), equation 1 of Leviathan et al.
    (2211.17192): .8 and 4 give 3.3616, .5 and 4 give 1.9375. With measured conditional acceptances a_1, a_2, ...:
    1 + a_1 + a_1 a_2 + ... up to gamma of them, which is right also where acceptance changes along the draft.
    Raises UsageError where alpha is no probability, gamma is below 0, or the list is shorter than gamma.
    """
    check_acceptance(alpha)
    check_gamma(gamma)
    if isinstance(alpha, (int, float)):
        return _geometric(alpha, gamma)
    if gamma > len(alpha):
        raise UsageError(
            f"gamma is {gamma}, but alpha gives the acceptance of {len(alpha)} positions: give {gamma}, or one number"
        )
    return 1.0 + math.fsum(_products(alpha[:gamma]))


def survival(parents: Sequence[int], acceptance: Sequence[float]) -> tuple[float, ...]:
    """The probability that each node [n] of a draft tree is kept.

    parents[i] < i is the node above, -1 the last committed token; acceptance[i] is the probability that node i is the
    one kept below its parent, given that the parent was: siblings exclude each other, so theirs sum to 1 at most.
    Raises UsageError where the two do not describe a tree.
    """
    if len(parents) != len(acceptance):
        raise UsageError(f"a tree has {len(parents)} parents but {len(acceptance)} acceptances; give each node both")
    check_acceptance(acceptance, "acceptance", least=0)
    kept: list[float] = []
    below: dict[int, float] = {}
    for node, (parent, chance) in enumerate(zip(parents, acceptance, strict=True)):
        if not -1 <= parent < node:
            raise UsageError(f"node {node} has parent {parent}: a parent comes before its node (-1: no node above)")
        below[parent] = below.get(parent, 0.0) + chance
        if below[parent] > 1 + _SIBLINGS_ROUNDING:
            raise UsageError(
                f"the acceptances below node {parent} sum to {below[parent]:g}: one sibling at most is kept, so give "
                "each the probability that it is the one"
            )
        kept.append(chance * (1.0 if parent < 0 else kept[parent]))
    return tuple(kept)


def tree_tokens_per_pass(parents: Sequence[int], acceptance: Sequence[float]) -> float:
    """tau of a draft tree: 1 + the sum of its nodes' survival probabilities (Sequoia, 2402.12374, section 3).

    Arguments and errors are those of survival; a chain gives what tokens_per_pass gives.
    """
    return 1.0 + math.fsum(survival(parents, acceptance))


def speedup(alpha: Acceptance, gamma: int, draft_cost: float, verify_cost: float = 1.0) -> float:
    """Tokens per second against plain decoding: tau / (gamma c + T(gamma + 1) / T(1)).

    draft_cost is c; verify_cost is T(gamma + 1) / T(1), by default 1, which makes it theorem 3.8 of Leviathan et al.
    (2211.17192). With gamma 0 nothing is drafted: 1. Raises UsageError for values out of range.
    """
    tau = tokens_per_pass(alpha, gamma)
    check_cost(draft_cost)
    check_verify_cost(verify_cost)
    return tau / (gamma * draft_cost + verify_cost) if gamma else 1.0


def break_even(gamma: int, draft_cost: float, verify_cost: float = 1.0) -> float | None:
    """The alpha at which gamma drafted tokens neither win nor lose: 1 + a + ... + a**gamma = gamma c + T(gamma+1)/T(1).

    Below it speculation slows down. 0 where the pass costs nothing extra; None where even alpha 1 does not pay, which
    for a verifying pass as cheap as a plain one means c > 1. Gamma 4 and c .1 give .2871. Exact to 1e-12; gamma 1 gives
    c. Raises UsageError for values out of range.
    """
    check_gamma(gamma)
    check_cost(draft_cost)
    check_verify_cost(verify_cost)
    needed = gamma * draft_cost + verify_cost
    if gamma == 0 or needed <= 1:
        return 0.0
    if needed >= gamma + 1:
        return 1.0 if needed == gamma + 1 else None
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if _geometric(middle, gamma) < needed else (low, middle)
    return high


def best_gamma(
    alpha: Acceptance,
    draft_cost: float,
    verify_cost: Callable[[int], float] | None = None,
    most: int = MOST_GAMMA,
) -> Choice:
    """The shortest draft length in 0..most with the highest speed-up; 0 where none beats plain decoding.

    verify_cost(n) is T(n) / T(1) of a pass of n rows; without it every pass costs the same. A list of acceptances ends
    the search where it ends. Raises UsageError for values out of range.
    """
    check_acceptance(alpha)
    check_cost(draft_cost)
    check_gamma(most, "most")
    longest = most if isinstance(alpha, (int, float)) else min(most, len(alpha))
    best = Choice(0, 1.0)
    for gamma in range(1, longest + 1):
        cost = 1.0 if verify_cost is None else verify_cost(gamma + 1)
        found = speedup(alpha, gamma, draft_cost, cost)
        if found > best.speedup:
            best = Choice(gamma, found)
    return best


def check_acceptance(alpha: Acceptance, name: str = "alpha", least: int = 1) -> None:
    """Raises UsageError unless alpha is a probability, or at least so many of them."""
    for one in (alpha,) if isinstance(alpha, (int, float)) else alpha:
        if not 0 <= one <= 1:  # NaN fails too
            raise UsageError(f"{name} is {one}: an acceptance is a probability, 0 to 1")
    if not isinstance(alpha, (int, float)) and len(alpha) < least:
        raise UsageError(f"{name} is empty: give the acceptance of at least one position")


def check_gamma(gamma: int, name: str = "gamma") -> None:
    """Raises UsageError unless gamma is a number of tokens."""
    if not isinstance(gamma, int) or gamma < 0:
        raise UsageError(f"{name} is {gamma}: give a whole number of drafted tokens, 0 or more")


def check_cost(draft_cost: float, name: str = "draft_cost") -> None:
    """Raises UsageError unless draft_cost is a share of a pass."""
    if not 0 <= draft_cost < math.inf:
        raise UsageError(f"{name} is {draft_cost}: give a draft step's time over a pass's, 0 or more, such as 0.1")


def check_verify_cost(verify_cost: float, name: str = "verify_cost") -> None:
    """Raises UsageError unless verify_cost is a ratio of two times."""
    if not 0 < verify_cost < math.inf:
        raise UsageError(f"{name} is {verify_cost}: give T(n) / T(1), above 0, such as 1.2")


def _geometric(alpha: float, gamma: int) -> float:
    # expm1 keeps all digits where alpha is near 1 and both 1 - alpha**(gamma + 1) and 1 - alpha nearly vanish.
    if gamma == 0 or alpha == 0:
        return 1.0
    if alpha == 1:
        return gamma + 1.0
    tau = -math.expm1((gamma + 1) * math.log(alpha)) / (1 - alpha)
    return min(max(tau, 1.0), gamma + 1.0)


def _products(alphas: Sequence[float]) -> list[float]:
    """The probabilities that the first 1, 2, ... tokens are all accepted [g]."""
    found: list[float] = []
    for alpha in alphas:
        found.append(alpha * (found[-1] if found else 1.0))
    return found
