"""outrider plan here: which prompts, what is printed, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.sites import SiteMaker, maker

from outrider.cli.main import main
from outrider.cli.plan_here import read, spread
from outrider.errors import UsageError

__all__ = ["maker"]  # a fixture
NAMES = {
    "model",
    "drafter",
    "machine",
    "prompts",
    "context",
    "pass_seconds",
    "drift",
    "acceptance_per_position",
    "expected",
    "best_gamma",
    "break_even",
    "expected_speedup",
    "expected_range",
    "hindsight_speedup",
    "measured",
    "measured_speedup",
    "verdict",
    "gamma",
    "because",
}


def test_json(maker: SiteMaker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("\n".join(f"prompt {i} of mine" for i in range(10)) + "\n\n")
    flags = ["--prompts", str(file), "--gamma", "4,2", "--rounds", "1", "--max-tokens", "30", "--json"]
    assert main(["plan", "here", *flags], maker.doors()) == 0
    result = json.loads(capsys.readouterr().out)
    assert set(result) == NAMES
    assert (result["model"], result["drafter"]) == ("table", "ngram")
    assert result["prompts"] == {"fitted": 5, "measured": 5}
    assert [one["gamma"] for one in result["expected"]] == [2, 4]
    assert [one["rows"] for one in result["pass_seconds"]] == [1, 2, 3, 4, 5]
    assert result["measured"]["speedup"] == result["measured_speedup"]
    assert result["verdict"] == ("on" if result["measured_speedup"] > 1 else "off")
    assert result["gamma"] == (result["best_gamma"] if result["verdict"] == "on" else 0)
    assert maker.encoded == [f"prompt {i} of mine" for i in range(10)]


def test_text(maker: SiteMaker, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "here", "--rounds", "1", "--most-prompts", "6", "--max-tokens", "30"], maker.doors()) == 0
    out, err = capsys.readouterr()
    head, facts, lengths, sides, verdict = out.rstrip().split("\n\n")
    assert head == "table with drafter ngram: expected from 3 prompts, measured on 3 others"
    assert "milliseconds of a pass by rows" in facts
    assert [line.split()[0] for line in lengths.splitlines()[1:]] == ["1", "2", "3", "4", "5", "6", "8", "12", "16"]
    assert lengths.count("<") == 1
    assert [line.split("  ")[0] for line in sides.splitlines()[2:4]] == ["tokens a pass", "times plain"]
    assert verdict.startswith(("Leave it on, with a gamma of ", "Leave it off, because "))
    assert "outrider: measuring 3 other prompts, round 1 of 1" in err


def test_a_plot_is_drawn(maker: SiteMaker, tmp_path: Path) -> None:
    file = tmp_path / "here.png"
    flags = ["--rounds", "1", "--most-prompts", "4", "--max-tokens", "20", "--plot", str(file)]
    assert main(["plan", "here", *flags], maker.doors()) == 0
    assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--gamma", "0,2"], "--gamma is '0,2': give draft lengths from 1 to 64"),
        (["--gamma", "65"], "--gamma is '65'"),
        (["--gamma", "many"], "--gamma is 'many'"),
        (["--drafter", "none"], "--drafter is none"),
        (["--rounds", "0"], "--rounds is 0: give 1 or more, at most 1000"),
        (["--rounds", "1001"], "--rounds is 1001"),
        (["--max-tokens", "7"], "--max-tokens is 7: give 8 or more"),
        (["--most-prompts", "1"], "--most-prompts is 1: give 2 or more"),
        (["--threads", "0"], "--threads is 0: give 1 or more"),
        (["--plot", "curve"], "--plot is 'curve'"),
        (["--prompts", "/nowhere/prompts.txt"], "--prompts /nowhere/prompts.txt cannot be read (No such file"),
    ],
)
def test_nonsense_is_refused_before_a_model_is_loaded(
    maker: SiteMaker, flags: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "here", *flags], maker.doors()) == 2
    assert capsys.readouterr().err.startswith(f"outrider: {says}")
    assert not maker.asked


def test_a_single_prompt_is_refused(maker: SiteMaker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "one.txt"
    file.write_text("only this")
    assert main(["plan", "here", "--prompts", str(file)], maker.doors()) == 2
    assert "1 prompt cannot be halved; give at least 2" in capsys.readouterr().err


def test_a_prompt_that_fills_the_context_is_refused(
    maker: SiteMaker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "long.txt"
    file.write_text("short\n" + "x" * 1995)
    assert main(["plan", "here", "--prompts", str(file)], maker.doors()) == 2
    assert "prompt 2 ('xxxx" in capsys.readouterr().err


def test_prompts_are_lines_or_spec_bench(tmp_path: Path) -> None:
    file = tmp_path / "prompts"
    file.write_bytes(b"\xef\xbb\xbffirst\r\n\r\n  second {x}  \n")
    assert read(str(file)) == ["first", "second {x}"]
    file.write_text('{"question_id": 1, "category": "qa", "turns": ["Why?", "And then?"]}\n')
    assert read(str(file)) == ["Why?"]
    assert len(read(None)) >= 12


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\xff\xfe", "cannot be read"),
        (b" \n\n", "has no prompts"),
        (b'{"turns": []}', "category"),
        (b"{x\n", "not JSON"),
    ],
)
def test_files_that_hold_no_prompts_are_refused(tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "prompts"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=says):
        read(str(file))


def test_prompts_are_spread_over_the_file() -> None:
    texts = [str(i) for i in range(10)]
    assert spread(texts, 4) == ["0", "2", "5", "7"]
    assert spread(texts, 50) == texts
