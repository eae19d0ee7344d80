"""The predicted drafter: it follows, loses and finds its text again; and the drafter suite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.worlds import world

from outrider.api import Request, Sampling
from outrider.core import tree
from outrider.core.step import Budget, Outcome, Tokens, View
from outrider.core.types import EMPTY, Draft, Law
from outrider.drafters.predicted import MOST_COMPARED, PredictedDrafter
from outrider.errors import UsageError
from outrider.testing import drafter_suite
from outrider.testing.table import RandomLaw

TEXT = tuple(range(100, 160))


def ask(drafter: PredictedDrafter, nodes: int, depth: int | None = None, text: Sequence[int] = TEXT) -> Draft:
    view = View(1, Tokens([]), Sampling(), prediction=tuple(text))
    (draft,) = drafter.propose([view], [Budget(nodes, nodes if depth is None else depth)])
    return draft


def after(answer: Sequence[int], nodes: int = 4, depth: int | None = None, text: Sequence[int] = TEXT) -> Draft:
    """What is drafted behind an answer that was written before anybody asked."""
    drafter = PredictedDrafter()
    drafter.begin(1, [1, 2])
    drafter.observe([Outcome(1, EMPTY, (), tuple(answer))])
    return ask(drafter, nodes, depth, text)


def write(answer: Sequence[int], text: Sequence[int] = TEXT, gamma: int = 8) -> tuple[int, int]:
    """Passes, and drafted tokens that were kept, of an answer."""
    drafter = PredictedDrafter()
    drafter.begin(1, [])
    done = passes = kept = 0
    while done < len(answer):
        draft = ask(drafter, gamma, text=text)
        count = 0
        while count < min(len(draft), len(answer) - done - 1) and draft.tokens[count] == answer[done + count]:
            count += 1
        new = tuple(answer[done : done + count + 1])
        drafter.observe([Outcome(1, draft, tuple(range(count)), new)])
        done, passes, kept = done + len(new), passes + 1, kept + count
    return passes, kept


def test_the_prediction_is_drafted_from_its_start_to_its_end() -> None:
    first = after([])
    assert first.tokens == TEXT[:4]
    assert (first.law, first.q, tree.is_chain(first)) == (Law.POINT, None, True)
    assert after(TEXT[:10]).tokens == TEXT[10:14]
    assert after(TEXT[:-2]).tokens == TEXT[-2:]
    assert after(TEXT) == EMPTY
    assert write(TEXT) == (7, 53)


@pytest.mark.parametrize(
    ("answer", "place"),
    [
        ([*TEXT[:20], 7, *TEXT[21:22]], 22),  # one replaced
        ([*TEXT[:20], 7, 8, 9, *TEXT[23:24]], 24),  # three replaced by three
        ([*TEXT[:20], 7, 8, 9, *TEXT[20:21]], 21),  # three put in
        ([*TEXT[:20], *TEXT[23:24]], 24),  # three left out
        ([*TEXT[:20], *TEXT[35:37]], 37),  # fifteen left out: two tokens settle it
        ([*TEXT[:20], 7, 8, *TEXT[50:52]], 52),
        ([*TEXT[:40], *TEXT[5:9]], 9),  # back: four tokens settle it
        ([1, 2, 3, 4, 5, *TEXT[:1]], 1),  # something before the text
    ],
)
def test_it_finds_its_place_again(answer: list[int], place: int) -> None:
    assert after(answer).tokens == TEXT[place : place + 4]


def test_far_away_more_tokens_have_to_agree() -> None:
    text = tuple(range(1000))
    for count in (1, 2, 3):
        assert text[900 + count] not in after([*text[:20], *text[900 : 900 + count]], text=text).tokens
    assert after([*text[:20], *text[900:904]], text=text).tokens == text[904:908]
    assert text[11] not in after([*text[:20], *text[10:11]], text=text).tokens


def test_a_far_place_is_found_by_four_tokens_though_each_stands_everywhere() -> None:
    text = (*[1, 2, 3, 4] * 50, 9, 4, 3, 2, 1, 8, 8)
    assert after([1, 2, 3, 4, 1, 2, 4, 3, 2, 1], text=text).tokens == (8, 8)


def test_the_longest_agreement_wins_then_the_nearest_ahead() -> None:
    text = (1, 2, 3, 4, 5, 50, 60, 9, 10, 11, 40, 60, 12, 13, 14)
    assert after([1, 2, 3, 4, 60], text=text).tokens[:1] == (9,)
    assert after([1, 2, 3, 4, 40, 60], text=text).tokens[:1] == (12,)
    row = (7, 7, 30, 31, 7, 7, 40, 41, 7, 7, 50, 51)
    assert after([7, 7, 30, 31, 99, 7, 7], text=row).tokens[:1] == (40,)


def test_both_ways_to_go_on_are_branches_where_there_are_nodes_for_them() -> None:
    answer = [*TEXT[:20], 7]
    draft = after(answer, 6, 3)
    roots = {token for token, parent in zip(draft.tokens, draft.parents, strict=True) if parent == -1}
    assert roots == {TEXT[20], TEXT[21]}
    assert tree.is_chain(after(answer, 3, 3))
    assert after(answer, 3, 3).tokens[0] == TEXT[21]


def test_scores_follow_what_happened_lately() -> None:
    drafter = PredictedDrafter()
    drafter.begin(1, [])
    start = ask(drafter, 1).score
    drafter.observe([Outcome(1, EMPTY, (), TEXT[:20])])
    firm = ask(drafter, 1).score
    drafter.observe([Outcome(1, EMPTY, (), (7,))])
    lost = ask(drafter, 1).score
    assert start is not None
    assert firm is not None
    assert lost is not None
    assert lost[0] < start[0] < 0.9 < firm[0] < 1.0
    whole = after(TEXT[:20], 30).score
    assert whole is not None
    assert all(0.85 < score < 1.0 for score in whole)


def test_an_answer_of_something_else_is_left_alone_after_a_few_guesses() -> None:
    drafter = PredictedDrafter()
    drafter.begin(1, [])
    drafted = []
    for token in range(40):
        drafted.append(len(ask(drafter, 8)))
        drafter.observe([Outcome(1, EMPTY, (), (token,))])
    assert 0 < sum(drafted) < 40
    assert drafted[20:] == [0] * 20
    drafter.observe([Outcome(1, EMPTY, (), TEXT[5:9])])
    assert ask(drafter, 4).tokens == TEXT[9:13]


def test_ways_that_went_well_are_together_no_likelier_than_certain() -> None:
    """Replaced one for one, time and again; then two are left out, and hardly anything is left for the old way."""
    text = tuple(range(200))
    edited = [-1 if place % 4 == 3 else place for place in range(120)]
    assert after([*edited, 122], 4, 1, text=text).tokens == (123,)


def test_old_successes_are_forgotten() -> None:
    drafter = PredictedDrafter()
    drafter.begin(1, [])
    # Every second token is replaced, so that the guess "one was replaced" is always right.
    text = tuple(range(1000))
    drafter.observe([Outcome(1, EMPTY, (), tuple(-1 if index % 2 else index for index in range(600)))])
    drafter.observe([Outcome(1, EMPTY, (), (-1,))])
    assert ask(drafter, 1, text=text).tokens
    for _ in range(60):
        drafter.observe([Outcome(1, EMPTY, (), (-1,))])
    assert ask(drafter, 1, text=text) == EMPTY


edits = st.lists(
    st.tuples(st.integers(15, 25), st.integers(0, 4), st.lists(st.integers(1000, 1010), max_size=4)), max_size=8
)


@given(edits)
def test_an_edited_copy_is_followed_through_every_edit(edits: list[tuple[int, int, list[int]]]) -> None:
    """Each edit leaves out some tokens and puts in others; a few passes and guesses are all that it may cost."""
    text = tuple(range(200))
    answer: list[int] = []
    at = changed = 0
    for copied, left_out, put_in in edits:
        answer += [*text[at : at + copied], *put_in]
        at += copied + left_out
        changed += len(put_in)
    answer += text[at:]
    passes, kept = write(answer, text)
    assert passes + kept == len(answer)
    assert passes <= len(answer) / 9 + 1 + changed + 4 * len(edits)


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=40),
    st.lists(st.integers(0, 3), max_size=60),
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(1, 7),
)
def test_every_node_stands_in_the_prediction_behind_the_node_above(
    text: list[int], answer: list[int], nodes: int, depth: int, parts: int
) -> None:
    drafter = PredictedDrafter(least=0.001)
    drafter.begin(1, [])
    for start in range(0, len(answer), parts):
        ask(drafter, nodes, depth, text)
        drafter.observe([Outcome(1, EMPTY, (), tuple(answer[start : start + parts]))])
    draft = ask(drafter, nodes, depth, text)
    tree.validate(draft, 4)
    assert len(draft) <= nodes
    assert max(tree.depths(draft), default=-1) < depth
    for node in range(-1, len(draft)):
        siblings = [score for score, parent in zip(draft.score or (), draft.parents, strict=True) if parent == node]
        assert sum(siblings) <= 1.0 + 1e-9
        path = [draft.tokens[above] for above in tree.path(draft, node)]
        assert any(text[start : start + len(path)] == path for start in range(len(text)))


@given(st.lists(st.integers(0, 2), min_size=1, max_size=30), st.lists(st.integers(0, 2), min_size=8, max_size=40))
def test_where_the_last_eight_tokens_stand_near_the_old_place_the_guess_goes_on_from_there(
    before: list[int], shared: list[int]
) -> None:
    """Against a search of all places: after a divergence, some longest agreement is what is drafted from."""
    text = [*before, *shared, 9, 9]
    answer = [7, *shared[:MOST_COMPARED]]
    draft = after(answer, 1, text=text)
    last = answer[-MOST_COMPARED:]
    places = [end for end in range(MOST_COMPARED, len(text)) if text[end - MOST_COMPARED : end] == last]
    assert places
    assert draft.tokens[0] in {text[end] for end in places}


def test_without_a_prediction_nothing_is_drafted() -> None:
    drafter = PredictedDrafter()
    drafter.begin(1, [1, 2, 3])
    drafter.observe([Outcome(1, EMPTY, (), (4, 5))])
    assert ask(drafter, 4, text=()) == EMPTY


def test_a_request_carries_it_and_the_answer_stays_the_same() -> None:
    law = RandomLaw(12, 5, seed=1)
    request = Request((1, 2, 3), 40, ignore_eos=True)
    plain = world(law).answer(request)[0]
    shown = replace(request, prediction=plain.ids[:18] + plain.ids[20:])
    drafted = world(law, PredictedDrafter(), gamma=4).answer(shown)[0]
    assert drafted.ids == plain.ids
    assert drafted.usage.passes < plain.usage.passes / 2
    assert 0 < drafted.usage.accepted < drafted.usage.drafted


@pytest.mark.parametrize("least", [0.0, -1.0, 1.1, float("nan")])
def test_a_bound_out_of_range_is_refused(least: float) -> None:
    with pytest.raises(UsageError, match=f"least is {least}"):
        PredictedDrafter(least)


class Expecting(PredictedDrafter):
    """Shows every sequence of the suite a prediction."""

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        text = tuple(index * 5 % drafter_suite.VOCAB for index in range(40))
        return super().propose([replace(view, prediction=text) for view in views], budgets)


@pytest.mark.parametrize("check", drafter_suite.CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Callable[[drafter_suite.Maker], None]) -> None:
    check(Expecting)
    check(PredictedDrafter)


def test_what_a_step_adds_does_not_grow_with_the_prediction() -> None:
    """Counted, not timed: of an index that is built once, a step must not build more."""
    added: list[int] = []
    for length in (200, 20_000):
        text = tuple(index * 7919 % 997 for index in range(length))
        drafter = PredictedDrafter()
        drafter.begin(1, [])
        ask(drafter, 8, text=text)
        before = drafter_suite.held(drafter)
        drafter.observe([Outcome(1, EMPTY, (), (*text[:10], 1, 2, 3))])
        ask(drafter, 8, text=text)
        added.append(drafter_suite.held(drafter) - before)
    assert 0 < added[1] <= added[0] + 20
