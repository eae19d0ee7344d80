"""The data of `outrider train`: which files there are, and what the target still has to write."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from outrider.api import Generator, Request
from outrider.cli.plan_here import read
from outrider.cli.tools import Target
from outrider.cli.train_show import Show, span
from outrider.errors import UsageError
from outrider.train import data, questions, tasks, writing
from outrider.train.data import Log, Recipe
from outrider.train.questions import Frame
from outrider.train.writing import Written

if TYPE_CHECKING:
    from outrider.cli.train_job import Wanted

NAME = "data.jsonl"
_TIMED, _TIMED_TOKENS, _TIMED_S = 32, 96, 6.0  # answers at once, tokens of each, and when to stop measuring


@dataclass(frozen=True, slots=True)
class Asked:
    """The files of a run, and what is to be written: recipe None where the files are given."""

    files: tuple[Path, ...]
    recipe: Recipe | None
    prompts: tuple[tuple[int, ...], ...]
    tokens: int


class Clock(Protocol):
    def __call__(self) -> float: ...


def asked(target: Target, wanted: Wanted, out: Path) -> Asked:
    """What the flags mean for this target. Raises UsageError for prompts and templates that cannot be used."""
    if wanted.files:
        return Asked(tuple(map(Path, wanted.files)), None, (), 0)
    around = target.frame()
    prompts: tuple[tuple[int, ...], ...] = ()
    if wanted.prompts is not None:
        prompts = tuple(dict.fromkeys(_encoded(target, text) for text in read(wanted.prompts)))
    recipe = Recipe(
        target=target.name,
        fingerprint=target.fingerprint.hex(),
        tokenizer=target.digest.hex(),
        opening=around.opening,
        closing=around.closing,
        seed=wanted.seed,
        prompts=data.prompts_digest(prompts) if prompts else None,
        own=not wanted.only_prompts,
        leads="" if wanted.only_prompts else tasks.digest(),
        answer_tokens=wanted.answer_tokens,
        opening_tokens=wanted.opening,
    )
    return Asked((out / NAME,), recipe, prompts, wanted.tokens)


def _encoded(target: Target, text: str) -> tuple[int, ...]:
    prompt = tuple(target.encode(text))
    if len(prompt) >= target.context:
        raise UsageError(
            f"the prompt {text[:40]!r} has {len(prompt)} tokens and leaves no room for an answer in the context of "
            f"{target.context}: shorten it"
        )
    return prompt


def write(target: Target, asked: Asked, show: Show, clock: Clock = time.monotonic) -> None:
    """Lets the target write what is missing. Raises OutriderError; what is written stays."""
    if asked.recipe is None:
        return
    (path,) = asked.files
    log = Log(path, asked.recipe, target.vocab)
    try:
        if log.tokens < asked.tokens:
            show.begin("writing", asked.tokens)
            watch = _watch(show, log.tokens, asked, clock)
            writing.write(target.generator(), log, asked.prompts, asked.tokens, watch, words=target.words())
        show.end(f"{path}: {log.answers:,} answers, {log.tokens:,} tokens")
    finally:
        log.close()


def _watch(show: Show, before: int, asked: Asked, clock: Clock) -> Callable[[Written], None]:
    start = clock()

    def watch(now: Written) -> None:
        says = f"{now.answers:,} answers, {now.tokens:,} tokens"
        passed, done, whole = clock() - start, now.tokens - before, _whole(now, asked)
        if done and passed:
            speed = done / passed
            says += f", {speed:,.0f} a second, {span((whole - now.tokens) / speed)} left"
        else:
            says += f", {now.drawn} questions drawn"
        show.at(round(asked.tokens * min(1.0, now.tokens / whole)), says)

    return watch


def _whole(now: Written, asked: Asked) -> int:
    """Tokens that there will be: as many as asked for, or fewer where the prompts come to an end before."""
    if asked.recipe is None or asked.recipe.own or not now.answers:
        return asked.tokens
    return max(1, min(asked.tokens, now.tokens * max(len(asked.prompts), now.answers) // now.answers))


def there(asked: Asked, vocab: int) -> int:
    """Tokens of the answers that are in the files already. Raises UsageError for damaged ones, as the run would."""
    if asked.recipe is not None:
        data.agree(asked.files[0], asked.recipe)
    found = [path for path in asked.files if asked.recipe is None or path.exists()]
    return sum(len(line.answer) for path in found for line in data.lines(path, vocab))


def speed(generator: Generator, around: Frame, clock: Clock = time.monotonic) -> float:
    """Tokens a second of answers that are written together, measured for some seconds."""
    drawn = [questions.question(around, seed) for seed in range(_TIMED)]
    requests: Sequence[Request] = [Request(one.prompt, _TIMED_TOKENS, one.sampling, ignore_eos=True) for one in drawn]
    start, tokens = clock(), 0
    for chunk in generator.generate(requests):
        tokens += len(chunk.token_ids)
        if clock() - start > _TIMED_S:
            break
    return tokens / max(clock() - start, 1e-9)
