"""outrider profile: what is measured once, found again and printed."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from tests.cli.sites import SiteMaker, maker

from outrider.backends.base import Backend
from outrider.cli.bars import bars, has_blocks
from outrider.cli.main import main
from outrider.cost.profile import Grid
from outrider.cost.types import PassCost, Profile

__all__ = ["maker"]  # a fixture
NAMES = {
    "model",
    "isa",
    "threads",
    "context",
    "rows",
    "machine",
    "measured",
    "kept",
    "passes",
    "phases",
    "drafters",
    "fit",
}


def test_json(maker: SiteMaker, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "--json", "--threads", "2"], maker.doors()) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert set(result) == NAMES
    assert (result["model"], result["isa"], result["threads"], result["context"]) == ("table", "table", 1, 256)
    assert [row["n"] for row in result["rows"]] == [1, 2, 4]
    assert all(set(row) == {"n", "seconds"} and row["seconds"] > 0 for row in result["rows"])
    assert {(one["sequences"], one["rows"], one["context"]) for one in result["passes"]} >= {(1, 1, 64), (2, 2, 64)}
    assert set(result["machine"]) == {"cpu", "cores", "threads", "isa", "memory_gib"}
    assert set(result["drafters"]["ngram"]) == {"proposal_s", "node_s"}
    for one in result["phases"]:
        assert set(one) == {"rows", "context", "seconds", "linear", "attention", "head", "other"}
        assert one["linear"] + one["attention"] + one["head"] + one["other"] == pytest.approx(1.0)
    assert {"knots", "base_s", "per_sequence", "per_key", "per_score", "mean_error", "largest_error"} == set(
        result["fit"]
    )
    assert maker.asked == [(None, 2)]
    assert "measuring what a pass costs" in err


def test_what_was_measured_is_found_again(maker: SiteMaker, capsys: pytest.CaptureFixture[str]) -> None:
    results = []
    for flags in ([], [], ["--refresh"], []):
        assert main(["profile", "--json", *flags], maker.doors()) == 0
        out, err = capsys.readouterr()
        results.append(json.loads(out))
        assert ("measuring" in err) == (not results[-1]["kept"])
    assert [result["kept"] for result in results] == [False, True, False, True]
    assert results[0]["passes"] == results[1]["passes"] != results[2]["passes"] == results[3]["passes"]


def test_a_drafter_is_timed_when_it_is_first_asked_for(maker: SiteMaker, capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for flags in (["--drafter", "none"], ["--drafter", "ngram"], ["--drafter", "none"]):
        assert main(["profile", "--json", *flags], maker.doors()) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert [list(result["drafters"]) for result in found] == [[], ["ngram"], ["ngram"]]
    assert found[0]["passes"] == found[1]["passes"]


def test_a_full_profile_does_for_a_quick_one(maker: SiteMaker, capsys: pytest.CaptureFixture[str]) -> None:
    rows = []
    for flags in (["--quick"], [], ["--quick", "--refresh"], ["--quick"]):
        assert main(["profile", "--json", *flags], maker.doors()) == 0
        rows.append([row["n"] for row in json.loads(capsys.readouterr().out)["rows"]])
    assert rows == [[1, 2], [1, 2, 4], [1, 2], [1, 2]]


def test_one_context_alone(maker: SiteMaker, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "--json", "--context", "30"], maker.doors()) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["context"] == 30
    assert {one["context"] for one in result["passes"]} == {30}
    assert result["rows"][-1]["n"] == 64


def test_text(maker: SiteMaker, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile"], maker.doors()) == 0
    text = capsys.readouterr().out
    head, table, others, batches, phases, drafter, fit = text.rstrip().split("\n\n")
    assert head.startswith("table, table, 1 threads; ")
    assert "(just now)" in head
    assert [line.split()[0] for line in table.splitlines()[2:5]] == ["1", "2", "4"]
    assert table.splitlines()[2].split()[2:4] == ["1.00", "-"]
    assert others.splitlines()[-1].split()[0] == "64"
    assert batches.splitlines()[-1].split()[:3] == ["2", "2", "64"]
    assert phases.splitlines()[1].split() == ["rows", "context", "linear", "attention", "head", "else"]
    assert drafter.startswith("Drafter ngram: ")
    assert fit.startswith("The fitted T is off by ")
    assert main(["profile"], maker.doors()) == 0
    assert "(kept; --refresh measures anew)" in capsys.readouterr().out


def test_a_backend_that_tells_no_phases_shows_no_shares(
    maker: SiteMaker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = SiteMaker(tmp_path, phases=False)
    assert main(["profile"], plain.doors()) == 0
    assert "Where the time" not in capsys.readouterr().out


def test_a_profile_that_cannot_be_kept_is_a_warning(
    maker: SiteMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path / "file"))
    assert main(["profile", "--json"], maker.doors()) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["kept"] is False
    assert "outrider: warning: the profile is not kept (Not a directory: " in err


def test_a_profile_of_a_busy_machine_is_pointed_out(
    maker: SiteMaker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = iter([9.0, 1.0, 1.0, 9.0, 1.0, 9.0])

    def measured(backend: Backend, grid: Grid, clock: object, date: str) -> Profile:
        points = ((1, 1, 256), (2, 1, 256), (4, 1, 256), (1, 1, 64), (2, 1, 64), (2, 2, 64))
        return Profile(tuple(PassCost(*point, next(seconds), 3) for point in points), (), date)

    monkeypatch.setattr("outrider.cli.measuring.measure", measured)
    for _ in range(2):  # also when it is found again
        assert main(["profile"], maker.doors()) == 0
        assert "so the machine was busy; repeat with --refresh" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--context", "-1"], "--context is -1"),
        (["--threads", "0"], "--threads is 0"),
        (["--quick", "--context", "5"], "--quick and --context do not go together"),
        (["--plot", "curve.pdf"], "--plot is 'curve.pdf': give a file that ends in .png or .svg"),
    ],
)
def test_nonsense_is_refused_before_a_model_is_loaded(
    maker: SiteMaker, flags: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", *flags], maker.doors()) == 2
    assert capsys.readouterr().err.startswith(f"outrider: {says}")
    assert not maker.asked


def test_a_context_that_does_not_fit_is_refused(maker: SiteMaker, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "--context", "1990"], maker.doors()) == 2
    assert "a context of 1990 tokens is out of range: this model leaves room for 0 to 1936" in capsys.readouterr().err


def test_plot(maker: SiteMaker, tmp_path: Path) -> None:
    file = tmp_path / "cost.svg"
    assert main(["profile", "--plot", str(file)], maker.doors()) == 0
    assert "<svg" in file.read_text()


def test_plot_without_matplotlib_says_what_to_install(
    maker: SiteMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["profile", "--plot", str(tmp_path / "cost.png")], maker.doors()) == 2
    assert "install 'outrider[plot]'" in capsys.readouterr().err


def test_bars() -> None:
    assert bars([8.0, 4.0, 1.0, 0.01], True, 4) == ["████", "██", "▌", "▏"]
    assert bars([8.0, 4.0, 1.0, 0.01], False, 4) == ["####", "##", "#", "#"]
    assert bars([0.0, 0.0], True) == ["", ""]
    assert bars([], True) == []


@pytest.mark.parametrize(
    ("encoding", "able"), [("utf-8", True), ("ascii", False), ("latin-1", False), ("cp437", False)]
)
def test_blocks_are_used_where_they_can_be_written(encoding: str, able: bool) -> None:
    assert has_blocks(io.TextIOWrapper(io.BytesIO(), encoding)) is able


def test_a_profile_of_one_size_of_pass_is_pointed_out(
    maker: SiteMaker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(backend: Backend, grid: Grid, clock: object, date: str) -> Profile:
        return Profile((PassCost(1, 1, 256, 0.4, 1),), (), date)

    monkeypatch.setattr("outrider.cli.measuring.measure", measured)
    assert main(["profile"], maker.doors()) == 0
    assert "there was only time for passes of 1 rows" in capsys.readouterr().err
