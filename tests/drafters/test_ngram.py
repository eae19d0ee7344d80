"""The n-gram drafter against a plain search, and the drafter suite."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.api import Sampling
from outrider.core.step import Budget, Outcome, Tokens, View
from outrider.core.types import EMPTY, Draft
from outrider.drafters.ngram import NgramDrafter
from outrider.errors import UsageError
from outrider.testing import drafter_suite


def ask(drafter: NgramDrafter, tokens: list[int], count: int) -> Draft:
    (draft,) = drafter.propose([View(1, Tokens(tokens), Sampling())], [Budget(count, count)])
    return draft


def draft_after(tokens: list[int], count: int, longest: int = 4) -> tuple[int, ...]:
    drafter = NgramDrafter(longest)
    drafter.begin(1, tokens)
    return ask(drafter, tokens, count).tokens


def search(tokens: Sequence[int], count: int, longest: int) -> tuple[int, ...]:
    """The definition: longest suffix first, its latest earlier occurrence, the continuation repeated past the end.

    At most one token longer than the match; only a match of `longest` tokens is followed further back.
    """
    for n in range(min(longest, len(tokens)), 0, -1):
        for end in range(len(tokens) - 1, n - 1, -1):
            if list(tokens[end - n : end]) == list(tokens[len(tokens) - n :]):
                whole = n
                while n == longest and whole < end and tokens[end - whole - 1] == tokens[len(tokens) - whole - 1]:
                    whole += 1
                follow = list(tokens[end:])
                return tuple((follow * (count // len(follow) + 1))[: min(count, whole + 1)])
    return ()


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(0, 9), st.integers(1, 5), st.integers(0, 60))
def test_drafts_equal_a_plain_search_however_the_tokens_came(
    tokens: list[int], count: int, longest: int, known: int
) -> None:
    drafter = NgramDrafter(longest)
    drafter.begin(1, tokens[:known])
    for start in range(known, len(tokens), 3):
        drafter.observe([Outcome(1, EMPTY, (), tuple(tokens[start : start + 3]))])
    expected = search(tokens, count, longest) if count else ()
    assert ask(drafter, tokens, count) == Draft.chain(expected)


def test_the_longest_match_wins_over_a_later_shorter_one() -> None:
    assert draft_after([1, 2, 3, 7, 9, 3, 8, 1, 2, 3], 1) == (7,)
    assert draft_after([1, 2, 3, 7, 9, 3, 8, 1, 2, 3], 1, longest=1) == (8,)


def test_the_latest_occurrence_wins() -> None:
    assert draft_after([5, 1, 5, 2, 5], 2) == (2, 5)


def test_a_loop_is_drafted_past_the_present() -> None:
    assert draft_after([9, 1, 2, 1, 2, 1, 2], 5) == (1, 2, 1, 2, 1)
    assert draft_after([4, 4, 4, 4], 4) == (4, 4, 4, 4)


def test_a_guess_is_one_token_longer_than_its_match() -> None:
    assert draft_after([8, 3, 1, 2, 4, 5, 9, 3], 8) == (1, 2)
    assert draft_after([8, 7, 3, 1, 2, 4, 5, 9, 7, 3], 8) == (1, 2, 4)


def test_a_long_match_is_followed_past_the_index() -> None:
    text = list(range(30))
    copied = [*text, 99, *text[:12]]
    assert draft_after(copied, 8, longest=2) == tuple(text[12:20])


def test_new_text_is_not_drafted() -> None:
    assert draft_after([1, 2, 3, 4, 5], 8) == ()
    assert draft_after([1], 8) == ()


@pytest.mark.parametrize("longest", [0, -1, 17])
def test_a_silly_length_is_refused(longest: int) -> None:
    with pytest.raises(UsageError, match=f"longest is {longest}"):
        NgramDrafter(longest)


@pytest.mark.parametrize("check", drafter_suite.CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: object) -> None:
    assert callable(check)
    check(NgramDrafter)


def test_what_a_step_adds_does_not_grow_with_the_context() -> None:
    """Counted, not timed: a step that rebuilt or copied its index would add more after 20,000 tokens than after 200."""
    added: list[int] = []
    for length in (200, 20_000):
        tokens = [index * 7919 % 997 for index in range(length)]
        drafter = NgramDrafter()
        drafter.begin(1, tokens)
        before = drafter_suite.held(drafter)
        draft = ask(drafter, tokens, 8)
        drafter.observe([Outcome(1, draft, (), (1, 2, 3))])
        added.append(drafter_suite.held(drafter) - before)
    assert 0 < added[1] <= added[0] + 60
