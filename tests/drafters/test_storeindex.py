"""The order of a text against sorting it plainly, and the index that is kept."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.drafters import storefile, storeindex
from outrider.drafters.storefile import StoreFile
from outrider.drafters.storeindex import DEPTH

DIGEST = bytes(range(32))


def plainly(text: Sequence[int]) -> list[int]:
    return sorted(range(len(text)), key=lambda index: (text[index : index + DEPTH], index))


def ordered(text: Sequence[int]) -> list[int]:
    found: list[int] = storeindex.suffix_order(np.array(text, np.uint32)).tolist()
    return found


@settings(deadline=None, max_examples=100)
@given(
    st.integers(1, 20),
    st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=90), min_size=1, max_size=4),
    st.sampled_from([1, 2, 2**15, 2**30]),
)
def test_the_order_of_any_text(repeats: int, documents: list[list[int]], scale: int) -> None:
    """Repeats of more than DEPTH tokens, few and many bits an id."""
    whole = [scale * token for document in documents for token in (*document, 0)] * repeats
    assert ordered(whole) == plainly(whole)


@pytest.mark.parametrize("text", [[1] * 700, [1, 2] * 400, ([1] * 63 + [2]) * 9, ([1] * 64 + [2]) * 9, [5]])
def test_the_order_of_endless_repeats(text: list[int]) -> None:
    assert ordered([*text, 0]) == plainly([*text, 0])


def test_keys_of_any_width_are_sorted() -> None:
    """Numbers that leave room for their place, and numbers that do not."""
    chance = np.random.default_rng(3)
    for bits in (1, 20, 53, 54, 55, 64):
        keys = chance.integers(0, 2**bits, 1000, np.uint64)
        order, found = storeindex._sorted(keys, bits)
        assert (found == np.sort(keys)).all()
        assert (keys[order] == found).all()
        assert sorted(order.tolist()) == list(range(1000))


class Counting:
    """Counts how often an index is made."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.made = 0
        self._make = storeindex.make
        patch.setattr(storeindex, "make", self)

    def __call__(self, text: storeindex.Text, vocab: int) -> storeindex.Index:
        self.made += 1
        return self._make(text, vocab)


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Counting:
    return Counting(monkeypatch)


def built(path: Path, documents: Sequence[Sequence[int]] = ((3, 1, 2, 1), (1, 2))) -> Path:
    storefile.build(path, documents, 4, DIGEST)
    return path


def arrays(store: StoreFile) -> list[list[int]]:
    return [part.tolist() for part in store.arrays]


def test_an_index_is_made_once(tmp_path: Path, count: Counting) -> None:
    path, kept = built(tmp_path / "a.store"), tmp_path / "deep" / "indices"
    first = StoreFile(path, kept)
    second = StoreFile(path, kept)
    assert count.made == 1
    assert arrays(first) == arrays(second) == arrays(StoreFile(path))
    assert len(list(kept.iterdir())) == 1


def test_a_store_that_is_built_anew_gets_a_new_index(tmp_path: Path, count: Counting) -> None:
    """At the same path, so that the old index goes; and who has it open goes on reading it."""
    kept = tmp_path / "indices"
    old = StoreFile(built(tmp_path / "a.store"), kept)
    before = arrays(old)
    new = StoreFile(built(tmp_path / "a.store", [[3, 1, 2, 1], [1, 3]]), kept)
    other = StoreFile(built(tmp_path / "b.store"), kept)
    assert count.made == 3
    assert arrays(old) == before == arrays(other) != arrays(new)
    assert len(list(kept.iterdir())) == 2


@pytest.mark.parametrize("damage", ["", "cut", "longer", "other version", "zeros"])
def test_an_index_that_is_none_is_made_anew(tmp_path: Path, count: Counting, damage: str) -> None:
    path, kept = built(tmp_path / "a.store"), tmp_path / "indices"
    whole = arrays(StoreFile(path, kept))
    (file,) = kept.iterdir()
    raw = file.read_bytes()
    changed = {
        "": b"",
        "cut": raw[:-1],
        "longer": raw + b"\0",
        "other version": raw[:8] + b"\7" + raw[9:],
        "zeros": bytes(len(raw)),
    }
    file.write_bytes(changed[damage])
    assert arrays(StoreFile(path, kept)) == whole
    assert count.made == 2
    assert file.read_bytes() == raw


def test_an_index_that_cannot_be_kept_stays_in_memory(
    tmp_path: Path, count: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = built(tmp_path / "a.store")
    (tmp_path / "file").write_text("")
    with pytest.warns(RuntimeWarning, match=r"cannot be kept in .*file.*, so that it is made again each time"):
        store = StoreFile(path, tmp_path / "file")
    assert arrays(store) == arrays(StoreFile(path))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.warns(RuntimeWarning, match=r"cannot be kept in .*indices \(No space left on device\)"):
        store = StoreFile(path, tmp_path / "indices")
    assert arrays(store) == arrays(StoreFile(path))
    assert not list((tmp_path / "indices").iterdir()), "the half of an index is left behind"


def test_a_kept_index_is_no_warning(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        StoreFile(built(tmp_path / "a.store"), tmp_path / "indices")
