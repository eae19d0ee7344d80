"""The shape of drafts."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.core import tree
from outrider.core.types import EMPTY, Draft
from outrider.errors import UsageError

TREE = Draft((10, 11, 12, 13, 14), (-1, 0, 0, 2, -1))


def test_depths_and_paths() -> None:
    assert tree.depths(TREE) == (0, 1, 1, 2, 0)
    assert tree.path(TREE, 3) == (0, 2, 3)
    assert tree.path(TREE, -1) == ()


def test_a_part_keeps_what_is_said_of_its_nodes() -> None:
    whole = replace(TREE, score=(0.1, 0.2, 0.3, 0.4, 0.5), drafters=("a", "b", "c", "d", "e"), forced=1)
    part = tree.keep(whole, (0, 2, 3))
    assert part == Draft((10, 12, 13), (-1, 0, 1), forced=1, score=(0.1, 0.3, 0.4))
    assert part.drafters == ("a", "c", "d")
    assert tree.keep(TREE, (0, 2)).drafters is None


@pytest.mark.parametrize("drafters", [("a",) * 4, ("a",) * 6, ["a"] * 5, "abcde"])
def test_each_node_has_one_name(drafters: object) -> None:
    with pytest.raises(UsageError, match="give each node one name"):
        tree.validate(replace(TREE, drafters=cast(Any, drafters)), 99)
    tree.validate(replace(TREE, drafters=("a",) * 5), 99)


def test_children_stand_in_their_order() -> None:
    assert tree.children(TREE) == {-1: (0, 4), 0: (1, 2), 2: (3,)}
    assert tree.children(Draft((1, 1, 1), (-1, 0, -1))) == {-1: (0, 2), 0: (1,)}
    assert tree.children(EMPTY) == {}


def test_chains() -> None:
    assert tree.is_chain(Draft.chain((1, 2, 3)))
    assert tree.is_chain(EMPTY)
    assert not tree.is_chain(TREE)
    assert tree.depths(Draft.chain((1, 2, 3))) == (0, 1, 2)


@given(st.data(), st.integers(0, 12))
def test_paths_agree_with_depths_and_parents(data: st.DataObject, count: int) -> None:
    parents = tuple(data.draw(st.integers(-1, node - 1)) for node in range(count))
    draft = Draft((0,) * count, parents)
    deepest = tree.validate(draft, 1)
    assert deepest == max(tree.depths(draft), default=-1) + 1
    assert (deepest == count) == tree.is_chain(draft)
    for node, depth in enumerate(tree.depths(draft)):
        path = tree.path(draft, node)
        assert len(path) == depth + 1
        assert all(draft.parents[below] == above for above, below in zip((-1, *path), path, strict=False))


@pytest.mark.parametrize(
    ("tokens", "parents", "words"),
    [
        ((1, 2), (-1,), "2 tokens but 1 parents"),
        ((8,), (-1,), r"token id 8; ids of this model lie in 0\.\.7"),
        ((-1,), (-1,), "token id -1"),
        ((1,), (0,), "node 0 has parent 0"),
        ((1, 1), (-1, -2), "node 1 has parent -2"),
        ((1, 1), (1, -1), "node 0 has parent 1"),
        ((1.0,), (-1,), "token id 1.0"),
        ((None,), (-1,), "token id None"),
        ((np.int64(1),), (-1,), "token id"),
        ((1,), (-1.0,), "parent -1.0"),
        ([1], (-1,), "use tuples"),
        ((1,), [-1], "use tuples"),
    ],
)
def test_nonsense_is_refused_with_its_value(tokens: object, parents: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        tree.validate(Draft(cast(Any, tokens), cast(Any, parents)), 8)


@pytest.mark.parametrize(
    "score", [(0.5,), [0.5, 0.5], (0.5, 1.1), (-0.1, 0.5), (0.5, math.nan), (0.5, "1"), (0.5, None), 7]
)
def test_scores_are_a_number_in_0_to_1_for_each_node(score: object) -> None:
    with pytest.raises(UsageError, match="has the scores"):
        tree.validate(Draft((1, 2), (-1, 0), score=cast(Any, score)), 8)
    tree.validate(Draft((1, 2, 3, 4), (-1, 0, 1, 2), score=cast(Any, (0, 1.0, np.float32(0.5), Fraction(1, 3)))), 8)


@pytest.mark.parametrize("q", [5, (), (np.ones(8),), [np.ones(8)] * 2])
def test_q_is_one_for_each_node(q: object) -> None:
    with pytest.raises(UsageError, match="has a q of"):
        tree.validate(Draft((1, 2), (-1, 0), q=cast(Any, q)), 8)


@pytest.mark.parametrize("forced", [-1, 2, 3, 10**30, 0.0, None])
def test_forced_nodes_exist_and_are_a_chain(forced: object) -> None:
    with pytest.raises(UsageError, match="forced; the first of its nodes"):
        tree.validate(Draft((1, 2), (-1, -1), forced=cast(Any, forced)), 8)
    tree.validate(Draft((1, 2, 3), (-1, 0, 0), forced=2), 8)


def test_follow() -> None:
    #       0: 5          a tree whose two branches begin with the same token further down
    #      /    \
    #     1: 6   2: 7
    #     |      |
    #     3: 8   4: 8
    draft = Draft((5, 6, 7, 8, 8), (-1, 0, 0, 1, 2))
    assert tree.follow(draft, (5, 7, 8, 1)) == (0, 2, 4)
    assert tree.follow(draft, (5, 6, 9)) == (0, 1)
    assert tree.follow(draft, (6,)) == ()
    assert tree.follow(draft, (5,)) == (0,)
    assert tree.follow(EMPTY, (5, 6)) == ()
