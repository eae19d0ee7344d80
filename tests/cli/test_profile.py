"""outrider profile: what is printed."""

from __future__ import annotations

import json

import pytest
from tests.cli.scripted import SKY, ScriptedModel, tools

from outrider.backends.base import Capabilities
from outrider.cli.main import main
from outrider.cli.profile import table
from outrider.cost.profile import ROWS, PassCost


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "--json", "--context", "600"], tools(ScriptedModel(SKY))) == 0
    result = json.loads(capsys.readouterr().out)
    assert set(result) == {"model", "isa", "threads", "context", "rows"}
    assert (result["model"], result["isa"], result["threads"], result["context"]) == ("scripted", "scripted", 2, 600)
    assert [row["n"] for row in result["rows"]] == [1, 2, 3, 4, 5, 6, 8, 12, 16, 32, 64]
    assert all(set(row) == {"n", "seconds"} and row["seconds"] > 0 for row in result["rows"])


def test_table_has_a_line_for_each_size(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile"], tools(ScriptedModel(SKY))) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [int(line.split()[0]) for line in lines[3 : 3 + len(ROWS)]] == list(ROWS)


def test_table_shows_ratios() -> None:
    able = Capabilities(row_alone=True, trees=True, isa="avx2", threads=2)
    lines = table("tiny", able, 256, [PassCost(1, 0.002), PassCost(5, 0.0025)]).splitlines()
    assert lines[0].startswith("tiny, avx2, 2 threads, 256 tokens of context")
    assert lines[3].split() == ["1", "2.000", "1.00", "-"]
    assert lines[4].split() == ["5", "2.500", "1.25", "0.25"]
