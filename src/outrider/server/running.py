"""The process: a socket, uvicorn with one worker, and the way down.

The first SIGTERM or SIGINT drains: running answers end, new requests get 503, then the exit status is 0. The second
ends the process at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp

from outrider.api import Live
from outrider.errors import UsageError
from outrider.server.house import Limits
from outrider.server.logs import Bridge, Log

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_BACKLOG = 1024
_KEEP_ALIVE_S = 75
_LAST_S = 5  # for connections to close after the last answer


def listen(host: str, port: int) -> socket.socket:
    """A socket bound to an address, not listening yet. Raises UsageError where that cannot be."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise UsageError(f"--host {host} is no address of this machine: {error.strerror}") from None
    family, kind, protocol, _, address = found[0]
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
    except OSError as error:
        opened.close()
        remedy = "choose another with --port, or --port 0 for any that is free"
        raise UsageError(f"port {port} of {host} cannot be used ({error.strerror}); {remedy}") from None
    return opened


def address(opened: socket.socket, host: str) -> str:
    """What to type into a browser."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{opened.getsockname()[1]}"


class Server(uvicorn.Server):
    """uvicorn, with our own way to stop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals alone: the loop has handlers for them."""
        yield


def serve(app: ASGIApp, live: Live, opened: socket.socket, limits: Limits, log: Log, ready: Callable[[], None]) -> None:
    """Serve until a signal, and drain. Closes the Live. Runs in the main thread."""
    asyncio.run(_serve(app, live, opened, limits, log, ready))


async def _serve(
    app: ASGIApp, live: Live, opened: socket.socket, limits: Limits, log: Log, ready: Callable[[], None]
) -> None:
    with contextlib.suppress(OSError, AttributeError):
        # A reader that takes nothing for so long loses its connection; accepted sockets inherit it.
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * limits.request_s))
    server = make(app, log)
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()

    def stop(number: int) -> None:
        if stopping.is_set():
            os._exit(128 + number)
        stopping.set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop, number)
    serving = asyncio.create_task(server.serve([opened]))
    try:
        await _until_up(server, serving)
        ready()
        ending = asyncio.create_task(stopping.wait())
        await asyncio.wait({ending, serving}, return_when=asyncio.FIRST_COMPLETED)
        log.write("draining", {"drain_s": limits.drain_s})
        whole = await asyncio.to_thread(live.drain, limits.drain_s)
        if not whole:
            log.write("drain", {"message": f"requests were still running after {limits.drain_s:g} s"}, "warning")
            await asyncio.to_thread(live.close)
        server.should_exit = True
        await serving
    finally:
        await asyncio.to_thread(live.close)
    log.write("stopped", {})


def make(app: ASGIApp, log: Log) -> Server:
    """uvicorn over an application, its logs in our lines."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_LAST_S,
        backlog=_BACKLOG,
    )
    logger = logging.getLogger("uvicorn")
    logger.handlers = [Bridge(log)]
    logger.propagate = False
    return Server(config)


async def _until_up(server: Server, serving: asyncio.Task[None]) -> None:
    while not server.started:
        if serving.done():
            serving.result()
            raise RuntimeError("the HTTP server ended before it began")
        await asyncio.sleep(0.005)
