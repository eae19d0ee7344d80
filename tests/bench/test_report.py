"""The pages: they hold every figure, need nothing else, and nothing in them can become markup."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from tests.bench.scripted import trial

from outrider.bench import chart, figures, report, words
from outrider.bench.contenders import Cost
from outrider.bench.result import Result
from outrider.bench.trials import Trial

COST = Cost(6, 0.25, 0.5, (4, 3), (4, 2), (3, 1))
EVIL = "<script>|x*"


def result(trials: list[Trial], partial: bool = False) -> Result:
    names = list(dict.fromkeys(one.contender for one in trials))
    return Result(
        rows=figures.rows(trials, names, "none", True),
        failures=figures.failures(trials),
        differences=figures.differences(trials, "none"),
        machine={"cpu": "A & B", "cores": 2},
        settings={"rounds": 2, "answers": len(trials), "of_answers": 99},
        date="2030-01-02 03:04 UTC",
        command="outrider bench --report 'a b.md'",
        version="1.2",
        partial=partial,
    )


@pytest.fixture
def good() -> Result:
    trials = []
    for round_, seconds in enumerate((5.0, 4.0)):
        for task in ("qa", "rag"):
            trials.append(trial(task, "none", round_, range(101), 8.0))
            trials.append(trial(task, "ngram", round_, range(101), seconds, cost=COST))
    return result(trials)


@pytest.fixture
def bad() -> Result:
    trials = [
        trial(EVIL, "none", 0, [1, 2]),
        trial(EVIL, "ngram", 0, [1, 3]),
        trial(EVIL, "none", 0, [1], number=2),
        trial(EVIL, "ngram", 0, None, number=2, failure="<b>gone</b>"),
    ]
    return result(trials, partial=True)


def test_a_row_of_the_table(good: Result) -> None:
    assert words.cells(good.overall[1]) == [
        "all",
        "ngram",
        "2",
        "22.5 (20.0-25.0)",
        "1.80 (1.60-2.00)",
        "16.83",
        "75 50",
        "0.500",
        "1.000",
        "1.0",
        "0",
    ]
    assert words.cells(good.overall[0])[4:8] == ["1.00", "1.00", "-", "0.000"]
    assert len(words.HEAD) == len(words.SIDES) == 11


def test_only_the_first_positions_are_shown() -> None:
    assert words.positions((0.9, 0.8, 0.7, 0.6)) == "90 80 70 60"
    assert words.positions((0.9, 0.8, 0.7, 0.6, 0.5)) == "90 80 70 60 ..."
    assert words.positions(None) == words.positions(()) == "-"


def test_the_verdict_and_what_went_wrong(good: Result, bad: Result) -> None:
    assert words.verdict(good) == "ngram decodes 1.80 (1.60-2.00) times as fast as plain decoding, the same ids."
    assert words.verdict(bad).endswith("NOT the same ids.")
    assert words.troubles(good) == []
    changed, failed, partial = words.troubles(bad)
    assert changed.startswith(f"ngram changed the answer to question {EVIL}-1 ({EVIL}): token 2 is id 3")
    assert failed == f"ngram failed on question {EVIL}-2 ({EVIL}): <b>gone</b>"
    assert partial == "interrupted after 4 of 99 answers: the figures are partial"


def test_json_names(good: Result, bad: Result) -> None:
    data = good.data()
    assert set(data) == {
        "rows", "failures", "differences", "partial", "settings", "machine", "date", "command", "version",
    }  # fmt: skip
    row = data["rows"][-1]
    assert (row["task"], row["drafter"], row["prompts"], row["failed"]) == ("all", "ngram", 2, 0)
    assert (row["speedup"], row["speedup_range"]) == (pytest.approx(1.8), [1.6, 2.0])
    assert (row["tokens_per_s"], row["tokens_per_s_range"]) == (22.5, [20.0, 25.0])
    assert (row["tokens_per_pass"], row["identical"]) == (pytest.approx(404 / 24), 1.0)
    assert row["acceptance_per_position"] == (0.75, 0.5)
    assert bad.data()["partial"] is True
    (difference,) = bad.data()["differences"]
    assert (difference["drafter"], difference["place"], difference["found"], difference["plain"]) == ("ngram", 1, 3, 2)
    (failure,) = bad.data()["failures"]
    assert (failure["question"], failure["turn"], failure["error"]) == (f"{EVIL}-2", 1, "<b>gone</b>")


def test_html_is_whole_and_self_contained(good: Result) -> None:
    page = report.html(good)
    for text in ("22.5 (20.0-25.0)", "1.80 (1.60-2.00)", "A &amp; B", "2030-01-02", words.verdict(good)):
        assert text in page
    assert not re.search(r"(src|href)=|https?:|@import|url\(", page)
    assert "prefers-color-scheme: dark" in page
    plots = re.findall(r"<svg.*?</svg>", page)
    assert [ElementTree.fromstring(plot).get("aria-label") for plot in plots] == [
        "Speed-up over plain decoding",
        "Tokens per second",
        "Accepted, by position in the draft, in percent",
    ]


def test_every_colour_of_the_page_is_defined(good: Result) -> None:
    page = report.html(good)
    used, defined = set(re.findall(r"var\((--\w+)\)", page)), set(re.findall(r"(--\w+):", page))
    assert used == defined
    for series in range(report.SERIES):
        assert f"rect.s{series} {{" in page
        assert f"i.s{series} {{" in page


def test_nothing_becomes_markup(bad: Result) -> None:
    page = report.html(bad)
    assert "<script" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;|x*" in page
    assert "interrupted after 4 of 99 answers" in page
    text = report.markdown(bad)
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert any(r"\<script\>\|x\*" in line for line in table)
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {12, 3}


def test_markdown(good: Result) -> None:
    text = report.markdown(good)
    assert "| all | ngram | 2 | 22.5 (20.0-25.0) | 1.80 (1.60-2.00) | 16.83 | 75 50 |" in text
    assert "\n\n\n" not in text
    bars = [line for line in text.splitlines() if "█" in line]
    assert [line.split()[:2] for line in bars] == [["qa", "ngram"], ["rag", "ngram"], ["all", "ngram"]]
    assert all(line.count("█") == report.CELLS for line in bars)  # the longest, and all are equal


def test_pages_without_anything_to_plot() -> None:
    empty = result([trial("qa", "none", 0, None), trial("qa", "ngram", 0, None)])
    assert "<svg" not in report.html(empty)
    assert "█" not in report.markdown(empty)
    nothing = replace(empty, rows=[], failures=[], partial=True)
    assert "interrupted" in report.html(nothing)
    assert "interrupted" in report.markdown(nothing)


def test_bars_are_to_scale_and_inside_the_picture() -> None:
    groups = [("a", [chart.Bar(0, 1.0, 1.0, 1.0, "one"), chart.Bar(1, 2.5, 2.0, 3.0, "more")]), ("b & c", [])]
    picture = ElementTree.fromstring(chart.bars("t", groups, line=1.0))
    one, more = picture.findall("rect")
    assert float(more.get("width", "")) == pytest.approx(2.5 * float(one.get("width", "")), rel=1e-3)
    assert float(more.get("x", "")) + float(more.get("width", "")) < chart.WIDTH - chart.VALUES
    assert len([path for path in picture.findall("path") if path.get("class") == "whisker"]) == 1
    (mark,) = [path for path in picture.findall("path") if path.get("class") == "mark"]
    at = chart.LABELS + float(one.get("width", ""))
    assert mark.get("d", "").startswith(f"M{at:.1f} ")
    ticks = [text.text for text in picture.findall("text") if text.get("class") == "tick"]
    assert ticks == ["0", "0.5", "1", "1.5", "2", "2.5", "3"]


@pytest.mark.parametrize("largest", [0.0, 1e-9, 0.004, 0.3, 1.0, 7.0, 99.0, 12345.0])
def test_an_axis_has_few_lines(largest: float) -> None:
    picture = ElementTree.fromstring(chart.bars("t", [("a", [chart.Bar(0, largest, largest, largest, "")])]))
    ticks = [float(text.text or "") for text in picture.findall("text") if text.get("class") == "tick"]
    assert 2 <= len(ticks) <= 7
    assert ticks[-1] >= largest
