"""The production path on float32 laws of 49,152 tokens: what the rules put out, counted against a float64 reference.

Bins are fixed by the reference before anything is drawn, none expects under 50 of the N answers. A test fails for a
right rule once in 1e9 seeds (and its seed is fixed); a fault of relative size w = sqrt(sum of (error / p)^2 p over the
bins) is found with power 0.99 where N w^2 is the noncentrality that reaches it: w = 0.184 for the N here. What is
smaller is left to the enumeration. Both figures are exact: the numbers of bins are odd, and chi-square laws with even
degrees of freedom are finite sums.

Dimensions: V vocabulary, N answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from tests.core.exact import CHAIN, Tokens, mutated, shape

from outrider.core import chance, noise, rules, sampling
from outrider.core.chance import KeyedChance
from outrider.core.noise import Purpose
from outrider.core.types import Draft, FloatArray, Law

pytestmark = pytest.mark.slow

Doubles: TypeAlias = npt.NDArray[np.float64]
Ids: TypeAlias = npt.NDArray[np.intp]
VOCAB, ANSWERS, FIRST, SECOND = 49_152, 3_000, 5, 3
FALSE_ALARM, POWER, FAULT = 1e-9, 0.99, 0.184
SEED = 20_261_129


def survival(x: float, freedom: int) -> float:
    """P(chi-square > x) for an even number of degrees of freedom: a sum of freedom / 2 Poisson terms of x / 2."""
    assert freedom % 2 == 0
    return math.fsum(poisson(k, x / 2) for k in range(freedom // 2))


def critical(freedom: int) -> float:
    """Where the survival is FALSE_ALARM."""
    return bisect(lambda x: survival(x, freedom) <= FALSE_ALARM)


def noncentrality(freedom: int) -> float:
    """The smallest that is found with POWER: a noncentral chi-square is a Poisson mixture of central ones."""
    bound, terms = critical(freedom), range(600)
    central = [survival(bound, freedom)]  # with 2 more degrees of freedom each
    for k in terms:
        central.append(central[-1] + poisson(freedom // 2 + k, bound / 2))
    return bisect(lambda size: math.fsum(poisson(j, size / 2) * central[j] for j in terms) >= POWER)


def poisson(k: int, mean: float) -> float:
    return math.exp(k * math.log(mean) - mean - math.lgamma(k + 1))


def bisect(holds: Callable[[float], bool]) -> float:
    low, high = 1e-6, 500.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


class Row:
    """One place: p and q as production makes them, p in float64 too, and its bins."""

    def __init__(self, seed: int, top_p: float, bins: int) -> None:
        generator = np.random.default_rng(seed)
        self.logits = (2.5 * generator.standard_normal(VOCAB)).astype(np.float32)
        drafted = self.logits + generator.standard_normal(VOCAB).astype(np.float32)
        self.draw = sampling.Draw(1.0, top_p=top_p)
        self.p = sampling.law(self.logits, self.draw)
        self.q = sampling.law(drafted, sampling.Draw(1.0))
        self.reference = reference(self.logits, top_p)
        assert np.array_equal(self.p > 0, self.reference > 0)
        # A wrong residual, or a wrong ratio, moves tokens with a large p / q against those with a small one.
        self.bin = binned(self.reference, np.argsort(self.reference / self.q, kind="stable"), bins)
        self.share = np.bincount(self.bin, self.reference, bins)

    def tilted(self, size: float) -> FloatArray:
        """p with a planted fault: every other bin is too likely, the others too unlikely, by about `size`."""
        p = self.p * np.where(self.bin % 2 == 0, 1 + size, 1 - size)
        return np.asarray(p / p.sum(), np.float32)


def reference(logits: FloatArray, top_p: float) -> Doubles:
    """The law at temperature 1 in float64, from its definition."""
    p = np.exp(logits.astype(np.float64) - logits.max())
    p /= p.sum()
    order = np.argsort(-logits, kind="stable")
    count = int(np.searchsorted(np.cumsum(p[order]), top_p)) + 1 if top_p < 1 else VOCAB
    p[order[count:]] = 0.0
    return np.asarray(p / p.sum(), np.float64)


def binned(p: Doubles, order: Ids, bins: int) -> Ids:
    """The bin of each id: in this order, about the same share of p in each."""
    found = np.empty(len(p), np.intp)
    found[order] = np.minimum((np.cumsum(p[order]) - p[order] / 2) * bins, bins - 1).astype(np.intp)
    return found


def excess(counts: npt.NDArray[Any], expected: npt.NDArray[Any]) -> float:
    """chi-square as a multiple of its critical value."""
    assert expected.min() >= 50
    assert counts.sum() == pytest.approx(expected.sum())
    return float(((counts - expected) ** 2 / expected).sum()) / critical(counts.size - 1)


class Rows:
    """rules.Target: the place is a node's depth, whatever the tokens."""

    def __init__(self, laws: list[FloatArray], depths: dict[int, int], position: int) -> None:
        self._laws, self._depths, self._position = laws, depths, position

    def law(self, node: int) -> FloatArray:
        return self._laws[self._depths[node]]

    def token(self, node: int) -> int:
        depth = self._depths[node]
        return plainly(self._laws[depth], self._position + depth) if depth < len(self._laws) else 0


