"""Forced tokens first, the inner drafter's guess elsewhere, and an inner drafter that is never confused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.api import Sampling
from outrider.core import tree
from outrider.core.step import Budget, Outcome, Tokens, View
from outrider.core.types import EMPTY, Draft, Law
from outrider.drafters.base import Drafter
from outrider.drafters.grammar import GrammarDrafter
from outrider.drafters.ngram import NgramDrafter
from outrider.testing import drafter_suite
from outrider.testing.drafters import FunctionDrafter, constant

WIDE = Budget(8, 8)


def forcing(*tokens: int) -> Callable[[int], tuple[int, ...]]:
    return lambda most: tokens[:most]


def ask(inner: Drafter | None, *tokens: int, budget: Budget = WIDE) -> Draft:
    """What is drafted where these tokens are forced."""
    drafter = GrammarDrafter(inner)
    drafter.begin(1, [0])
    (draft,) = drafter.propose([View(1, Tokens([0]), Sampling(), forcing(*tokens))], [budget])
    drafter.end(1)
    return draft


def shape(draft: Draft) -> Draft:
    """A draft without its scores."""
    return replace(draft, score=None)


def says(draft: Draft) -> FunctionDrafter:
    return FunctionDrafter("inner", lambda view, budget: draft)


@pytest.mark.parametrize("check", drafter_suite.CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Callable[[drafter_suite.Maker], None]) -> None:
    check(lambda: GrammarDrafter(NgramDrafter()))


def test_names() -> None:
    assert GrammarDrafter(None).name == "grammar"
    assert GrammarDrafter(NgramDrafter()).name == "grammar+ngram"
    assert GrammarDrafter(None).names == ("grammar",)
    assert GrammarDrafter(NgramDrafter()).names == ("ngram", "grammar")


def test_forced_tokens_bear_a_name_of_their_own() -> None:
    assert ask(None, 4, 5).drafters == ("grammar",) * 2
    assert ask(constant(9), 4, 5).drafters == ("grammar",) * 2
    assert ask(says(Draft.chain((4, 5, 7))), 4, 5).drafters == ("grammar", "grammar", "inner")
    named = replace(Draft.chain((4, 5, 7)), drafters=("a", "b", "c"))
    assert ask(says(named), 4, 5).drafters == ("grammar", "grammar", "c")
    assert ask(says(named)).drafters == ("a", "b", "c")


def test_who_is_not_wanted_is_not_asked() -> None:
    drafter = GrammarDrafter(constant(9))
    drafter.begin(1, [0])
    view = View(1, Tokens([0]), Sampling(), forcing(4))
    for chosen, tokens in (("grammar", (4,)), ("constant", (9,) * 8), ("other", ())):
        (draft,) = drafter.propose([replace(view, drafters=frozenset({chosen}))], [WIDE])
        assert draft.tokens == tokens


def test_forced_tokens_are_nearly_certain_but_for_the_last() -> None:
    """Where the forced text ends, the border between tokens is a guess."""
    forced = ask(None, 4, 5, 6)
    assert forced.score is not None
    assert forced.score[0] == forced.score[1] > 0.9 > forced.score[2] > 0.3
    longer = replace(Draft.chain((4, 5, 7)), score=(0.2, 0.2, 0.2))
    taken = ask(says(longer), 4, 5)
    assert taken.score is not None
    assert taken.score[2] == 0.2 < taken.score[1] < taken.score[0]


def test_forced_tokens_are_a_chain_within_the_budget() -> None:
    for inner in (None, says(EMPTY), constant(9)):
        assert shape(ask(inner, 4, 5, 6)) == Draft.chain((4, 5, 6), forced=3)
        assert shape(ask(inner, 4, 5, 6, budget=Budget(2, 8))) == Draft.chain((4, 5), forced=2)
        assert shape(ask(inner, 4, 5, 6, budget=Budget(8, 1))) == Draft.chain((4,), forced=1)
        assert shape(ask(inner, 4, 5, 6, budget=Budget(0, 0))) == EMPTY


def test_where_nothing_is_forced_the_inner_draft_stands() -> None:
    assert shape(ask(None)) == EMPTY
    assert shape(ask(constant(9))) == Draft.chain((9,) * 8)


def test_an_inner_draft_that_begins_with_the_forced_tokens_is_taken_whole() -> None:
    assert shape(ask(says(Draft.chain((4, 5, 7, 8))), 4, 5)) == Draft.chain((4, 5, 7, 8), forced=2)
    assert shape(ask(says(Draft.chain((4, 5))), 4, 5)) == Draft.chain((4, 5), forced=2)
    assert shape(ask(says(Draft.chain((4,))), 4, 5)) == Draft.chain((4, 5), forced=2)
    assert shape(ask(says(Draft.chain((4, 6, 5))), 4, 5)) == Draft.chain((4, 5), forced=2)
    branching = Draft((4, 5, 7, 8), (-1, 0, 1, 1))
    assert shape(ask(says(branching), 4, 5)) == Draft((4, 5, 7, 8), (-1, 0, 1, 1), forced=2)
    assert shape(ask(says(Draft((4, 5, 7), (-1, -1, 1))), 4, 5)) == Draft.chain((4, 5), forced=2)
    q = (np.ones(10, np.float32) / 10,) * 2
    drawn = ask(says(Draft.chain((4, 7), Law.IID, q)), 4)
    assert (drawn.law, drawn.q, drawn.forced) == (Law.IID, q, 1)


def test_without_a_constraint_the_inner_drafter_is_asked_and_nothing_else_happens() -> None:
    drafts = [Draft.chain((3,)), EMPTY]

    class Plain(NgramDrafter):
        def propose(self, views: object, budgets: object) -> list[Draft]:
            return drafts

    views = [View(seq, Tokens([0]), Sampling()) for seq in (1, 2)]
    assert GrammarDrafter(Plain()).propose(views, [WIDE, WIDE]) is drafts
    assert GrammarDrafter(None).propose(views, [WIDE, WIDE]) == [EMPTY, EMPTY]


def test_mixed_views() -> None:
    drafter = GrammarDrafter(constant(9))
    views = [View(seq, Tokens([0]), Sampling(), forced) for seq, forced in enumerate((None, forcing(4), forcing()))]
    for view in views:
        drafter.begin(view.seq, [0])
    assert [shape(draft) for draft in drafter.propose(views, [Budget(2, 2)] * 3)] == [
        Draft.chain((9, 9)),
        Draft.chain((4,), forced=1),
        Draft.chain((9, 9)),
    ]


def test_the_inner_drafter_hears_of_its_own_drafts_only() -> None:
    inner = says(Draft.chain((4, 5)))
    drafter = GrammarDrafter(inner)
    tokens = {1: [0], 2: [0]}
    drafter.begin(1, [0])
    drafter.begin(2, [0])
    views = [View(1, Tokens(tokens[1]), Sampling(), forcing(7)), View(2, Tokens(tokens[2]), Sampling(), forcing(4))]
    for _ in range(2):  # what is remembered of a step ends with it
        drafts = drafter.propose(views, [WIDE, WIDE])
        outcomes = [Outcome(seq, draft, (0,), (draft.tokens[0], 3)) for seq, draft in zip((1, 2), drafts, strict=True)]
        for outcome in outcomes:
            tokens[outcome.seq].extend(outcome.tokens)
        drafter.observe(outcomes)
        assert inner.outcomes[-2:] == [Outcome(1, EMPTY, (), (7, 3)), Outcome(2, drafts[1], (0,), (4, 3))]
    tokens[1].append(6)
    step = Outcome(1, EMPTY, (), (6,))
    drafter.observe([step])
    assert inner.outcomes[-1] is step
    drafter.end(1)
    drafter.end(2)
    assert inner.sequences == 0


def test_an_abandoned_sequence_leaves_nothing_behind() -> None:
    drafter = GrammarDrafter(constant(9))
    before = drafter_suite.held(drafter)
    drafter.begin(1, [0])
    drafter.propose([View(1, Tokens([0]), Sampling(), forcing(4))], [WIDE])
    assert drafter_suite.held(drafter) > before
    drafter.end(1)
    assert drafter_suite.held(drafter) == before


@given(st.lists(st.integers(0, 7), max_size=6), st.integers(0, 9), st.integers(0, 9), st.integers(0, 5))
def test_drafts_are_well_formed_and_begin_with_the_forced_tokens(
    forced: list[int], nodes: int, depth: int, common: int
) -> None:
    guess = tuple([*forced[:common], 7, 7, 7][: min(nodes, depth)])
    draft = ask(says(Draft.chain(guess)), *forced, budget=Budget(nodes, depth))
    tree.validate(draft, 8)
    assert len(draft) <= min(nodes, depth)
    count = min(len(forced), nodes, depth)
    assert draft.forced == count
    assert list(draft.tokens[:count]) == forced[:count]
