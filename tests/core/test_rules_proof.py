"""Every rule proved: the joint law of what it puts out, then plain decoding, is the target's, with error zero.

Over every draft and every outcome of chance, on the production functions, with fractions (see exact.py). The worlds'
laws depend on the context; those with holes have zeros in p and q, points among them, and supports of q that run out.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.core.exact import (
    CHAIN,
    Branching,
    Drafter,
    Flat,
    Tape,
    Tokens,
    World,
    accepted,
    completed,
    fractions,
    passes,
    plain,
    shape,
)

from outrider.core import rules, tree
from outrider.core.types import EMPTY, Draft, Law, Verdict

LATE = (-1, 0, -1, 2, 0)  # siblings that do not stand side by side
UNEVEN = (-1, -1, -1, 1)
DRAWN = (Law.IID, Law.DISTINCT)
CASES = [
    *((vocab, CHAIN[length]) for vocab in (2, 3) for length in (1, 2, 3, 4)),
    *((4, CHAIN[length]) for length in (1, 2, 3)),
    *((vocab, parents) for vocab in (2, 3) for parents in (shape(2, 1), shape(2, 2), shape(3, 1), LATE, UNEVEN)),
    (4, shape(2, 1)),
    (2, shape(2, 2, 1)),
]
SLOW_CASES = [(4, CHAIN[4]), (3, shape(2, 2, 1)), (4, shape(2, 2))]


def depth(parents: Tokens) -> int:
    return max(tree.depths(Draft((0,) * len(parents), parents))) + 1


def prove(name: str, drafter: Drafter, world: World) -> Fraction:
    """Assert that the output has the target's law; returns the expected number of accepted tokens."""
    found = passes(rules.RULES[name].judge, drafter.draft, world)
    length = depth(drafter.parents) + 1
    assert sum(found.values()) == 1
    assert completed(found, world, length) == plain(world, length), f"{drafter} {world.seed}"
    return accepted(found)


def worlds(vocab: int) -> list[World]:
    return [World(vocab, 1), World(vocab, 2), *(World(vocab, seed, holes=True) for seed in range(4))]


def judges(name: str, parents: Tokens) -> bool:
    return rules.RULES[name].trees or parents in CHAIN.values()


@pytest.mark.parametrize("law", DRAWN)
@pytest.mark.parametrize("name", rules.RULES)
def test_drawn_drafts(name: str, law: Law) -> None:
    kept = [
        prove(name, Drafter(parents, law), world)
        for vocab, parents in CASES
        if judges(name, parents)
        for world in worlds(vocab)
    ]
    assert any(kept)


@pytest.mark.parametrize("name", rules.RULES)
def test_chosen_drafts(name: str) -> None:
    """Ten choices of tokens for each shape, equal siblings and impossible tokens among them."""
    kept = [
        prove(name, Drafter(parents, Law.POINT, hint), world)
        for vocab, parents in (*CASES, *SLOW_CASES)
        if judges(name, parents)
        for world in (World(vocab, 1), World(vocab, 0, holes=True), World(vocab, 3, holes=True))
        for hint in range(10)
    ]
    assert any(kept)


@pytest.mark.slow
@pytest.mark.parametrize("law", DRAWN)
@pytest.mark.parametrize("name", rules.RULES)
def test_larger_drawn_drafts(name: str, law: Law) -> None:
    for vocab, parents in SLOW_CASES:
        if judges(name, parents):
            assert prove(name, Drafter(parents, law), World(vocab, 5)) > 0


@pytest.mark.parametrize("name", ["rejection", "block", "traversal"])
@pytest.mark.parametrize(
    "world",
    [
        Flat(fractions(1, 2, 3), fractions(1, 2, 3)),  # p is q: Z is 0, and everything is kept
        Flat(fractions(0, 1, 0), fractions(1, 2, 1)),  # p is a point
        Flat(fractions(1, 2, 1), fractions(0, 1, 0)),  # q is
        Flat(fractions(0, 1, 0), fractions(0, 1, 0)),  # both are the same one
        Flat(fractions(1, 1, 0), fractions(0, 0, 1)),  # nothing in common
    ],
)
def test_extreme_laws(name: str, world: World) -> None:
    same = list(world.p(())) == list(world.q(()))
    for parents in (CHAIN[3], shape(2, 2)):
        if judges(name, parents):
            for law in DRAWN:
                kept = prove(name, Drafter(parents, law), world)
                assert not same or kept == depth(parents)


