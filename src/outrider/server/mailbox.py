"""From the engine's thread to the event loop: submitted requests, and what comes of them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Sequence
from functools import partial

from outrider.api import Chunk, Failed, Live, Request

Item = tuple[int, Chunk | Failed]  # the request's place, and what came of it


class Mailbox:
    """The requests of one HTTP request. Made in the event loop; submit may run in another thread.

    close abandons whatever is still running, also a submit that is under way: nothing is left behind.
    """

    def __init__(self, live: Live) -> None:
        self._live = live
        self._loop = asyncio.get_running_loop()
        self._items: deque[Item] = deque()
        self._arrived = asyncio.Event()
        self._woken = False
        self._lock = threading.Lock()
        self._tickets: list[int] = []
        self._closed = False

    def submit(self, requests: Sequence[Request]) -> None:
        """Take all of them in, or none. Raises what Live.submit does."""
        for number, request in enumerate(requests):
            ticket = self._live.submit(request, partial(self._put, number))
            with self._lock:
                self._tickets.append(ticket)
                late = self._closed
            if late:
                self._live.cancel(ticket)

    def _put(self, number: int, item: Chunk | Failed) -> None:
        self._items.append((number, item))
        # One call into the loop for all that comes before it looks: a pass of many answers wakes it once each at most.
        if not self._woken:
            self._woken = True
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits any more
                self._loop.call_soon_threadsafe(self._arrived.set)

    async def take(self, timeout_s: float | None) -> list[Item]:
        """All that has come since the last call, at least one; empty after timeout_s."""
        try:
            async with asyncio.timeout(timeout_s):
                while not self._items:
                    await self._arrived.wait()
                    self._look()
        except TimeoutError:
            return []
        self._look()
        found = []
        while self._items:
            found.append(self._items.popleft())
        return found

    def _look(self) -> None:
        """From here on, what is put wakes us again; so the items are looked at afterwards."""
        self._arrived.clear()
        self._woken = False

    def close(self) -> None:
        """Abandon what has not ended; for what has, it does nothing."""
        with self._lock:
            self._closed = True
            tickets = list(self._tickets)
        for ticket in tickets:
            self._live.cancel(ticket)
