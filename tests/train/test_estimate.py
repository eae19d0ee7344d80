"""The estimate against sizes that are known, and against itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from outrider.models.spec import ModelSpec, Rope, RopeKind
from outrider.train import estimate as module
from outrider.train.estimate import estimate
from outrider.train.types import TrainOptions

ROPE = Rope(RopeKind.INTERLEAVED, 1e5, 64)
SMOL = ModelSpec("llama", "smol", 30, 576, 9, 3, 64, 1536, 49_152, 2048, 1e-5, ROPE, True)
OPTIONS = TrainOptions(Path("m.gguf"), (Path("d.jsonl"),), Path("out"), epochs=3.0)


@pytest.fixture(autouse=True)
def products(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor of a known speed."""
    monkeypatch.setattr(module, "_products_a_second", lambda: 1e10)
    monkeypatch.setattr(module, "_has_bfloat16", lambda: False)


def test_the_file_of_a_head() -> None:
    """fc, the two halves' attention, the feed-forward layer and the output, at 4.5 to 5 bits a weight."""
    weights = 3 * 576**2 + 1152 * (576 + 2 * 192) + 576 * 576 + 3 * 576 * 1536 + 8192 * 576
    found = estimate(OPTIONS, SMOL, 100_000, 2).file_bytes
    assert weights * 4.5 / 8 <= found <= weights * 5 / 8 * 1.01


def test_more_takes_longer() -> None:
    small, large = (estimate(OPTIONS, SMOL, tokens, 2) for tokens in (50_000, 500_000))
    assert large.trained_tokens == pytest.approx(10 * small.trained_tokens, abs=9)
    assert small.trained_tokens == pytest.approx(150_000, rel=0.05)
    assert large.minutes == pytest.approx(10 * small.minutes)
    assert estimate(OPTIONS, SMOL, 50_000, 4).minutes == pytest.approx(small.minutes / 2)
    assert large.memory_bytes > small.memory_bytes
    assert large.alpha > small.alpha


def test_states_that_are_not_kept_are_computed_again() -> None:
    tight = estimate(replace(OPTIONS, memory_bytes=10**8), SMOL, 1_000_000, 2)
    roomy = estimate(replace(OPTIONS, memory_bytes=10**11), SMOL, 1_000_000, 2)
    assert tight.minutes > roomy.minutes
    assert tight.memory_bytes < roomy.memory_bytes


def test_states_in_a_folder_take_no_memory_and_no_time_again(tmp_path: Path) -> None:
    kept = estimate(replace(OPTIONS, memory_bytes=10**11), SMOL, 1_000_000, 2)
    new = estimate(replace(OPTIONS, states=tmp_path), SMOL, 1_000_000, 2)
    assert new.minutes == pytest.approx(kept.minutes)
    assert new.memory_bytes < kept.memory_bytes - 10**9
    with (tmp_path / "states.bin").open("wb") as stream:
        stream.truncate(10**12)
    assert estimate(replace(OPTIONS, states=tmp_path), SMOL, 1_000_000, 2).minutes < new.minutes * 0.9


def test_minutes_are_kept() -> None:
    """As many tokens as fit: an epoch's worth and its time agree with those of a run by epochs."""
    timed = replace(OPTIONS, epochs=None, minutes=30.0)
    found = estimate(timed, SMOL, 500_000, 2)
    assert found.minutes == 30.0
    again = estimate(replace(OPTIONS, epochs=found.trained_tokens / 500_000), SMOL, 500_000, 2)
    assert again.minutes == pytest.approx(30.0, rel=0.06)
    assert estimate(replace(timed, minutes=0.1), SMOL, 500_000, 2).trained_tokens < found.trained_tokens / 100
