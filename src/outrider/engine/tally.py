"""What a service counts: passes, rows, tokens, drafts by position, memory, and how fast requests come to their end."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence

from outrider.api import Drafted, LiveState, Pass, Snapshot
from outrider.engine.engine import Step
from outrider.engine.memory import Budgeted
from outrider.engine.scheduler import Scheduler

_RECENT_S = 5.0  # of work: what is older counts for less than 1 / e
_ENDS = 32
_SOONEST_S, _LATEST_S = 1.0, 60.0


class _Guesses:
    """Nodes drafted and kept, and by depth the passes that verified one and that kept one."""

    __slots__ = ("accepted", "drafted", "kept", "verified")

    def __init__(self) -> None:
        self.drafted = self.accepted = 0
        self.verified: list[int] = []
        self.kept: list[int] = []

    def count(self, drafted: int, depths: Iterable[int], kept: Collection[int]) -> None:
        """One pass: nodes, the depths where there were any, and those where one was kept."""
        self.drafted += drafted
        self.accepted += len(kept)
        for depth in depths:
            short = depth + 1 - len(self.verified)
            if short > 0:
                self.verified += [0] * short
                self.kept += [0] * short
            self.verified[depth] += 1
        for depth in kept:
            self.kept[depth] += 1


class Tally:
    """Counts the steps of one service; numbers only grow but for those that say how things are now.

    drafters: the names of all that may draft, so that each is told of from the start.
    """

    def __init__(self, memory: Budgeted, drafters: Sequence[str]) -> None:
        self._memory = memory
        self._passes = self._rows = self._tokens = self._preemptions = 0
        self._guesses = _Guesses()
        self._by_drafter = {name: _Guesses() for name in drafters}
        self._histogram: list[int] = []
        self._budget = 0.0
        self._recent_tok = self._recent_s = 0.0
        self._sequences = self._paused = self._used = self._idle = 0

    def count(self, step: Step, scheduler: Scheduler) -> None:
        """A step is over."""
        if step.rows:
            self._passes += 1
            self._rows += step.rows
            size = (step.rows - 1).bit_length()
            self._histogram += [0] * (size + 1 - len(self._histogram))
            self._histogram[size] += 1
        stories = [chunk.story for _, chunk in step.chunks if chunk.story is not None]
        for story in stories:
            self._count_draft(story)
        if stories:
            self._budget = sum(len(story.drafted) for story in stories) / len(stories)
        tokens = sum(len(chunk.token_ids) for _, chunk in step.chunks)
        self._tokens += tokens
        fading = math.exp(-step.seconds / _RECENT_S)
        self._recent_tok = self._recent_tok * fading + tokens
        self._recent_s = self._recent_s * fading + step.seconds
        self._preemptions += step.paused
        self._sequences = len(scheduler.running)
        self._paused = sum(sequence.started for sequence in scheduler.waiting)
        self._used, self._idle = self._memory.used, self._memory.prefixes.idle

    def snapshot(self, state: LiveState, uptime_s: float, running: int, waiting: int) -> Snapshot:
        """All numbers, as they were after the last step."""
        memory = self._memory
        return Snapshot(
            state=state,
            uptime_s=uptime_s,
            running=running,
            waiting=waiting,
            sequences=self._sequences,
            paused=self._paused,
            kv_blocks_used=self._used,
            kv_blocks_cached=self._idle,
            kv_blocks_total=memory.total,
            kv_bytes_total=memory.total * memory.block_bytes,
            prefix_hits_tok=memory.hits_tok,
            prefix_misses_tok=memory.misses_tok,
            preemptions=self._preemptions,
            passes=self._passes,
            rows=self._rows,
            tokens=self._tokens,
            drafted=self._guesses.drafted,
            accepted=self._guesses.accepted,
            drafted_by_position=tuple(self._guesses.verified),
            accepted_by_position=tuple(self._guesses.kept),
            drafters=tuple(
                Drafted(name, one.drafted, one.accepted, tuple(one.verified), tuple(one.kept))
                for name, one in self._by_drafter.items()
            ),
            budget=self._budget,
            goodput_tok_s=self._recent_tok / self._recent_s if self._recent_s > 0.0 else 0.0,
            pass_rows_histogram=tuple(self._histogram),
        )

    def _count_draft(self, story: Pass) -> None:
        depths: list[int] = []
        for parent in story.parents:
            depths.append(0 if parent < 0 else depths[parent] + 1)
        path, who = story.path, story.drafters
        self._guesses.count(len(depths), range(max(depths, default=-1) + 1), range(len(path)))
        for name in set(who):
            guessed = {depth for depth, drafter in zip(depths, who, strict=True) if drafter == name}
            kept = [depth for depth, node in enumerate(path) if who[node] == name]
            self._by_drafter[name].count(who.count(name), guessed, kept)


class Rate:
    """How often requests ended lately, by a clock in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ends: deque[float] = deque(maxlen=_ENDS)

    def ended(self) -> None:
        """One more."""
        self._ends.append(self._clock())

    def wait_s(self) -> float:
        """Until the next one is likely to end, within 1 to 60 seconds."""
        if len(self._ends) < 2:
            return _SOONEST_S
        # Up to now, so that an engine that has come to a halt does not look fast.
        each_s = (self._clock() - self._ends[0]) / (len(self._ends) - 1)
        return min(max(each_s, _SOONEST_S), _LATEST_S)
