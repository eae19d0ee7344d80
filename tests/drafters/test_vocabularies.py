"""Pairs of vocabularies: the same, padded, renamed, almost the same, and unlike."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.drafters.tokenizers import ALPHABET, TinyTokenizer

from outrider.drafters.vocabularies import Alike, Bridge, Unlike, match, padded
from outrider.errors import UsageError

WORDS = ("the", " the", " cat", "cat", " sat", " on", " mat", "in", "ing", " a", "é".encode())
BYTES = (b"\xc3", b"\xa9", b"\xe2", b"\x82", b"\xac")
BOS = "<s>"
END = "<end>"
TARGET = TinyTokenizer([*ALPHABET, *WORDS, *BYTES], [END, BOS], BOS)
OTHER = TinyTokenizer(
    [*BYTES, *reversed(ALPHABET), " ca", " s", "at", "he", " t", "ng", " cat sat", "�"], ["<|o|>", END]
)
# Words, and the beginnings of characters that need two or three bytes, alone and together.
TEXTS = st.text(st.sampled_from("the cat sat on mating é€"), max_size=40)


def pair(bridge: Bridge) -> Unlike:
    assert isinstance(bridge, Unlike)
    return bridge


def unlike() -> Unlike:
    return pair(match(TARGET, OTHER, TARGET.vocab, OTHER.vocab))


def test_the_same() -> None:
    bridge = match(TARGET, TARGET, TARGET.vocab, TARGET.vocab)
    assert (type(bridge), bridge.ids, bridge.note) == (Alike, None, "the same vocabulary")
    teller = bridge.teller()
    assert teller.tell([], [1, 5, 6]) == (0, [1, 5, 6])
    assert teller.tell([1, 5, 6], [7]) == (3, [7])
    assert teller.whole


@pytest.mark.parametrize(("target_rows", "draft_rows"), [(0, 128), (128, 0), (3, 64)])
def test_padding_on_either_side_needs_no_flag(target_rows: int, draft_rows: int) -> None:
    known = TARGET.vocab
    for bridge in (
        match(TARGET, TARGET, known + target_rows, known + draft_rows),
        padded(known + target_rows, known + draft_rows),
    ):
        assert isinstance(bridge, Alike)
        assert bridge.ids is not None
        assert len(bridge.ids) == known + target_rows
        shared = min(target_rows, draft_rows) + known
        assert bridge.ids[:shared].tolist() == list(range(shared))
        assert set(bridge.ids[shared:].tolist()) <= {-1}


def test_renamed_ids_are_mapped() -> None:
    order = random.Random(3).sample(TARGET.pieces[2:], TARGET.vocab - 2)
    renamed = TinyTokenizer(order, [BOS, END], BOS)
    bridge = match(TARGET, renamed, TARGET.vocab, renamed.vocab)
    assert isinstance(bridge, Alike)
    assert bridge.ids is not None
    assert [renamed.pieces[own] for own in bridge.ids] == TARGET.pieces
    assert "id 0 is b'<end>' to the target and b'<s>' to the draft model" in bridge.note
    text = TARGET.encode_prompt("the cat", special=False)
    told = bridge.teller().tell([], text)[1]
    assert [renamed.pieces[own] for own in told] == [TARGET.pieces[token] for token in text]


def test_one_id_that_means_other_text_is_written_out_and_never_drafted() -> None:
    pieces = list(TARGET.pieces[2:])
    place = TARGET.pieces.index(b" cat")
    pieces[place - 2] = b" dog"
    other = TinyTokenizer(pieces, [END, BOS], BOS)
    bridge = match(TARGET, other, TARGET.vocab, other.vocab)
    assert isinstance(bridge, Alike)
    assert bridge.ids is not None
    assert np.flatnonzero(bridge.ids < 0).tolist() == [place]
    assert f"id {place} is b' cat' to the target and b' dog' to the draft model" in bridge.note
    _, told = bridge.teller().tell([1], [place, place])
    assert other.text(told) == " cat cat"


def test_a_beginning_of_text_is_told_once() -> None:
    bare = TinyTokenizer(TARGET.pieces[2:], [END, BOS])
    wants = match(bare, TARGET, bare.vocab, TARGET.vocab).teller()
    text = TARGET.encode("the", special=False)
    assert wants.tell([], text)[1] == [1, *text]
    assert wants.tell([], [1, *text])[1] == [1, *text]
    assert match(TARGET, bare, bare.vocab, bare.vocab).teller().tell([], text)[1] == text
    wanting = TinyTokenizer(OTHER.pieces[2:], ["<|o|>", END], "<|o|>")
    both = match(TARGET, wanting, TARGET.vocab, wanting.vocab).teller()
    told = both.tell([], TARGET.encode_prompt("the cat", special=False))[1]
    assert wanting.text(told) == "<|o|>the cat"


def test_different_tokenizers_share_what_they_share() -> None:
    bridge = unlike()
    shared = {TARGET.pieces[i]: OTHER.pieces[own] for i, own in enumerate(bridge.ids) if own >= 0}
    assert all(text == other for text, other in shared.items())
    assert set(shared) == {END.encode(), *(char.encode() for char in ALPHABET), *BYTES}
    assert bridge.overlap == pytest.approx(len(shared) / OTHER.vocab)
    assert f"{len(shared)} tokens are shared, of {TARGET.vocab} and {OTHER.vocab}" in bridge.note


@given(st.lists(TEXTS, min_size=1, max_size=6), st.integers(1, 4))
def test_a_text_is_told_whole_however_it_comes(parts: list[str], portion: int) -> None:
    """In any portions, also such as end within a character; only the end of what was told is told again."""
    teller = unlike().teller()
    own: list[int] = []
    known: list[int] = []
    for part in parts:
        tokens = TARGET.encode(part, special=False)
        for start in range(0, len(tokens), portion):
            before = len(own)
            cut, told = teller.tell(own, tokens[start : start + portion])
            assert before - 10 <= cut <= before
            own[cut:] = told
            known += tokens[start : start + portion]
            text = b"".join(TARGET.pieces[token] for token in known)
            whole = b"".join(OTHER.pieces[token] for token in own)
            assert text.startswith(whole)
            assert teller.whole == (text == whole)


def test_bytes_that_are_no_text_do_no_harm() -> None:
    teller = unlike().teller()
    euro = [TARGET.pieces.index(piece) for piece in (b"\xe2", b"\x82", b"\xac")]
    the = TARGET.encode("the", special=False)
    assert OTHER.text(teller.tell([], [*reversed(euro), *the])[1]) == "���the"
    assert teller.whole
    assert teller.tell([], euro[:2])[1] == []
    assert not teller.whole
    assert OTHER.text(teller.tell([], euro[2:])[1]) == "€"


def test_special_tokens_are_passed_on_or_written_out() -> None:
    teller = unlike().teller()
    the, end, begin = TARGET.encode("the", special=False), 0, 1
    cut, told = teller.tell([], [begin, *the, end, *the])
    assert (cut, OTHER.text(told)) == (0, "the<end>the")
    assert told.count(OTHER.pieces.index(END.encode())) == 1
    _, told = teller.tell(told, [begin])
    assert OTHER.text(told)[-3:] == BOS
    # Nothing before the special token is cut up again.
    cut, told = teller.tell([1], TARGET.encode(" cat", special=False))
    assert (cut, OTHER.text(told)) == (1, " cat")


def drafted(known: str, drawn: str) -> list[str]:
    tokens = OTHER.encode(drawn, special=False)
    told = unlike().retell(TARGET.encode(known, special=False), tokens, [0.5] * len(tokens))
    return [TARGET.pieces[token].decode("utf-8", "replace") for token, _ in told]


def test_drafted_text_is_cut_up_by_the_target() -> None:
    assert drafted("the", " cat sat on") == [" cat", " sat", " on"]
    assert drafted("the c", "at") == ["a", "t"]
    assert drafted("", "the") == ["the"]
    assert drafted("the", "") == []


def test_drafted_text_ends_at_a_special_token_and_at_a_whole_character() -> None:
    bridge = unlike()
    known = TARGET.encode("the", special=False)
    end = OTHER.pieces.index(END.encode())
    a, half = OTHER.pieces.index(b"a"), OTHER.pieces.index(b"\xc3")
    assert [token for token, _ in bridge.retell(known, [a, end, a], [0.5] * 3)] == TARGET.encode("a", special=False)
    assert [token for token, _ in bridge.retell(known, [a, half], [0.5] * 2)] == TARGET.encode("a", special=False)
    assert bridge.retell(known, [half], [0.5]) == []
    assert bridge.retell(known, [end], [0.5]) == []


def test_a_token_has_the_chance_of_what_begins_in_it() -> None:
    drawn = OTHER.encode(" cat sat", special=False)
    assert len(drawn) == 1
    told = unlike().retell([], drawn, [0.3])
    assert [(TARGET.pieces[token], chance) for token, chance in told] == [(b" cat", 0.3), (b" sat", 1.0)]
    drawn = [OTHER.pieces.index(piece) for piece in (b" ca", b"t", b" s", b"at")]
    told = unlike().retell([], drawn, [0.5, 0.8, 0.6, 0.9])
    assert [TARGET.pieces[token] for token, _ in told] == [b" cat", b" sat"]
    assert [chance for _, chance in told] == pytest.approx([0.4, 0.54])


@given(TEXTS, TEXTS)
def test_retold_text_is_the_drawn_text(known: str, drawn: str) -> None:
    tokens = OTHER.encode(drawn, special=False)
    told = unlike().retell(TARGET.encode(known, special=False), tokens, [0.5] * len(tokens))
    assert b"".join(TARGET.pieces[token] for token, _ in told).decode() == drawn


def test_a_tokenizer_that_cannot_write_plain_text_is_refused() -> None:
    poor = TinyTokenizer(["a", "b", "abc"])
    with pytest.raises(UsageError, match=r"the draft model's tokenizer cannot write ' '.*choose a draft model"):
        match(TARGET, poor, TARGET.vocab, poor.vocab)
    with pytest.raises(UsageError, match="the target's tokenizer cannot write"):
        match(poor, TARGET, poor.vocab, TARGET.vocab)
