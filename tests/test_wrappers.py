"""The benchmarks' wrappers of drafters say what the drafter inside says of itself, or its drafts would be refused, and
what takes pretended time takes as much as it is said to.
"""

from __future__ import annotations

from collections.abc import Callable

import drafting
import pytest
import when
from _clock import costing
from _pretended import Passes, Pretended, Priced

from outrider.api import Sampling
from outrider.backends.base import Extend
from outrider.core.step import Budget, Tokens, View
from outrider.drafters.base import Drafter, names
from outrider.drafters.blended import BlendedDrafter
from outrider.drafters.recycle import RecycleDrafter
from outrider.drafters.suffix import SuffixDrafter


@pytest.mark.parametrize(
    "wrap",
    [
        when.Watched,
        lambda inner: Priced(inner, Pretended().wait, 0.0, 0.0),
        lambda inner: drafting.TimedDrafter(inner, drafting.Clocks()),
    ],
    ids=["when", "priced", "drafting"],
)
def test_names_and_followers(wrap: Callable[[Drafter], Drafter]) -> None:
    inner = BlendedDrafter([SuffixDrafter(), RecycleDrafter(8)])
    wrapped = wrap(inner)
    assert names(wrapped) == ("suffix", "recycle")
    assert getattr(wrapped, "followers", 0) == inner.followers > 0
    assert getattr(wrapped, "weighs", None) is inner.weighs


def test_a_priced_drafter_takes_its_price_where_it_is_asked() -> None:
    clock = Pretended()
    drafter = Priced(SuffixDrafter(), clock.wait, 0.5, 0.25)
    tokens = [1, 2, 3, 1, 2]
    drafter.begin(0, tokens)
    view = View(0, Tokens(tokens), Sampling())
    drafter.propose([view], [Budget(0, 0)])
    assert clock() == 0.0
    (draft,) = drafter.propose([view], [Budget(2, 2)])
    assert draft.tokens == (3, 1)
    assert clock() == 1.0


def test_a_pass_takes_what_its_rows_take() -> None:
    class Backend:
        def length(self, seq: int) -> int:
            return 10 * seq

        def extend(self, items: list[Extend]) -> int:
            return len(items)

    clock = Pretended()
    backend = Passes(Backend(), clock, costing(2.0, (1.0, 1.5, 3.0)), 0.25)
    assert backend.length(3) == 30
    assert backend.extend([Extend(1, [5, 6, 7], None, [])]) == 1
    assert clock() == 6.25
    assert backend.extend([Extend(1, [5], None, []), Extend(2, [5], None, [])]) == 2
    assert clock() == 9.5
