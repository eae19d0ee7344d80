"""The store against plain searches of its text, its file under damage, and the drafter against its definition."""

from __future__ import annotations

import mmap
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.api import Sampling
from outrider.core import tree
from outrider.core.step import Budget, Outcome, Tokens, View
from outrider.core.types import EMPTY, Draft
from outrider.drafters import storefile
from outrider.drafters.store import StoreDrafter
from outrider.drafters.storefile import StoreFile
from outrider.errors import UsageError
from outrider.testing import drafter_suite

DIGEST = bytes(range(32))
Documents = Sequence[Sequence[int]]
DOCUMENTS = st.lists(st.lists(st.integers(0, 3), max_size=30), min_size=1, max_size=5).filter(any)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stores")


def made(folder: Path, documents: Documents, vocab: int = 4) -> StoreFile:
    # A new name each time: what is mapped must not change below its reader.
    path = folder / f"{len(list(folder.iterdir()))}.store"
    assert storefile.build(path, documents, vocab, DIGEST) == sum(map(len, documents))
    return StoreFile(path)


def places(documents: Documents, context: Sequence[int]) -> Iterator[tuple[Sequence[int], int]]:
    """Where a context stands: a document, and the index behind it."""
    for document in documents:
        for end in range(len(context), len(document) + 1):
            if list(document[end - len(context) : end]) == list(context):
                yield document, end


def following(documents: Documents, context: Sequence[int]) -> Counter[int]:
    return Counter(document[end] for document, end in places(documents, context) if end < len(document))


def slice_of(store: StoreFile, context: Sequence[int]) -> tuple[int, int, int]:
    """Length of a context, and where its places begin and end."""
    found = store.index.find(context[0])
    for token in context[1:]:
        found = store.index.longer(found, token)
    return found


@settings(deadline=None, max_examples=60)
@given(DOCUMENTS)
def test_every_context_has_its_places_and_continuations(folder: Path, documents: Documents) -> None:
    store = made(folder, documents)
    for context in (context for length in (1, 2, 3) for context in product(range(4), repeat=length)):
        known = all(any(places(documents, context[:length])) for length in range(1, len(context)))
        if not known:
            continue
        length, low, high = slice_of(store, context)
        assert length == len(context)
        assert high - low == len(list(places(documents, context)))
        if low < high:
            counts = following(documents, context)
            total, distinct, commonest = store.index.continuations((length, low, high))
            assert (total, distinct) == (counts.total(), len(counts))
            assert commonest == sorted(counts.items(), key=lambda item: (-item[1], item[0]))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.integers(0, 1), max_size=150), min_size=1, max_size=3).filter(any))
def test_the_order_is_that_of_the_text(folder: Path, documents: Documents) -> None:
    """By the 64 tokens from each place on, also where phrases repeat for longer than that, then by place."""
    store = made(folder, documents, 2)
    text = [token for document in documents if document for token in (*document, -1)]
    expected = sorted(
        (index for index, token in enumerate(text) if token >= 0),
        key=lambda index: (text[index : index + storefile.DEPTH], index),
    )
    assert store.arrays.places.tolist() == expected


def test_frequent_contexts_are_sampled_evenly(folder: Path) -> None:
    """Of 3,000 places 250 are looked at; shares stay within a percent."""
    document = [token for number in range(3000) for token in (0, 1 + (number % 10 > 6))]
    total, distinct, commonest = made(folder, [document]).index.continuations((1, 0, 3000))
    assert (total, distinct) == (250, 2)
    assert commonest[0][0] == 1
    assert commonest[0][1] / total == pytest.approx(0.7, abs=0.01)


def test_nothing_is_copied_and_readers_share(folder: Path) -> None:
    store = StoreFile(made(folder, [[0, 1, 2]]).name, folder / "indices")
    assert all(isinstance(part.obj, mmap.mmap) for part in store.arrays)
    first, second = StoreDrafter(store), StoreDrafter(store)
    first.begin(1, [0])
    second.begin(1, [1])
    assert (ask(first, [0], Budget(1, 1)).tokens, ask(second, [1], Budget(1, 1)).tokens) == ((1,), (2,))


def test_arrays_do_as_documents(folder: Path) -> None:
    assert made(folder, [np.array([3, 1], np.uint16), np.array([], np.int64)]).tokens == 2  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([[0, 1], [2, 4]], "document 2 has token id 4"),
        ([[-1]], "document 1 has token id -1"),
        ([[0.5]], "document 1 is no list of token ids"),
        ([[[0]]], "document 1 is no list of token ids"),
        ([], "no tokens"),
        ([[], []], "no tokens"),
    ],
)
def test_what_is_no_text_is_refused(folder: Path, documents: Documents, message: str) -> None:
    path = folder / "kept.store"
    storefile.build(path, [[1]], 4, DIGEST)
    before = path.read_bytes()
    with pytest.raises(UsageError, match=message):
        storefile.build(path, documents, 4, DIGEST)
    assert path.read_bytes() == before
    assert not [file for file in folder.iterdir() if file.suffix == ".part"]


