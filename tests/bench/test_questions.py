"""Reading and choosing questions."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from outrider.bench.questions import MT_BENCH, Question, load, parse, select
from outrider.errors import UsageError


def line(**entry: object) -> bytes:
    return json.dumps(entry, ensure_ascii=False).encode()


def test_our_own_questions_cover_every_task() -> None:
    found = load(None)
    tasks = {MT_BENCH, "translation", "summarization", "qa", "math_reasoning", "rag"}
    assert Counter(question.task for question in found) == dict.fromkeys(tasks, 4)
    assert len({question.name for question in found}) == len(found)
    assert sum(len(question.turns) > 1 for question in found) == 4


def test_the_eight_categories_of_mt_bench_are_one_task() -> None:
    raw = b"\n".join([line(question_id=81, category="writing", turns=["a", "b"]), line(category="mine", turns=["c"])])
    assert parse(raw, "file") == [Question("81", MT_BENCH, ("a", "b")), Question("of line 2", "mine", ("c",))]


def test_windows_line_ends_a_byte_order_mark_and_blank_lines() -> None:
    first, second = line(category="qa", turns=["ä"]), line(category="qa", turns=["b"])
    plain = [question.turns for question in parse(first + b"\n" + second, "file")]
    assert [
        question.turns for question in parse(b"\xef\xbb\xbf" + first + b"\r\n\r\n" + second + b"\r\n", "f")
    ] == plain
    assert [question.turns for question in parse(first + b"\r" + second, "file")] == plain


def test_a_line_separator_inside_a_text_ends_no_line() -> None:
    text = "one\u2028two\x85three"
    assert parse(line(category="qa", turns=[text]), "file")[0].turns == (text,)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (b"{", "line 2 is not JSON"),
        (b'{"category": "qa", "turns": ["\xff"]}', "line 2 is not UTF-8 (byte 0xff)"),
        (b"[1]", "line 2 is [1]: give an object"),
        (line(turns=["a"]), "line 2 has the category null"),
        (line(category="all", turns=["a"]), 'line 2 has the category "all"'),
        (line(category="qa"), "line 2 has the turns null"),
        (line(category="qa", turns=[]), "line 2 has the turns []"),
        (line(category="qa", turns=["a", ""]), 'line 2 has the turns ["a", ""]'),
        (line(category="qa", turns="a"), 'line 2 has the turns "a"'),
        (b"[" * 100_000, "line 2 is not JSON"),
    ],
)
def test_a_bad_line_is_named(bad: bytes, words: str) -> None:
    good = line(category="qa", turns=["a"])
    with pytest.raises(UsageError) as caught:
        parse(good + b"\n" + bad, "--questions x.jsonl")
    assert f"--questions x.jsonl, {words}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nothing_to_ask(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no questions"):
        parse(b"\n \r\n", "file")
    with pytest.raises(UsageError, match=r"nowhere.jsonl cannot be read \(No such file"):
        load(str(tmp_path / "nowhere.jsonl"))
    with pytest.raises(UsageError, match="cannot be read"):
        load("a\0b")


def test_select_spreads_over_each_task() -> None:
    many = [Question(str(i), "qa" if i % 2 else "rag", ("?",)) for i in range(20)]
    assert [question.name for question in select(many, 2)] == ["0", "10", "1", "11"]
    assert select(many, 1) == [many[0], many[1]]
    assert len(select(many, 99)) == 20


def test_spec_bench(specbench: Path) -> None:
    chosen = select(load(str(specbench)), 3)
    assert Counter(question.task for question in chosen) == dict.fromkeys(
        (MT_BENCH, "translation", "summarization", "qa", "math_reasoning", "rag"), 3
    )
