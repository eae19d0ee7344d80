"""Keyed luck: its numbers and draws have their laws, and keys are fresh for every pass, as the rules need."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from tests.core.exact import CHAIN, Branching, Flat, Tape, Tokens, fractions, outcomes, plain

from outrider.core import chance, noise, rules
from outrider.core.chance import KeyedChance
from outrider.core.noise import Purpose
from outrider.core.types import Draft, Law
from outrider.errors import UsageError

ONES = 0xFFFFFFFF
BELOW_ONE = 1.0 - 2.0**-53


def test_uniforms_of_53_bits_lie_strictly_inside_the_unit_interval() -> None:
    assert noise.uniform53(0, 0) == 2.0**-54
    assert noise.uniform53(ONES, ONES) == BELOW_ONE
    assert noise.uniform53(ONES, ONES - 2**11) <= BELOW_ONE
    assert noise.uniform53(1 << 31, 0) == 0.5
    assert noise.uniform53(0, 1 << 11) == 1.5 * 2.0**-53
    # The lower 11 bits of the second word are not used, all others are.
    assert noise.uniform53(0, (1 << 11) - 1) == noise.uniform53(0, 0)
    assert noise.uniform53(1, 0) > noise.uniform53(0, ONES)


def test_a_number_is_made_of_the_first_two_words_of_its_key() -> None:
    for seed, node in ((7, -1), ((5 << 32) | 9, 0), (2**64 - 1, 300)):
        words = noise.words(8, seed, 3, 11, Purpose.ACCEPT, node)
        assert noise.number(seed, 3, 11, Purpose.ACCEPT, node) == noise.uniform53(int(words[0]), int(words[1]))


def test_the_targets_noise_knows_no_node() -> None:
    plain_words = noise.words(16, 1, 2, 3)
    np.testing.assert_array_equal(plain_words, noise.words(16, 1, 2, 3, Purpose.TARGET, -1))
    counter = np.array([[0], [3], [2], [int(Purpose.SIBLINGS) + 256 * 8]], np.uint32)
    siblings = noise.words(16, 1, 2, 3, Purpose.SIBLINGS, 7)
    np.testing.assert_array_equal(siblings[:4], noise.philox(counter, (1, 0))[:, 0])


def test_every_part_of_a_key_matters() -> None:
    keys = [(1, 2, 3, purpose, node) for purpose in Purpose for node in (-1, 0, 1, 255, 256)]
    keys += [(2, 2, 3, Purpose.ACCEPT, 0), (1 + 2**32, 2, 3, Purpose.ACCEPT, 0)]
    keys += [(1, 3, 3, Purpose.ACCEPT, 0), (1, 2, 4, Purpose.ACCEPT, 0)]
    assert len({noise.number(*key) for key in keys}) == len(keys)


@pytest.mark.parametrize("node", [-2, 2**24 - 1])
def test_a_node_that_the_key_cannot_hold_is_refused(node: int) -> None:
    with pytest.raises(UsageError, match=str(node)):
        noise.number(0, 0, 0, Purpose.ACCEPT, node)
    noise.number(0, 0, 0, Purpose.ACCEPT, 2**24 - 2)


def test_numbers_are_uniform() -> None:
    """Means of powers of 20,000 numbers, within 6 standard errors."""
    found = np.array([noise.number(9, 0, position, Purpose.ACCEPT, 4) for position in range(20_000)])
    for power in (1, 2, 5):
        mean, spread = 1 / (power + 1), np.sqrt(1 / (2 * power + 1) - 1 / (power + 1) ** 2)
        assert abs((found**power).mean() - mean) < 6 * spread / np.sqrt(len(found))


def test_accept_at_the_ends() -> None:
    lucks = [KeyedChance(seed, 0, 5) for seed in range(200)]
    assert all(luck.accept(0, 1) and luck.accept(0, 1.0) and not luck.accept(0, 0) for luck in lucks)
    assert lucks[3] == KeyedChance(3, 0, 5)
    assert len({luck.accept(node, 0.5) for luck in lucks for node in (0, 1)}) == 2


def test_pick_takes_the_id_at_its_share() -> None:
    weights = np.array([0.0, 1.0, 0.0, 2.0, 1.0, 0.0])
    assert [chance.pick(weights, unit) for unit in (2.0**-54, 0.2499, 0.2501, 0.7499, 0.7501, BELOW_ONE)] == [
        1, 1, 3, 3, 4, 4,
    ]  # fmt: skip


@pytest.mark.parametrize("size", [5e-324, 1e-300, 1.0, 1e300])
def test_pick_never_takes_what_has_no_weight(size: float) -> None:
    weights = np.array([0.0, size, 0.0])
    assert chance.pick(weights, 2.0**-54) == chance.pick(weights, BELOW_ONE) == 1
    assert chance.pick(weights.astype(np.float32) if size == 1.0 else weights, 0.5) == 1


def test_pick_of_nothing_is_id_0_as_in_core_sampling() -> None:
    assert chance.pick(np.zeros(3), 0.5) == 0


def test_draws_have_the_law_of_their_weights() -> None:
    """Counts of 20,000 draws, within 6 standard errors each."""
    q = np.array([0.5, 0.0, 0.3, 0.15, 0.05], np.float32)
    count = 20_000
    rows = {
        "node": Counter(chance.draw_node(q, 1, 0, position, 2) for position in range(count)),
        "draw": Counter(KeyedChance(1, 0, position).draw(2, q) for position in range(count)),
    }
    for found in rows.values():
        for token, share in enumerate(q.tolist()):
            assert abs(found[token] - count * share) <= 6 * np.sqrt(count * share * (1 - share))
    assert rows["node"] != rows["draw"]


def test_children_are_drawn_without_replacement() -> None:
    """Ordered pairs against q(a) q(b) / (1 - q(a)), within 6 standard errors each."""
    q = np.array([0.5, 0.3, 0.0, 0.2], np.float32)
    count = 20_000
    found = Counter(chance.draw_children(q, 2, 1, 0, position, -1) for position in range(count))
    assert set(found) == set(permutations((0, 1, 3), 2))
    for first, second in found:
        share = float(q[first] * q[second] / (1 - q[first]))
        assert abs(found[first, second] - count * share) < 6 * np.sqrt(count * share * (1 - share))


def test_children_end_where_q_does() -> None:
    q = np.array([0.0, 1.0, 1e-45, 0.0], np.float32)
    assert sorted(chance.draw_children(q, 9, 1, 0, 7, 3)) == [1, 2]
    assert chance.draw_children(q, 0, 1, 0, 7, 3) == ()
    assert chance.draw_children(np.zeros(4, np.float32), 2, 1, 0, 7, 3) == ()
    assert chance.draw_children(q, 1, 1, 0, 7, 3) == (1,)


def two_passes(name: str, keyed_by_position: bool) -> dict[Tokens, Fraction]:
    """The joint law of two tokens from a pass with two drafted tokens and, where it kept none, one with another.

    Keyed by absolute position, the second pass draws for the second place what the first one had drawn there.
    """
    world = Flat(fractions(1, 2), fractions(2, 1))
    judge = rules.RULES[name].judge
    q = world.q(())

    def run(tape: Tape) -> Tokens:
        def one(tokens: Tokens) -> Tokens:
            draft = Draft.chain(tokens, Law.IID, (q,) * len(tokens))
            luck = Branching(world, tape, lambda node: tokens[: node + 1])
            verdict = judge(draft, luck, luck)
            return (*tokens[: len(verdict.path)], verdict.token)

        drafted = (tape.choose(q), tape.choose(q))
        first = one(drafted)
        if len(first) > 1:
            return first[:2]
        return (*first, *one((drafted[1] if keyed_by_position else tape.choose(q),)))[:2]

    law: Counter[Tokens] = Counter()
    for weight, tokens in outcomes(run):
        law[tokens] += weight  # type: ignore[assignment]
    return {tokens: Fraction(weight) for tokens, weight in law.items()}


@pytest.mark.parametrize(("name", "bears_it"), [("rejection", True), ("block", False), ("traversal", False)])
def test_noise_that_comes_back_in_a_later_pass_costs_the_law(name: str, bears_it: bool) -> None:
    truth = plain(Flat(fractions(1, 2), fractions(2, 1)), 2)
    assert two_passes(name, keyed_by_position=False) == truth
    assert (two_passes(name, keyed_by_position=True) == truth) is bears_it


@pytest.mark.parametrize("name", ["rejection", "block", "traversal"])
def test_rules_on_floats_decide_as_on_fractions(name: str) -> None:
    """Random laws with zeros and points: the same questions, probabilities equal up to rounding, the same verdicts."""
    luck = KeyedChance(1, 0, 0)
    generator = np.random.default_rng(0)
    lengths: Counter[int] = Counter()
    for case in range(60):
        weights = generator.integers(0, 4, (2, 4, 4))
        weights[..., 0] += weights.sum(axis=-1) == 0
        laws = [[fractions(*map(int, row)) for row in table] for table in weights]
        tokens = tuple(int(np.flatnonzero(row)[case % np.count_nonzero(row)]) for row in weights[1, :3])
        verdicts = [_verdict(name, tokens, laws, kind, luck) for kind in (object, np.float64, np.float32)]
        assert verdicts[0][0] == verdicts[1][0] == verdicts[2][0]
        for exact, double, single in zip(*(asked for _, asked in verdicts), strict=True):
            np.testing.assert_allclose(double, exact, atol=1e-14)
            np.testing.assert_allclose(single, exact, atol=1e-6)
        lengths[len(verdicts[0][0].path)] += 1
    assert set(lengths) == set(range(4)), "every length occurs"


def _verdict(name: str, tokens: Tokens, laws: list[list[Any]], kind: Any, luck: KeyedChance) -> tuple[Any, list[Any]]:
    p, q = ([row.astype(kind) for row in table] for table in laws)
    asked: list[Any] = []

    class Rows:
        def token(self, node: int) -> int:
            return 0

        def law(self, node: int) -> Any:
            return p[node + 1]

        def accept(self, node: int, probability: Any) -> bool:
            asked.append(float(probability))
            return luck.accept(node, float(probability))

        def draw(self, node: int, weights: Any) -> int:
            asked.append(weights.astype(float))
            return luck.draw(node, weights.astype(float))

    rows = Rows()
    draft = Draft(tokens, CHAIN[3], Law.IID, tuple(q[:3]))
    return rules.RULES[name].judge(draft, rows, rows), asked


def test_extreme_floats_raise_no_warning_and_no_nonsense() -> None:
    """Probabilities near the ends of float64 and float32; pytest makes every warning an error."""
    rows = [
        np.array([1.0, 5e-324, 0.0]),
        np.array([5e-324, 1.0, 0.0]),
        np.array([0.0, 0.0, 1.0], np.float32),
        np.array([1e-45, 1.0, 1e-38], np.float32),
    ]
    for p, q, token in product(rows, rows, range(3)):
        for name in ("rejection", "block", "traversal"):
            draft = Draft.chain((token, 0), Law.IID, (q, q))
            luck = KeyedChance(token, 0, 0)
            verdict = rules.RULES[name].judge(draft, _Same(p), luck)
            assert all(0 <= node < 2 for node in verdict.path)
            assert all(p[draft.tokens[node]] > 0 for node in verdict.path)
            assert p[verdict.token] > 0


class _Same:
    """rules.Target with one law everywhere."""

    def __init__(self, p: Any) -> None:
        self._p = p

    def token(self, node: int) -> int:
        return int(np.argmax(self._p))

    def law(self, node: int) -> Any:
        return self._p
