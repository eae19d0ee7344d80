"""The estimate against sizes that are known, and against itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from outrider.models.spec import ModelSpec, Rope, RopeKind
from outrider.train.estimate import estimate, weights
from outrider.train.types import Kind, TrainOptions

ROPE = Rope(RopeKind.INTERLEAVED, 1e5, 64)
SMOL = ModelSpec("llama", "smol", 30, 576, 9, 3, 64, 1536, 49_152, 2048, 1e-5, ROPE, True)
OPTIONS = TrainOptions(Path("m.gguf"), (Path("d.jsonl"),), Path("out"), epochs=3.0)


def test_the_weights_of_a_head() -> None:
    """fc, the two halves' attention, the feed-forward layer and the output, counted by hand."""
    eagle = 3 * 576**2 + 1152 * (576 + 2 * 192) + 576 * 576 + 3 * 576 * 1536 + 8192 * 576
    assert weights(SMOL, OPTIONS) == eagle == pytest.approx(9.8e6, rel=0.01)
    assert weights(SMOL, replace(OPTIONS, kind=Kind.MEDUSA, depth=4)) == 4 * 576**2 + 8192 * 576
    assert weights(replace(SMOL, vocab=1000), OPTIONS) == eagle - (8192 - 1000) * 576


def test_more_takes_longer() -> None:
    small, large = (estimate(OPTIONS, SMOL, tokens, 2) for tokens in (50_000, 500_000))
    assert (small.trained_tokens, large.trained_tokens) == (150_000, 1_500_000)
    assert large.minutes == pytest.approx(10 * small.minutes)
    assert estimate(OPTIONS, SMOL, 50_000, 4).minutes == pytest.approx(small.minutes / 2)
    assert large.memory_bytes > small.memory_bytes
    assert small.file_bytes < 7e6


def test_states_that_are_not_kept_are_computed_again() -> None:
    tight = estimate(replace(OPTIONS, memory_bytes=10**8), SMOL, 1_000_000, 2)
    roomy = estimate(replace(OPTIONS, memory_bytes=10**11), SMOL, 1_000_000, 2)
    assert tight.minutes > roomy.minutes
    assert tight.memory_bytes < roomy.memory_bytes


def test_minutes_are_kept() -> None:
    timed = replace(OPTIONS, epochs=None, minutes=30.0)
    found = estimate(timed, SMOL, 500_000, 2)
    assert found.minutes == 30.0
    assert found.trained_tokens > 0
    assert estimate(replace(timed, minutes=0.1), SMOL, 500_000, 2).trained_tokens == 0
