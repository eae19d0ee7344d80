"""One engine for many users at once: requests join and leave at any step, in a thread of the engine's own.

A row is alone, so an answer never depends on who else is served: its ids are those of the request run by itself.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from typing import TypeAlias

from outrider.api import Chunk, Failed, FailureKind, LiveState, Request, Snapshot
from outrider.engine.engine import Broken, Engine, Step
from outrider.engine.memory import Budgeted
from outrider.engine.scheduler import Scheduler
from outrider.engine.sequence import Family
from outrider.engine.sequence import Sequence as Answer
from outrider.engine.tally import Rate, Tally
from outrider.errors import BackendError, Draining, OutriderError, Overloaded, UsageError

Listener: TypeAlias = Callable[[Chunk | Failed], None]
QUEUE = 256
# Prompt rows of a pass in which others decode: what a newcomer may add to the time of everybody's next token.
BESIDE_ROWS = 128

_NO_STEP = Step([], [], 0, 0, 0.0)
_STOPPED = Failed(0, "the engine stopped before the answer was complete; ask again", FailureKind.OVERLOAD)
_BROKEN = Failed(0, "an internal error ended this answer; ask again", FailureKind.INTERNAL)

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Job:
    """One request on its way. left: samples that have not ended."""

    ticket: int
    answers: list[Answer]
    listener: Listener
    left: int

    @property
    def family(self) -> Family:
        return self.answers[0].family

    @property
    def begun(self) -> bool:
        return self.answers[0].started


class Service:
    """A Live, and a Generator, over one engine.

    kv_bytes is the memory for keys and values, those of kept beginnings of texts included; queue the number of requests
    that may wait. `start` begins the thread; without it every `step` is the caller's. Other generators of the same
    engine take turns with it, step by step, and their memory is not counted.

    Raises UsageError where the backend does not count its blocks, for less than one block, and for a queue under 1.
    """

    def __init__(
        self,
        engine: Engine,
        kv_bytes: int,
        *,
        queue: int = QUEUE,
        beside_rows: int = BESIDE_ROWS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if queue < 1 or beside_rows < 1:
            raise UsageError(f"queue is {queue} and beside_rows {beside_rows}; both must be at least 1")
        self._engine = engine
        self._queue = queue
        self._clock = clock
        self._started_s = clock()
        self._memory = Budgeted(engine.backend, kv_bytes)
        self._scheduler = Scheduler(self._memory, engine.slots, engine.chunk_rows, min(beside_rows, engine.chunk_rows))
        self._thread: threading.Thread | None = None
        self._stepping = threading.RLock()  # what belongs to the steps: scheduler, memory, tally
        self._tally = Tally(self._memory, engine.world.drafters)
        # What others may touch, and what tells the engine's thread about it.
        self._changed = threading.Condition()
        self._state = LiveState.READY
        self._jobs: dict[int, _Job] = {}
        self._incoming: list[_Job] = []
        self._leaving: list[_Job] = []
        self._tickets = 0
        self._ends = Rate(clock)

    def start(self) -> None:
        """Begin to serve, in a thread. Raises UsageError the second time."""
        if self._thread is not None:
            raise UsageError("this service was started already; make another one")
        self._thread = threading.Thread(target=self._serve, name="outrider-engine", daemon=True)
        self._thread.start()

    def submit(self, request: Request, listener: Listener) -> int:
        """Live.submit. A constraint is compiled here, in the caller's thread, which may take a while."""
        self._check_open()  # before work is put into it
        if not isinstance(request.scope, str):
            raise UsageError(f"scope is {request.scope!r}; give a text")
        answers = self._engine.answers(request)
        self._memory.check(request, self._engine.world.context)
        with self._changed:
            self._check_open()
            self._tickets += 1
            job = _Job(self._tickets, answers, listener, len(answers))
            job.family.ticket = job.ticket
            self._jobs[job.ticket] = job
            self._incoming.append(job)
            self._changed.notify_all()
        return job.ticket

    def cancel(self, ticket: int) -> None:
        """Live.cancel."""
        with self._changed:
            job = self._jobs.pop(ticket, None)
            if job is None:
                return
            if job in self._incoming:
                self._incoming.remove(job)
            else:
                self._leaving.append(job)
            self._changed.notify_all()

    def generate(self, requests: Sequence[Request]) -> Iterator[Chunk]:
        """Generator.generate, beside everybody else; needs `start`.

        Raises what submit raises, and BackendError, once the others are answered, where a request failed in the middle.
        """
        arrived: SimpleQueue[tuple[int, Chunk | Failed]] = SimpleQueue()
        tickets: list[int] = []
        try:
            for index, request in enumerate(requests):
                tickets.append(self.submit(request, partial(_arrive, arrived, index)))
        except OutriderError:
            self._cancel_all(tickets)
            raise
        return self._arriving(arrived, tickets, [request.n for request in requests])

    def drain(self, timeout_s: float) -> bool:
        """Live.drain."""
        with self._changed:
            if self._state is LiveState.READY:
                self._state = LiveState.DRAINING
            return self._changed.wait_for(lambda: not self._jobs and not self.busy, timeout_s)

    def close(self) -> None:
        """Live.close. Called by a listener it only begins to stop."""
        with self._changed:
            self._state = LiveState.CLOSED
            self._changed.notify_all()
        if self._thread is threading.current_thread():
            return
        if self._thread is not None:
            self._thread.join()
        self._abandon(_STOPPED)

    def snapshot(self) -> Snapshot:
        """Live.snapshot; as it was after the last step."""
        with self._changed:
            jobs = list(self._jobs.values())
            state = self._state
        waiting = sum(not job.begun for job in jobs)
        return self._tally.snapshot(state, self._clock() - self._started_s, len(jobs) - waiting, waiting)

    @property
    def busy(self) -> bool:
        """Whether a step has something to do."""
        with self._changed:
            return bool(self._incoming or self._leaving or self._scheduler.busy)

    def step(self) -> None:
        """Let requests join and leave, compute one pass if anybody needs one, and tell the listeners."""
        with self._stepping:
            with self._changed:
                incoming, self._incoming = self._incoming, []
                leaving, self._leaving = self._leaving, []
            for job in incoming:
                self._scheduler.add(job.answers)
            for job in leaving:
                self._engine.withdraw(self._scheduler, job.family)
            step = self._pass() if self._scheduler.busy else _NO_STEP
            self._tally.count(step, self._scheduler)
        for family, chunk in step.chunks:
            self._tell(family.ticket, chunk)
        for broken in step.broken:
            self._tell(broken.family.ticket, Failed(0, _sentence(broken), broken.kind))
        with self._changed:
            self._changed.notify_all()

    def _pass(self) -> Step:
        try:
            return self._engine.step(self._scheduler)
        except Exception as error:
            _log.exception("a pass failed")
            return replace(_NO_STEP, broken=self._engine.recover(self._scheduler, error))

    def _tell(self, ticket: int, what: Chunk | Failed) -> None:
        """Call the request's listener, unless it is gone; its last call ends it."""
        job = self._jobs.get(ticket)
        if job is None:
            return
        try:
            job.listener(what)
        except Exception:
            _log.exception("the listener of request %d raised; the request is abandoned", ticket)
            self.cancel(ticket)
            return
        if isinstance(what, Failed):
            job.left = 0
        elif what.finish_reason is not None:
            job.left -= 1
        if not job.left:
            with self._changed:
                self._jobs.pop(ticket, None)
                self._ends.ended()

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._due)
                if self._state is LiveState.CLOSED:
                    break
            try:
                self.step()
            except Exception:  # whatever it is, the next requests are served
                _log.exception("the engine failed; every request that it has is given up")
                self._abandon(_BROKEN)
        self._abandon(_STOPPED)

    def _due(self) -> bool:
        return self._state is LiveState.CLOSED or self.busy

    def _abandon(self, why: Failed) -> None:
        """Give up every request."""
        with self._stepping:
            with self._changed:
                jobs = list(self._jobs.values())
                families = [job.family for job in (*jobs, *self._leaving)]
                self._incoming, self._leaving = [], []
            for family in families:
                try:
                    self._engine.withdraw(self._scheduler, family)
                except Exception:
                    _log.exception("a request could not be given up cleanly")
            self._memory.clear()
            self._tally.count(_NO_STEP, self._scheduler)
        for job in jobs:
            self._tell(job.ticket, why)
        with self._changed:
            self._changed.notify_all()

    def _check_open(self) -> None:
        if self._state is not LiveState.READY:
            raise Draining("the engine takes no new requests, because it is about to stop; ask another one")
        waiting = sum(not job.begun for job in list(self._jobs.values()))
        if waiting >= self._queue:
            wait_s = self._ends.wait_s()
            raise Overloaded(
                f"{waiting} requests wait already, as many as may; try again in {wait_s:.0f} seconds", wait_s
            )

    def _cancel_all(self, tickets: Sequence[int]) -> None:
        for ticket in tickets:
            self.cancel(ticket)

    def _arriving(
        self, arrived: SimpleQueue[tuple[int, Chunk | Failed]], tickets: Sequence[int], left: list[int]
    ) -> Iterator[Chunk]:
        """The chunks as they come; left: samples of each request that have not ended."""
        failed: list[Failed] = []
        try:
            while any(left):
                index, what = arrived.get()
                if isinstance(what, Failed):
                    failed.append(what)
                    left[index] = 0
                    continue
                left[index] -= what.finish_reason is not None
                yield replace(what, request=index)
        finally:
            self._cancel_all(tickets)
        if failed:
            raise BackendError(failed[0].message)


def _arrive(arrived: SimpleQueue[tuple[int, Chunk | Failed]], index: int, what: Chunk | Failed) -> None:
    arrived.put((index, what))


def _sentence(broken: Broken) -> str:
    error = broken.error
    if isinstance(error, OutriderError):
        return str(error)
    return f"an internal error ended this answer ({type(error).__name__}: {error})"
