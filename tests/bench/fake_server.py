"""A server on this machine that answers chat completions as it is told to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any


@dataclass
class Fake:
    """What to say, and what was heard. With a complaint every completion is refused; silent ones never answer."""

    pieces: Sequence[str] = ("Hel", "lo")
    usage: int | None = 5
    complaint: tuple[int, bytes] | None = None
    extra: Sequence[bytes] = ()  # lines before the end of the stream
    models: bytes = b'{"object": "list", "data": [{"id": "first"}, {"id": "second"}]}'
    silent: bool = False
    heard: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    done: Event = field(default_factory=Event)
    url: str = ""

    def lines(self) -> Iterator[bytes]:
        """The stream of one answer."""
        yield b": a comment\n\n"
        yield event(choices=[{"delta": {"role": "assistant", "content": ""}}])
        for piece in self.pieces:
            yield event(choices=[{"delta": {"content": piece}}], usage=None)
        yield from self.extra
        yield event(choices=[{"delta": {}, "finish_reason": "stop"}])
        if self.usage is not None:
            yield event(choices=[], usage={"prompt_tokens": 3, "completion_tokens": self.usage})
        yield b"data: [DONE]\n\n"


def event(**data: object) -> bytes:
    """A server-sent event."""
    return b"data: " + json.dumps(data).encode() + b"\n\n"


@contextmanager
def serving(fake: Fake) -> Iterator[Fake]:
    """The fake at an address of its own, which fake.url then is."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(200 if self.path == "/v1/models" else 404, [fake.models])

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            fake.heard.append({"path": self.path, **json.loads(body)})
            fake.keys.append(self.headers["Authorization"])
            if fake.silent:
                fake.done.wait(30)
            elif fake.complaint is not None:
                self._send(fake.complaint[0], [fake.complaint[1]])
            else:
                self._send(200, fake.lines())

        def _send(self, status: int, lines: Sequence[bytes] | Iterator[bytes]) -> None:
            self.send_response(status)
            self.end_headers()
            for line in lines:
                self.wfile.write(line)

        def log_message(self, format: str, *args: object) -> None:
            """Nobody wants to read it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield fake
    finally:
        fake.done.set()
        server.shutdown()
        thread.join()
        server.server_close()
