"""Free text, a marker, and the constraint behind it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.constraints.vocabularies import (
    CONTROL,
    END,
    OTHER_END,
    SIZE,
    THINK,
    ids_in,
    push_all,
    pushable,
    small,
    spell,
    write,
)

from outrider.api import Constraint, ConstraintKind
from outrider.constraints.compiler import Compiler
from outrider.constraints.marker import Marker
from outrider.errors import UsageError

VOCABULARY = small()
COMPILER = Compiler(VOCABULARY)
ENDS = {END, OTHER_END}
ORDINARY = set(range(END))


def after(marker: str, regex: str = "[12]+!") -> Constraint:
    return Constraint(ConstraintKind.REGEX, regex, after=marker)


@pytest.mark.parametrize("marker", ["</think>", "ab", "aab", "abab", "é:", "a"])
@settings(max_examples=25)
@given(data=st.data())
def test_a_walk_equals_the_definition(marker: str, data: st.DataObject) -> None:
    """Free text never goes beyond the marker's first occurrence, and what follows is the constraint's."""
    matcher, inner = COMPILER(after(marker)), COMPILER(Constraint(ConstraintKind.REGEX, "[12]+!"))
    wanted = marker.encode()
    pushed: list[int] = []
    favourites = [*VOCABULARY.cut(wanted), *wanted, ord("1"), ord("!"), 264, 258, 259, 266, THINK]
    if data.draw(st.booleans()):
        pushed = data.draw(st.sampled_from([[*wanted], VOCABULARY.cut(wanted)]))
        push_all(matcher, pushed)
    for _ in range(data.draw(st.integers(1, 14))):
        if pushed and data.draw(st.integers(0, 4)) == 0:
            count = data.draw(st.integers(1, len(pushed)))
            matcher.pop(count)
            del pushed[len(pushed) - count :]
        token = data.draw(st.sampled_from(favourites) | st.integers(0, SIZE))
        if matcher.push(token):
            pushed.append(token)
    text = b"".join(spell(token) for token in pushed)
    head, found, tail = text.partition(wanted)
    if found:
        push_all(inner, tail)
        assert ids_in(matcher) == ids_in(inner)
        assert matcher.ended == inner.ended
    else:
        assert not matcher.ended
        assert matcher.forced(8) == ()
        for token in range(SIZE):
            spelt = spell(token) if token < 271 else b""
            place = (head + spelt).find(wanted)
            fits = place < 0 or place + len(wanted) == len(head + spelt)
            if token < END:
                assert (token in ids_in(matcher)) == fits, spelt
        assert not ids_in(matcher) & {*ENDS, CONTROL}
    assert pushable(matcher) == ids_in(matcher) - ENDS
    fresh = COMPILER(after(marker))
    assert fresh.allows(pushed) == len(pushed)
    push_all(fresh, pushed)
    assert ids_in(fresh) == ids_in(matcher)


def test_marker_masks_equal_single_steps() -> None:
    """Every state of every marker over a and b up to 5 bytes, every token."""
    for size in range(1, 6):
        for letters in itertools.product("ab", repeat=size):
            marker = Marker("".join(letters), VOCABULARY)
            for state in range(marker.found):
                mask = marker.mask(state)
                may = {t for t in range(SIZE) if int(mask[t // 32]) >> t % 32 & 1}
                assert may == {t for t in range(SIZE) if marker.step(state, t) is not None}
                assert mask is marker.mask(state)


def test_the_constraint_begins_right_behind_a_marker_that_straddles_tokens() -> None:
    matcher = COMPILER(after("xabx", "abc"))
    for token in (ord("x"), ord("x"), 258):
        assert matcher.push(token)
    assert not matcher.push(THINK)
    assert matcher.allows([ord("x"), 259, END]) == 2
    assert matcher.allows([ord("x"), ord("a")]) == 1
    assert matcher.push(ord("x"))
    assert matcher.forced(4) == (259,)
    assert ids_in(matcher) == {259}
    assert matcher.push(259)
    assert matcher.ended
    matcher.pop(2)
    assert not matcher.ended
    assert ids_in(matcher) == ORDINARY
    matcher.pop(3)
    assert ids_in(matcher) == ORDINARY
    with pytest.raises(UsageError, match="1 tokens cannot be popped; 0 were pushed"):
        matcher.pop(1)


def test_a_token_that_goes_on_behind_the_marker_is_not_allowed() -> None:
    matcher = COMPILER(after("a"))
    assert {258, 259, 266} & ids_in(matcher) == set()
    assert ids_in(matcher) == ORDINARY - {258, 259, 266}


def test_a_marker_may_be_one_special_token_or_be_spelt_out() -> None:
    matcher = COMPILER(after("</think>"))
    assert ids_in(matcher) == ORDINARY | {THINK}
    assert matcher.push(THINK)
    assert ids_in(matcher) == {ord("1"), ord("2"), 264}
    matcher.pop(1)
    assert write(matcher, "b</think>1")
    assert not matcher.push(ord("3"))


def test_other_special_tokens_are_no_free_text() -> None:
    assert THINK not in ids_in(COMPILER(after("ab")))
    assert not COMPILER(after("ab")).push(CONTROL)
    matcher = COMPILER(after("<|im_start|>a"))
    assert ids_in(matcher) == ORDINARY | {CONTROL}
    assert matcher.push(CONTROL)
    assert matcher.push(ord("a"))
    assert ids_in(matcher) == {ord("1"), ord("2"), 264}


def test_a_constraint_that_allows_only_the_empty_text_ends_with_the_marker() -> None:
    matcher = COMPILER(after("ab", ""))
    assert not matcher.ended
    assert matcher.push(258)
    assert matcher.ended
    assert ids_in(matcher) == ENDS


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("", "marker after which the constraint begins is empty; give its text, or no marker"),
        ("x\ud800", "the marker has a lone surrogate at character 1"),
        ("x" * 1025, "the marker has 1025 bytes; give one of at most 1024"),
        ("then <end> and", "has an end of text in it"),
    ],
)
def test_markers_that_are_refused(marker: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        COMPILER(after(marker))


def test_a_marker_that_cannot_be_written_is_refused() -> None:
    compiler = Compiler(small(lacking=frozenset({ord("x")})))
    with pytest.raises(UsageError, match="'axb' cannot be written with this model's vocabulary"):
        compiler(after("axb"))
    assert compiler(after("ab")).push(258)
