"""outrider plan: what is printed, drawn and refused."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.scripted import SKY, ScriptedModel, tools
from tests.test_docs import run_examples

from outrider.cli.main import main

BATCH = ["batch", "--target", "llama-70b", "--draft", "llama-1b", "--hardware", "h100", "--alpha", "0.8"]


def plan(*arguments: str) -> int:
    return main(["plan", *arguments], tools(ScriptedModel(SKY)))


def data(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert plan(*arguments, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_breakeven(capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys, "breakeven", "--gamma", "4", "--draft-cost", "0.1")
    assert found == {"alpha": pytest.approx(0.2871, abs=5e-5)}
    assert plan("breakeven", "--gamma", "4", "--draft-cost", "0.1") == 0
    text = capsys.readouterr().out
    assert "pays from an acceptance of 0.2871 on" in text
    speedups = [float(line.split()[1]) for line in text.splitlines()[3:]]
    assert speedups == sorted(speedups)
    assert speedups[1] < 1 < speedups[2]  # at .2 and .3


def test_breakeven_where_nothing_pays_or_nothing_is_drafted(capsys: pytest.CaptureFixture[str]) -> None:
    assert data(capsys, "breakeven", "--gamma", "4", "--draft-cost", "1.5") == {"alpha": None}
    assert data(capsys, "breakeven", "--gamma", "2", "--draft-cost", "0", "--verify-cost", "3.5") == {"alpha": None}
    assert plan("breakeven", "--gamma", "4", "--draft-cost", "1.5") == 0
    assert "never pays" in capsys.readouterr().out
    assert plan("breakeven", "--gamma", "0", "--draft-cost", "1.5") == 0
    assert "nothing drafted" in capsys.readouterr().out


def test_speedup(capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys, "speedup", "--alpha", "0.8", "--gamma", "4", "--draft-cost", "0.1")
    assert found == {"tokens_per_pass": pytest.approx(3.3616), "speedup": pytest.approx(3.3616 / 1.4)}
    assert plan("speedup", "--alpha", "0.8", "--gamma", "4", "--draft-cost", "0.1") == 0
    text = capsys.readouterr().out
    assert text.startswith("Drafting 4 tokens at a draft cost of 0.1 brings 3.3616 tokens a pass, 2.40 times")
    (marked,) = [line for line in text.splitlines() if line.endswith("<")]
    assert marked.split() == ["4", "3.36", "2.40", "<"]


def test_speedup_of_measured_positions(capsys: pytest.CaptureFixture[str]) -> None:
    measured = ["--alpha", "0.8,0.5,0.25", "--gamma", "3", "--draft-cost", "0", "--verify-cost", "1.2"]
    found = data(capsys, "speedup", *measured)
    assert found == {"tokens_per_pass": pytest.approx(2.3), "speedup": pytest.approx(2.3 / 1.2)}
    assert plan("speedup", *measured) == 0
    text = capsys.readouterr().out
    assert "a verifying pass of 1.2" in text
    assert [line.split()[0] for line in text.splitlines()[3:]] == ["1", "2", "3"]


def test_gamma(capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys, "gamma", "--alpha", "0.8", "--draft-cost", "0.1")
    assert found == {"gamma": 6, "speedup": pytest.approx(2.47, abs=0.005)}
    assert plan("gamma", "--alpha", "0.8", "--draft-cost", "0.1") == 0
    text = capsys.readouterr().out
    assert text.startswith("Draft 6 tokens: 2.47 times")
    assert [line.split()[0] for line in text.splitlines() if line.endswith("<")] == ["6"]


def test_gamma_with_measured_passes(capsys: pytest.CaptureFixture[str]) -> None:
    costs = ["--verify-costs", "1.05,1.1,1.6,2.2"]
    found = data(capsys, "gamma", "--alpha", "0.7", "--draft-cost", "0", *costs)
    assert found == {"gamma": 2, "speedup": pytest.approx(2.19 / 1.1)}
    assert plan("gamma", "--alpha", "0.7", "--draft-cost", "0", *costs) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[3:]] == ["1", "2", "3", "4"]


def test_gamma_that_is_none_or_the_longest(capsys: pytest.CaptureFixture[str]) -> None:
    assert plan("gamma", "--alpha", "0.2", "--draft-cost", "0.5") == 0
    assert capsys.readouterr().out.startswith("Do not draft")
    assert plan("gamma", "--alpha", "0.9,0.8", "--draft-cost", "0.1") == 0
    assert capsys.readouterr().out.startswith("Draft 2 tokens, the longest draft that was tried")


def test_batch(capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys, *BATCH)
    assert set(found) == {
        "target",
        "draft",
        "hardware",
        "weights",
        "context",
        "alpha",
        "gamma",
        "critical_rows",
        "pays_from",
        "crossover_batch",
        "largest_batch_that_fits",
        "rows",
        "notes",
    }
    rows = found["rows"]
    assert isinstance(rows, list)
    assert [row["batch"] for row in rows] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
    assert rows[0]["plain_tokens_per_s"] == pytest.approx(24, abs=0.5)
    assert rows[0]["speedup"] > 3
    assert rows[-1]["gamma"] == 0
    crossing = found["crossover_batch"]
    assert isinstance(crossing, int)
    assert 256 < crossing < 512  # rows[8] pays, rows[9] does not
    assert found["critical_rows"] == 296
    assert found["largest_batch_that_fits"] == 0
    assert "do not fit the 80 GB" in str(found["notes"])


def test_batch_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(*BATCH, "--gamma", "4", "--context", "256", "--max-batch", "300", "--weights", "int4") == 0
    text = capsys.readouterr().out
    assert text.startswith("Llama 3.1/3.3 70B drafted by Llama 3.2 1B on NVIDIA H100 SXM, int4 weights, 256 tokens")
    assert "pays with gamma 4, and stops paying at batch" in text
    assert "compute-bound at 84 rows" in text
    assert "sequences at most" in text
    assert "without --context" not in text
    batches = [line.split()[0] for line in text.splitlines()[5:15]]
    assert batches == [*map(str, (1, 2, 4, 8, 16, 32, 64, 128, 256)), "300"]


@pytest.mark.parametrize(
    ("draft", "alpha", "more", "says"),
    [
        ("ngram", "0.5", ("--gamma", "3"), "from batch 3 on, and stops paying at batch"),
        ("ngram", "0.5,0.4", ("--max-batch", "64"), "still does at batch 64"),
        ("llama-70b", "0.5", (), "does not pay at the best draft length at any batch size up to 1024"),
    ],
)
def test_batch_verdicts(
    draft: str, alpha: str, more: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--target", "mixtral-8x7b", "--draft", draft, "--hardware", "h200", "--alpha", alpha]
    assert plan("batch", *where, *more) == 0
    assert says in capsys.readouterr().out


def test_export(capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys, "export", "--for", "vllm", "--gamma", "4")
    assert set(found) == {"engine", "version", "config", "usage", "note"}
    assert found["config"] == {"method": "ngram", "num_speculative_tokens": 4}
    given = ["--method", "draft-model", "--draft-model", "small.gguf", "--gamma", "6"]
    assert plan("export", "--for", "llama.cpp", *given) == 0
    text = capsys.readouterr().out
    assert text.startswith("llama.cpp b")
    assert "llama-server --model MODEL --spec-type draft-simple --spec-draft-model small.gguf" in text


@pytest.mark.parametrize(
    "arguments",
    [
        ["breakeven", "--gamma", "4", "--draft-cost", "0.1"],
        ["speedup", "--alpha", "0.8", "--gamma", "4", "--draft-cost", "0.1"],
        ["speedup", "--alpha", "0.8,0.7", "--gamma", "1", "--draft-cost", "0.1"],
        ["gamma", "--alpha", "0.8", "--draft-cost", "0.1"],
        BATCH,
    ],
)
def test_plots(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "curve.svg"
    assert plan(*arguments, "--plot", str(file)) == 0
    assert "<svg" in file.read_text()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["speedup", "--alpha", "1.2", "--gamma", "4", "--draft-cost", "0.1"], "--alpha is 1.2"),
        (["speedup", "--alpha", "0.8,x", "--gamma", "4", "--draft-cost", "0.1"], "--alpha is '0.8,x'"),
        (["speedup", "--alpha", "nan", "--gamma", "4", "--draft-cost", "0.1"], "--alpha is nan"),
        (["speedup", "--alpha", "0.8", "--gamma", "-1", "--draft-cost", "0.1"], "--gamma is -1"),
        (["speedup", "--alpha", "0.8,0.7", "--gamma", "3", "--draft-cost", "0.1"], "acceptance of 2 positions"),
        (["speedup", "--alpha", "0.8", "--gamma", "4", "--draft-cost", "-0.1"], "--draft-cost is -0.1"),
        (["breakeven", "--gamma", "4", "--draft-cost", "0.1", "--verify-cost", "0"], "--verify-cost is 0.0"),
        (["gamma", "--alpha", "0.8", "--draft-cost", "0.1", "--verify-costs", "1,-1"], "--verify-costs is -1.0"),
        (["gamma", "--alpha", "0.8", "--draft-cost", "0.1", "--plot", "curve.gif"], "--plot is 'curve.gif'"),
        (["gamma", "--draft-cost", "0.1"], "Missing option '--alpha'"),
        ([*BATCH, "--context", "-1"], "--context is -1"),
        ([*BATCH, "--max-batch", "0"], "--max-batch is 0"),
        ([*BATCH, "--hardware", "b300"], "no hardware 'b300': give one of h100"),
        ([*BATCH, "--draft", "gpt-9"], "no model 'gpt-9'"),
        ([*BATCH, "--plot", "curve"], "--plot is 'curve'"),
        (["export", "--for", "vllm", "--gamma", "0"], "--gamma is 0"),
        (["export", "--for", "vllm", "--gamma", "4", "--method", "draft-model"], "--draft-model is missing"),
        (["export", "--for", "vllm", "--gamma", "4", "--draft-model", "x"], "add --method draft-model"),
        (["export", "--for", "ollama", "--gamma", "4"], "'ollama'"),
        (["nonsense"], "No such command 'nonsense'; outrider plan --help"),
    ],
)
def test_nonsense_is_one_sentence(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert err.startswith("outrider: ")
    assert err.count("\n") == 1


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert plan() == 0
    text = capsys.readouterr().out
    assert all(command in text for command in ("breakeven", "speedup", "gamma", "batch", "export"))
    assert plan("batch", "--help") == 0
    assert "outrider plan batch --target llama-70b" in capsys.readouterr().out


def test_the_document_shows_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[2] / "docs" / "planner.md").read_text()
    shown = re.findall(r"```console\n\$ outrider (plan (?!here)[^\n]*)\n(.*?)```", text, re.DOTALL)
    assert len(shown) >= 8
    for command, output in shown:
        assert main(shlex.split(command)) == 0
        assert capsys.readouterr().out == output, command


def test_the_examples_of_the_document_run() -> None:
    assert run_examples("docs/planner.md") == 1


def test_nothing_heavy_is_imported() -> None:
    program = (
        "import sys; from outrider.cli.main import main; "
        "status = main(['plan', 'batch', *'--target llama-70b --draft ngram --hardware h100 --alpha .8'.split()]); "
        "print(status, sorted({'numpy', 'matplotlib', 'rich', 'tokenizers', 'gguf'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 []"
