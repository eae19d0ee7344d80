"""However rows are cut into passes, and whatever tree they came from, a sequence is its tokens and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.native import models
from tests.native.conftest import Maker

from outrider.backends.native import NativeBackend
from outrider.core import tree
from outrider.core.types import Draft

VOCAB = 320
MORE = (11, 12, 13)
# the last is repeated to the end, so it is not small: every pass costs barriers
SIZES = st.tuples(
    st.lists(st.sampled_from([1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 33, 64, 65, 130, 256, 257]), max_size=8),
    st.sampled_from([47, 64, 65, 130, 257]),
).map(lambda sizes: [*sizes[0], sizes[1]])
# ends of blocks of 64 and of chunks of 256 positions, and places in between
LENGTHS = st.sampled_from(
    [0, 1, 15, 16, 40, 60, 63, 64, 65, 120, 127, 190, 250, 255, 256, 257, 300, 508, 511, 512, 600]
)


@st.composite
def drafts(draw: st.DrawFn, most: int = 40, vocab: int = VOCAB) -> Draft:
    """Trees from chains to stars; few ids, so that siblings are often equal."""
    count = draw(st.integers(1, most))
    reach = draw(st.sampled_from([1, 2, 3, 6, most]))  # 1: a chain
    parents = [max(-1, node - draw(st.integers(1, reach))) for node in range(count)]
    highest = draw(st.sampled_from([2, vocab - 1]))
    tokens = draw(st.lists(st.integers(0, highest), min_size=count, max_size=count))
    return Draft(tuple(tokens), tuple(parents))


class Whole:
    """What a fresh prefill gives, remembered by its tokens."""

    def __init__(self, backend: NativeBackend) -> None:
        self._backend = backend
        self._known: dict[tuple[int, ...], tuple[tuple[bytes, ...], tuple[bytes, bytes]]] = {}

    def __call__(self, tokens: Sequence[int]) -> tuple[tuple[bytes, ...], tuple[bytes, bytes]]:
        key = tuple(tokens)
        if key not in self._known:
            if len(self._known) > 64:
                self._known.clear()
            self._known[key] = models.fresh(self._backend, key)
        return self._known[key]


@pytest.fixture(scope="session")
def whole(model: Maker) -> Whole:
    return Whole(NativeBackend(model("plain"), threads=1))


@settings(deadline=None, max_examples=40)
@given(count=st.integers(1, 640), sizes=SIZES, seed=st.integers(0, 2))
def test_any_chunking(plain: NativeBackend, whole: Whole, count: int, sizes: list[int], seed: int) -> None:
    tokens = models.ids(640, VOCAB, seed)[:count]
    rows, cache = whole(tokens)
    seq = plain.open()
    assert models.read_chunks(plain, seq, tokens, sizes) == rows
    assert plain.export_cache(seq) == cache
    assert plain.length(seq) == count
    plain.close(seq)


@settings(deadline=None, max_examples=80)
@given(length=LENGTHS, draft=drafts(), data=st.data())
def test_commit_of_a_path(plain: NativeBackend, whole: Whole, length: int, draft: Draft, data: st.DataObject) -> None:
    prompt = models.ids(640, VOCAB)[:length]
    seq = plain.open()
    if prompt:
        models.read_chunks(plain, seq, prompt, [257])
    rows = models.read(plain, seq, draft.tokens, draft.parents)
    node = data.draw(st.integers(-1, len(draft) - 1))
    path = tree.path(draft, node)
    kept = prompt + [draft.tokens[above] for above in path]
    expected, cache = whole([*kept, *MORE])
    assert [rows[above] for above in path] == [*expected[length : len(kept)]]
    plain.commit([(seq, path)])
    assert plain.length(seq) == len(kept)
    assert models.read(plain, seq, MORE) == expected[len(kept) :]
    plain.commit([(seq, range(len(MORE)))])
    assert plain.export_cache(seq) == cache
    plain.close(seq)


@settings(deadline=None, max_examples=12)
@given(length=st.sampled_from([0, 50, 63, 200, 250, 255]), draft=drafts(24))
def test_every_node_is_a_chain(plain: NativeBackend, whole: Whole, length: int, draft: Draft) -> None:
    prompt = models.ids(640, VOCAB)[:length]
    seq = plain.open()
    if prompt:
        models.read_chunks(plain, seq, prompt, [length])
    rows = models.read(plain, seq, draft.tokens, draft.parents)
    for node, row in enumerate(rows):
        chain = prompt + [draft.tokens[above] for above in tree.path(draft, node)]
        assert row == whole(chain)[0][-1]
    plain.close(seq)


def test_one_by_one_over_two_chunks(plain: NativeBackend, whole: Whole) -> None:
    tokens = models.ids(262, VOCAB)
    seq = plain.open()
    assert (models.read_chunks(plain, seq, tokens, [1]), plain.export_cache(seq)) == whole(tokens)
    plain.close(seq)


def test_a_tree_as_deep_as_three_chunks(plain: NativeBackend, whole: Whole) -> None:
    """Two branches of 300 rows that part at row 3: the second lies wholly in side memory, over several chunks."""
    tokens, other = models.ids(303, VOCAB, 5), models.ids(300, VOCAB, 6)
    prompt = models.ids(230, VOCAB, 7)
    parents = [*range(-1, 302), 2, *range(303, 602)]
    for path in ([*range(303)], [0, 1, 2, *range(303, 603)], [0, 1, 2, *range(303, 450)]):
        seq = plain.open()
        models.read_chunks(plain, seq, prompt, [230])
        rows = models.read(plain, seq, [*tokens, *other], parents)
        kept = [(tokens + other)[row] for row in path]
        expected, cache = whole(prompt + kept)
        assert [rows[row] for row in path] == [*expected[230:]]
        plain.commit([(seq, path)])
        assert plain.export_cache(seq) == cache
        plain.close(seq)


@pytest.mark.parametrize("name", ["mixed", "thirds", "ones"])
@pytest.mark.parametrize("dense", [False, True], ids=["codes", "dense"])
def test_trees_on_every_shape(model: Maker, isa: str, name: str, dense: bool) -> None:
    backend = NativeBackend(model(name), isa=isa, threads=2, dense=dense)
    prompt, reading = models.ids(250, backend.vocab), Whole(backend)
    draft = Draft(tuple(models.ids(30, backend.vocab, 8)), tuple((node - 1) // 2 if node else -1 for node in range(30)))
    for node in (0, 14, 22, 29):
        seq = backend.open()
        models.read_chunks(backend, seq, prompt, [250])
        rows = models.read(backend, seq, draft.tokens, draft.parents)
        path = tree.path(draft, node)
        expected, cache = reading(prompt + [draft.tokens[above] for above in path])
        assert [rows[above] for above in path] == [*expected[250:]]
        backend.commit([(seq, path)])
        assert backend.export_cache(seq) == cache
        backend.close(seq)
