"""Everything that one run of the benchmark found, and its JSON, whose names are stable (docs/bench.md lists them)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from outrider.bench.figures import Difference, Row, Spread
from outrider.bench.questions import ALL
from outrider.bench.trials import Trial

PLAIN = "none"  # the drafter of plain decoding


@dataclass(frozen=True, slots=True)
class Result:
    """The rows, and what they are worth: where, when and how they were measured, and what went wrong."""

    rows: Sequence[Row]
    failures: Sequence[Trial]
    differences: Sequence[Difference]
    machine: Mapping[str, object]
    settings: Mapping[str, object]
    date: str
    command: str
    version: str
    partial: bool  # interrupted before the last answer

    @property
    def tasks(self) -> list[str]:
        """In the order of the table; the last one is "all"."""
        return list(dict.fromkeys(row.task for row in self.rows))

    @property
    def drafters(self) -> list[str]:
        """In the order of the table."""
        return list(dict.fromkeys(row.drafter for row in self.rows))

    def of_task(self, task: str) -> list[Row]:
        """The rows of one task."""
        return [row for row in self.rows if row.task == task]

    @property
    def overall(self) -> list[Row]:
        """The rows of all tasks together."""
        return self.of_task(ALL)

    def data(self) -> dict[str, Any]:
        """For programs: a median is a number under its name, and [lowest, highest] round under NAME_range."""
        return {
            "rows": [_row(row) for row in self.rows],
            "failures": [
                {"drafter": trial.contender, **_prompt(trial), "round": trial.round, "error": trial.failure}
                for trial in self.failures
            ],
            "differences": [
                {"drafter": one.drafter, **_prompt(one), "place": one.place, "found": one.found, "plain": one.plain}
                for one in self.differences
            ],
            "partial": self.partial,
            "settings": dict(self.settings),
            "machine": dict(self.machine),
            "date": self.date,
            "command": self.command,
            "version": self.version,
        }


def _row(row: Row) -> dict[str, Any]:
    data = asdict(row)
    for name in ("tokens_per_s", "speedup"):
        spread: Spread | None = getattr(row, name)
        data[name] = None if spread is None else spread.middle
        data[f"{name}_range"] = None if spread is None else [spread.low, spread.high]
    return data


def _prompt(of: Trial | Difference) -> dict[str, Any]:
    prompt = of.prompt
    return {"task": prompt.question.task, "question": prompt.question.name, "turn": prompt.turn, "prompt": prompt.name}
