"""What tests in several folders need: the default model and the questions of Spec-Bench, where they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.engine import drafting
from outrider.models import sources

SPECBENCH = "OUTRIDER_SPECBENCH"


def pytest_configure() -> None:
    """Give each of several workers a core of its own: threads of a pass that wait for each other must not share one."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw").removeprefix("gw")
    if worker:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(worker) % len(cores)]})


@pytest.fixture(autouse=True, scope="session")
def patience() -> Iterator[None]:
    """A drafter that is late is left out, by the clock on the wall: on a busy machine that could be any."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drafting, "_PATIENCE_S", 60.0)
        yield


@pytest.fixture(scope="session")
def default_model() -> Path:
    """The default model's file; skips where it was never fetched, for tests do not download."""
    for cached in sources.cached():
        if cached.source == sources.DEFAULT_SOURCE:
            return cached.path
    pytest.skip("the default model is not in the cache: run 'outrider run hello' once")


@pytest.fixture(scope="session")
def specbench() -> Path:
    """Spec-Bench's question.jsonl, which lies outside the repository; skips where it is not."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "specbench" / "question.jsonl"
    path = Path(os.environ.get(SPECBENCH, beside))
    if not path.is_file():
        pytest.skip(f"Spec-Bench's question.jsonl is not at {path}: set {SPECBENCH} to it")
    return path