def plainly(p: FloatArray, position: int) -> int:
    """The target's own draw; the inverse of the cumulative sum stands for the far slower Gumbel draw."""
    return chance.pick(p, noise.number(SEED, 0, position, Purpose.TARGET, -1))


def drafted(parents: Tokens, law: Law, places: list[Row], depths: dict[int, int], position: int) -> Draft:
    if law is Law.DISTINCT:
        tokens = chance.draw_children(places[0].q, len(parents), SEED, 0, position, -1)
    else:
        tokens = tuple(
            chance.draw_node(places[depths[node] - 1].q, SEED, 0, position, node) for node in range(len(parents))
        )
    return Draft(tokens, parents, law, tuple(places[depths[node] - 1].q for node in range(len(parents))))


def chi_square(judge: rules.Judge, parents: Tokens, law: Law, top_p: float, fault: float = 0.0) -> float:
    """Of the first two tokens of N answers, as a multiple of the critical value."""
    places = [Row(1, top_p, FIRST), Row(2, top_p, SECOND)]
    laws = [place.tilted(fault) if fault else place.p for place in places[:1]] + [places[1].p]
    depths = {-1: 0}
    for node, parent in enumerate(parents):
        depths[node] = depths[parent] + 1
    counts = np.zeros((FIRST, SECOND))
    for answer in range(ANSWERS):
        position = 8 * answer
        draft = drafted(parents, law, places, depths, position)
        verdict = judge(draft, Rows(laws, depths, position), KeyedChance(SEED, 0, position))
        tokens = [*(draft.tokens[node] for node in verdict.path), verdict.token]
        if len(tokens) == 1:
            tokens.append(plainly(laws[1], position + 1))
        assert all(places[i].reference[tokens[i]] > 0 for i in range(2)), "a token outside top-p"
        counts[places[0].bin[tokens[0]], places[1].bin[tokens[1]]] += 1
    return excess(counts, ANSWERS * np.outer(places[0].share, places[1].share))


CASES = {
    "rejection": ("rejection", CHAIN[2], Law.IID),
    "rejection, siblings": ("rejection", shape(2), Law.DISTINCT),
    "block": ("block", CHAIN[2], Law.IID),
    "traversal": ("traversal", (-1, -1, 0), Law.IID),
}


@pytest.mark.parametrize("top_p", [1.0, 0.9])
@pytest.mark.parametrize("case", CASES)
def test_rules_have_the_targets_law(case: str, top_p: float) -> None:
    name, parents, law = CASES[case]
    assert chi_square(rules.RULES[name].judge, parents, law, top_p) < 1


@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_the_coupled_draw_has_the_targets_law(top_p: float) -> None:
    """One token: p itself decides the bins, likely tokens together with likely ones."""
    place, bins = Row(3, top_p, FIRST * SECOND), FIRST * SECOND
    row = sampling.scores(place.logits, place.draw)
    draw = sampling.Draw(1.0, SEED)
    for position in range(3):  # Filtered once, not for each draw: at temperature 1 that is the same row.
        whole = sampling.Draw(1.0, SEED, top_p=top_p)
        assert sampling.token(row, draw, position) == sampling.token(place.logits, whole, position)
    bin_of = binned(place.reference, np.argsort(place.reference, kind="stable"), bins)
    tokens = [sampling.token(row, draw, position) for position in range(ANSWERS)]
    assert place.reference[tokens].min() > 0
    counts = np.bincount(bin_of[tokens], minlength=bins).astype(np.float64)
    assert excess(counts, ANSWERS * np.bincount(bin_of, place.reference, bins)) < 1


def test_a_fault_of_the_stated_size_is_found() -> None:
    """The figures of this page, and a target whose first token is wrong by just that much."""
    freedom = FIRST * SECOND - 1
    assert survival(critical(freedom), freedom) == pytest.approx(FALSE_ALARM, rel=1e-6)
    assert math.sqrt(noncentrality(freedom) / ANSWERS) == pytest.approx(FAULT, abs=0.0005)
    name, parents, law = CASES["rejection"]
    assert chi_square(rules.RULES[name].judge, parents, law, 1.0, FAULT) > 1


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("rejection", "weights -= q", "pass"),
        ("block", "odds.append(_pass(total, share))", "odds.append(share)"),
    ],
)
def test_faults_of_the_rules_are_found_at_this_size_too(name: str, before: str, after: str) -> None:
    assert chi_square(mutated(rules, (before, after))[name], CHAIN[2], Law.IID, 1.0) > 1
