"""One tree out of several drafts: only what was proposed, the likeliest nodes, within the budget; and calibration."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.core import tree
from outrider.core.step import Budget
from outrider.core.types import EMPTY, Draft, Law
from outrider.drafters.merge import Record, expected, merge, share

VOCAB = 4
CHANCES = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0])


@st.composite
def drafts(draw: st.DrawFn, most: int = 7) -> Draft:
    """Any small tree, repeated siblings included."""
    parents = tuple(draw(st.integers(-1, node - 1)) for node in range(draw(st.integers(0, most))))
    tokens = tuple(draw(st.integers(0, VOCAB - 1)) for _ in parents)
    return Draft(tokens, parents)


@st.composite
def scored(draw: st.DrawFn) -> tuple[Draft, tuple[float, ...]]:
    draft = draw(drafts())
    return draft, tuple(draw(CHANCES) for _ in draft.tokens)


def texts(draft: Draft) -> list[tuple[int, ...]]:
    """The tokens from the root to each node."""
    return [tuple(draft.tokens[above] for above in tree.path(draft, node)) for node in range(len(draft))]


@given(st.lists(scored(), max_size=4), st.integers(0, 12), st.integers(0, 6))
def test_a_merged_tree_is_sound_and_holds_only_what_was_proposed(
    given_: list[tuple[Draft, tuple[float, ...]]], nodes: int, depth: int
) -> None:
    proposed = {text for draft, _ in given_ for text in texts(draft)}
    merged = merge([draft for draft, _ in given_], [chances for _, chances in given_], Budget(nodes, depth))
    tree.validate(merged, VOCAB)
    assert merged.law is Law.POINT
    found = texts(merged)
    assert len(set(found)) == len(found), "a path stands in the tree twice"
    assert set(found) <= proposed
    assert len(found) == min(nodes, len({text for text in proposed if len(text) <= depth}))
    assert all(len(text) <= depth for text in found)
    for children in tree.children(merged).values():
        assert sum((merged.score or ())[child] for child in children) <= 1.0 + 1e-9


@given(st.lists(scored(), min_size=1, max_size=3), st.integers(1, 4))
def test_no_other_tree_of_the_size_promises_more(given_: list[tuple[Draft, tuple[float, ...]]], nodes: int) -> None:
    arguments = [draft for draft, _ in given_], [chances for _, chances in given_]
    whole = merge(*arguments, Budget(64, 64))
    kept = merge(*arguments, Budget(nodes, 64))
    value = expected(kept.parents, kept.score or ())
    for chosen in combinations(range(len(whole)), min(nodes, len(whole))):
        if all(whole.parents[node] in (-1, *chosen) for node in chosen):
            other = tree.keep(whole, chosen)
            assert expected(other.parents, other.score or ()) <= value + 1e-9


def test_shared_prefixes_are_there_once_and_agreement_counts() -> None:
    first, second = Draft.chain((1, 2, 3)), Draft.chain((1, 2, 0))
    merged = merge([first, second], [(0.5, 0.5, 0.5), (0.5, 0.5, 0.75)], Budget(8, 8))
    assert (merged.tokens, merged.parents) == ((1, 2, 0, 3), (-1, 0, 1, 1))
    assert merged.score == pytest.approx((0.75, 0.75, 0.6, 0.4))


def test_a_draft_that_repeats_itself_has_one_voice() -> None:
    twice = Draft((1, 1, 2, 3), (-1, -1, 0, 1))
    merged = merge([twice], [(0.5, 0.5, 0.25, 0.5)], Budget(8, 8))
    assert merged == Draft((1, 3, 2), (-1, 0, 0), score=(0.5, 0.5, 0.25))


def test_a_node_bears_the_name_that_the_surest_gives_it() -> None:
    first = replace(Draft.chain((1, 2, 3)), drafters=("a", "a", "b"))
    second = replace(Draft.chain((1, 2, 0)), drafters=("c",) * 3)
    merged = merge([first, second], [(0.5, 0.6, 0.5), (0.6, 0.5, 0.75)], Budget(8, 8))
    assert merged.tokens == (1, 2, 0, 3)
    assert merged.drafters == ("c", "a", "c", "b")
    nameless = replace(second, drafters=None)
    assert merge([first, nameless], [(0.5,) * 3] * 2, Budget(8, 8)).drafters is None


def test_nothing_to_merge() -> None:
    assert merge([], [], Budget(4, 4)) == EMPTY
    assert merge([EMPTY, EMPTY], [(), ()], Budget(4, 4)) == EMPTY


@given(drafts(), drafts(), st.data())
def test_what_two_drafts_share(own: Draft, whole: Draft, data: st.DataObject) -> None:
    path = tree.path(whole, data.draw(st.integers(-1, len(whole) - 1)))
    nodes, shared = share(own, whole, path)
    mine, theirs = texts(own), texts(whole)
    assert nodes == tuple(node for node, text in enumerate(mine) if text in theirs)
    part = tree.keep(own, nodes)
    assert shared == tree.path(part, shared[-1] if shared else -1)
    way = [theirs[node] for node in path]
    assert [texts(part)[node] for node in shared] == [text for text in way if text in mine]


def test_chances_start_at_the_score_and_follow_what_happens() -> None:
    record = Record()
    draft = Draft((1, 2), (-1, 0), score=(0.9, 0.3))
    assert record.chances(draft) == pytest.approx((0.9, 0.3))
    for _ in range(30):
        record.learn(draft, (1, 3))
    kept, lost = record.chances(draft)
    assert kept > 0.97
    assert lost < 0.1


def test_nodes_below_a_lost_one_and_behind_the_text_are_not_judged() -> None:
    record = Record()
    draft = Draft((1, 2, 3), (-1, 0, 1), score=(0.1, 0.5, 0.9))
    record.learn(draft, ())
    record.learn(draft, (0, 2, 3))
    first, second, third = record.chances(draft)
    assert first < 0.1
    assert (second, third) == (0.5, 0.9)
    record.learn(draft, (1, 2))
    assert record.chances(draft)[1:] == pytest.approx((5 / 9, 0.9))


def test_without_scores_the_depth_counts() -> None:
    record = Record()
    draft = Draft((1, 2, 3, 1), (-1, 0, -1, 1))
    before = record.chances(draft)
    assert before[0] == before[2] < before[1] < before[3]
    for _ in range(30):
        record.learn(draft, (3, 0))
    after = record.chances(draft)
    assert after[0] == after[2] == pytest.approx(0.5, abs=0.02), "one of the two at depth 0 is right each time"
    assert after[1:2] + after[3:] == before[1:2] + before[3:], "depth 1 was never reached"


def test_old_news_fade() -> None:
    record, draft = Record(), Draft.chain((1,))
    for _ in range(1000):
        record.learn(draft, (1,))
    for _ in range(50):
        record.learn(draft, (2,))
    assert record.chances(draft)[0] < 0.5


def test_a_drawn_draft_is_not_judged_by_what_was_drawn() -> None:
    """Its value may depend neither on tokens, nor on scores below the root, nor on its length, which they decide."""
    record = Record()
    for tokens in ((1, 2), (3, 3), (1, 0)):
        record.learn(Draft((1, 2), (-1, 0), Law.IID, score=(0.9, 0.9)), tokens)
    values = set()
    for drawn in (Draft((1,), (-1,), Law.IID, score=(0.9,)), Draft((2, 3), (-1, 0), Law.IID, score=(0.9, 0.01))):
        values.add(record.value(drawn, record.chances(drawn), Budget(4, 4)))
    assert len(values) == 1
    assert values != {Record().value(drawn, Record().chances(drawn), Budget(4, 4))}, "it learned nothing"
