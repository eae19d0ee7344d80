"""Features in a folder: bit for bit what was put there, by whichever run, and nothing that is damaged."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from outrider.errors import UsageError
from outrider.train.corpus import Text
from outrider.train.features import KEPT, Features
from outrider.train.states import ARRAYS, INDEX, StateFolder

TAPS, WIDTH = (1, 3), 10


def text(number: int) -> Text:
    return Text(np.arange(5, 12 + number, dtype=np.int32), 2 + number % 3)


def features(of: Text, seed: int) -> Features:
    """Any bits, NaN and infinity among them."""
    chance = np.random.default_rng(seed)
    rows = len(of.ids) - 1
    return Features(
        chance.integers(0, 2**16, (rows, WIDTH)).astype(np.uint16).view(np.float16),
        chance.integers(0, 2**31, (of.starts, KEPT)).astype(np.int32),
        chance.integers(0, 2**16, (of.starts, KEPT)).astype(np.uint16).view(np.float16),
    )


@contextmanager
def opened(folder: Path, target: str = "mine", taps: tuple[int, ...] = TAPS) -> Iterator[StateFolder]:
    with closing(StateFolder(folder, target, taps, WIDTH)) as shelf:
        yield shelf


def same(found: Features | None, put: Features) -> bool:
    names = ("states", "law", "chance")
    return found is not None and all(
        getattr(found, name).tobytes() == getattr(put, name).tobytes()
        and getattr(found, name).shape == getattr(put, name).shape
        for name in names
    )


def test_what_one_run_put_there_the_next_one_finds(tmp_path: Path) -> None:
    put = {number: features(text(number), number) for number in range(6)}
    for first in (0, 3):
        with opened(tmp_path / "a" / "b") as shelf:
            for number in range(first, first + 3):
                assert shelf.find(text(number)) is None
                assert not shelf.has(text(number))
                assert shelf.add(text(number), put[number])
            for number in range(first + 3):
                assert shelf.has(text(number))
                assert same(shelf.find(text(number)), put[number])


def test_a_text_is_its_ids_and_where_its_answer_begins(tmp_path: Path) -> None:
    one, other = Text(np.arange(9, dtype=np.int32), 3), Text(np.arange(9, dtype=np.int32), 4)
    with opened(tmp_path) as shelf:
        shelf.add(one, features(one, 1))
        assert shelf.find(other) is None


@pytest.mark.parametrize("lost", [1, 30])
def test_what_a_crash_damaged_is_missing_and_can_be_added_again(tmp_path: Path, lost: int) -> None:
    put = [features(text(number), number) for number in range(3)]
    with opened(tmp_path) as shelf:
        for number in range(3):
            shelf.add(text(number), put[number])
    raw = bytearray((tmp_path / ARRAYS).read_bytes())
    raw[len(raw) // 2] ^= 1
    (tmp_path / ARRAYS).write_bytes(raw[:-lost])
    with opened(tmp_path) as shelf:
        assert [same(shelf.find(text(number)), put[number]) for number in range(3)] == [True, False, False]
        assert not shelf.has(text(1))
        for number in (1, 2):
            assert shelf.add(text(number), put[number])
    with opened(tmp_path) as shelf:
        assert all(same(shelf.find(text(number)), put[number]) for number in range(3))


def test_a_line_that_a_kill_cut_is_no_loss_to_the_others(tmp_path: Path) -> None:
    put = [features(text(number), number) for number in range(3)]
    with opened(tmp_path) as shelf:
        for number in range(2):
            shelf.add(text(number), put[number])
    os.truncate(tmp_path / INDEX, (tmp_path / INDEX).stat().st_size - 9)
    with opened(tmp_path) as shelf:
        assert [shelf.has(text(number)) for number in range(3)] == [True, False, False]
        shelf.add(text(2), put[2])
    with opened(tmp_path) as shelf:
        assert [shelf.has(text(number)) for number in range(3)] == [True, False, True]
        assert same(shelf.find(text(2)), put[2])


@pytest.mark.parametrize(("target", "taps"), [("other", TAPS), ("mine", (1, 2))])
def test_states_of_another_model_are_refused(tmp_path: Path, target: str, taps: tuple[int, ...]) -> None:
    with opened(tmp_path):
        pass
    with pytest.raises(UsageError, match="has states of another model, or other ones of this: name another folder"):
        StateFolder(tmp_path, target, taps, WIDTH)


def test_one_run_at_a_time(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(UsageError, match="is in use by another run"):
        StateFolder(tmp_path, "mine", TAPS, WIDTH)
    with opened(tmp_path):
        pass


def test_a_folder_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"file/in cannot keep states \(Not a directory\): name another folder"):
        StateFolder(tmp_path / "file" / "in", "mine", TAPS, WIDTH)


def test_some_of_the_disk_is_left_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path) as shelf:
        assert shelf.add(text(0), features(text(0), 0))
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2**30))
        assert not shelf.add(text(1), features(text(1), 1))
        assert not shelf.has(text(1))
        assert same(shelf.find(text(0)), features(text(0), 0))
