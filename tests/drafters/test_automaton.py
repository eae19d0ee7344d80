"""The suffix automaton against naive search."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider._native import Automaton

ROOT, MOST_SCANNED, MOST_RANKED = 0, 12, 8  # as in native/include/outrider/drafting.h

texts = st.lists(st.integers(0, 2), max_size=50) | st.lists(st.integers(0, 9), max_size=60)


def built(text: Sequence[int], parts: int = 1) -> Automaton:
    automaton = Automaton()
    for start in range(0, len(text), parts):
        automaton.extend(text[start : start + parts])
    return automaton


def follows(text: Sequence[int], string: Sequence[int]) -> list[tuple[int, int]]:
    """(place, token) behind each occurrence of a string; places count from 1, as in the automaton."""
    size = len(string)
    return [(end + 1, text[end]) for end in range(size, len(text)) if list(text[end - size : end]) == list(string)]


def counted(text: Sequence[int], string: Sequence[int]) -> list[tuple[int, int, int]]:
    found = follows(text, string)
    times = Counter(token for _, token in found)
    return sorted((times[token], max(place for place, other in found if other == token), token) for token in times)


def longest_known(text: Sequence[int], other: Sequence[int]) -> int:
    """Length of the longest suffix of the other text with an occurrence in this one that something follows."""
    return max(size for size in range(len(other) + 1) if size == 0 or follows(text, other[len(other) - size :]))


@given(texts, st.integers(1, 7))
def test_the_tail_is_the_longest_suffix_seen_before(text: list[int], parts: int) -> None:
    automaton = built(text, parts)
    state, matched = automaton.tail()
    assert matched == longest_known(text, text)
    assert (state == ROOT) == (matched == 0)
    assert automaton.states <= max(2 * len(text), 1) + 1


@given(texts)
def test_followers_and_counts_equal_a_naive_search_for_every_suffix(text: list[int]) -> None:
    automaton = built(text)
    state, matched = automaton.tail()
    size = matched
    while state != ROOT:
        # All suffixes down to the next shorter state are followed by the same tokens as often.
        shorter = automaton.shorter(state)
        assert shorter[1] < size
        for length in range(size, shorter[1], -1):
            expected = counted(text, text[len(text) - length :])
            total, different, found = automaton.ahead(state)
            assert sorted(found) == expected
            assert (total, different) == (sum(count for count, _, _ in expected), len(expected))
        state, size = shorter
    assert size == 0


@given(texts, texts)
def test_a_cursor_stands_at_the_longest_known_suffix_of_another_text(text: list[int], other: list[int]) -> None:
    automaton = built(text)
    cursor = (ROOT, 0)
    for end, token in enumerate(other, start=1):
        cursor = automaton.advance(*cursor, token)
        state, matched = cursor
        assert matched == longest_known(text, other[:end])
        if matched:
            assert sorted(automaton.ahead(state)[2]) == counted(text, other[end - matched : end])


@given(st.lists(st.integers(1, 40), min_size=60, max_size=200), st.integers(0, 199))
def test_of_many_followers_the_most_frequent_are_named(words: list[int], asked: int) -> None:
    """The word 0 stands before each; asked early or late, the list is kept up to date."""
    automaton = Automaton()
    for index, word in enumerate(words):
        automaton.extend((0, word))
        if index == asked:
            automaton.ahead(automaton.advance(ROOT, 0, 0)[0])
    text = [token for word in words for token in (0, word)]
    state, matched = automaton.advance(ROOT, 0, 0)
    total, different, found = automaton.ahead(state)
    expected = counted(text, [0])
    assert (matched, total, different) == (1, len(words), len(expected))
    if different <= MOST_SCANNED:
        assert sorted(found) == expected
    else:
        assert [count for count, _, _ in sorted(found)] == [count for count, _, _ in expected[-MOST_RANKED:]]
        assert set(found) <= set(expected)


@pytest.mark.parametrize("loop", [[1], [1, 2, 3]])
def test_a_long_loop_is_known_and_counted(loop: list[int]) -> None:
    automaton = built(loop * 400)
    state, matched = automaton.tail()
    assert matched == 399 * len(loop)
    total, different, ((count, place, token),) = automaton.ahead(state)
    assert (total, different, count, place, token) == (1, 1, 1, 399 * len(loop) + 1, loop[0])


@pytest.mark.parametrize("kind", ["new", "skewed", "copied", "loop"])
def test_the_size_is_an_upper_estimate_that_is_not_far_off(kind: str) -> None:
    """In a process of its own, where no memory that was freed before serves again."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        grown, size = pool.submit(sizes, kind).result()
    assert 0.7 * grown <= size <= 4 * max(grown, 1 << 22)


def sizes(kind: str) -> tuple[int, int]:
    """What the process grew by, and what the automaton says of itself."""
    chance, count = Random(1), 120_000
    skewed = [1000 + int(chance.paretovariate(0.8)) % 40_000 for _ in range(count)]
    text = {
        "new": list(range(1000, 1000 + count)),
        "skewed": skewed,
        "copied": skewed[: count // 3] * 3,
        "loop": [1001, 1002, 1003] * (count // 3),
    }[kind]
    before = resident_bytes()
    automaton = built(text, 1000)
    return resident_bytes() - before, automaton.size_bytes


def resident_bytes() -> int:
    """What this process takes, in whole pages."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
