"""Planted faults: each loses the target's law, and the enumeration that proves the rules has to see it.

Some are mutations of the production source, some are lies of a drafter. The same enumeration finds nothing wrong with
the source as it is and with the truth, on every world where it looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import pytest
from tests.core.exact import (
    CHAIN,
    Drafter,
    Drafts,
    Flat,
    Tape,
    Tokens,
    World,
    completed,
    fractions,
    mutated,
    passes,
    plain,
    shape,
)

from outrider.core import rules
from outrider.core.rules import Judge
from outrider.core.types import Draft, Law

WORLDS = [World(3, 1), World(3, 2), World(2, 4), World(3, 3, holes=True), World(3, 5, holes=True)]
LENGTH = 4  # tokens compared: one more than the deepest draft here
IID_CHAIN, POINT_CHAIN = Drafter(CHAIN[3], Law.IID), Drafter(CHAIN[3], Law.POINT, 1)
IID_TREE, DISTINCT_TREE = Drafter(shape(2, 1), Law.IID), Drafter(shape(2, 1), Law.DISTINCT)
WIDE_TREE, POINT_TREE = Drafter(shape(2, 2), Law.DISTINCT), Drafter(shape(2, 1), Law.POINT, 3)
TWO_ON_ONE = Flat(fractions(1, 2, 1), fractions(0, 1, 0))  # the second child of a DISTINCT draft is nobody's draw
WIDE = Flat(fractions(1, 1, 8, 4, 2), fractions(6, 5, 1, 1, 1))  # p keeps three tokens when two are rejected
LEANING = Flat(fractions(6, 6, 2, 2), fractions(1, 2, 7, 6))  # (P p - q)+ has another support than (p - q)+


def wrong(judge: Judge, drafts: Drafts, worlds: Iterable[World] = WORLDS) -> bool:
    """Whether the output's law is another than the target's in one of the worlds."""
    return any(completed(passes(judge, drafts, world), world, LENGTH) != plain(world, LENGTH) for world in worlds)


REJECTION, BLOCK, TRAVERSAL = ("rejection", IID_CHAIN), ("block", IID_CHAIN), ("traversal", WIDE_TREE)
SIBLINGS, COPIES = ("rejection", DISTINCT_TREE), ("rejection", IID_TREE)
TRIAL = "chance.accept(child, _odds(p[token], q[token]))"
SHARE = "        share = _odds(share * p[token], q[token])\n"

# Rule and drafter; then each text of the source that is changed, and into what.
FAULTS: dict[str, tuple[tuple[str, Drafter], *tuple[tuple[str, str], ...]]] = {
    "residual is p": (REJECTION, ("weights -= q", "pass")),
    "residual is q - p": (REJECTION, ("weights -= q", "weights = q - weights")),
    "residual is |p - q|": (REJECTION, ("np.maximum(weights, 0, out=weights)", "weights = abs(weights)")),
    "accept with q / p": (REJECTION, (TRIAL, "chance.accept(child, _odds(q[token], p[token]))")),
    "accept with p": (REJECTION, (TRIAL, "chance.accept(child, p[token])")),
    "accept everything": (REJECTION, (TRIAL, "chance.accept(child, 1)")),
    "accept a hundredth too often": (REJECTION, (TRIAL, "chance.accept(child, _odds(101 * p[token], 100 * q[token]))")),
    "bonus of the row above": (
        REJECTION,
        ("target.token(node))\n\n\ndef block", "target.token(draft.parents[node] if path else -1))\n\n\ndef block"),
    ),
    "p of the row above": (
        REJECTION,
        ("        p = _exact(target.law(node))\n", "        p = _exact(target.law([-1, *path][-2:][0]))\n"),
    ),
    "sibling not removed": (SIBLINGS, ("q[gone] = 0", "pass")),
    "sibling not removed, traversal": (TRAVERSAL, ("q[gone] = 0", "pass")),
    "removed, not renormalised": (SIBLINGS, ("yield child, _exact(q)", "yield child, q")),
    "the last sibling alone removed": (
        ("rejection", Drafter(shape(3), Law.DISTINCT)),
        ("gone.append(draft.tokens[child])", "gone[:] = [draft.tokens[child]]"),
    ),
    "siblings in the wrong order": (SIBLINGS, ("for child in siblings:", "for child in siblings[::-1]:")),
    "an impossible draw is kept": (SIBLINGS, ("    if not q:\n        return 0", "    if not q:\n        return 1")),
    "removed where nothing was": (COPIES, ("draft.law is Law.DISTINCT and gone", "gone")),
    "removed where nothing was, traversal": (
        ("traversal", IID_TREE),
        ("draft.law is Law.DISTINCT and gone", "gone"),
    ),
    "p not reduced between siblings": (COPIES, ("_, p = _left(1, p, q)", "pass")),
    "a chosen token judged as drawn": (("rejection", POINT_TREE), ("q[draft.tokens[child]] = 1", "q[:] = 1")),
    "block: residual is p": (BLOCK, ("rests.append(rest)", "rests.append(p)")),
    "block: residual of the row above": (BLOCK, ("rests[end]) if", "rests[end - 1]) if")),
    "block: residual forgets P": (BLOCK, ("rests.append(rest)", "rests.append(_left(1, p, q)[1])")),
    "block: bonus of the row above": (BLOCK, ("else target.token(end - 1)", "else target.token(end - 2)")),
    "block: the first failure ends it": (BLOCK, ("range(len(odds) - 1, 0, -1)", "range(1, len(odds))")),
    "block: no cap at 1": (
        BLOCK,
        (SHARE, "        share = share * p[token] / q[token]\n"),
        ("chance.accept(end - 1, odds[end])", "chance.accept(end - 1, min(odds[end], 1) if odds[end] >= 0 else 1)"),
    ),
    "block: shares not multiplied": (BLOCK, (SHARE, "        share = _odds(p[token], q[token])\n")),
    "block: trial with P": (BLOCK, ("odds.append(_pass(total, share))", "odds.append(share)")),
    "block: trial with Z": (BLOCK, ("odds.append(_pass(total, share))", "odds.append(total)")),
    "block: trial with Z / (1 - P)": (
        BLOCK,
        ("return total / whole if whole else 1", "return _odds(total, 1 - share)"),
    ),
    "traversal: P becomes min(Z / (1 - M(x)), 1)": (
        TRAVERSAL,
        ('"_siblings", "node"', '"_siblings", "_tried", "node"'),
        ("token = self._draft.tokens[child]", "token = self._tried = self._draft.tokens[child]"),
        ("self.share = _pass(total, self.share)", "self.share = _odds(total, 1 - self._q[self._tried])"),
    ),
    "traversal: P stays": (TRAVERSAL, ("self.share = _pass(total, self.share)", "pass")),
    "traversal: P becomes Z": (TRAVERSAL, ("self.share = _pass(total, self.share)", "self.share = total")),
    "traversal: P of the parent forgotten": (TRAVERSAL, ("_odds(self.share * self.p[token]", "_odds(self.p[token]")),
    "traversal: residual is p": (TRAVERSAL, ("total, self.p = _left(", "total, _ = _left(")),
    "traversal: a spent node emits from p": (
        TRAVERSAL,
        ("else chance.draw(place.node, place.p)", "else target.token(place.node)"),
    ),
    "traversal: a spent node is never kept": (
        TRAVERSAL,
        ("chance.accept(place.node, place.share)", "place.p is None and chance.accept(place.node, place.share)"),
    ),
}
WORLDS_OF = {
    "an impossible draw is kept": [TWO_ON_ONE],
    "the last sibling alone removed": [WIDE],
    "block: residual forgets P": [LEANING],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_source_is_seen(fault: str) -> None:
    (name, drafter), *changes = FAULTS[fault]
    worlds = WORLDS_OF.get(fault, WORLDS)
    assert not wrong(rules.RULES[name].judge, drafter.draft, worlds)
    assert wrong(mutated(rules, *changes)[name], drafter.draft, worlds)


RULES = ("rejection", "block", "traversal")


def argmax_as_drawn(world: World, tape: Tape) -> tuple[Draft, Callable[[int], Tokens]]:
    """The likeliest tokens of q, said to be drawn from it."""
    tokens: list[int] = []
    for _ in range(3):
        tokens.append(max(range(world.vocab), key=lambda token: world.q(tuple(tokens))[token]))
    q = tuple(world.q(tuple(tokens[:node])) for node in range(3))
    return Draft.chain(tuple(tokens), Law.IID, q), lambda node: tuple(tokens[: node + 1])


def stopped(world: World, tape: Tape, late: bool) -> tuple[Draft, Callable[[int], Tokens]]:
    """A drawn chain that ends at an unlikely token: before it (late), or with it."""
    tokens: list[int] = []
    while len(tokens) < 3:
        q = world.q(tuple(tokens))
        token = tape.choose(q)
        unlikely = q[token] < Fraction(1, 3)
        if unlikely and late:
            break
        tokens.append(token)
        if unlikely:
            break
    laws = tuple(world.q(tuple(tokens[:node])) for node in range(len(tokens)))
    return Draft.chain(tuple(tokens), Law.IID, laws), lambda node: tuple(tokens[: node + 1])


@pytest.mark.parametrize("name", RULES)
def test_an_arg_max_draft_that_is_called_drawn_is_seen(name: str) -> None:
    assert wrong(rules.RULES[name].judge, argmax_as_drawn)

    def honest(world: World, tape: Tape) -> tuple[Draft, Callable[[int], Tokens]]:
        draft, context = argmax_as_drawn(world, tape)
        return Draft.chain(draft.tokens), context

    assert not wrong(rules.RULES[name].judge, honest)


@pytest.mark.parametrize("name", RULES)
def test_a_token_that_is_dropped_once_drawn_is_seen(name: str) -> None:
    """Stopping behind the unlikely token is fine: what was drawn stands trial."""
    assert wrong(rules.RULES[name].judge, lambda world, tape: stopped(world, tape, late=True))
    assert not wrong(rules.RULES[name].judge, lambda world, tape: stopped(world, tape, late=False))


@pytest.mark.parametrize("name", ["rejection", "traversal"])
def test_a_wrong_law_is_seen(name: str) -> None:
    judge = rules.RULES[name].judge
    lies = [
        Drafter(shape(2, 1), Law.DISTINCT, said=Law.IID),
        Drafter(shape(2, 1), Law.IID, said=Law.DISTINCT),
        Drafter(shape(2, 1), Law.IID, said=Law.POINT),
        Drafter(shape(2, 1), Law.POINT, 2, said=Law.IID),
        Drafter(shape(2, 1), Law.POINT, 2, said=Law.DISTINCT),
    ]
    for lie in lies:
        if lie.said is Law.POINT:
            # Drawn, then judged as chosen: no lie that matters, for what was drawn is fixed when the rule sees it.
            assert not wrong(judge, lie.draft)
        else:
            assert wrong(judge, lie.draft), lie


@pytest.mark.parametrize("name", RULES)
def test_a_wrong_q_is_seen(name: str) -> None:
    """A q that differs from the one drawn from by a thousandth of one probability, as another dtype's would."""

    def lying(world: World, tape: Tape) -> tuple[Draft, Callable[[int], Tokens]]:
        draft, context = IID_CHAIN.draft(world, tape)
        off = Fraction(1, 1000)

        def told(node: int) -> Any:
            q = draft.q[node].copy()  # type: ignore[index]
            first, last = min(i for i, x in enumerate(q) if x), max(i for i, x in enumerate(q) if x)
            q[first], q[last] = q[first] - off * q[first], q[last] + off * q[first]
            return q

        tokens = tuple(draft.tokens[node] for node in range(3))
        return Draft.chain(tokens, Law.IID, tuple(told(node) for node in range(3))), context

    assert wrong(rules.RULES[name].judge, lying)
