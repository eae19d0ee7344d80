"""The memory of earlier answers: bounded, oldest out first, never across scopes."""

from __future__ import annotations

import pytest

from outrider._native import Memory
from outrider.drafters.suffix import LEAST_BYTES, SuffixDrafter
from outrider.errors import UsageError

ROOT = 0


def answer(number: int, size: int = 40) -> list[int]:
    """An answer that shares no token with another number's."""
    return [1000 * number + index for index in range(size)]


def knows(memory: Memory, scope: str, tokens: list[int]) -> bool:
    """Whether one of the scope's volumes holds all of these tokens in a row, with something behind them."""
    for volume in memory.read(scope):
        cursor = (ROOT, 0)
        for token in tokens:
            cursor = volume.advance(*cursor, token)
        if cursor[1] == len(tokens):
            return True
    return False


def test_the_oldest_answers_go_first_and_the_newest_stay() -> None:
    memory = Memory(LEAST_BYTES)
    for number in range(1, 60):
        memory.add("", answer(number))
        assert memory.size_bytes <= LEAST_BYTES
        assert knows(memory, "", answer(number))
    known = [knows(memory, "", answer(number)) for number in range(1, 60)]
    first = known.index(True)
    assert 10 < first < 40
    assert all(known[first:])


def test_an_answer_longer_than_the_memory_keeps_its_end() -> None:
    memory = Memory(LEAST_BYTES)
    long = answer(1, 5000)
    memory.add("", long)
    assert memory.size_bytes <= LEAST_BYTES
    assert knows(memory, "", long[-40:])
    assert not knows(memory, "", long[:40])


def test_scopes_do_not_see_each_other_and_share_the_limit() -> None:
    memory = Memory(LEAST_BYTES)
    memory.add("a", answer(1))
    memory.add("b", answer(2))
    assert knows(memory, "a", answer(1))
    assert knows(memory, "b", answer(2))
    assert not knows(memory, "a", answer(2))
    assert not knows(memory, "b", answer(1))
    assert memory.read("c") == []
    for number in range(3, 60):
        memory.add("b", answer(number))
        assert memory.size_bytes <= LEAST_BYTES
    assert memory.read("a") == []


def test_the_scope_whose_volume_is_dropped_under_it_goes_on_in_a_new_one() -> None:
    memory = Memory(LEAST_BYTES)
    for number in range(1, 200):
        memory.add(f"scope {number % 8}", answer(number, 20))
        assert memory.size_bytes <= LEAST_BYTES
        assert knows(memory, f"scope {number % 8}", answer(number, 20)[-10:])


def test_an_empty_answer_leaves_nothing() -> None:
    memory = Memory(LEAST_BYTES)
    memory.add("", [])
    assert (memory.size_bytes, memory.version, memory.read("")) == (0, 0, [])


@pytest.mark.parametrize("size", [-1, 1, LEAST_BYTES - 1])
def test_a_memory_too_small_for_its_parts_is_refused(size: int) -> None:
    with pytest.raises(UsageError, match=f"memory_bytes is {size}; give at least"):
        SuffixDrafter(size)
