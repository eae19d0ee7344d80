"""The engine: answers many requests at once, speculatively, with the very tokens that plain decoding gives."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from outrider.api import Chunk, Pass, Request
from outrider.backends.base import Backend, Scores
from outrider.constraints.base import Matcher, MatcherMaker
from outrider.core.rules import COUPLED, Rule
from outrider.core.step import Load, Outcome, StepTime
from outrider.drafters.base import Drafter
from outrider.engine import admission, judging
from outrider.engine.drafting import Drafting
from outrider.engine.outlet import Detokenizer
from outrider.engine.scheduler import Scheduler
from outrider.engine.sequence import Family, Turn, World
from outrider.engine.sequence import Sequence as Answer
from outrider.errors import UsageError
from outrider.policy.base import Policy

SLOTS = 32
CHUNK_ROWS = 512


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
        self._backend = backend
        self._rule = rule
        self._drafting = Drafting(drafter, policy, rule, backend.vocab, backend.capabilities.trees)
        self._detokenizer = detokenizer
        self._world = World(backend.vocab, backend.context, eos, rule.uses_p, drafter is not None)
        self._matchers = matchers
        self._slots = slots
        self._chunk_rows = chunk_rows
        self._clock = clock
        # Reentrant: an abandoned iterator may be collected, and so closed, while this thread is inside a step.
        self._lock = threading.RLock()

    def generate(self, requests: Sequence[Request]) -> Iterator[Chunk]:
        """Answer all requests in one batch; chunks of several answers interleave, each answer's last one has its usage.

        Raises UsageError, before anything runs, for a request that cannot be answered. Closing the iterator early
        abandons what is unfinished and leaves nothing behind.
        """
        for request in requests:
            admission.check(request, self._world)
        # Made now, not at the first step, so that what was checked is what runs, whatever the caller's lists become.
        answers = [answer for index, request in enumerate(requests) for answer in self._samples(index, request)]
        return self._run(Scheduler(answers, self._slots, self._chunk_rows), answers)

    def _samples(self, index: int, request: Request) -> Iterator[Answer]:
        family = Family(request.n)
        for sample in range(request.n):
            matcher = self._matcher(request)
            yield Answer(index, request, sample, family, self._world, self._detokenizer(), matcher)

    def _matcher(self, request: Request) -> Matcher | None:
        if request.constraint is None:
            return None
        if self._matchers is None:
            raise UsageError("constraint is set, but this engine was made without constraints; leave it out")
        return self._matchers(request.constraint)

    def _run(self, scheduler: Scheduler, answers: Sequence[Answer]) -> Iterator[Chunk]:
        try:
            while scheduler.busy:
                with self._lock:
                    chunks = self._step(scheduler)
                yield from chunks
        finally:
            with self._lock, ExitStack() as stack:
                for family in {id(answer.family): answer.family for answer in answers}.values():
                    stack.callback(self._close_stem, family)
                for answer in scheduler.running:
                    stack.callback(self._close, answer)

    def _step(self, scheduler: Scheduler) -> list[Chunk]:
        clock = self._clock
        start = clock()
        for answer in scheduler.admit():
            self._open(answer)
        turns = scheduler.plan()
        deciding = [turn for turn in turns if turn.decides]
        draft_start = clock()
        self._drafting.propose(deciding, Load(len(turns), sum(turn.rows for turn in turns)))
        target_start = clock()
        scores = self._backend.extend([turn.extend() for turn in turns])
        for item, turn in enumerate(turns):
            self._judge(scores, item, turn)
        trim_start = clock()
        outcomes = [_trim(turn) for turn in deciding]
        commit_start = clock()
        self._backend.commit([turn.commit() for turn in turns])
        self._keep_stems(deciding)
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
        return [self._chunk(scheduler, turn, step.total_s) for turn in deciding]

    def _open(self, answer: Answer) -> None:
        family = answer.family
        if answer.first:
            answer.opened(self._backend.open(), 0)
        else:
            answer.opened(self._backend.fork(family.stem), len(answer.request.prompt) - 1)
            family.waiting -= 1
            if family.waiting == 0:
                self._close_stem(family)
        self._drafting.begin(answer)

    def _keep_stems(self, turns: Sequence[Turn]) -> None:
        """Where a first sample has just read its prompt and others wait for it, keep a fork for them."""
        for turn in turns:
            answer = turn.sequence
            if answer.first and answer.family.waiting and answer.family.stem < 0:
                answer.family.stem = self._backend.fork(answer.seq)
                self._backend.truncate(answer.family.stem, len(answer.request.prompt) - 1)

    def _close_stem(self, family: Family) -> None:
        if family.stem >= 0:
            stem, family.stem = family.stem, -1
            self._backend.close(stem)

    def _close(self, answer: Answer) -> None:
        if answer.seq >= 0:
            seq, answer.seq = answer.seq, -1
            try:
                self._drafting.end(seq)
            finally:
                self._backend.close(seq)

    def _judge(self, scores: Scores, item: int, turn: Turn) -> None:
        judging.read_prompt(scores, item, turn)
        if turn.decides:
            judging.judge(self._rule, scores, item, turn)
            if self._drafting.followers:
                judging.read_followers(scores, item, turn, self._drafting.followers)

    def _chunk(self, scheduler: Scheduler, turn: Turn, seconds: float) -> Chunk:
        answer, draft, verdict = turn.sequence, turn.draft, turn.verdict
        if answer.finish is not None:
            self._close(answer)
            scheduler.drop(answer)
        return answer.chunk(
            Pass(turn.position, draft.tokens, draft.parents, verdict.path, verdict.token, seconds, draft.forced),
        )


def _trim(turn: Turn) -> Outcome:
    """Take the verdict's tokens up to the end of the answer; drop accepted nodes behind it."""
    turn.kept = turn.sequence.take(turn.draft, turn.verdict, turn.logprobs)
    return Outcome(turn.sequence.seq, turn.draft, turn.verdict.path[: len(turn.kept)], turn.kept, turn.followers)
