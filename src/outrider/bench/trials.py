"""The measuring itself: every contender answers every prompt, one after the other, and again in the next round.

Interleaved down to the single prompt, so that a noisy machine hits all alike; who goes first moves on with each round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from outrider.bench.contenders import Answer, Contender
from outrider.bench.questions import Question
from outrider.errors import OutriderError

NO_FIRST_TURN = "not asked, for the turn before it has no answer"


@dataclass(frozen=True, slots=True)
class Prompt:
    """One turn of a question; turn counts from 1."""

    question: Question
    turn: int

    @property
    def name(self) -> str:
        """Such as question 81, turn 2 (mt_bench)."""
        turn = f", turn {self.turn}" if len(self.question.turns) > 1 else ""
        return f"question {self.question.name}{turn} ({self.question.task})"


@dataclass(frozen=True, slots=True)
class Trial:
    """One contender's answer to one prompt in one round (from 0): either an answer or why there is none."""

    prompt: Prompt
    contender: str
    round: int
    answer: Answer | None
    failure: str | None = None


def prompts(questions: Sequence[Question]) -> list[Prompt]:
    """Every turn of every question."""
    return [Prompt(question, turn) for question in questions for turn in range(1, len(question.turns) + 1)]


def run(contenders: Sequence[Contender], questions: Sequence[Question], rounds: int) -> Iterator[Trial]:
    """Trials as they are done: rounds times prompts times contenders, after one answer of each to warm up.

    contenders[0] is the reference: a later turn follows its answer to the turn before, in the first round, so that all
    contenders answer the same text in all rounds. A failure is a trial without an answer; only an interrupt ends this.
    """
    for contender in contenders:
        with suppress(Exception):  # a failure here will show again, as a trial
            contender.answer([_user(questions[0].turns[0])])
    told: dict[Prompt, str] = {}
    for round_ in range(rounds):
        for contender in contenders:
            contender.fresh()
        first = round_ % len(contenders)
        order = [*contenders[first:], *contenders[:first]]
        for prompt in prompts(questions):
            messages = _messages(prompt, told)
            for contender in order:
                trial = _trial(contender, prompt, round_, messages)
                if contender is contenders[0] and trial.answer is not None:
                    told.setdefault(prompt, trial.answer.text)
                yield trial


def _trial(contender: Contender, prompt: Prompt, round_: int, messages: list[dict[str, str]] | None) -> Trial:
    if messages is None:
        return Trial(prompt, contender.name, round_, None, NO_FIRST_TURN)
    try:
        return Trial(prompt, contender.name, round_, contender.answer(messages))
    except Exception as error:
        return Trial(prompt, contender.name, round_, None, " ".join(f"{_kind(error)}{error}".split()))


def _kind(error: Exception) -> str:
    return "" if isinstance(error, OutriderError) else f"{type(error).__name__}: "


def _messages(prompt: Prompt, told: Mapping[Prompt, str]) -> list[dict[str, str]] | None:
    """The conversation up to a prompt; None where an answer on the way is missing."""
    found: list[dict[str, str]] = []
    for turn in range(1, prompt.turn):
        answer = told.get(Prompt(prompt.question, turn))
        if answer is None:
            return None
        found += [_user(prompt.question.turns[turn - 1]), {"role": "assistant", "content": answer}]
    return [*found, _user(prompt.question.turns[prompt.turn - 1])]


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}
