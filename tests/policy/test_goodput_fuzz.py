"""Whatever happens to the policy: budgets stay in their limits, admitted drafts are parts with all nodes above."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.api import Sampling
from outrider.core import tree
from outrider.core.step import Load, Outcome, StepTime, Tokens, View
from outrider.core.types import Draft
from outrider.policy.goodput import Goodput

SECONDS = st.one_of(
    st.floats(0.0, 10.0), st.sampled_from([0.0, -1.0, math.inf, math.nan, 1e-300, 1e300]), st.floats(1e-5, 1e-2)
)


class Odd:
    """A cost that says what it was told, by number of rows."""

    def __init__(self, answers: list[float]) -> None:
        self._answers = answers

    def seconds(self, sequences: int, rows: int, context: float) -> float:
        assert 1 <= sequences <= rows
        assert context >= 0
        return self._answers[rows % len(self._answers)]


@st.composite
def drafts(draw: st.DrawFn, nodes: int, depth: int) -> Draft:
    """Trees and chains within a budget, with and without scores."""
    parents: list[int] = []
    depths: list[int] = []
    for node in range(draw(st.integers(0, nodes))):
        places = [-1, *(above for above in range(node) if depths[above] < depth - 1)]
        parent = places[-1] if draw(st.booleans()) else draw(st.sampled_from(places))
        parents.append(parent)
        depths.append(0 if parent < 0 else depths[parent] + 1)
    tokens = tuple(draw(st.integers(0, 3)) for _ in parents)
    score = tuple(draw(st.floats(0.0, 1.0)) for _ in parents) if draw(st.booleans()) else None
    chain = 0
    while chain < len(parents) and parents[chain] == chain - 1:
        chain += 1
    return Draft(tokens, tuple(parents), forced=draw(st.integers(0, chain)), score=score)


def flip(data: st.DataObject) -> bool:
    return data.draw(st.booleans())


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_life_of_a_policy(data: st.DataObject) -> None:
    most = data.draw(st.integers(0, 64))
    cost = Odd(data.draw(st.lists(SECONDS, min_size=1, max_size=5))) if flip(data) else None
    policy = Goodput(cost, most)
    texts = [[1] for _ in range(data.draw(st.integers(1, 4)))]
    views = [View(seq, Tokens(text), Sampling()) for seq, text in enumerate(texts)]
    for _ in range(data.draw(st.integers(1, 12))):
        load = Load(len(views), len(views) + data.draw(st.sampled_from([0, 0, 300])))
        budgets = policy.budgets(views, load)
        assert len(budgets) == len(views)
        assert all(0 <= budget.nodes <= most and budget.depth == budget.nodes for budget in budgets)
        drafted = [data.draw(drafts(budget.nodes, budget.depth)) for budget in budgets]
        admitted = list(drafted)
        free = [place for place, draft in enumerate(drafted) if draft.tokens and flip(data)]
        kept = policy.admit([views[place] for place in free], [drafted[place] for place in free], load)
        for place, draft in zip(free, kept, strict=True):
            assert is_part(draft, drafted[place])
            admitted[place] = draft
        outcomes = []
        for seq, (text, draft) in enumerate(zip(texts, admitted, strict=True)):
            truth = data.draw(st.lists(st.integers(0, 3), min_size=len(draft) + 1, max_size=len(draft) + 1))
            path = tree.follow(draft, truth)
            new = tuple(truth[: len(path) + data.draw(st.integers(0, 1))])
            text.extend(new)
            outcomes.append(Outcome(seq, draft, path, new))
        policy.observe(outcomes, StepTime(data.draw(SECONDS), data.draw(SECONDS), data.draw(SECONDS)))


def is_part(part: Draft, whole: Draft) -> bool:
    """Whether some nodes of the whole, each with all above it, make this part."""

    def paths(draft: Draft) -> list[tuple[tuple[int, float | None], ...]]:
        scores = draft.score or (None,) * len(draft)
        return [
            tuple((draft.tokens[node], scores[node]) for node in tree.path(draft, last)) for last in range(len(draft))
        ]

    rest = paths(whole)
    for one in paths(part):
        if one not in rest:
            return False
        rest.remove(one)
    tree.validate(part, 4)
    return part.law is whole.law and part.forced <= whole.forced
