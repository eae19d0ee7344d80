"""What speculation brings here: expected from T(n) and one half of the prompts, measured on the other half.

The first half is answered plainly, which says what the target writes; a replay of those answers says, for each draft
length, what the drafter would have guessed of it. With the pass costs that gives the expected speed-up and the best
draft length, and the other half shows whether it is true.

Words of the figures: a step is all that a pass takes, the engine's own work included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median

from outrider.api import FinishReason, Generator, Request, Usage
from outrider.core import expect
from outrider.cost.model import StepCost
from outrider.drafters.base import Drafter
from outrider.errors import BackendError, UsageError
from outrider.plan.replay import Known, Tally, replay

RESAMPLES = 200


@dataclass(frozen=True, slots=True)
class Subject:
    """What is asked about: generators by draft length (0: plain), fresh drafters, and what a pass costs."""

    generator: Callable[[int], Generator]
    drafter: Callable[[], Drafter]
    cost: StepCost
    clock: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Setting:
    """Draft lengths to choose from, tokens an answer, and how often the second half is measured."""

    gammas: tuple[int, ...]
    max_tokens: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Expected:
    """What one draft length should bring.

    pass_cost: its pass over a plain one; draft_cost: drafting over a plain step, a drafted token (c); step_cost: all of
    its step over a plain one, which is also the tokens a pass from which on it pays. alpha: the one acceptance that
    would give as many tokens a pass; break_even: the one that would neither win nor lose (None: no acceptance pays).
    """

    gamma: int
    tokens_per_pass: float
    drafted_per_pass: float
    pass_cost: float
    draft_cost: float
    step_cost: float
    alpha: float
    break_even: float | None
    speedup: float


@dataclass(frozen=True, slots=True)
class Measured:
    """What it brought on the prompts that no expectation knew; low and high are the range of the rounds."""

    gamma: int
    tokens_per_pass: float
    plain_tokens_per_s: float
    tokens_per_s: float
    speedup: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Report:
    """The whole answer; gamma is the draft length to set, 0 where speculation should be left off.

    acceptance_per_position: of the drafted tokens that were reached, the share that was kept, at the longest draft.
    expected_low, expected_high: where nine of ten expectations lie that rest on as many prompts drawn from the first
    half: how much of a chance it is which prompts were in it. hindsight: the speed-up that the other half's own answers
    would have let expect; where it agrees with the measurement, but chosen does not, the halves differ in what is kept.
    context: the mean number of tokens before a pass. drift: a plain pass now over what the costs say of it: how much
    slower the machine has become since it was profiled.
    """

    prompts_fitted: int
    prompts_measured: int
    acceptance_per_position: tuple[float, ...]
    expected: tuple[Expected, ...]
    chosen: Expected
    expected_low: float
    expected_high: float
    measured: Measured
    hindsight: float
    context: float
    drift: float
    gamma: int
    because: str

    @property
    def verdict(self) -> str:
        """on or off."""
        return "on" if self.gamma else "off"


def plan(subject: Subject, prompts: Sequence[Sequence[int]], setting: Setting, tell: Callable[[str], None]) -> Report:
    """Expects, measures and judges; tell gets a line about what is being done.

    Every other prompt, the first among them, is for the expectation. Raises UsageError where there are fewer than two
    prompts or their answers are too short to time, and BackendError where speculation changed an answer.
    """
    if len(prompts) < 2:
        raise UsageError(f"{len(prompts)} prompts cannot be split into two halves; give at least 2")
    fitted, kept_back = prompts[::2], prompts[1::2]
    tell(f"answering {len(fitted)} prompts, plainly and with drafts of {max(setting.gammas)}")
    base = _Base.of(subject, fitted, setting)
    tallies = {
        gamma: replay(subject.drafter(), base.known, gamma, setting.max_tokens, subject.clock)
        for gamma in setting.gammas
    }
    expected = tuple(_expected(gamma, tally, base, subject.cost) for gamma, tally in tallies.items())
    chosen = max(expected, key=lambda one: one.speedup)
    low, high = _range(subject, base, chosen.gamma, setting)
    measured, known = _measured(subject, kept_back, chosen.gamma, setting, tell)
    theirs = replay(subject.drafter(), known, chosen.gamma, setting.max_tokens, subject.clock)
    gamma = chosen.gamma if measured.speedup > 1.0 else 0
    return Report(
        len(fitted),
        len(kept_back),
        tuple(tallies[max(setting.gammas)].acceptance),
        expected,
        chosen,
        low,
        high,
        measured,
        _expected(chosen.gamma, theirs, base, subject.cost).speedup,
        base.context,
        base.drift,
        gamma,
        reason(chosen, measured),
    )


def reason(expected: Expected, measured: Measured) -> str:
    """Why the verdict is what it is, as a sentence without its beginning."""
    kept = measured.tokens_per_pass - 1.0
    if measured.speedup > 1.0:
        brings = f"and keeps {kept:.2f} drafted tokens on average"
    elif expected.break_even is None:
        brings = f"which not even {expected.gamma} kept tokens would bring in"
    else:
        brings = f"but keeps only {kept:.2f} drafted tokens on average"
    told = f"a step that drafts costs {expected.step_cost:.2f} times a plain one {brings}"
    told += f": {measured.speedup:.2f} times as fast ({measured.low:.2f} to {measured.high:.2f})"
    unsure = measured.low <= 1.0 < measured.high
    return f"{told}; the rounds do not agree, so it makes little difference" if unsure else told


@dataclass(frozen=True, slots=True)
class _Base:
    """What the first half told: its answers, and seconds of a step beside its pass.

    own_s, drafting_own_s: the engine's part of a plain step, and of one that drafts, the engine's own share of
    drafting included.
    """

    known: tuple[Known, ...]
    own_s: float
    drafting_own_s: float
    context: float
    drift: float

    @staticmethod
    def of(subject: Subject, prompts: Sequence[Sequence[int]], setting: Setting) -> _Base:
        longest = max(setting.gammas)
        plain, drafted = subject.generator(0), subject.generator(longest)
        known, plain_bills, bills = [], [], []
        for prompt in prompts:
            answer = _ask(plain, prompt, setting.max_tokens)
            again = _ask(drafted, prompt, setting.max_tokens)
            _check_same(answer, again)
            known.append(Known(prompt, answer.ids, answer.stopped))
            plain_bills.append(answer.bill)
            bills.append(again.bill)
        steps, more_steps = (sum(bill.passes - 1 for bill in found) for found in (plain_bills, bills))
        if steps < 1 or more_steps < 1:
            raise UsageError("the answers are too short to time; give prompts with longer answers, or more max_tokens")
        pass_s = sum(bill.target_s for bill in plain_bills) / steps
        own_s = sum(bill.decode_s - bill.target_s for bill in plain_bills) / steps
        drafting = replay(subject.drafter(), known, longest, setting.max_tokens, subject.clock)
        beside = sum(bill.decode_s - bill.target_s for bill in bills) - drafting.draft_s
        context = replay(subject.drafter(), known, 0, setting.max_tokens, subject.clock).context
        drift = pass_s / subject.cost.seconds(1, 1, context)
        return _Base(tuple(known), own_s, max(0.0, beside / more_steps), context, drift)


def _expected(gamma: int, tally: Tally, base: _Base, cost: StepCost) -> Expected:
    def pass_s(nodes: int) -> float:
        return base.drift * cost.seconds(1, 1 + nodes, tally.context)

    plain_s = pass_s(0) + base.own_s
    survival = [*tally.survival, *[0.0] * gamma][:gamma]
    verify = (tally.mean(pass_s) + base.drafting_own_s) / plain_s
    draft_cost = tally.draft_s / max(tally.passes, 1) / gamma / plain_s
    tau = expect.tokens_per_pass(survival, gamma)
    return Expected(
        gamma=gamma,
        tokens_per_pass=tau,
        drafted_per_pass=tally.nodes,
        pass_cost=tally.mean(pass_s) / pass_s(0),
        draft_cost=draft_cost,
        step_cost=gamma * draft_cost + verify,
        alpha=expect.break_even(gamma, 0.0, tau) or 0.0,
        break_even=expect.break_even(gamma, draft_cost, verify),
        speedup=expect.speedup(survival, gamma, draft_cost, verify),
    )


def _range(subject: Subject, base: _Base, gamma: int, setting: Setting) -> tuple[float, float]:
    """The middle nine tenths of the expectations from prompts drawn with replacement (the bootstrap, Efron 1979)."""
    tallies = [replay(subject.drafter(), [one], gamma, setting.max_tokens, subject.clock) for one in base.known]
    chance = Random(0)
    found = []
    for _ in range(RESAMPLES):
        tally = Tally()
        for one in chance.choices(tallies, k=len(tallies)):
            tally.join(one)
        found.append(_expected(gamma, tally, base, subject.cost).speedup if tally.passes else 1.0)
    found.sort()
    return found[RESAMPLES // 20], found[-1 - RESAMPLES // 20]


@dataclass(slots=True)
class _Sum:
    """Tokens, seconds and passes of decoding: all but the first pass of each answer."""

    tokens: float = 0.0
    seconds: float = 0.0
    passes: int = 0

    def add(self, bill: Usage) -> None:
        self.tokens += bill.tokens_per_s * bill.decode_s
        self.seconds += bill.decode_s
        self.passes += bill.passes - 1

    @property
    def speed(self) -> float:
        return self.tokens / self.seconds


def _measured(
    subject: Subject, prompts: Sequence[Sequence[int]], gamma: int, setting: Setting, tell: Callable[[str], None]
) -> tuple[Measured, list[Known]]:
    """Interleaved down to the single prompt, and who goes first changes with each round; with the plain answers."""
    generators = (subject.generator(0), subject.generator(gamma))
    rounds: list[tuple[_Sum, _Sum]] = []
    known: list[Known] = []
    for number in range(setting.rounds):
        tell(f"measuring {len(prompts)} other prompts, round {number + 1} of {setting.rounds}")
        sums = (_Sum(), _Sum())
        for prompt in prompts:
            answers: dict[int, _Answer] = {}
            for which in ((0, 1), (1, 0))[number % 2]:
                answers[which] = _ask(generators[which], prompt, setting.max_tokens)
                sums[which].add(answers[which].bill)
            _check_same(answers[0], answers[1])
            if number == 0:
                known.append(Known(prompt, answers[0].ids, answers[0].stopped))
        rounds.append(sums)
    if any(not sums.tokens for both in rounds for sums in both):
        raise UsageError("the answers are too short to time; give prompts with longer answers, or more max_tokens")
    ratios = [drafted.speed / plain.speed for plain, drafted in rounds]
    measured = Measured(
        gamma=gamma,
        tokens_per_pass=rounds[0][1].tokens / rounds[0][1].passes,
        plain_tokens_per_s=median(plain.speed for plain, _ in rounds),
        tokens_per_s=median(drafted.speed for _, drafted in rounds),
        speedup=median(ratios),
        low=min(ratios),
        high=max(ratios),
    )
    return measured, known


@dataclass(frozen=True, slots=True)
class _Answer:
    ids: tuple[int, ...]
    stopped: bool
    bill: Usage


def _ask(generator: Generator, prompt: Sequence[int], max_tokens: int) -> _Answer:
    ids: list[int] = []
    for chunk in generator.generate([Request(prompt, max_tokens)]):
        ids += chunk.token_ids
        if chunk.usage is not None:
            return _Answer(tuple(ids), chunk.finish_reason is FinishReason.STOP, chunk.usage)
    raise BackendError("an answer ended without its usage; the generator breaks its protocol")


def _check_same(plain: _Answer, drafted: _Answer) -> None:
    if plain.ids != drafted.ids:
        place = next((i for i, (a, b) in enumerate(zip(plain.ids, drafted.ids, strict=False)) if a != b), -1)
        where = f"token {place}" if place >= 0 else "its length"
        raise BackendError(f"speculation changed an answer at {where}; that is a fault of the backend or the engine")
