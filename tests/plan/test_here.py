"""What is expected is what is then measured: on a clock that only passes move, both can be known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest
from tests.plan.worlds import LAW, TimedBackend, generators, prompts

from outrider.api import Chunk, Generator, Request
from outrider.core.expect import tokens_per_pass
from outrider.cost.model import FittedCost
from outrider.drafters.ngram import NgramDrafter
from outrider.errors import BackendError, UsageError
from outrider.plan.here import Expected, Measured, Setting, Subject, plan, reason

SETTING = Setting(gammas=(1, 2, 4, 8), max_tokens=40, rounds=2)


def cheap(rows: int) -> float:
    return 1.0 + 0.02 * (rows - 1)


def dear(rows: int) -> float:
    return float(rows)


def subject(seconds: Callable[[int], float]) -> Subject:
    backend = TimedBackend(LAW, seconds)
    knots = (1, 64)
    cost = FittedCost(knots, [seconds(n) for n in knots], 0.0, 0.0, 0.0)
    return Subject(generators(backend), NgramDrafter, cost, backend.clock)


def silent(line: str) -> None:
    pass


def test_the_expectation_from_the_other_half_s_own_answers_is_what_is_measured() -> None:
    report = plan(subject(cheap), prompts(40), SETTING, silent)
    assert (report.prompts_fitted, report.prompts_measured) == (20, 20)
    assert report.measured.speedup > 1.2
    assert report.measured.low == pytest.approx(report.measured.high)
    assert report.hindsight == pytest.approx(report.measured.speedup, rel=0.03)
    assert report.chosen.speedup == pytest.approx(report.measured.speedup, rel=0.1)
    assert report.expected_low < report.chosen.speedup < report.expected_high
    assert report.expected_low < report.measured.speedup < report.expected_high
    assert report.drift == pytest.approx(1.0)
    assert (report.verdict, report.gamma) == ("on", report.chosen.gamma)
    assert "times as fast" in report.because


def test_a_dear_pass_is_judged_off() -> None:
    report = plan(subject(dear), prompts(20), SETTING, silent)
    assert report.chosen.speedup < 1.0
    assert report.measured.speedup < 1.0
    assert (report.verdict, report.gamma) == ("off", 0)
    assert report.chosen.break_even is None or report.chosen.alpha < report.chosen.break_even


def test_the_figures_of_a_length_belong_together() -> None:
    report = plan(subject(cheap), prompts(20), SETTING, silent)
    assert [one.gamma for one in report.expected] == [1, 2, 4, 8]
    for one in report.expected:
        assert one.speedup == pytest.approx(one.tokens_per_pass / one.step_cost)
        assert one.tokens_per_pass == pytest.approx(tokens_per_pass(one.alpha, one.gamma))
        assert one.pass_cost == pytest.approx(cheap(1) * (1 + 0.02 * one.drafted_per_pass))
        assert one.step_cost == pytest.approx(one.pass_cost)  # on this clock drafting and the engine take no time
        assert one.break_even is not None
        assert one.break_even < one.alpha
    assert report.chosen.speedup == max(one.speedup for one in report.expected)
    assert len(report.acceptance_per_position) == 8


def test_a_machine_that_became_slower_expects_the_same_ratio() -> None:
    usual = plan(subject(cheap), prompts(20), SETTING, silent)
    slower = subject(cheap)
    backend = TimedBackend(LAW, lambda rows: 3 * cheap(rows))
    slower = replace(slower, generator=generators(backend), clock=backend.clock)
    report = plan(slower, prompts(20), SETTING, silent)
    assert report.drift == pytest.approx(3.0)
    assert report.chosen.speedup == pytest.approx(usual.chosen.speedup)


def test_what_is_done_is_told() -> None:
    told: list[str] = []
    plan(subject(cheap), prompts(6), SETTING, told.append)
    assert told == [
        "answering 3 prompts, plainly and with drafts of 8",
        "measuring 3 other prompts, round 1 of 2",
        "measuring 3 other prompts, round 2 of 2",
    ]


def test_one_prompt_cannot_be_halved() -> None:
    with pytest.raises(UsageError, match="1 prompts cannot be split"):
        plan(subject(cheap), prompts(1), SETTING, silent)


def test_answers_of_one_token_cannot_be_timed() -> None:
    with pytest.raises(UsageError, match="too short to time"):
        plan(subject(cheap), prompts(4), replace(SETTING, max_tokens=1), silent)


class Changed:
    """A generator whose answers differ in their last token, or lack it."""

    def __init__(self, inner: Generator, drop: bool) -> None:
        self._inner = inner
        self._drop = drop

    def generate(self, requests: Sequence[Request]) -> Iterator[Chunk]:
        for chunk in self._inner.generate(requests):
            if chunk.finish_reason is None or not chunk.token_ids:
                yield chunk
            else:
                last = () if self._drop else (chunk.token_ids[-1] ^ 1,)
                yield replace(chunk, token_ids=(*chunk.token_ids[:-1], *last))


@pytest.mark.parametrize("drop", [False, True])
def test_a_changed_answer_is_no_speed(drop: bool) -> None:
    sound = subject(cheap)
    broken = replace(sound, generator=lambda g: Changed(sound.generator(g), drop) if g else sound.generator(0))
    with pytest.raises(BackendError, match="speculation changed an answer"):
        plan(broken, prompts(10), SETTING, silent)


EXPECTED = Expected(4, 1.8, 2.5, 1.2, 0.01, 1.25, 0.5, 0.2, 1.44)
MEASURED = Measured(4, 1.75, 100.0, 140.0, 1.4, 1.35, 1.45)


@pytest.mark.parametrize(
    ("expected", "measured", "says"),
    [
        (EXPECTED, MEASURED, "costs 1.25 times a plain one and keeps 0.75 drafted tokens on average: 1.40 times"),
        (
            EXPECTED,
            replace(MEASURED, speedup=0.8, low=0.7, high=0.9),
            "but keeps only 0.75 drafted tokens on average: 0.80",
        ),
        (
            replace(EXPECTED, break_even=None),
            replace(MEASURED, speedup=0.8, low=0.7, high=0.9),
            "which not even 4 kept tokens would bring in: 0.80 times as fast (0.70 to 0.90)",
        ),
        (EXPECTED, replace(MEASURED, speedup=1.01, low=0.95, high=1.08), "so it makes little difference"),
    ],
)
def test_reasons(expected: Expected, measured: Measured, says: str) -> None:
    assert says in reason(expected, measured)
    assert ("little difference" in reason(expected, measured)) == ("little" in says)
