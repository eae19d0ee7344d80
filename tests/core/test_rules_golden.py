"""Acceptances that the literature and hand computation agree on, reproduced exactly, and how the rules compare.

The two pairs of laws of each table are those of the tables in docs/rules.md.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from tests.core.exact import CHAIN, Drafter, Flat, Fractions, Tape, Tokens, World, accepted, fractions, passes, shape

from outrider.core import maths, noise, rules, sampling
from outrider.core.types import Law

THIRDS = Flat(fractions(1, 2), fractions(2, 1))
TENTHS = Flat(fractions(7, 2, 1), fractions(3, 5, 2))
OTHERS = Flat(fractions(5, 3, 2), fractions(2, 3, 5))


def kept(name: str, drafter: Drafter, world: World) -> Fraction:
    return accepted(passes(rules.RULES[name].judge, drafter.draft, world))


@pytest.mark.parametrize(
    ("world", "length", "rejection", "block"),
    [
        (THIRDS, 1, "2/3", "2/3"),
        (THIRDS, 2, "10/9", "11/9"),
        (THIRDS, 3, "38/27", "5/3"),
        (THIRDS, 4, "130/81", "166/81"),
        (TENTHS, 2, "24/25", "107/100"),
        (TENTHS, 3, "147/125", "178/125"),
        (TENTHS, 4, "816/625", "17137/10000"),
    ],
)
def test_accepted_tokens_of_a_chain(world: World, length: int, rejection: str, block: str) -> None:
    drafter = Drafter(CHAIN[length], Law.IID)
    assert kept("rejection", drafter, world) == Fraction(rejection)
    assert kept("block", drafter, world) == Fraction(block)
    assert kept("traversal", drafter, world) == Fraction(block)


@pytest.mark.parametrize(
    ("name", "parents", "law", "tenths", "others"),
    [
        ("rejection", shape(1), Law.IID, "6/10", "7/10"),
        ("coupled", shape(1), Law.IID, "33/100", "29/100"),
        ("rejection", shape(2), Law.IID, "72/100", "76/100"),
        ("rejection", shape(2), Law.DISTINCT, "8175/10000", "82/100"),
    ],
)
def test_acceptance_of_one_step(name: str, parents: Tokens, law: Law, tenths: str, others: str) -> None:
    assert kept(name, Drafter(parents, law), TENTHS) == Fraction(tenths)
    assert kept(name, Drafter(parents, law), OTHERS) == Fraction(others)


@pytest.mark.parametrize("name", ["coupled", "rejection", "traversal"])
@pytest.mark.parametrize(("world", "expected"), [(TENTHS, "9/10"), (OTHERS, "5/10")])
def test_acceptance_of_the_two_likeliest_is_their_share_of_p(name: str, world: World, expected: str) -> None:
    best = sorted(range(3), key=lambda token: -world.q(())[token])[:2]
    hint = next(hint for hint in range(100) if _chosen(hint, world) == best)
    assert kept(name, Drafter(shape(2), Law.POINT, hint), world) == Fraction(expected)


def _chosen(hint: int, world: World) -> list[int]:
    draft, _ = Drafter(shape(2), Law.POINT, hint).draft(world, Tape())
    return list(draft.tokens)


@pytest.mark.parametrize(("world", "expected"), [(TENTHS, 0.595238), (OTHERS, 0.630769)])
def test_acceptance_of_a_drafter_with_the_targets_noise(world: World, expected: float) -> None:
    """sum over x of 1 / sum over y of max(p_y / p_x, q_y / q_x): both race for the same exponential times.

    Counted on the production noise: the ids of one long row serve as 100,000 rows of three. The bound is 5 standard
    errors.
    """
    p, q = (np.array([float(x) for x in law]) for law in (world.p(()), world.q(())))
    exact = sum(1 / np.maximum(p / p[x], q / q[x]).sum() for x in range(3))
    assert exact == pytest.approx(expected, abs=1e-6)
    assert exact >= (1 - 0.5 * np.abs(p - q).sum()) / (1 + 0.5 * np.abs(p - q).sum())
    rows = 100_000
    gumbel = noise.gumbel(3 * rows, 11, 0, 5).reshape(rows, 3)
    same = [(gumbel + maths.log(law.astype(np.float32))).argmax(axis=1) for law in (p, q)]
    assert abs(np.mean(same[0] == same[1]) - exact) < 5 * np.sqrt(exact * (1 - exact) / rows)
    # The row that was counted is the one that the draw uses.
    own = [sampling.token(maths.log(law.astype(np.float32)), sampling.Draw(1.0, 11), 5) for law in (p, q)]
    assert own == [column[0] for column in same]


def _subsets(vocab: int) -> list[list[int]]:
    return [list(ids) for size in range(vocab + 1) for ids in combinations(range(vocab), size)]


def _best(p: Fractions, covered: Any) -> Fraction:
    """min over sets H of p(H) + 1 - P(all drafts lie in H): no rule can accept more (2502.18779)."""
    return min(Fraction(sum(p[ids]) + 1 - covered(ids)) for ids in _subsets(len(p)))


def _both_distinct(q: Fractions, ids: list[int]) -> Fraction:
    return sum((Fraction(q[a] * q[b] / (1 - q[a])) for a, b in product(ids, ids) if a != b), Fraction(0))


@pytest.mark.parametrize(("world", "iid", "distinct"), [(TENTHS, "81/100", "975/1000"), (OTHERS, "86/100", "69/70")])
def test_two_siblings_stay_below_the_optimum(world: World, iid: str, distinct: str) -> None:
    p, q = world.p(()), world.q(())
    best = _best(p, lambda ids: Fraction(sum(q[ids])) ** 2)
    assert best == Fraction(iid)
    assert kept("rejection", Drafter(shape(2), Law.IID), world) <= best
    best = _best(p, lambda ids: _both_distinct(q, ids))
    assert best == Fraction(distinct)
    assert kept("rejection", Drafter(shape(2), Law.DISTINCT), world) <= best


def test_block_never_accepts_less_than_rejection() -> None:
    """A theorem for chains; strictly more on most, and the same where the draft is a point or one token long."""
    more = 0
    for seed in range(60):
        world, drafter = World(3, seed, holes=seed % 3 == 0), Drafter(CHAIN[3], Law.IID)
        less, most = kept("rejection", drafter, world), kept("block", drafter, world)
        assert less <= most
        more += less < most
        for same in (Drafter(CHAIN[1], Law.IID), Drafter(CHAIN[3], Law.POINT, seed)):
            assert kept("rejection", same, world) == kept("block", same, world)
    assert more > 30


@pytest.mark.parametrize("law", [Law.IID, Law.DISTINCT])
@pytest.mark.parametrize("parents", [shape(2, 1), shape(2, 2), shape(1, 2, 1)])
def test_traversal_accepts_more_than_rejection_on_average(parents: Tokens, law: Law) -> None:
    """And on none of these trees less, though nobody has proved that."""
    total: Counter[str] = Counter()
    for seed in range(20):
        found = {name: kept(name, Drafter(parents, law), World(3, seed)) for name in ("rejection", "traversal")}
        assert found["rejection"] <= found["traversal"]
        total.update(found)
    assert total["rejection"] < total["traversal"]
