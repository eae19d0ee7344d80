"""Drafts grown from a guide: best first, within the budget."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest

from outrider.core import tree
from outrider.core.step import Budget
from outrider.core.types import EMPTY, Draft, Law
from outrider.drafters.growing import grow


class Letters:
    """Behind every string of 0, 1, 2 come the same three, with chances .5, .3 and .2; a place is the string."""

    chances = (0.5, 0.3, 0.2)

    def ahead(self, place: tuple[int, ...], most: int) -> list[tuple[int, float]]:
        return list(enumerate(self.chances))[:most]

    def after(self, place: tuple[int, ...], token: int) -> tuple[int, ...]:
        return (*place, token)


def strings(draft: Draft) -> list[tuple[int, ...]]:
    return [tuple(draft.tokens[above] for above in tree.path(draft, node)) for node in range(len(draft))]


@pytest.mark.parametrize("nodes", [5, 8, 12])
def test_a_tree_holds_the_likeliest_strings(nodes: int) -> None:
    draft = grow(Letters(), (), Budget(nodes, 4), 0.01)
    tree.validate(draft, 3)
    worth = {
        string: prod(Letters.chances[letter] for letter in string)
        for depth in range(1, 5)
        for string in product(range(3), repeat=depth)
    }
    found = strings(draft)
    assert len(set(found)) == nodes
    assert sorted(map(worth.__getitem__, found), reverse=True) == pytest.approx(
        sorted(worth.values(), reverse=True)[:nodes]
    )
    assert draft.score == tuple(Letters.chances[token] for token in draft.tokens)
    assert (draft.law, draft.q) == (Law.POINT, None)


def test_nodes_within_the_depth_make_a_chain_of_best_guesses() -> None:
    assert strings(grow(Letters(), (), Budget(3, 3), 0.01)) == [(0,), (0, 0), (0, 0, 0)]
    assert len(grow(Letters(), (), Budget(2, 8), 0.01)) == 2


def test_what_is_too_unlikely_is_left_out() -> None:
    assert strings(grow(Letters(), (), Budget(8, 8), 0.25)) == [(0,), (0, 0)]
    assert strings(grow(Letters(), (), Budget(9, 8), 0.25)) == [(0,), (1,), (0, 0)]
    assert grow(Letters(), (), Budget(8, 8), 0.6) == EMPTY


@pytest.mark.parametrize("budget", [Budget(0, 0), Budget(0, 4), Budget(4, 0)])
def test_no_budget_no_draft(budget: Budget) -> None:
    assert grow(Letters(), (), budget, 0.01) is EMPTY
