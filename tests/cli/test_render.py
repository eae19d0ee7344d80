"""Colours by token, control characters, sums, and the story of trees."""

from __future__ import annotations

import pytest
from tests.cli.scripted import IDS, VOCAB, ScriptedDetokenizer, ids, usage_of

from outrider.api import Chunk, FinishReason, Origin, Pass
from outrider.cli import render, story

GREEN, OFF = render.GREEN, render.RESET
A, B = Origin.ACCEPTED, Origin.BONUS


def painted(*chunks: tuple[str, tuple[int, ...], tuple[Origin, ...]]) -> str:
    """Some chunks, painted one after the other."""
    painter = render.Painter(ScriptedDetokenizer())
    return "".join(painter.paint(Chunk(0, text, tokens, origins)) for text, tokens, origins in chunks)


def test_a_character_takes_the_colour_of_the_token_that_completes_it() -> None:
    half, rest = ids(b"\xc3", b"\xa9")
    assert painted(("", (half,), (B,)), ("é", (rest,), (A,))) == f"{GREEN}é{OFF}"


def test_text_that_lags_behind_keeps_its_colours() -> None:
    held = (" sk", ids(b" sky", b" is"), (A, B))
    assert painted(held, ("y is", (), ())) == f"{GREEN} sk{OFF}{GREEN}y{OFF} is"


def test_text_that_does_not_match_its_tokens_is_shown_plain() -> None:
    assert painted(("something else", ids(b" sky"), (A,)), (" sky", ids(b" sky"), (A,))) == (
        f"something else{GREEN} sky{OFF}"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("\r\x00\x7f", "␍␀␡"),
        ("\x9b31m", "\ufffd31m"),
        ("naïve 空 🙂", "naïve 空 🙂"),
    ],
)
def test_control_characters_become_symbols(text: str, shown: str) -> None:
    assert render.visible(text) == shown


def test_a_stuck_answer_says_why() -> None:
    assert "stuck: no token was left that the constraint and the allowed and banned ids permit" in render.summary(
        usage_of(6, 4, 3), FinishReason.STUCK, colour=False
    )
    assert "the constraint and the allowed and banned ids together left no token" in story.ending(FinishReason.STUCK, 0)


def test_the_legend_names_the_colours_that_are_there() -> None:
    def legend(accepted: int, forced: int) -> tuple[bool, bool]:
        text = render.summary(usage_of(6, 4, accepted, forced), FinishReason.STOP, colour=True)
        return "green" in text, "cyan" in text

    assert [legend(3, 0), legend(3, 2), legend(2, 2), legend(0, 0)] == [
        (True, False),
        (True, True),
        (False, True),
        (False, False),
    ]


def test_columns_are_aligned() -> None:
    assert render.columns([["a", "1", "x"], ["bbb", "22", "yy"]], "lrl") == "a     1  x\nbbb  22  yy"


def test_counts() -> None:
    assert [render.count(n, noun) for n, noun in [(1, "pass"), (2, "pass"), (0, "token")]] == [
        "1 pass",
        "2 passes",
        "0 tokens",
    ]


def name(token: int) -> str:
    return VOCAB[token].decode()


def marks(one: Pass) -> list[tuple[str, str]]:
    """Mark and token of each line below the head."""
    lines = story.tell(1, one, name, colour=False).splitlines()[1:]
    return [(line[2], line[4 : 4 + story.WIDTH].strip()) for line in lines if line]


def test_nodes_behind_a_rejected_one_are_not_looked_at() -> None:
    one = Pass(9, ids(b" sky", b" red", b" blue"), (-1, 0, 1), (0,), IDS[b" is"], 0.0)
    assert marks(one) == [("✓", '" sky"'), ("✗", '" red"'), ("·", '" blue"'), ("+", '" is"')]


def test_tree_siblings_name_the_accepted_one() -> None:
    one = Pass(9, ids(b" red", b" sky", b" is", b" blue"), (-1, -1, 1, 0), (1, 2), IDS[b" very"], 0.0)
    text = story.tell(3, one, name, colour=False)
    assert marks(one) == [("✗", '" red"'), ("✓", '" sky"'), ("✓", '" is"'), ("·", '" blue"'), ("+", '" very"')]
    assert 'rejected: the target wanted " sky"' in text
    assert "(bonus)" in text
    assert text.startswith("pass 3: position 9, 0.0 ms, 4 drafted, 2 accepted\n")


def test_it_says_who_guessed() -> None:
    tokens, who = ids(b" sky", b" is", b" red", b" blue"), ("grammar", "suffix", "store", "suffix")
    one = Pass(9, tokens, (-1, 0, 1, 2), (0, 1), IDS[b" blue"], 0.0, forced=1, drafters=who)
    first, second, third, fourth, own, *_ = story.tell(1, one, name, colour=False).splitlines()[1:]
    assert first.endswith("forced by the constraint, accepted")
    assert second.endswith("accepted (suffix)")
    assert third.endswith('the target wanted " blue" (store)')
    assert fourth.endswith("not looked at (suffix)")
    assert "(recovered)" in own


def test_forced_nodes_are_named() -> None:
    one = Pass(9, ids(b" sky", b" is", b" red"), (-1, 0, 1), (0, 1), IDS[b" blue"], 0.0, forced=1)
    text = story.tell(1, one, name, colour=True)
    assert "3 drafted (1 forced by the constraint), 2 accepted" in text
    assert text.count("forced by the constraint, accepted") == 1
    assert [text.count(colour) for colour in (render.CYAN, render.GREEN, story.RED)] == [1, 1, 1]


def test_a_token_cannot_break_the_story() -> None:
    text = story.tell(1, Pass(0, (), (), (), IDS[b"\x1b[2J"], 0.0), name, colour=False)
    assert "\x1b" not in text
    assert '"\\u001b[2J"' in text
