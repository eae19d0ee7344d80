"""The order of the measuring, conversations, and failures."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.bench.scripted import encode

from outrider.bench.contenders import Answer, Messages
from outrider.bench.questions import Question
from outrider.bench.trials import NO_FIRST_TURN, run
from outrider.errors import UsageError

TWO = Question("1", "mt_bench", ("first", "second"))
ONE = Question("2", "qa", ("only",))


class Speaker:
    """Answers with its name and what it was asked last; raises what it is told to where the text is in `against`."""

    def __init__(self, name: str, diary: list[str], against: str = "-", error: BaseException | None = None) -> None:
        self.name = name
        self._diary = diary
        self._against = against
        self._error = error
        self.rounds = 0

    def fresh(self) -> None:
        self.rounds += 1

    def answer(self, messages: Messages) -> Answer:
        self._diary.append(f"{self.name}: {encode_text(messages)}")
        if self._error is not None and self._against in messages[-1]["content"]:
            raise self._error
        return Answer(f"{self.name} on {messages[-1]['content']}", (1,), 1, 0, 0.0, None)


def encode_text(messages: Messages) -> str:
    return bytes(encode(messages)).decode().strip().replace("\n", "|")


def speakers(diary: list[str], names: Sequence[str] = ("none", "ngram")) -> list[Speaker]:
    return [Speaker(name, diary) for name in names]


def test_prompt_by_prompt_in_an_order_that_moves_on() -> None:
    diary: list[str] = []
    both = speakers(diary)
    found = list(run(both, [TWO, ONE], 2))
    assert [speaker.rounds for speaker in both] == [2, 2]
    assert diary[:2] == ["none: u:first", "ngram: u:first"]  # the warm-up
    second = "u:first|a:none on first|u:second"
    assert diary[2:8] == [
        "none: u:first",
        "ngram: u:first",
        f"none: {second}",
        f"ngram: {second}",
        "none: u:only",
        "ngram: u:only",
    ]
    assert diary[8:] == [
        "ngram: u:first",
        "none: u:first",
        f"ngram: {second}",
        f"none: {second}",
        "ngram: u:only",
        "none: u:only",
    ]
    assert [trial.round for trial in found] == [0] * 6 + [1] * 6
    assert [trial.prompt.name for trial in found[:6:2]] == [
        "question 1, turn 1 (mt_bench)",
        "question 1, turn 2 (mt_bench)",
        "question 2 (qa)",
    ]


def test_a_failure_is_a_trial_and_the_rest_goes_on() -> None:
    diary: list[str] = []
    broken = Speaker("ngram", diary, "second", ValueError("two\nlines"))
    found = list(run([Speaker("none", diary), broken], [TWO, ONE], 1))
    assert [trial.failure for trial in found] == [None, None, None, "ValueError: two lines", None, None]
    assert [trial.answer is None for trial in found] == [False, False, False, True, False, False]


def test_an_error_of_ours_is_told_as_it_is() -> None:
    (trial,) = run([Speaker("none", [], "only", UsageError("too long"))], [ONE], 1)
    assert trial.failure == "too long"


def test_without_an_answer_there_is_no_second_turn() -> None:
    diary: list[str] = []
    broken = Speaker("none", diary, "first", UsageError("too long"))
    found = list(run([broken, Speaker("ngram", diary)], [TWO], 1))
    assert [trial.failure for trial in found] == ["too long", None, NO_FIRST_TURN, NO_FIRST_TURN]
    assert not any("second" in entry for entry in diary)


def test_only_an_interrupt_ends_it() -> None:
    found = run([Speaker("none", [], "only", KeyboardInterrupt())], [TWO, ONE], 1)
    assert [next(found).prompt.turn, next(found).prompt.turn] == [1, 2]
    with pytest.raises(KeyboardInterrupt):
        next(found)
