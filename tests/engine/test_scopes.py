"""A request's scope: drafters see it, and what one tenant's answers taught is not used for another's."""

from __future__ import annotations

import pytest
from tests.engine.worlds import VOCAB, world

from outrider.api import Request
from outrider.core.step import Budget, View
from outrider.core.types import EMPTY, Draft
from outrider.drafters.base import Drafter
from outrider.drafters.recycle import RecycleDrafter
from outrider.drafters.suffix import SuffixDrafter
from outrider.errors import UsageError
from outrider.testing.drafters import FunctionDrafter, constant
from outrider.testing.table import RandomLaw

LAW = RandomLaw(VOCAB, 3, 5)


def test_drafters_see_the_scope() -> None:
    seen: set[str] = set()

    def guess(view: View, budget: Budget) -> Draft:
        seen.add(view.scope)
        return EMPTY

    world(LAW, FunctionDrafter("noting", guess)).answer(Request((1, 2), 5), Request((1, 2), 5, scope="tenant"))
    assert seen == {"", "tenant"}


@pytest.mark.parametrize("make", [SuffixDrafter, lambda: RecycleDrafter(VOCAB)], ids=["suffix", "recycle"])
def test_what_an_answer_taught_stays_in_its_scope(make: type[SuffixDrafter]) -> None:
    """The same request again: with the same scope it is drafted from what the first left, with another as at first."""
    drafter: Drafter = make()
    alike = world(LAW, drafter, 3)
    first, second, other = (
        alike.answer(Request((1, 2), 30, ignore_eos=True, scope=scope))[0] for scope in ("one", "one", "other")
    )
    assert first.ids == second.ids == other.ids
    assert second.usage.accepted > first.usage.accepted
    assert [story.drafted for story in other.stories] == [story.drafted for story in first.stories]


def test_a_scope_is_a_text() -> None:
    with pytest.raises(UsageError, match="scope is 3; give the name of the tenant, a text"):
        world(LAW, constant(1)).answer(Request((1,), scope=3))  # type: ignore[arg-type]


def test_a_prediction_without_a_drafter_is_refused() -> None:
    with pytest.raises(UsageError, match="there is a prediction but no drafter to use it"):
        world(LAW).answer(Request((1,), prediction=(1, 2)))
    assert world(LAW, constant(1)).answer(Request((1,), 5, prediction=(1, 2)))