def test_a_run_that_draws_its_tokens_first_gives_the_same() -> None:
    """The proofs draw a token when it is first read; here all are drawn before the rule starts."""

    def eager(world: World, tape: Tape) -> Any:
        draft, context = drafter.draft(world, tape)
        assert [draft.tokens[node] for node in range(len(draft))]
        return draft, context

    for law in DRAWN:
        drafter = Drafter(shape(2, 1), law)
        for name in ("coupled", "rejection", "traversal"):
            judge, world = rules.RULES[name].judge, World(3, 7)
            assert passes(judge, eager, world) == passes(judge, drafter.draft, world)


@pytest.mark.parametrize("name", rules.RULES)
def test_where_nothing_is_drafted_the_token_is_plain_decodings(name: str) -> None:
    """An empty draft, and a leaf that was kept: no p, no draw."""

    class Plain:
        def token(self, node: int) -> int:
            return {-1: 1, 1: 0}.get(node, 1)

        def law(self, node: int) -> Any:
            assert len(draft) > node + 1, "p is asked for where nothing is drafted"
            return np.array([0.0, 1.0])

    class Never:
        def accept(self, node: int, probability: Any) -> bool:
            assert probability == 1
            return True

        def draw(self, node: int, weights: Any) -> int:
            raise AssertionError("a token is drawn apart from plain decoding")

    judge = rules.RULES[name].judge
    draft = EMPTY
    assert judge(draft, Plain(), Never()) == Verdict((), 1)
    draft = Draft.chain((1, 1))
    assert judge(draft, Plain(), Never()) == Verdict((0, 1), 0)


@pytest.mark.parametrize("name", ["rejection", "block", "traversal"])
def test_p_below_an_impossible_token_is_never_asked_for(name: str) -> None:
    class Masked(World):
        def p(self, context: Tokens) -> Any:
            assert set(context) <= {0}, "p is asked for below a masked token"
            return fractions(1, 0)

    for parents in (CHAIN[3], shape(2, 2)):
        if judges(name, parents):
            found = passes(rules.RULES[name].judge, Drafter(parents, Law.IID).draft, Masked(2, 1))
            assert {tokens[: depth(parents)] for tokens, _ in found} <= {(0,) * n for n in range(1, 4)}


def test_block_and_traversal_ask_the_same_about_a_chain() -> None:
    class Listening(Branching):
        def accept(self, node: int, probability: Any) -> bool:
            heard.append(("accept", node, probability))
            return super().accept(node, probability)

        def draw(self, node: int, weights: Any) -> int:
            heard.append(("draw", node, *weights))
            return super().draw(node, weights)

    heard: list[tuple[Any, ...]] = []
    for seed in range(40):
        asked = []
        for name in ("block", "traversal"):
            heard.clear()
            world, tape = World(3, seed, holes=seed % 2 == 0), Tape()
            draft, context = Drafter(CHAIN[4], Law.POINT, seed).draft(world, tape)
            chance = Listening(world, tape, context)
            asked.append((rules.RULES[name].judge(draft, chance, chance), tuple(heard)))
        assert asked[0] == asked[1]


@pytest.mark.parametrize("name", ["rejection", "block", "traversal"])
def test_rows_of_zeros_are_survived(name: str) -> None:
    """p of zeros is no law; the rule keeps nothing of it and asks for a token of weights that are all zero."""

    class Nothing:
        def token(self, node: int) -> int:
            return 0

        def law(self, node: int) -> Any:
            return np.zeros(3, np.float32)

    class Asked:
        def accept(self, node: int, probability: Any) -> bool:
            assert probability == 0
            return False

        def draw(self, node: int, weights: Any) -> int:
            assert node == -1
            assert not weights.any()
            return 0

    q = np.array([0.5, 0.5, 0.0], np.float32)
    for draft in (Draft.chain((0, 1)), Draft.chain((0, 1), Law.IID, (q, q)), Draft.chain((2, 2), Law.IID, (q, q))):
        assert rules.RULES[name].judge(draft, Nothing(), Asked()) == Verdict((), 0)
