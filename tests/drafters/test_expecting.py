"""A request's prediction comes first, whoever else drafts; and the drafter suite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from outrider.api import Sampling
from outrider.core.step import Budget, Outcome, Tokens, View
from outrider.core.types import EMPTY, Draft
from outrider.drafters.expecting import ExpectingDrafter
from outrider.drafters.ngram import NgramDrafter
from outrider.testing import drafter_suite
from outrider.testing.drafters import FunctionDrafter, constant

TEXT = (3, 4, 5, 6, 7)
WIDE = Budget(4, 4)


def view(tokens: list[int], prediction: tuple[int, ...] = TEXT, seq: int = 1) -> View:
    return View(seq, Tokens(tokens), Sampling(), prediction=prediction)


def test_without_a_prediction_the_inner_drafter_is_all_there_is() -> None:
    inner = constant(1)
    drafter = ExpectingDrafter(inner)
    assert (drafter.name, drafter.followers) == ("constant", 0)
    drafter.begin(1, (0,))
    (draft,) = drafter.propose([view([0], ())], [WIDE])
    assert draft.tokens == (1,) * 4
    outcome = Outcome(1, draft, (), (2,))
    drafter.observe([outcome])
    assert inner.outcomes == [outcome]
    drafter.end(1)
    assert inner.sequences == 0


def test_the_predicted_text_comes_first_and_the_inner_drafter_takes_over() -> None:
    inner = constant(1)
    drafter = ExpectingDrafter(inner)
    tokens = [0]
    drafter.begin(1, (0,))
    (draft,) = drafter.propose([view(tokens)], [WIDE])
    assert draft.tokens == TEXT[:4]
    tokens += TEXT
    drafter.observe([Outcome(1, draft, (0, 1, 2, 3), TEXT)])
    assert inner.outcomes == [Outcome(1, EMPTY, (), TEXT)], "it hears the tokens, and of no draft that was not its own"
    (draft,) = drafter.propose([view(tokens)], [WIDE])
    assert draft.tokens == (1,) * 4, "the prediction is at its end"
    drafter.observe([Outcome(1, draft, (), (2,))])
    assert inner.outcomes[-1].draft == draft
    drafter.end(1)


def test_each_guess_bears_a_name_and_who_is_not_wanted_is_not_asked() -> None:
    """A plain inner drafter names nothing itself: the first of its names is meant."""
    for chosen, tokens, names in (
        (None, TEXT[:4], ("predicted",) * 4),
        (frozenset({"predicted"}), TEXT[:4], ("predicted",) * 4),
        (frozenset({"constant"}), (1,) * 4, None),
        (frozenset({"grammar"}), (), None),
    ):
        drafter = ExpectingDrafter(constant(1))
        assert drafter.names == ("constant", "predicted")
        drafter.begin(1, (0,))
        (draft,) = drafter.propose([replace(view([0]), drafters=chosen)], [WIDE])
        assert (draft.tokens, draft.drafters) == (tokens, names)
        drafter.observe([Outcome(1, draft, (), (9,))])
        drafter.end(1)


def test_sequences_of_one_batch_get_what_is_theirs() -> None:
    drafter = ExpectingDrafter(constant(1))
    views = [view([0], seq=1), view([0], (), seq=2)]
    for one in views:
        drafter.begin(one.seq, (0,))
    drafts = drafter.propose(views, [WIDE, WIDE])
    assert [draft.tokens for draft in drafts] == [TEXT[:4], (1,) * 4]


def test_an_answer_that_began_before_anybody_asked_is_followed() -> None:
    drafter = ExpectingDrafter(constant(1))
    tokens = [0]
    drafter.begin(1, (0,))
    drafter.observe([Outcome(1, EMPTY, (), (3, 4))])
    tokens += (3, 4)
    (draft,) = drafter.propose([view(tokens)], [WIDE])
    assert draft.tokens == (5, 6, 7)


def test_the_inner_drafter_is_not_asked_where_the_prediction_has_a_guess() -> None:
    def guess(view: View, budget: Budget) -> Draft:
        raise AssertionError("this one should not be asked")

    drafter = ExpectingDrafter(FunctionDrafter("unasked", guess))
    drafter.begin(1, (0,))
    assert drafter.propose([view([0])], [WIDE])[0].tokens == TEXT[:4]


@pytest.mark.parametrize("check", drafter_suite.CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Callable[[drafter_suite.Maker], None]) -> None:
    check(lambda: ExpectingDrafter(NgramDrafter()))
