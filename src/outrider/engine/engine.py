"""The engine: answers many requests at once, speculatively, with the very tokens that plain decoding gives."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from outrider.api import Chunk, FailureKind, Pass, Request
from outrider.backends.base import Backend, Scores
from outrider.constraints.base import Matcher, MatcherMaker
from outrider.core.rules import COUPLED, Rule
from outrider.core.step import Load, Outcome, StepTime
from outrider.drafters.base import Drafter
from outrider.engine import admission, judging
from outrider.engine.drafting import Drafting
from outrider.engine.memory import Memory
from outrider.engine.outlet import Detokenizer
from outrider.engine.scheduler import Scheduler
from outrider.engine.sequence import Family, Turn, World
from outrider.engine.sequence import Sequence as Answer
from outrider.errors import BackendError, OutriderError, UsageError
from outrider.policy.base import Policy

SLOTS = 32
CHUNK_ROWS = 512


@dataclass(frozen=True, slots=True)
class Broken:
    """A request that ended by an error of its own; all its samples are gone."""

    family: Family
    error: Exception
    kind: FailureKind


@dataclass(frozen=True, slots=True)
class Step:
    """What one step gave: chunks with their requests, in the order of its sequences, and who ended without one."""

    chunks: list[tuple[Family, Chunk]]
    broken: list[Broken]
    rows: int  # of the pass
    paused: int  # sequences that had to pause for it
    seconds: float


class Engine:
    """A Generator over one backend, with one drafter (None: plain decoding), one policy and one rule.

    `eos` are the ids that end an answer (not part of it); `detokenizer` makes the text of one answer; `matchers` makes
    the state of a constraint (None: requests with one are refused). Several iterators may be in use at once, from
    several threads: steps take turns.
    """

    def __init__(
        self,
        backend: Backend,
        drafter: Drafter | None,
        policy: Policy,
        detokenizer: Callable[[], Detokenizer],
        eos: frozenset[int],
        *,
        rule: Rule = COUPLED,
        matchers: MatcherMaker | None = None,
        slots: int = SLOTS,
        chunk_rows: int = CHUNK_ROWS,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if slots < 1 or chunk_rows < 1:
            raise UsageError(f"slots is {slots} and chunk_rows {chunk_rows}; both must be at least 1")
        self.backend = backend
        self._rule = rule
        self._drafting = Drafting(drafter, policy, rule, backend.vocab, backend.capabilities.trees)
        self._detokenizer = detokenizer
        self.world = World(backend.vocab, backend.context, eos, rule.uses_p, self._drafting.names)
        self._matchers = matchers
        self.slots = slots
        self.chunk_rows = chunk_rows
        self._clock = clock
        # Reentrant: an abandoned iterator may be collected, and so closed, while this thread is inside a step.
        self._lock = threading.RLock()

    def generate(self, requests: Sequence[Request]) -> Iterator[Chunk]:
        """Answer all requests in one batch; chunks of several answers interleave, each answer's last one has its usage.

        Raises UsageError, before anything runs, for a request that cannot be answered. A request that fails in the
        middle (its constraint may become too complex) ends alone: the others are answered, then the first such error is
        raised. Closing the iterator early abandons what is unfinished and leaves nothing behind.
        """
        for request in requests:
            admission.check(request, self.world)
        # Made now, not at the first step, so that what was checked is what runs, whatever the caller's lists become.
        answers = [answer for index, request in enumerate(requests) for answer in self._samples(index, request)]
        scheduler = Scheduler(Memory(self.backend), self.slots, self.chunk_rows, self.chunk_rows)
        scheduler.add(answers)
        return self._run(scheduler, answers)

    def answers(self, request: Request) -> list[Answer]:
        """The samples of one request, for a scheduler. Raises UsageError for a request that cannot be answered."""
        admission.check(request, self.world)
        return list(self._samples(0, request))

    def _samples(self, index: int, request: Request) -> Iterator[Answer]:
        family = Family(request.n)
        for sample in range(request.n):
            matcher = self._matcher(request)
            yield Answer(index, request, sample, family, self.world, self._detokenizer(), matcher)

    def _matcher(self, request: Request) -> Matcher | None:
        if request.constraint is None:
            return None
        if self._matchers is None:
            raise UsageError("constraint is set, but this engine was made without constraints; leave it out")
        return self._matchers(request.constraint)

    def _run(self, scheduler: Scheduler, answers: Sequence[Answer]) -> Iterator[Chunk]:
        broken: list[Broken] = []
        try:
            while scheduler.busy:
                step = self.step(scheduler)
                broken += step.broken
                for _, chunk in step.chunks:
                    yield chunk
        finally:
            with self._lock, ExitStack() as stack:
                for family in {id(answer.family): answer.family for answer in answers}.values():
                    stack.callback(scheduler.memory.forget, family)
                for answer in scheduler.running:
                    stack.callback(self._close, scheduler, answer)
        if broken:
            raise broken[0].error

    def step(self, scheduler: Scheduler) -> Step:
        """One pass for all that run, after those who fit have joined. Only while the scheduler is busy."""
        with self._lock:
            return self._step(scheduler)

    def withdraw(self, scheduler: Scheduler, family: Family) -> None:
        """Abandon all samples of a request, wherever they are."""
        with self._lock, ExitStack() as stack:
            stack.callback(scheduler.memory.forget, family)
            for answer in scheduler.withdraw(family):
                stack.callback(self._close, scheduler, answer)

    def recover(self, scheduler: Scheduler, error: Exception) -> list[Broken]:
        """After a step that raised: who has to end for it. The others can go on.

        A pass that raises has changed nothing. The youngest pauses then, so that the next pass is smaller, down to a
        sequence alone, which is at fault. A sequence of which engine and backend disagree ends at once.
        """
        with self._lock:
            lost = [answer for answer in scheduler.running if not self._sound(answer)]
            if not lost and len(scheduler.running) > 1:
                self._pause(scheduler)
                scheduler.narrow()
                return []
            lost = lost or scheduler.running[:1] or scheduler.waiting[:1]
            for answer in lost:
                self._drafting.end(answer.seq)
                with suppress(OutriderError):
                    scheduler.memory.discard(answer)
                self.withdraw(scheduler, answer.family)
            kind = FailureKind.OVERLOAD if isinstance(error, BackendError) else FailureKind.INTERNAL
            return [Broken(answer.family, error, kind) for answer in lost]

    def _sound(self, answer: Answer) -> bool:
        if answer.seq < 0 or answer.finish is not None:
            return False
        try:
            return self.backend.length(answer.seq) == answer.committed
        except OutriderError:
            return False

    def _step(self, scheduler: Scheduler) -> Step:
        clock, memory = self._clock, scheduler.memory
        start = clock()
        turns, paused = self._plan(scheduler)
        deciding = [turn for turn in turns if turn.decides]
        draft_start = clock()
        self._drafting.propose(deciding, Load(len(turns), sum(turn.rows for turn in turns)))
        target_start = clock()
        scores = self.backend.extend([turn.extend() for turn in turns])
        for item, turn in enumerate(turns):
            self._judge(scores, item, turn)
        trim_start = clock()
        outcomes = [_trim(turn) for turn in deciding]
        commit_start = clock()
        self.backend.commit([turn.commit() for turn in turns])
        memory.committed(turns)
        observe_start = clock()
        self._drafting.observe(outcomes)
        end = clock()
        step = StepTime(
            end - start,
            target_start - draft_start + end - observe_start,
            trim_start - target_start + observe_start - commit_start,
        )
        for turn in turns:
            turn.sequence.meter.time(step)
        self._drafting.learn(deciding, outcomes, step)
        chunks, broken = self._ended(scheduler, turns, step.total_s)
        return Step(chunks, broken, sum(turn.rows + len(turn.draft) for turn in turns), paused, step.total_s)

    def _plan(self, scheduler: Scheduler) -> tuple[list[Turn], int]:
        """Who runs, and how many of the youngest had to pause because memory would not do."""
        for answer in scheduler.admit():
            scheduler.memory.open(answer)
            self._drafting.begin(answer)
        before = len(scheduler.running)
        while True:
            turns = scheduler.plan()
            if scheduler.memory.fits(turns, scheduler.running):
                return turns, before - len(scheduler.running)
            self._pause(scheduler)

    def _pause(self, scheduler: Scheduler) -> None:
        """The youngest sequence gives its memory back and is computed again later, its answer unchanged."""
        youngest = scheduler.running[-1]
        self._close(scheduler, youngest)
        scheduler.pause(youngest)

    def _close(self, scheduler: Scheduler, answer: Answer) -> None:
        if answer.seq >= 0:
            try:
                self._drafting.end(answer.seq)
            finally:
                scheduler.memory.close(answer)

    def _judge(self, scores: Scores, item: int, turn: Turn) -> None:
        """Give a turn its verdict; what goes wrong with one answer is no other's business."""
        try:
            judging.read_prompt(scores, item, turn)
            if turn.decides and turn.error is None:
                judging.judge(self._rule, scores, item, turn)
                if self._drafting.followers:
                    judging.read_followers(scores, item, turn, self._drafting.followers)
        except Exception as error:
            turn.error = error

    def _ended(
        self, scheduler: Scheduler, turns: Sequence[Turn], seconds: float
    ) -> tuple[list[tuple[Family, Chunk]], list[Broken]]:
        """What the step gave; those that ended are closed."""
        chunks: list[tuple[Family, Chunk]] = []
        for turn in turns:
            answer, draft, verdict = turn.sequence, turn.draft, turn.verdict
            if turn.error is not None or not turn.decides:
                continue
            if answer.finish is not None:
                self._close(scheduler, answer)
                scheduler.drop(answer)
            told = (turn.position, draft.tokens, draft.parents, verdict.path, verdict.token, seconds, draft.forced)
            story = Pass(*told, draft.drafters or ())
            chunks.append((answer.family, answer.chunk(story)))
        broken = [
            Broken(turn.sequence.family, turn.error, _blame(turn.error)) for turn in turns if turn.error is not None
        ]
        for entry in broken:
            self.withdraw(scheduler, entry.family)
        return chunks, broken


def _blame(error: Exception) -> FailureKind:
    """Of an error within one answer: what we raise on purpose there is a constraint's that cannot be held."""
    return FailureKind.USAGE if isinstance(error, OutriderError) else FailureKind.INTERNAL


def _trim(turn: Turn) -> Outcome:
    """Take the verdict's tokens up to the end of the answer; drop accepted nodes behind it."""
    if turn.error is None:
        try:
            turn.kept = turn.sequence.take(turn.draft, turn.verdict, turn.logprobs)
        except Exception as error:
            turn.error = error
    return Outcome(turn.sequence.seq, turn.draft, turn.verdict.path[: len(turn.kept)], turn.kept, turn.followers)
