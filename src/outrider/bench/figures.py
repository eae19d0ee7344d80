"""From trials to the rows of the table. Every figure has one definition, and docs/bench.md states it.

Speeds are sums of tokens over sums of decode seconds, taken within a round; what is printed is the median of the
rounds and their range. Prompts that failed are counted, and are in no sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from statistics import median

from outrider.bench.contenders import Answer, add_by_position
from outrider.bench.questions import ALL
from outrider.bench.trials import Prompt, Trial


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of the rounds, and their range."""

    middle: float
    low: float
    high: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread | None:
        """None where there is nothing to take the median of."""
        return Spread(median(values), min(values), max(values)) if values else None

    def text(self, digits: int) -> str:
        """Such as 1.52 (1.48-1.57), or 1.00 alone where all rounds agree."""
        middle, low, high = (f"{value:.{digits}f}" for value in (self.middle, self.low, self.high))
        return middle if low == high else f"{middle} ({low}-{high})"


@dataclass(frozen=True, slots=True)
class Row:
    """One contender on one task. None: cannot be known here.

    tokens, passes and the positions are sums over all rounds; the three times are seconds of a round, on average.
    speedup is over the prompts that both it and plain decoding of the same engine answered in the round. identical:
    the share of prompts whose answers equal the first plain one in every round, among those that both answered.
    """

    task: str
    drafter: str
    prompts: int
    failed: int  # prompts without an answer in at least one round
    tokens_per_s: Spread | None
    speedup: Spread | None
    tokens_per_pass: float | None
    acceptance_per_position: tuple[float, ...] | None
    identical: float | None
    tokens: int
    passes: int | None
    drafted_per_position: tuple[int, ...] | None
    reached_per_position: tuple[int, ...] | None
    accepted_per_position: tuple[int, ...] | None
    draft_s: float | None
    target_s: float | None
    decode_s: float | None


@dataclass(frozen=True, slots=True)
class Difference:
    """An answer that is not the plain one: the first place where the ids part, and both ids there (None: ended)."""

    prompt: Prompt
    drafter: str
    place: int
    found: int | None
    plain: int | None

    @property
    def sentence(self) -> str:
        """For people."""
        ours, plains = ("the end" if token is None else f"id {token}" for token in (self.found, self.plain))
        return (
            f"{self.drafter} changed the answer to {self.prompt.name}: token {self.place + 1} is {ours}, and {plains} "
            "in plain decoding"
        )


def rows(trials: Sequence[Trial], drafters: Sequence[str], plain: str | None, greedy: bool) -> list[Row]:
    """For each task, then for all of them, a row for each drafter.

    plain: the name of plain decoding, None where it was not measured. greedy: temperature 0, where texts may be
    compared as well.
    """
    tasks = list(dict.fromkeys(trial.prompt.question.task for trial in trials))
    found: list[Row] = []
    for task in [*tasks, ALL] if tasks else []:
        inside = [trial for trial in trials if task in (ALL, trial.prompt.question.task)]
        base = [trial for trial in inside if trial.contender == plain]
        found += [
            _row(task, name, [trial for trial in inside if trial.contender == name], base, greedy) for name in drafters
        ]
    return found


def differences(trials: Sequence[Trial], plain: str) -> list[Difference]:
    """Of each drafter and prompt the first answer whose ids are not those of the first plain one."""
    truth = _first([trial for trial in trials if trial.contender == plain])
    found: dict[tuple[str, Prompt], Difference] = {}
    for trial in trials:
        right, answer, key = truth.get(trial.prompt), trial.answer, (trial.contender, trial.prompt)
        if answer is None or answer.ids is None or right is None or right.ids is None or key in found:
            continue
        # zip_longest: an answer that is only shorter differs as well.
        for place, (one, other) in enumerate(zip_longest(answer.ids, right.ids)):
            if one != other:
                found[key] = Difference(trial.prompt, trial.contender, place, one, other)
                break
    return list(found.values())


def failures(trials: Sequence[Trial]) -> list[Trial]:
    """Of each drafter and prompt the first trial that failed."""
    found: dict[tuple[str, Prompt], Trial] = {}
    for trial in trials:
        if trial.answer is None:
            found.setdefault((trial.contender, trial.prompt), trial)
    return list(found.values())


