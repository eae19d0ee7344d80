"""outrider plan batch --hardware here: this machine among those with a name."""

from __future__ import annotations

import json

import pytest
from tests.cli.sites import SMALL, SiteMaker, maker

from outrider.cli.main import main
from outrider.cost.hardware import shape
from outrider.cost.store import GIB, Key, Place, Store
from outrider.cost.types import PassCost, Profile
from outrider.models import cache

__all__ = ["maker"]  # a fixture

HERE = ["plan", "batch", "--target", "smollm2-135m", "--draft", "ngram", "--hardware", "here", "--alpha", "0.6"]


def keep_profile(maker: SiteMaker) -> Place:
    """As if it had been measured: 2 ms a pass, and 0.5 ms for each row from 4 rows on."""
    able = maker.backend.capabilities
    place = Place.here(able.isa, able.threads)
    passes = tuple(PassCost(rows, 1, 64, 2e-3 + 5e-4 * max(0, rows - 4), 5) for rows in (1, 4, 8, 16))
    store = Store(cache.directory() / "profiles")
    store.keep(Key.of(place, "table", maker.file, repr(SMALL)), Profile(passes, (), "2026-01-01 00:00 UTC"))
    return place


def test_here_is_what_was_measured(maker: SiteMaker, capsys: pytest.CaptureFixture[str]) -> None:
    keep_profile(maker)
    assert main([*HERE, "--max-batch", "4", "--json"], maker.doors()) == 0
    found = json.loads(capsys.readouterr().out)
    # The site's model has 1000 parameters in 562 bytes: 281 kB/s, and 2000 operations in 0.5 ms: 4 Mflop/s.
    parameters = shape("smollm2-135m").parameters
    read_s, row_s = 2 * parameters / 281e3, 2 * parameters / 4e6
    assert found["hardware"] == "here"
    assert found["rows"][0]["plain_tokens_per_s"] == pytest.approx(1 / read_s)
    assert found["critical_rows"] == -(-read_s // row_s) == 15
    assert maker.asked == [(None, None)]


def test_here_in_words(maker: SiteMaker, capsys: pytest.CaptureFixture[str]) -> None:
    place = keep_profile(maker)
    assert main([*HERE, "--context", "100"], maker.doors()) == 0
    text = capsys.readouterr().out
    assert text.startswith("SmolLM2 135M drafted by n-gram lookup on this machine, fp16 weights")
    assert f"the {place.memory_gib * GIB / 1e9:.0f} GB of one this machine" not in text
    assert "of this machine hold" in text


def test_here_is_measured_where_it_was_not(maker: SiteMaker, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*HERE, "--json"], maker.doors()) == 0
    caught = capsys.readouterr()
    assert "measuring what a pass costs" in caught.err
    assert json.loads(caught.out)["critical_rows"] >= 1


def test_an_unknown_machine_is_told_of_here(maker: SiteMaker, capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere = ["elsewhere" if given == "here" else given for given in HERE]
    assert main(elsewhere, maker.doors()) == 2
    assert "rtx-4090, m4-max or here" in capsys.readouterr().err
    assert not maker.asked
