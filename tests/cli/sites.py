"""A site that needs no weights: the real engine over a table of laws, with a small grid to profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.scripted import SKY, ScriptedModel, tools
from tests.plan.worlds import VOCAB, TimedBackend, engine

from outrider.api import Generator
from outrider.backends.base import Extend, Phases
from outrider.cli.tools import Site, Tools
from outrider.cost.profile import Grid, Line
from outrider.drafters.base import Drafter
from outrider.drafters.ngram import NgramDrafter
from outrider.testing.table import RandomLaw

SMALL = Grid((Line(1, 256, (1, 2, 4)), Line(1, 64, (1, 2)), Line(2, 64, (1,))), phase_rows=(1, 2), seconds=5.0)
SMALLER = Grid((Line(1, 256, (1, 2)),), phase_rows=(1,), seconds=1.0)


class PhasedTable(TimedBackend):
    """A table that tells phases."""

    def time_phases(self, items: Sequence[Extend]) -> Phases:
        self.extend(items)
        return Phases(2e-6, 1e-6, 1e-6, 0.0)


class SiteMaker:
    """A door to one model, which counts how often somebody went through, and holds what was made."""

    def __init__(self, folder: Path, phases: bool = True) -> None:
        self.file = folder / "table.gguf"
        self.file.write_bytes(b"GGUF")
        self.asked: list[tuple[str | None, int | None]] = []
        self.encoded: list[str] = []
        make = PhasedTable if phases else TimedBackend
        self.backend = make(RandomLaw(VOCAB, 2, seed=5), lambda rows: 1.0 + 0.05 * rows, 2000)

    def __call__(self, model: str | None, threads: int | None) -> Site:
        self.asked.append((model, threads))
        return Site("table", self.file, self.backend, self._encode, self._drafter, self._generator, 1000, 562)

    def doors(self) -> Tools:
        return replace(tools(ScriptedModel(SKY)), site=self)

    def _encode(self, text: str) -> Sequence[int]:
        self.encoded.append(text)
        return [ord(letter) % (VOCAB - 1) for letter in text]

    def _drafter(self, name: str) -> Drafter:
        assert name == "ngram"
        return NgramDrafter()

    def _generator(self, drafter: str, gamma: int) -> Generator:
        assert (drafter == "none") == (gamma == 0)
        return engine(self.backend, NgramDrafter() if gamma else None, gamma)


@pytest.fixture
def maker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SiteMaker:
    """A site with small grids and a cache of its own."""
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("outrider.cli.profile.FULL", SMALL)
    monkeypatch.setattr("outrider.cli.profile.QUICK", SMALLER)
    return SiteMaker(tmp_path)