def test_a_digest_has_32_bytes(folder: Path) -> None:
    with pytest.raises(UsageError, match="the digest has 3 bytes"):
        storefile.build(folder / "none.store", [[1]], 4, b"abc")


def test_where_nothing_can_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match="No such file"):
        storefile.build(folder / "nowhere" / "a.store", [[1]], 4, DIGEST)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    before = sorted(folder.iterdir())
    with pytest.raises(OSError, match="No space left"):
        storefile.build(folder / "full.store", [[1]], 4, DIGEST)
    assert sorted(folder.iterdir()) == before


def test_every_damaged_byte_is_seen(folder: Path) -> None:
    whole = Path(made(folder, [[0, 1, 2, 3, 1], [2, 2]]).name).read_bytes()
    path = folder / "damaged.store"
    for index in range(len(whole)):
        path.write_bytes(whole[:index] + bytes([whole[index] ^ 0x41]) + whole[index + 1 :])
        with pytest.raises(UsageError, match=r"no store|is damaged|has format"):
            StoreFile(path)
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(UsageError, match=r"is empty|no store|is damaged|has format"):
            StoreFile(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(UsageError, match=f"has {len(whole) + 1} bytes, not {len(whole)}"):
        StoreFile(path)


@pytest.mark.parametrize(("place", "value"), [(16, 7), (20, 9), (12, 2)])
def test_a_header_that_does_not_fit_its_text(folder: Path, place: int, value: int) -> None:
    """n, m and V, with a checksum that is right all the same."""
    raw = bytearray(Path(made(folder, [[0, 1, 2, 3, 1], [2, 2]]).name).read_bytes())
    raw[place : place + 4] = value.to_bytes(4, "little")
    raw[60:64] = zlib.crc32(raw[64:], zlib.crc32(raw[:60])).to_bytes(4, "little")
    path = folder / "liar.store"
    path.write_bytes(raw)
    with pytest.raises(UsageError, match="its text is not what its header says"):
        StoreFile(path)


def test_text_is_packed(folder: Path) -> None:
    """Two bytes an id, and what repeats costs nearly nothing."""
    chance = np.random.default_rng(2)
    once = chance.integers(0, 60_000, 20_000).tolist()
    store = made(folder, [once] * 5, 60_000)
    assert Path(store.name).stat().st_size < 2 * len(once) * 1.02


@pytest.mark.parametrize("vocab", [65_534, 65_535, 65_536, 200_000])
def test_large_vocabularies(folder: Path, vocab: int) -> None:
    """The last ids are found, on both sides of where an id takes two bytes."""
    store = made(folder, [[vocab - 1, 0, vocab - 2], [vocab - 1, 0, 5]], vocab)
    found = slice_of(store, [vocab - 1, 0])
    assert store.index.continuations(found) == (2, 2, [(5, 1), (vocab - 2, 1)])
    assert store.arrays.text.itemsize == (2 if vocab < 65_535 else 4)


def test_what_is_no_file_is_refused(folder: Path) -> None:
    for path, message in ((folder / "none", "No such file"), (folder, "directory"), ("a\0b", "no proper name")):
        with pytest.raises(UsageError, match=message):
            StoreFile(path)


def test_the_store_of_another_tokenizer_is_refused(folder: Path) -> None:
    store = made(folder, [[0]])
    assert (store.tokenizer, store.vocab) == (DIGEST, 4)
    StoreDrafter(store, DIGEST)
    with pytest.raises(UsageError, match="000102030405, and the model has ffffffffffff"):
        StoreDrafter(store.name, b"\xff" * 32)


def ask(drafter: StoreDrafter, tokens: list[int], budget: Budget) -> Draft:
    (draft,) = drafter.propose([View(1, Tokens(tokens), Sampling())], [budget])
    return draft


def chances(documents: Documents, text: Sequence[int], longest: int) -> dict[int, float]:
    """The definition: the contexts vote, the longest first; three that stand at different numbers of places count."""
    found: dict[int, float] = {}
    left, voters, stood = 1.0, 0, 0
    for length in range(min(longest, len(text)), 0, -1):
        context = text[len(text) - length :]
        here, counts = len(list(places(documents, context))), following(documents, context)
        if here in (0, stood):
            continue
        stood = here
        if not counts:
            continue
        for token, times in counts.items():
            found[token] = found.get(token, 0.0) + left * (times - 0.75) / counts.total()
        left *= 0.75 * len(counts) / counts.total()
        voters += 1
        if voters == 3:
            break
    return found


def kept(draft: Draft) -> list[float]:
    """The product of scores down to each node."""
    assert draft.score is not None
    found: list[float] = []
    for parent, score in zip(draft.parents, draft.score, strict=True):
        found.append(score * (found[parent] if parent >= 0 else 1.0))
    return found


@settings(deadline=None, max_examples=80)
@given(DOCUMENTS, st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(1, 4), st.integers(1, 12))
def test_trees_are_the_likeliest_nodes(
    folder: Path, documents: Documents, text: list[int], longest: int, nodes: int
) -> None:
    """However the text came, the nodes are those of the largest products; each has its chance by the definition."""
    drafter = StoreDrafter(made(folder, documents), longest=longest)
    drafter.begin(1, text[:4])
    for start in range(4, len(text), 3):
        drafter.observe([Outcome(1, EMPTY, (), tuple(text[start : start + 3]))])
    depth = 3
    draft = ask(drafter, text, Budget(nodes, depth))
    tree.validate(draft, 4)
    every: list[float] = []
    todo: list[tuple[list[int], float]] = [([], 1.0)]
    for path, reached in todo:
        for token, chance in chances(documents, [*text, *path], longest + len(path)).items():
            if reached * chance >= 0.02:
                every.append(reached * chance)
                if len(path) + 1 < depth:
                    todo.append(([*path, token], reached * chance))
    if nodes > depth:
        assert sorted(kept(draft) if draft.tokens else [], reverse=True) == pytest.approx(
            sorted(every, reverse=True)[:nodes]
        )
    else:
        assert tree.is_chain(draft)
        assert len(draft) <= nodes
    for node in range(len(draft)):
        path = [draft.tokens[above] for above in tree.path(draft, node)]
        options = chances(documents, [*text, *path[:-1]], longest + len(path) - 1)
        assert draft.score is not None
        assert draft.score[node] == pytest.approx(options[path[-1]])
        if nodes <= depth:
            assert options[path[-1]] == pytest.approx(max(options.values()))


def test_a_chain_is_as_long_as_the_store_can_tell(folder: Path) -> None:
    """A store that repeats itself endlessly is followed for 48 tokens, and a budget for a chain never gives a tree."""
    drafter = StoreDrafter(made(folder, [[0, 1] * 400]))
    drafter.begin(1, [0, 1] * 10)
    draft = ask(drafter, [0, 1] * 10, Budget(64, 64))
    assert draft.tokens == (0, 1) * 24
    assert tree.is_chain(draft)
    assert draft.score is not None
    assert min(draft.score) > 0.9


def test_a_longer_context_is_heard_first(folder: Path) -> None:
    drafter = StoreDrafter(made(folder, [[3, 1, 0], [2, 1, 2], [2, 1, 2], [0, 1, 3]]))
    drafter.begin(1, [3, 1])
    draft = ask(drafter, [3, 1], Budget(4, 1))
    assert draft.score is not None
    assert dict(zip(draft.tokens, draft.score, strict=True)) == pytest.approx(
        {0: 0.25 + 0.75 * 0.0625, 2: 0.75 * 0.3125, 3: 0.75 * 0.0625}
    )


def test_ids_that_the_store_lacks_are_no_context(folder: Path) -> None:
    """A target may have more ids than the tokenizer that the store was made with."""
    drafter = StoreDrafter(made(folder, [[0, 1]]))
    drafter.begin(1, [0, 99])
    assert ask(drafter, [0, 99], Budget(4, 4)) == EMPTY
    drafter.observe([Outcome(1, EMPTY, (), (0,))])
    assert ask(drafter, [0, 99, 0], Budget(4, 4)).tokens == (1,)
    assert ask(drafter, [0, 99, 0], Budget(0, 0)) == EMPTY


@pytest.mark.parametrize("longest", [0, -1, 17])
def test_a_silly_length_is_refused(folder: Path, longest: int) -> None:
    with pytest.raises(UsageError, match=f"longest is {longest}"):
        StoreDrafter(made(folder, [[0]]), longest=longest)


@pytest.mark.parametrize("check", drafter_suite.CHECKS, ids=lambda check: check.__name__)
def test_conformance(folder: Path, check: object) -> None:
    assert callable(check)
    chance = np.random.default_rng(1)
    store = made(folder, [chance.integers(0, drafter_suite.VOCAB, 300).tolist()], drafter_suite.VOCAB)
    check(lambda: StoreDrafter(store))


def test_what_is_held_does_not_grow_with_the_text(folder: Path) -> None:
    store, sizes = made(folder, [[0, 1, 2, 3] * 5]), []
    for length in (20, 20_000):
        drafter = StoreDrafter(store)
        drafter.begin(1, [0, 1, 2, 3] * (length // 4))
        drafter.observe([Outcome(1, EMPTY, (), (0, 1, 2, 3))] * (length // 10))
        sizes.append(drafter_suite.held(drafter))
    assert sizes[0] == sizes[1]
