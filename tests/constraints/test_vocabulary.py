"""What is text, how text is cut up, and masks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.constraints.vocabularies import CONTROL, END, OTHER_END, PADDING, SIZE, SPECIAL, THINK, small, spell

from outrider.constraints.vocabulary import Vocabulary, packed

WHOLE = small()


def test_special_ids_ends_and_padding_are_no_text() -> None:
    assert len(WHOLE.text) == len(WHOLE.spelling) == SIZE
    assert [token for token in range(SIZE) if not WHOLE.text[token]] == list(range(END, SIZE))
    assert WHOLE.spelling[END:PADDING] == tuple(SPECIAL.values())
    assert set(WHOLE.spelling[PADDING:]) == {b""}
    assert WHOLE.special == {END, OTHER_END, CONTROL, THINK}


def test_an_end_of_text_is_no_text_even_if_it_is_an_ordinary_token() -> None:
    vocabulary = Vocabulary(2, 2, lambda token: b"ab"[token : token + 1], lambda _: False, frozenset({1}), lambda _: [])
    assert vocabulary.text == (b"a", b"")
    assert vocabulary.text_mask.tolist() == [1]
    assert vocabulary.end_mask.tolist() == [2]


def test_a_backend_with_fewer_rows_than_tokens_hides_the_others() -> None:
    vocabulary = Vocabulary(
        2, 3, lambda token: b"abc"[token : token + 1], lambda _: False, frozenset({1}), lambda _: []
    )
    assert vocabulary.spelling == (b"a", b"b")


@given(st.lists(st.booleans(), max_size=100))
def test_packed(bits: list[bool]) -> None:
    words = packed(np.array(bits, np.bool_))
    assert words.dtype == np.uint32
    assert not words.flags.writeable
    assert [bool(int(words[i // 32]) >> i % 32 & 1) for i in range(len(words) * 32)] == bits + [False] * (
        len(words) * 32 - len(bits)
    )
    assert len(words) == (len(bits) + 31) // 32


@given(st.text(max_size=20).map(str.encode) | st.binary(max_size=20))
def test_cut_keeps_every_byte(data: bytes) -> None:
    assert b"".join(spell(token) for token in WHOLE.cut(data)) == data


@given(st.text(alphabet='ab"c{:,é1', max_size=20))
def test_text_is_cut_as_the_tokenizer_does(text: str) -> None:
    vocabulary = Vocabulary(
        SIZE, PADDING, spell, lambda token: token >= END, frozenset({END}), lambda text: [*text.encode()]
    )
    assert vocabulary.cut(text.encode()) == list(text.encode())


def test_half_a_character_at_the_end_is_cut_into_bytes() -> None:
    assert WHOLE.cut(b"ab" + "€".encode()[:2]) == [258, 0xE2, 0x82]


@pytest.mark.parametrize("data", [b"aab", b"x", b""])
def test_a_tokenizer_that_changes_text_is_not_believed(data: bytes) -> None:
    vocabulary = Vocabulary(SIZE, PADDING, spell, lambda token: token >= END, frozenset({END}), lambda _: [65])
    assert b"".join(spell(token) for token in vocabulary.cut(data)) == data


def test_cut_stops_before_a_byte_that_no_token_has() -> None:
    assert small(lacking=frozenset({ord("x")})).cut(b"aaxb") == [97, 97]
