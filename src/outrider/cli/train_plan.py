"""`outrider train --dry-run`: what a run will take, from a short measurement and from what runs took before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outrider.cli import train_data
from outrider.cli.render import columns
from outrider.cli.tools import Target, Trainer
from outrider.cli.train_show import span
from outrider.errors import UsageError
from outrider.train.types import Estimate, TrainOptions

if TYPE_CHECKING:
    from outrider.cli.train_job import Options

# Of the default model's first 277,000 answer tokens: 6.5 bytes a token in the file with its question, .6 in a store;
# questions, those that are not kept included, take a fifth of the time of the answers.
_FILE_BYTES, _STORE_BYTES, _QUESTIONS = 6.5, 0.6, 1.2
_INDEX_BYTES, _WRITING_BYTES = 6, 120  # a token, of a kept index and while it is made


def told(
    target: Target, trainer: Trainer | None, options: Options, asked: train_data.Asked, training: TrainOptions
) -> str:
    """The table. Raises OutriderError, as the run would."""
    there = train_data.there(asked, target.vocab)
    missing = 0 if asked.recipe is None else max(0, asked.tokens - there)
    tokens = there + missing
    if not tokens:
        raise UsageError("--data has no answers: give other files, or let the target write its own")
    rows = [["data", f"{tokens:,} tokens of answers, {there:,} of them are there"]]
    write_s = 0.0
    if missing and asked.recipe is not None:
        speed = train_data.speed(target.generator(), asked.recipe.frame)
        write_s = _QUESTIONS * missing / speed
        rows.append(
            ["writing", f"{span(write_s)} for the other {missing:,}, at {speed:,.0f} tokens a second (measured)"]
        )
    estimate = None if trainer is None else trainer.estimate(training, tokens)
    rows += _store(tokens) if estimate is None else _head(estimate, write_s)
    rows.append(["disk", f"{_megabytes(_FILE_BYTES * missing)} of data, {_result(tokens, estimate)}"])
    head = f"outrider train --kind {options.kind} for {target.name}, into {options.out}; nothing was written"
    return f"{head}\n\n{columns(rows, 'll')}"


def _store(tokens: int) -> list[list[str]]:
    return [
        ["memory", f"{_megabytes(_WRITING_BYTES * tokens)} while its index is made"],
        ["expected", "how many guesses a store gets right: docs/training.md"],
    ]


def _head(estimate: Estimate, write_s: float) -> list[list[str]]:
    low, high = estimate.alpha
    total = write_s + 60 * estimate.minutes
    return [
        ["training", f"{span(60 * estimate.minutes)} for {estimate.trained_tokens:,} trained tokens"],
        ["in all", span(total)],
        ["memory", _megabytes(estimate.memory_bytes)],
        ["expected", f"{low:.2f} to {high:.2f} of first guesses right, by the runs in docs/training.md"],
    ]


def _result(tokens: int, estimate: Estimate | None) -> str:
    if estimate is None:
        return f"{_megabytes(_STORE_BYTES * tokens)} for the store, {_megabytes(_INDEX_BYTES * tokens)} for its index"
    return f"{_megabytes(estimate.file_bytes)} for the head"


def _megabytes(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"
