"""The closed forms: hand-worked values, edges, simulation, and each against the others."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.core import expect
from outrider.core.expect import Choice
from outrider.errors import UsageError

PROBABILITIES = st.floats(0, 1)
GAMMAS = st.integers(0, 40)


def exact(alpha: float, gamma: int) -> Fraction:
    """1 + a + ... + a**gamma without rounding."""
    return sum((Fraction(alpha) ** power for power in range(gamma + 1)), Fraction(0))


@pytest.mark.parametrize(
    ("alpha", "gamma", "tau"), [(0.8, 4, 3.3616), (0.5, 4, 1.9375), (0.5, 1, 1.5), (0.25, 2, 1.3125)]
)
def test_hand_worked_tokens_per_pass(alpha: float, gamma: int, tau: float) -> None:
    assert expect.tokens_per_pass(alpha, gamma) == pytest.approx(tau, abs=1e-12)


def test_edges_are_exact() -> None:
    for gamma in (0, 1, 7, 10**9):
        assert expect.tokens_per_pass(0.0, gamma) == 1
        assert expect.tokens_per_pass(1.0, gamma) == gamma + 1
    for alpha in (0.0, 0.3, 1.0):
        assert expect.tokens_per_pass(alpha, 0) == 1
        assert expect.speedup(alpha, 0, 0.5, 1.7) == 1


@given(PROBABILITIES, GAMMAS)
def test_the_closed_form_is_the_sum(alpha: float, gamma: int) -> None:
    assert expect.tokens_per_pass(alpha, gamma) == pytest.approx(float(exact(alpha, gamma)), rel=1e-14)


@pytest.mark.parametrize("distance", [1e-3, 1e-8, 1e-12, 2**-53])
def test_no_digits_are_lost_near_one(distance: float) -> None:
    alpha = 1 - distance
    assert expect.tokens_per_pass(alpha, 30) == pytest.approx(float(exact(alpha, 30)), rel=1e-14)


@given(PROBABILITIES, st.integers(1, 20))
def test_equal_positions_are_one_alpha(alpha: float, gamma: int) -> None:
    measured = expect.tokens_per_pass([alpha] * gamma, gamma)
    assert measured == pytest.approx(expect.tokens_per_pass(alpha, gamma), rel=1e-12)


@given(st.lists(PROBABILITIES, min_size=1, max_size=12))
def test_a_chain_is_a_tree(alphas: list[float]) -> None:
    parents = range(-1, len(alphas) - 1)
    assert expect.tree_tokens_per_pass(parents, alphas) == pytest.approx(
        expect.tokens_per_pass(alphas, len(alphas)), rel=1e-12
    )


def test_a_tree_by_hand() -> None:
    # Two children of the root, .5 and .3; below the first .4, below that .5.
    parents, acceptance = (-1, -1, 0, 2), (0.5, 0.3, 0.4, 0.5)
    assert expect.survival(parents, acceptance) == pytest.approx((0.5, 0.3, 0.2, 0.1))
    assert expect.tree_tokens_per_pass(parents, acceptance) == pytest.approx(2.1)


def test_simulated_chain() -> None:
    rng = np.random.default_rng(4)
    alphas = np.array([0.9, 0.6, 0.75, 0.3])
    kept = np.cumprod(rng.random((200_000, 4)) < alphas, axis=1).sum(axis=1) + 1
    spread = 5 * kept.std() / math.sqrt(len(kept))
    assert kept.std() > 1
    assert abs(kept.mean() - expect.tokens_per_pass(alphas.tolist(), 4)) < spread


def test_simulated_tree() -> None:
    rng = np.random.default_rng(5)
    parents, acceptance = (-1, -1, 0, 0, 1, 2), (0.5, 0.3, 0.2, 0.6, 0.9, 0.7)
    kept = np.array([walk(parents, acceptance, rng.random) for _ in range(20_000)])
    spread = 5 * kept.std() / math.sqrt(len(kept))
    assert kept.std() > 0.5
    assert abs(kept.mean() - expect.tree_tokens_per_pass(parents, acceptance)) < spread


def walk(parents: tuple[int, ...], acceptance: tuple[float, ...], uniform: Callable[[], float]) -> int:
    """One pass: from each node to the child that a draw chooses, as long as it chooses one."""
    node, tokens = -1, 1
    while True:
        draw = uniform()
        for child in (child for child, parent in enumerate(parents) if parent == node):
            if draw < acceptance[child]:
                node, tokens = child, tokens + 1
                break
            draw -= acceptance[child]
        else:
            return tokens


def test_simulated_speedup() -> None:
    """Seconds of a simulated run of passes, against as many seconds of one token each."""
    rng = np.random.default_rng(6)
    alpha, gamma, draft_cost, verify_cost = 0.7, 5, 0.08, 1.25
    kept = np.cumprod(rng.random((200_000, gamma)) < alpha, axis=1).sum(axis=1) + 1
    measured = kept.sum() / (len(kept) * (gamma * draft_cost + verify_cost))
    assert measured == pytest.approx(expect.speedup(alpha, gamma, draft_cost, verify_cost), rel=0.01)


def test_hand_worked_break_even() -> None:
    alpha = expect.break_even(4, 0.1)
    assert alpha is not None
    assert alpha == pytest.approx(0.2871, abs=5e-5)
    assert alpha + alpha**2 + alpha**3 + alpha**4 == pytest.approx(0.4, abs=1e-14)


@given(st.integers(1, 30), st.floats(0, 1), st.floats(1, 3))
def test_at_break_even_the_speedup_is_one(gamma: int, draft_cost: float, verify_cost: float) -> None:
    alpha = expect.break_even(gamma, draft_cost, verify_cost)
    if alpha is None:
        assert expect.speedup(1.0, gamma, draft_cost, verify_cost) < 1
    else:
        assert expect.speedup(alpha, gamma, draft_cost, verify_cost) == pytest.approx(1, abs=1e-12)
        assert expect.speedup(max(0, alpha - 1e-12), gamma, draft_cost, verify_cost) <= 1 + 1e-15


@given(st.floats(0, 1))
def test_one_drafted_token_breaks_even_at_its_cost(draft_cost: float) -> None:
    assert expect.break_even(1, draft_cost) == pytest.approx(draft_cost, abs=1e-12)


def test_break_even_edges() -> None:
    assert expect.break_even(4, 0.0) == 0
    assert expect.break_even(4, 1.0) == 1
    assert expect.break_even(4, 1.001) is None
    assert expect.break_even(0, 3.0, 2.0) == 0
    assert expect.break_even(3, 0.0, 0.9) == 0  # a measured pass may come out below a plain one
    assert expect.break_even(3, 0.0, 4.0) == 1


# Best length and speed-up by alpha (rows) and c: exact enumeration, among lengths up to 32.
@pytest.mark.parametrize(
    ("alpha", "draft_cost", "gamma", "speedup"),
    [
        (0.5, 0.01, 5, 1.88),
        (0.5, 0.5, 0, 1.00),
        (0.6, 0.1, 3, 1.67),
        (0.7, 0.05, 6, 2.35),
        (0.8, 0.1, 6, 2.47),
        (0.8, 0.2, 4, 1.87),
        (0.9, 0.01, 24, 7.49),
        (0.9, 0.5, 3, 1.38),
    ],
)
def test_best_gamma_of_the_table(alpha: float, draft_cost: float, gamma: int, speedup: float) -> None:
    best = expect.best_gamma(alpha, draft_cost)
    assert best.gamma == gamma
    assert best.speedup == pytest.approx(speedup, abs=0.005)


@given(st.floats(0, 0.99), st.floats(0, 1.2), st.floats(0, 0.2))
def test_no_length_beats_the_best_and_no_shorter_one_equals_it(alpha: float, draft_cost: float, slope: float) -> None:
    def verify(rows: int) -> float:
        return 1 + slope * (rows - 1)

    best = expect.best_gamma(alpha, draft_cost, verify, 60)
    others = [expect.speedup(alpha, gamma, draft_cost, verify(gamma + 1)) for gamma in range(61)]
    assert best.speedup == max(others)
    assert best.gamma == others.index(best.speedup)


def test_best_gamma_asks_for_passes_of_one_row_more() -> None:
    asked: list[int] = []

    def verify(rows: int) -> float:
        asked.append(rows)
        return 1.0

    expect.best_gamma(0.5, 0.1, verify, 3)
    assert asked == [2, 3, 4]


def test_best_gamma_ends_with_the_measured_positions() -> None:
    assert expect.best_gamma((0.9, 0.9, 0.9), 0.0).gamma == 3
    assert expect.best_gamma((0.9, 0.1, 0.9), 0.3).gamma == 1
    assert expect.best_gamma(1.0, 0.0, most=16) == Choice(16, 17.0)
    assert expect.best_gamma(0.9, 0.1, most=0) == Choice(0, 1.0)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: expect.tokens_per_pass(1.1, 4), r"alpha is 1\.1.*0 to 1"),
        (lambda: expect.tokens_per_pass(math.nan, 4), "alpha is nan"),
        (lambda: expect.tokens_per_pass((0.5, -0.1), 2), r"alpha is -0\.1"),
        (lambda: expect.tokens_per_pass((), 0), "alpha is empty"),
        (lambda: expect.tokens_per_pass((0.5, 0.4), 3), "gamma is 3, but alpha gives the acceptance of 2"),
        (lambda: expect.tokens_per_pass(0.5, -1), "gamma is -1.*0 or more"),
        (lambda: expect.tokens_per_pass(0.5, 2.5), r"gamma is 2\.5"),  # type: ignore[arg-type]
        (lambda: expect.speedup(0.5, 2, -0.1), r"draft_cost is -0\.1"),
        (lambda: expect.speedup(0.5, 2, math.inf), "draft_cost is inf"),
        (lambda: expect.speedup(0.5, 2, 0.1, 0.0), r"verify_cost is 0\.0"),
        (lambda: expect.break_even(-2, 0.1), "gamma is -2"),
        (lambda: expect.break_even(2, math.nan), "draft_cost is nan"),
        (lambda: expect.best_gamma(0.5, 0.1, most=-1), "most is -1"),
        (lambda: expect.survival((-1,), ()), "1 parents but 0 acceptances"),
        (lambda: expect.survival((0,), (0.5,)), "node 0 has parent 0"),
        (lambda: expect.survival((-1, -1), (0.6, 0.5)), r"below node -1 sum to 1\.1"),
        (lambda: expect.survival((-1,), (1.5,)), r"acceptance is 1\.5"),
    ],
)
def test_nonsense_is_refused_by_name(call: Callable[[], object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        call()


def test_an_empty_tree_is_plain_decoding() -> None:
    assert expect.tree_tokens_per_pass((), ()) == 1
