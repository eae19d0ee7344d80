"""The cells of a table and the sentences around it, the same in the terminal and in every report."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.bench.figures import Row, Spread
from outrider.bench.result import PLAIN, Result
from outrider.bench.server import NAME as SERVER

HEAD = (
    "task",
    "drafter",
    "prompts",
    "tokens/s",
    "speed-up",
    "tokens/pass",
    "accepted, %",
    "draft s",
    "target s",
    "identical",
    "failed",
)
SIDES = "llrrrrlrrrr"  # of the columns: numbers to the right
MOST_POSITIONS = 4
NOT_KNOWN = "-"


def cells(row: Row) -> list[str]:
    """A row of the table, under HEAD."""
    return [
        row.task,
        row.drafter,
        str(row.prompts),
        _spread(row.tokens_per_s, 1),
        _spread(row.speedup, 2),
        _number(row.tokens_per_pass, 2),
        positions(row.acceptance_per_position),
        _number(row.draft_s, 3),
        _number(row.target_s, 3),
        _number(row.identical, 3 if row.identical not in (0.0, 1.0) else 1),
        str(row.failed),
    ]


def positions(shares: Sequence[float] | None) -> str:
    """Whole percents, the first few draft positions."""
    if not shares:
        return NOT_KNOWN
    shown = " ".join(f"{100 * share:.0f}" for share in shares[:MOST_POSITIONS])
    return f"{shown} ..." if len(shares) > MOST_POSITIONS else shown


def definitions(result: Result) -> list[str]:
    """What the columns mean, in sentences."""
    found = [
        "tokens/s: total tokens / total decode seconds, by the engine's own clock; the first pass, which reads the "
        "prompt, and its tokens are left out. speed-up: that of plain decoding (none) in the same round. Both: median "
        "of the rounds, and their range.",
        "accepted: by draft position, of the passes that kept every drafted token before it, the share that kept the "
        "one there. draft s, target s: seconds of one round. identical: the share of prompts whose ids are those of "
        "plain decoding in every round.",
    ]
    if SERVER in result.drafters:
        found.append(
            f"{SERVER}: another engine, timed from outside: (completion tokens - 1) / seconds from its first piece of "
            "text to its last; it has no speed-up here, because its plain decoding was not measured. identical, where "
            "it is known, compares texts."
        )
    return found


def troubles(result: Result) -> list[str]:
    """What went wrong, a sentence each: the answers that changed, the prompts that failed, an early end."""
    found = [one.sentence for one in result.differences]
    found += [f"{trial.contender} failed on {trial.prompt.name}: {trial.failure}" for trial in result.failures]
    if result.partial:
        answers, total = (result.settings[name] for name in ("answers", "of_answers"))
        found.append(f"interrupted after {answers} of {total} answers: the figures are partial")
    return found


def verdict(result: Result) -> str:
    """The sum of it, in one sentence for each drafter that was compared."""
    found = []
    for row in result.overall:
        if row.drafter != PLAIN and row.speedup is not None:
            same = "the same ids" if row.identical == 1.0 else "NOT the same ids"
            found.append(f"{row.drafter} decodes {row.speedup.text(2)} times as fast as plain decoding, {same}.")
    return " ".join(found)


def _spread(spread: Spread | None, digits: int) -> str:
    return NOT_KNOWN if spread is None else spread.text(digits)


def _number(value: float | None, digits: int) -> str:
    return NOT_KNOWN if value is None else f"{value:.{digits}f}"
