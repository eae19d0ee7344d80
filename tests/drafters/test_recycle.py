"""Recycled followers: what is remembered, the tree against all trees, what is learnt, and the drafter suite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.api import Sampling
from outrider.core import tree
from outrider.core.step import Budget, Outcome, Tokens, View
from outrider.core.types import EMPTY, Draft
from outrider.drafters.recycle import FOLLOWERS, RecycleDrafter
from outrider.errors import UsageError
from outrider.testing import drafter_suite

VOCAB = 12
FIRST = (0.4, 0.085, 0.05, 0.03, 0.023, 0.019, 0.013, 0.01)  # chances by rank, before anything is known
Table = Mapping[int, Sequence[int]]
TABLES = st.dictionaries(
    st.integers(0, VOCAB - 1), st.lists(st.integers(0, VOCAB - 1), unique=True, min_size=1, max_size=10), max_size=VOCAB
)


def told(table: Table, vocab: int = VOCAB) -> RecycleDrafter:
    """A drafter that was told these followers by a sequence that has ended, and has begun sequence 1."""
    drafter = RecycleDrafter(vocab)
    drafter.begin(0, [0])
    ask(drafter, 0, 0, 0, seq=0)
    tell(drafter, table, 0)
    drafter.end(0)
    drafter.begin(1, [0])
    ask(drafter, 0, 0, 0)
    return drafter


def tell(drafter: RecycleDrafter, table: Table, seq: int = 1) -> None:
    drafter.observe([Outcome(seq, EMPTY, (), (0,), tuple((token, tuple(row)) for token, row in table.items()))])


def propose(drafter: RecycleDrafter, token: int, nodes: int, depth: int, seq: int = 1, scope: str = "") -> Draft:
    (draft,) = drafter.propose([View(seq, Tokens([5, token]), Sampling(), scope=scope)], [Budget(nodes, depth)])
    return draft


def ask(drafter: RecycleDrafter, token: int, nodes: int, depth: int, seq: int = 1, scope: str = "") -> Draft:
    """What is drafted behind a token in a sequence that has just begun."""
    drafter.end(seq)
    drafter.begin(seq, [5, token])
    return propose(drafter, token, nodes, depth, seq, scope)


def rank_chances(drafter: RecycleDrafter) -> list[float]:
    """The scores of all eight followers of a token."""
    drafter.observe([Outcome(1, EMPTY, (), (0,), ((0, tuple(range(1, 9))),))])
    draft = propose(drafter, 0, 8, 1)
    assert draft.tokens == tuple(range(1, 9))
    assert draft.score is not None
    return list(draft.score)


def test_it_starts_empty_and_asks_for_eight() -> None:
    drafter = told({})
    assert drafter.followers == FOLLOWERS == 8
    assert ask(drafter, 3, 8, 4) == EMPTY


def test_a_chain_follows_the_first_followers() -> None:
    drafter = told({3: [4, 1], 4: [7], 7: [3, 9]})
    draft = ask(drafter, 3, 9, 9)
    assert draft.tokens == (4, 7, 3, 4, 7)  # a sixth would be kept once in 250 times
    assert tree.is_chain(draft)
    assert ask(drafter, 3, 2, 5).tokens == (4, 7)
    assert ask(drafter, 3, 0, 0) == EMPTY


def test_a_tree_follows_runners_up_too() -> None:
    draft = ask(told({3: [4, 1], 4: [7], 1: [2]}), 3, 4, 3)
    assert (draft.tokens, draft.parents) == ((4, 7, 1, 2), (-1, 0, -1, 2))


def test_the_last_say_wins_and_leaves_nothing_of_the_one_before() -> None:
    drafter = told({3: [4, 1, 5]})
    tell(drafter, {3: [6]})
    assert ask(drafter, 3, 8, 1).tokens == (6,)
    tell(drafter, {3: list(range(10))})
    assert ask(drafter, 3, 9, 1).tokens == tuple(range(8))


def test_rows_of_one_pass_are_remembered_in_their_order() -> None:
    drafter = told({})
    drafter.observe([Outcome(1, EMPTY, (), (0,), ((3, (1, 2)), (3, (4, 5))))])
    assert ask(drafter, 3, 8, 1).tokens == (4, 5)


@given(TABLES, st.integers(0, VOCAB - 1), st.integers(1, 14), st.integers(1, 4))
def test_the_nodes_are_the_likeliest(table: Table, token: int, nodes: int, depth: int) -> None:
    chances = FIRST
    draft = ask(told(table), token, nodes, depth)
    tree.validate(draft, VOCAB)
    every: list[tuple[float, tuple[int, ...]]] = []
    todo: list[tuple[float, tuple[int, ...]]] = [(1.0, ())]
    for reached, path in todo:
        last = path[-1] if path else token
        for follower, chance in zip(table.get(last, ())[:8], chances, strict=False):
            if reached * chance >= 0.01 and len(path) < depth:
                todo.append((reached * chance, (*path, follower)))
                every.append(todo[-1])
    found = {tuple(draft.tokens[above] for above in tree.path(draft, node)) for node in range(len(draft))}
    assert len(found) == len(draft), "a node is drafted twice"
    if nodes <= depth:
        assert tree.is_chain(draft)
        assert len(draft) == min(nodes, max((len(p) for _, p in every if _is_first(table, token, p)), default=0))
        assert all(_is_first(table, token, path) for path in found)
    else:
        worth = {path: reached for reached, path in every}
        assert sorted(worth[path] for path in found) == pytest.approx(
            sorted(sorted((reached for reached, _ in every), reverse=True)[:nodes])
        )


def _is_first(table: Table, token: int, path: tuple[int, ...]) -> bool:
    return all(table[above][0] == below for above, below in zip((token, *path), path, strict=False))


def walk(drafter: RecycleDrafter, ranks: Sequence[int], seq: int = 1) -> None:
    """A text each of whose tokens is the follower of that rank; of each token the next eight ids are told."""
    vocab, token = 100, 0
    drafter.observe([Outcome(seq, EMPTY, (), (token,))])
    for rank in ranks:
        row = tuple((token + step) % vocab for step in range(1, 9))
        token, before = row[rank] if rank < 8 else (token + 9) % vocab, token
        drafter.observe([Outcome(seq, EMPTY, (), (), ((before, row),)), Outcome(seq, EMPTY, (), (token,))])


def test_a_sequence_learns_how_often_each_rank_is_right() -> None:
    """Whether drafted or not; the figures of another sequence stay as they were."""
    drafter = told({}, 100)
    drafter.begin(2, [0])
    walk(drafter, [0, 1] * 500)
    after = rank_chances(drafter)
    assert after[:2] == pytest.approx([1 / 2, 1 / 2], abs=0.02)
    assert after[2:] == [0.01] * 6
    drafter.begin(3, [0])
    for seq in (2, 3):
        assert ask(drafter, 0, 8, 1, seq=seq).score == pytest.approx(FIRST)


def test_chances_never_rise_with_the_rank() -> None:
    drafter = told({}, 100)
    walk(drafter, [8] * 1000)
    assert rank_chances(drafter) == [0.01] * 8
    walk(drafter, [1] * 300)
    assert rank_chances(drafter) == [0.01] * 8, "the second is never drafted before the first"
    walk(drafter, [0] * 300)
    chances = rank_chances(drafter)
    assert chances[0] > 0.5, "what was wrong for long is tried again, and the past forgotten"
    assert chances == sorted(chances, reverse=True)


def test_scopes_have_tables_of_their_own() -> None:
    drafter = told({3: [4]})
    drafter.begin(2, [0])
    assert ask(drafter, 3, 2, 1, seq=2, scope="other") == EMPTY
    tell(drafter, {3: [7]}, seq=2)
    assert ask(drafter, 3, 2, 1, seq=2, scope="other").tokens == (7,)
    assert ask(drafter, 3, 2, 1).tokens == (4,)


def test_of_many_scopes_the_latest_are_kept() -> None:
    drafter = RecycleDrafter(VOCAB)
    for number in range(40):
        drafter.begin(number, [0])
        ask(drafter, 3, 0, 0, seq=number, scope=str(number))
        tell(drafter, {3: [number % VOCAB]}, seq=number)
        drafter.end(number)
    drafter.begin(100, [0])
    assert ask(drafter, 3, 2, 1, seq=100, scope="24").tokens == (0,), "one of the sixteen that began last"
    drafter.begin(101, [0])
    assert ask(drafter, 3, 2, 1, seq=101, scope="23") == EMPTY


def test_the_table_is_bounded() -> None:
    drafter = told({})
    before = drafter_suite.held(drafter)
    for token in range(VOCAB):
        tell(drafter, {token: [(token + rank) % VOCAB for rank in range(10)]})
    assert drafter_suite.held(drafter) == before


def test_a_vocabulary_has_tokens() -> None:
    with pytest.raises(UsageError, match="vocab is 0"):
        RecycleDrafter(0)


@pytest.mark.parametrize("check", drafter_suite.CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: object) -> None:
    assert callable(check)
    size = drafter_suite.VOCAB
    table = {token: [(token * 3 + rank) % size for rank in range(size)] for token in range(size)}

    def make() -> RecycleDrafter:
        drafter = told(table, size)
        drafter.end(1)
        return drafter

    assert make().propose([], []) == []
    check(make)
