"""The engine: answers many requests at once, speculatively, with the very tokens that plain decoding gives."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from outrider.api import Chunk, Pass, Request
from outrider.backends.base import Backend, Scores
from outrider.core.rules import coupled
from outrider.core.step import Outcome
from outrider.drafters.base import Drafter
from outrider.engine import admission
from outrider.engine.drafting import Drafting
from outrider.engine.outlet import Detokenizer
from outrider.engine.scheduler import Scheduler
from outrider.engine.sequence import Sequence as Answer
from outrider.engine.sequence import Turn
from outrider.engine.stats import StepTime
from outrider.errors import UsageError
from outrider.policy.base import Policy

SLOTS = 32
CHUNK_ROWS = 512


class Engine:
    """A Generator over one backend, with one drafter (None: plain decoding) and one policy.

    `eos` are the ids that end an answer (not part of it); `detokenizer` makes the text of one answer. Several iterators
    may be in use at once, from several threads: steps take turns.
    """

    def __init__(
        self,
        backend: Backend,
        drafter: Drafter | None,
        policy: Policy,
        detokenizer: Callable[[], Detokenizer],
        eos: frozenset[int],
        *,
        slots: int = SLOTS,
        chunk_rows: int = CHUNK_ROWS,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if slots < 1 or chunk_rows < 1:
            raise UsageError(f"slots is {slots} and chunk_rows {chunk_rows}; both must be at least 1")
        self._backend = backend
        self._drafting = Drafting(drafter, policy, backend.vocab, backend.capabilities.trees)
        self._detokenizer = detokenizer
        self._eos = eos
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
        context = self._backend.context
        for request in requests:
            admission.check(request, self._backend.vocab, context)
        # Made now, not at the first step, so that what was checked is what runs, whatever the caller's lists become.
        answers = [
            Answer(index, request, context, self._eos, self._detokenizer()) for index, request in enumerate(requests)
        ]
        return self._run(Scheduler(answers, self._slots, self._chunk_rows))

    def _run(self, scheduler: Scheduler) -> Iterator[Chunk]:
        try:
            while scheduler.busy:
                with self._lock:
                    chunks = self._step(scheduler)
                yield from chunks
        finally:
            with self._lock, ExitStack() as stack:
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
        self._drafting.propose(deciding, sum(turn.rows for turn in turns))
        target_start = clock()
        scores = self._backend.extend([turn.extend() for turn in turns])
        for item, turn in enumerate(turns):
            if turn.decides:
                _judge(scores, item, turn)
        trim_start = clock()
        outcomes = [_trim(turn) for turn in deciding]
        commit_start = clock()
        self._backend.commit([turn.commit() for turn in turns])
        observe_start = clock()
        self._drafting.observe(outcomes)
        end = clock()
        step = StepTime(
            end - start,
            target_start - draft_start + end - observe_start,
            trim_start - target_start + observe_start - commit_start,
        )
        self._drafting.learn(outcomes, step.total_s)
        for turn in turns:
            turn.sequence.meter.time(step)
        return [self._chunk(scheduler, turn, step.total_s) for turn in deciding]

    def _open(self, answer: Answer) -> None:
        answer.opened(self._backend.open())
        self._drafting.begin(answer.seq, tuple(answer.tokens))

    def _close(self, answer: Answer) -> None:
        if answer.seq >= 0:
            seq, answer.seq = answer.seq, -1
            try:
                self._drafting.end(seq)
            finally:
                self._backend.close(seq)

    def _chunk(self, scheduler: Scheduler, turn: Turn, seconds: float) -> Chunk:
        answer, draft, verdict = turn.sequence, turn.draft, turn.verdict
        if answer.finish is not None:
            self._close(answer)
            scheduler.drop(answer)
        return answer.chunk(
            Pass(turn.position, draft.tokens, draft.parents, verdict.path, verdict.token, seconds),
        )


def _judge(scores: Scores, item: int, turn: Turn) -> None:
    """Walk the draft; the rows of one item are its pending tokens, then the draft's nodes."""
    rows, token = turn.rows, scores.token
    turn.verdict = coupled(turn.draft, lambda node: token(item, rows + node))


def _trim(turn: Turn) -> Outcome:
    """Take the verdict's tokens up to the end of the answer; drop accepted nodes behind it."""
    turn.kept = turn.sequence.take(turn.draft, turn.verdict)
    return Outcome(turn.sequence.seq, turn.draft, turn.verdict.path[: len(turn.kept)], turn.kept)