def _row(task: str, drafter: str, trials: Sequence[Trial], base: Sequence[Trial], greedy: bool) -> Row:
    answers = [trial.answer for trial in trials if trial.answer is not None]
    costs = [answer.cost for answer in answers if answer.cost is not None]
    rounds = list(_rounds(trials))
    speeds = [speed for mine in rounds for speed in _speed(mine.values())]
    tokens, passes = sum(answer.tokens for answer in answers), sum(cost.passes for cost in costs)
    inside = bool(costs)  # whether whoever answered says what went on inside
    reached, accepted = (
        add_by_position([getattr(cost, name) for cost in costs]) if inside else None for name in ("reached", "accepted")
    )
    # A mean over the rounds that have an answer: an interrupted run has one that is not complete.
    count = len(rounds)
    return Row(
        task=task,
        drafter=drafter,
        prompts=len({trial.prompt for trial in trials}),
        failed=len({trial.prompt for trial in trials if trial.answer is None}),
        tokens_per_s=Spread.of(speeds),
        speedup=Spread.of(list(_ratios(trials, base))) if inside else None,
        tokens_per_pass=tokens / passes if passes else None,
        acceptance_per_position=_shares(accepted, reached),
        identical=_identical(trials, _first(base), greedy),
        tokens=tokens,
        passes=passes if inside else None,
        drafted_per_position=add_by_position([cost.drafted for cost in costs]) if inside else None,
        reached_per_position=reached,
        accepted_per_position=accepted,
        draft_s=_mean_s([cost.draft_s for cost in costs], count),
        target_s=_mean_s([cost.target_s for cost in costs], count),
        decode_s=_mean_s([answer.decode_s for answer in answers], count),
    )


def _rounds(trials: Iterable[Trial]) -> Iterator[dict[Prompt, Answer]]:
    """The answers of each round that has any."""
    found: dict[int, dict[Prompt, Answer]] = {}
    for trial in trials:
        if trial.answer is not None:
            found.setdefault(trial.round, {})[trial.prompt] = trial.answer
    yield from found.values()


def _speed(answers: Iterable[Answer]) -> list[float]:
    """Total tokens over total decode seconds, tokens per second; nothing where no time was counted."""
    answers = list(answers)
    seconds = sum(answer.decode_s for answer in answers)
    return [sum(answer.timed_tokens for answer in answers) / seconds] if seconds > 0 else []


def _ratios(trials: Sequence[Trial], base: Sequence[Trial]) -> Iterator[float]:
    """The speed-up of each round, over the prompts that both answered in it."""
    for round_ in sorted({trial.round for trial in trials}):
        mine = _answered(trials, round_)
        plains = _answered(base, round_)
        both = [prompt for prompt in mine if prompt in plains]
        above = _speed(mine[prompt] for prompt in both)
        below = _speed(plains[prompt] for prompt in both)
        yield from (a / b for a, b in zip(above, below, strict=False) if b > 0)


def _answered(trials: Sequence[Trial], round_: int) -> dict[Prompt, Answer]:
    return {trial.prompt: trial.answer for trial in trials if trial.round == round_ and trial.answer is not None}


def _first(trials: Sequence[Trial]) -> dict[Prompt, Answer]:
    """The first answer to each prompt."""
    found: dict[Prompt, Answer] = {}
    for trial in trials:
        if trial.answer is not None:
            found.setdefault(trial.prompt, trial.answer)
    return found


def _identical(trials: Sequence[Trial], truth: dict[Prompt, Answer], greedy: bool) -> float | None:
    same: dict[Prompt, bool] = {}
    for trial in trials:
        right = truth.get(trial.prompt)
        if trial.answer is None or right is None:
            continue
        equal = _equal(trial.answer, right, greedy)
        if equal is None:
            return None
        same[trial.prompt] = same.get(trial.prompt, True) and equal
    return sum(same.values()) / len(same) if same else None


def _equal(answer: Answer, right: Answer, greedy: bool) -> bool | None:
    """By ids where both have them; else by text, which says something only at temperature 0."""
    if answer.ids is not None and right.ids is not None:
        return answer.ids == right.ids
    return answer.text == right.text if greedy else None


def _shares(accepted: tuple[int, ...] | None, reached: tuple[int, ...] | None) -> tuple[float, ...] | None:
    if accepted is None or reached is None:
        return None
    return tuple(a / r for a, r in zip(accepted, reached, strict=False) if r)


def _mean_s(seconds: Sequence[float], rounds: int) -> float | None:
    return sum(seconds) / rounds if seconds and rounds else None
