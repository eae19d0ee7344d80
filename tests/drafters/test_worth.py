"""When a member that costs is asked: where it brings more than it costs, of which it is told nothing but promises."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from outrider.drafters.worth import Worth

STEPS = 200


def asked(
    worth: Worth, gain: Callable[[int], float], price: float, seq: int = 1, promised: float = 0.3, steps: int = STEPS
) -> list[int]:
    """The steps in which a sequence asks for a member that then adds gain(step) tokens."""
    return [step for step in range(steps) if ask(worth, seq, gain(step), price, promised)]


def ask(worth: Worth, seq: int, gain: float, price: float, promised: float = 0.3) -> bool:
    pays = worth.pays(seq, price)
    if pays and worth.compares(seq):
        worth.learn(seq, promised, promised + gain)
    return pays


@pytest.mark.parametrize(
    ("gain", "price", "share"), [(0.6, 0.1, 1.0), (0.3, 0.1, 1.0), (0.05, 0.1, 0.2), (0.0, 0.01, 0.4)]
)
def test_it_is_asked_as_often_as_it_pays(gain: float, price: float, share: float) -> None:
    found = len(asked(Worth(), lambda _: gain, price)) / STEPS
    assert found == 1.0 if share == 1.0 else found < share


def test_what_costs_nothing_is_always_asked() -> None:
    assert len(asked(Worth(), lambda _: 0.0, 0.0)) == STEPS


def test_it_is_tried_again_ever_more_seldom_and_comes_back_when_it_helps() -> None:
    worth = Worth()
    found = asked(worth, lambda _: 0.0, 0.15, steps=600)
    waits = [after - before for before, after in pairwise(found)]
    assert max(waits[-3:]) == 64
    assert waits[-3:] == sorted(waits[-3:])
    back = asked(worth, lambda _: 0.8, 0.15)
    assert len(back) > 0.3 * STEPS
    assert back[-20:] == list(range(STEPS - 20, STEPS))


def test_a_sequence_in_which_it_knows_nothing_leaves_the_others_alone() -> None:
    worth = Worth()
    good: list[int] = []
    bad: list[int] = []
    for step in range(STEPS):
        for seq, gain, found in ((1, 0.6, good), (2, 0.0, bad)):
            if ask(worth, seq, gain, 0.12):
                found.append(step)
    assert len(good) == STEPS
    assert len(bad) < 0.2 * STEPS


def test_the_more_is_promised_the_more_it_has_to_bring() -> None:
    """A long pass is lost where a price is paid for little: at 3 tokens promised four times what it is at none."""
    assert len(asked(Worth(), lambda _: 0.3, 0.2, promised=0.0)) == STEPS
    assert len(asked(Worth(), lambda _: 0.3, 0.2, promised=3.0)) < 0.2 * STEPS


def test_a_new_sequence_knows_what_others_brought() -> None:
    worth = Worth()
    assert worth.pays(0, 0.15)
    for seq in range(8):
        asked(worth, lambda _: 0.0, 0.15, seq)
        worth.end(seq)
    assert not worth.pays(9, 0.15)


def test_few_asks_are_compared_where_it_pays_and_all_where_it_does_not() -> None:
    """A comparison takes time; where the member is hardly ever asked, none may be lost."""
    for gain, least, most in ((0.6, 0.1, 0.2), (0.0, 1.0, 1.0)):
        worth, compared, asks = Worth(), 0, 0
        for _ in range(STEPS):
            if worth.pays(1, 0.15):
                asks += 1
                if worth.compares(1):
                    compared += 1
                    worth.learn(1, 0.3, 0.3 + gain)
        assert least * asks <= compared <= most * asks
