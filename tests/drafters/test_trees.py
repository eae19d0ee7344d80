"""Trees against their definitions: the likeliest nodes by brute force, and drawn ones by core.chance."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from outrider.backends.base import GREEDY, Draw
from outrider.core import chance, sampling, tree
from outrider.core.types import Draft, FloatArray, IntArray, Law
from outrider.drafters.trees import Place, Tree, drawn_trees, likely_trees
from outrider.testing.table import RandomLaw, TableBackend

V = 6
LAW = RandomLaw(V, 3, 2)
PROMPT = (1, 2, 3)
HOT = Draw(1.0, seed=4)
RENAMED = np.array([4, 0, -1, 5], np.int32)


def law(text: tuple[int, ...], draw: Draw, ids: IntArray | None) -> FloatArray:
    return sampling.law(sampling.renamed(LAW(text), ids), draw)


def own(token: int, ids: IntArray | None) -> int:
    return token if ids is None else int(ids[token])


def place(backend: TableBackend, draw: Draw, nodes: int, depth: int, ids: IntArray | None = None, at: int = 3) -> Place:
    return Place(backend.open(), PROMPT, draw, at, ids, nodes, depth)


def one(kind: str, draw: Draw, nodes: int, depth: int, ids: IntArray | None = None, at: int = 3) -> Tree:
    backend = TableBackend(LAW, V)
    grow = likely_trees if kind == "likely" else drawn_trees
    (found,) = grow(backend, [place(backend, draw, nodes, depth, ids, at)])
    assert len(backend.passes) <= depth
    assert backend.cached(1) == PROMPT
    # The rows wait in the backend, in the model's own ids, leaves left out.
    for row in range(len(found.rows)):
        path = tree.path(found.rows, row)
        backend.commit([(1, path)])
        assert backend.cached(1) == (*PROMPT, *(found.rows.tokens[above] for above in path))
        break
    return found


def texts(draft: Draft) -> list[tuple[int, ...]]:
    """The tokens down to each node."""
    return [tuple(draft.tokens[above] for above in tree.path(draft, node)) for node in range(len(draft))]


@pytest.mark.parametrize("ids", [None, RENAMED], ids=["same", "renamed"])
@pytest.mark.parametrize(("nodes", "depth"), [(1, 1), (3, 1), (20, 3), (12, 2), (18, 3)])
def test_the_likeliest_nodes_by_brute_force(nodes: int, depth: int, ids: IntArray | None) -> None:
    width = V if ids is None else len(ids)
    worth: dict[tuple[int, ...], float] = {}
    for length in range(1, depth + 1):
        for tokens in product(range(width), repeat=length):
            above = worth.get(tokens[:-1], 1.0 if length == 1 else 0.0)
            q = law((*PROMPT, *(own(token, ids) for token in tokens[:-1])), Draw(1.0), ids)
            if above > 0.0 and q[tokens[-1]] > 0.0:
                worth[tokens] = above * float(q[tokens[-1]])
    draft = one("likely", GREEDY, nodes, depth, ids).draft
    best = sorted(worth, key=lambda tokens: -worth[tokens])[:nodes]
    assert sorted(texts(draft)) == sorted(best)
    assert draft.score is not None
    assert draft.law is Law.POINT
    for tokens, score in zip(texts(draft), draft.score, strict=True):
        q = law((*PROMPT, *(own(token, ids) for token in tokens[:-1])), Draw(1.0), ids)
        assert score == pytest.approx(q[tokens[-1]], rel=1e-5)


@pytest.mark.parametrize(("ids", "at"), [(None, 3), (None, 40), (RENAMED, 3)], ids=["same", "elsewhere", "renamed"])
def test_with_a_temperature_the_targets_draw_is_the_first_child(ids: IntArray | None, at: int) -> None:
    drawn = 0
    for seed in range(10):
        draw = Draw(1.3, seed, top_k=4)
        draft = one("likely", draw, 9, 3, ids, at).draft
        assert (draft.law, draft.q) == (Law.DISTINCT, None)
        assert draft.score is not None
        for parent, below in tree.children(draft).items():
            before = () if parent < 0 else texts(draft)[parent]
            row = sampling.renamed(LAW((*PROMPT, *(own(token, ids) for token in before))), ids)
            q = sampling.law(row, draw)
            expected = sampling.token(row, draw, at + len(before))
            assert draft.tokens[below[0]] == expected
            assert draft.score[below[0]] == pytest.approx(q.max(), rel=1e-5)
            assert all(q[draft.tokens[node]] > 0 for node in below)
            assert sum(draft.score[node] for node in below) <= 1 + 1e-5
            drawn += expected != q.argmax()
    assert drawn > 0


@pytest.mark.parametrize("ids", [None, RENAMED], ids=["same", "renamed"])
def test_drawn_trees_have_a_shape_that_knows_no_luck(ids: IntArray | None) -> None:
    shapes: dict[tuple[int, int], set[tuple[int, ...]]] = {}
    for seed in range(6):
        draw = Draw(1.0, seed)
        for nodes, depth in ((4, 4), (14, 4), (6, 3), (5, 1), (2, 4)):
            draft = one("drawn", draw, nodes, depth, ids).draft
            assert draft.q is not None
            assert draft.score is not None
            assert 0 < len(draft) <= nodes
            assert draft.law is (Law.IID if tree.is_chain(draft) else Law.DISTINCT)
            shapes.setdefault((nodes, depth), set()).add(draft.parents)
            for parent, below in tree.children(draft).items():
                before = () if parent < 0 else texts(draft)[parent]
                q = law((*PROMPT, *(own(token, ids) for token in before)), draw, ids)
                if draft.law is Law.IID:
                    expected: tuple[int, ...] = (chance.draw_node(q, seed, 0, 3, below[0]),)
                else:
                    expected = chance.draw_children(q, len(below), seed, 0, 3, parent)
                assert tuple(draft.tokens[node] for node in below) == expected
                for node in below:
                    assert draft.q[node].tobytes() == q.tobytes()
                    assert draft.score[node] == pytest.approx(q.max())
    if ids is None:
        assert {key: len(found) for key, found in shapes.items()} == dict.fromkeys(shapes, 1)
        assert {key: len(found.pop()) for key, found in shapes.items()} == {
            (4, 4): 4, (14, 4): 14, (6, 3): 6, (5, 1): 5, (2, 4): 2
        }  # fmt: skip


def test_many_trees_share_their_passes_and_each_is_as_if_alone() -> None:
    wishes = [(14, 4), (4, 4), (3, 1), (9, 3)]
    for kind, grow in (("likely", likely_trees), ("drawn", drawn_trees)):
        for draw in (GREEDY, HOT):
            backend = TableBackend(LAW, V)
            found = grow(backend, [place(backend, draw, *wish) for wish in wishes])
            assert len(backend.passes) == 4
            for wish, together in zip(wishes, found, strict=True):
                alone = one(kind, draw, *wish)
                assert (together.draft.tokens, together.draft.parents) == (alone.draft.tokens, alone.draft.parents)
                assert together.rows == alone.rows
    assert likely_trees(TableBackend(LAW, V), []) == []
