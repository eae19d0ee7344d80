"""The job of `outrider train`: the data, then the head or the store."""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from outrider.cli import train_data, train_plan, train_show, train_store
from outrider.cli.checks import MOST_THREADS
from outrider.cli.tools import Target, Tools, Trainer
from outrider.errors import UsageError
from outrider.train import questions
from outrider.train.types import GIB, Kind, Result, TrainOptions

INTERRUPTED = 130  # 128 + SIGINT
EPOCHS = 3.0  # where neither --epochs nor --minutes is given
STORE = "store"
_RESULTS = ("head.json", train_store.SIDECAR)  # what an earlier run may have left


@dataclass(frozen=True, slots=True)
class Wanted:
    """The flags about data."""

    files: Sequence[str]
    prompts: str | None
    only_prompts: bool
    tokens: int
    seed: int
    answer_tokens: int
    opening: int


@dataclass(frozen=True, slots=True)
class Training:
    """The flags about the training of a head."""

    epochs: float | None
    minutes: float | None
    draft_vocab: int
    depth: int
    memory_gib: float
    states: str | None
    learning_rate: float
    start: str | None
    resume: bool


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of `outrider train`."""

    target: str | None
    out: str
    kind: str
    threads: int | None
    wanted: Wanted
    training: Training
    dry_run: bool


def train(tools: Tools, options: Options) -> int:
    """Writes the data that is missing, then makes the head or the store; returns the exit status.

    Raises OutriderError. What was written by then stays, and the same command goes on there.
    """
    _check(options)
    trainer = None if options.kind == STORE else tools.trainer()
    if trainer is not None and not options.dry_run:
        trainer.check()  # before half an hour of writing, not behind it
    target = tools.target(options.target, options.threads)
    out = Path(options.out)
    check_folder(out, target)
    asked = train_data.asked(target, options.wanted, out)
    if options.dry_run:
        print(train_plan.told(target, trainer, options, asked, _training(target, options, asked.files)))
        return 0
    try:
        return _made(target, trainer, options, asked)
    except KeyboardInterrupt:
        print(f"outrider: interrupted; the same command goes on with what is in {options.out}", file=sys.stderr)
        return INTERRUPTED


def _made(target: Target, trainer: Trainer | None, options: Options, asked: train_data.Asked) -> int:
    with train_show.on_stderr() as show:
        if asked.recipe is not None:
            train_data.write(target, asked, show)
        if trainer is None:
            print(train_store.build(target, asked.files, Path(options.out), command(options)))
            return 0
        telling = train_show.Training(show)
        print(_summary(trainer.run(_training(target, options, asked.files), telling.report)))
    return 0


def _check(options: Options) -> None:
    wanted, training = options.wanted, options.training
    for flag, value, least, most in (
        ("--tokens", wanted.tokens, 1, math.inf),
        ("--seed", wanted.seed, 0, 2**63),
        ("--answer-tokens", wanted.answer_tokens, 2, 2**24),
        ("--opening", wanted.opening, 0, wanted.answer_tokens - 1),
        ("--threads", options.threads, 1, MOST_THREADS),
        ("--epochs", training.epochs, 0.01, 1000),
        ("--minutes", training.minutes, 0.1, 1e6),
        ("--draft-vocab", training.draft_vocab, 2, 2**24),
        ("--depth", training.depth, 1, 16),
        ("--memory", training.memory_gib, 0, 1e6),
        ("--learning-rate", training.learning_rate, 1e-6, 1),
    ):
        if value is not None and not least <= value <= most:  # NaN fails both
            raise UsageError(f"{flag} is {value}: give {least} or more" + (f", at most {most}" if most < 1e9 else ""))
    if training.epochs is not None and training.minutes is not None:
        raise UsageError("--epochs and --minutes do not go together: choose one of them")
    if wanted.files and (wanted.prompts is not None or wanted.only_prompts):
        raise UsageError("--data and --prompts do not go together: with --data, nothing is written")
    if wanted.files and (wanted.opening or wanted.answer_tokens != questions.ANSWER_TOKENS):
        raise UsageError("--data does not go together with --answer-tokens and --opening: nothing is written")
    if wanted.only_prompts and wanted.prompts is None:
        raise UsageError("--only-prompts needs --prompts")


def check_folder(out: Path, target: Target) -> None:
    """Raises UsageError where the folder holds a result for another target."""
    for name in _RESULTS:
        try:
            made = json.loads((out / name).read_text("utf-8"))["target"]
            whose, fingerprint = str(made["name"]), str(made["fingerprint"])
        except FileNotFoundError:
            continue
        except (OSError, ValueError, KeyError, TypeError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or str(error)
            raise UsageError(f"{out / name} cannot be read ({why}): name another --out, or move it away") from None
        if fingerprint != target.fingerprint.hex():
            raise UsageError(
                f"--out {out} holds a drafter for {whose} ({fingerprint[:12]}), and the target is {target.name} "
                f"({target.fingerprint.hex()[:12]}): name another --out"
            )


def _training(target: Target, options: Options, files: Sequence[Path]) -> TrainOptions:
    training = options.training
    epochs = EPOCHS if training.epochs is None and training.minutes is None else training.epochs
    return TrainOptions(
        target=target.file,
        data=tuple(files),
        out=Path(options.out),
        kind=Kind.EAGLE3 if options.kind == STORE else Kind(options.kind),
        epochs=epochs,
        minutes=training.minutes,
        draft_vocab=training.draft_vocab,
        depth=training.depth,
        learning_rate=training.learning_rate,
        seed=options.wanted.seed,
        resume=training.resume,
        start=None if training.start is None else Path(training.start),
        threads=options.threads,
        memory_bytes=int(training.memory_gib * GIB),
        states=None if training.states is None else Path(training.states),
        command=command(options),
    )


def command(options: Options) -> str:
    """What to type to get the same again."""
    wanted, training = options.wanted, options.training
    given: list[tuple[str, object, object]] = [
        ("--target", options.target, None),
        ("--out", options.out, None),
        ("--kind", options.kind, "eagle3"),
        ("--threads", options.threads, None),
        *(("--data", file, None) for file in wanted.files),
        ("--prompts", wanted.prompts, None),
        ("--tokens", None if wanted.files else wanted.tokens, None),
        ("--answer-tokens", wanted.answer_tokens, questions.ANSWER_TOKENS),
        ("--opening", wanted.opening, 0),
        ("--seed", wanted.seed, None),
        ("--epochs", training.epochs, None),
        ("--minutes", training.minutes, None),
        ("--draft-vocab", training.draft_vocab, 8192),
        ("--depth", training.depth, 5),
        ("--memory", training.memory_gib, 4.0),
        ("--states", training.states, None),
        ("--learning-rate", training.learning_rate, 1e-3),
        ("--start", training.start, None),
    ]
    words = [word for flag, value, default in given if value != default for word in (flag, str(value))]
    words += ["--only-prompts"] if wanted.only_prompts else []
    return shlex.join(["outrider", "train", *words])


def _summary(result: Result) -> str:
    lines = [
        f"{result.folder}: a head, trained on {result.trained_tokens:,} tokens in {train_show.span(result.seconds)}",
        f"held-out: {result.acceptance}",
    ]
    if result.stopped_early:
        lines.append("it ended early, because it no longer got better")
    return "\n".join(lines)
