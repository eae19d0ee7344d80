"""Any OpenAI-compatible server as a contender: /v1/chat/completions, streamed, with nothing but the standard library.

Its passes are not under our clock: decode_s runs from its first piece of text to its last, and the tokens are those of
its own usage less one, which the first piece brought before the clock ran. Pieces may hold several tokens.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from outrider.bench.contenders import Answer, Messages, Settings
from outrider.errors import BackendError, UsageError

NAME = "server"
TIMEOUT_S = 120.0


class Server:
    """The contender at `url`, such as http://127.0.0.1:8000/v1.

    model: its name there; None asks the server, and takes the first it lists. key is sent as a bearer token. Raises
    UsageError for a malformed url, and BackendError where the server cannot be reached or names no model.
    """

    name = NAME

    def __init__(
        self,
        url: str,
        model: str | None,
        settings: Settings,
        *,
        key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._url = url
        self._secure, self._host, self._port, self._path = _parts(url)
        self._headers = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._settings = settings
        self._timeout_s = timeout_s
        self._clock = clock
        self.model = self._first_model() if model is None else model
        if model is not None:
            self._knock()

    def fresh(self) -> None:
        """A server's memory is its own: nothing to do."""

    def answer(self, messages: Messages) -> Answer:
        """Raises BackendError where the server refuses, stays silent, or does not say how many tokens it wrote."""
        settings = self._settings
        asked = {
            "model": self.model,
            "messages": [dict(message) for message in messages],
            "max_tokens": settings.max_tokens,
            "temperature": settings.temperature,
            "seed": settings.seed,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        with self._asking("POST", "/chat/completions", json.dumps(asked)) as response:
            return self._read(response)

    def _read(self, response: http.client.HTTPResponse) -> Answer:
        pieces: list[str] = []
        first = last = 0.0
        tokens: int | None = None
        for event in _events(response):
            delta = _delta(event)
            if any(isinstance(delta.get(key), str) and delta[key] for key in _WRITTEN):
                last = self._clock()
                first = first or last
                pieces.append(delta.get("content") or "")
            usage = event.get("usage")
            if isinstance(usage, dict) and isinstance(usage.get("completion_tokens"), int):
                tokens = usage["completion_tokens"]
        if tokens is None:
            raise BackendError(
                f"{self._url} did not say how many tokens it wrote; it must know stream_options.include_usage"
            )
        return Answer("".join(pieces), None, tokens, max(tokens - 1, 0) if last > first else 0, last - first, None)

    def _first_model(self) -> str:
        with self._asking("GET", "/models", None) as response:
            try:
                listed = json.loads(response.read())
            except ValueError:
                listed = None
        entries = listed.get("data") if isinstance(listed, dict) else None
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and isinstance(entry.get("id"), str):
                return str(entry["id"])
        raise BackendError(f"{self._url}/models names no model: give the name with --api-model")

    def _knock(self) -> None:
        """Whether anybody listens, before a whole table of prompts fails."""
        with self._connected() as connection:
            connection.connect()

    @contextmanager
    def _connected(self) -> Iterator[http.client.HTTPConnection]:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=self._timeout_s)
        try:
            yield connection
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from None
        finally:
            connection.close()

    @contextmanager
    def _asking(self, method: str, path: str, body: str | None) -> Iterator[http.client.HTTPResponse]:
        with self._connected() as connection:
            connection.request(method, self._path + path, body and body.encode(), self._headers)
            with connection.getresponse() as response:
                if response.status != http.client.OK:
                    said = _complaint(response.read(4096))
                    raise BackendError(f"{self._url}{path} answered {response.status} {response.reason}{said}")
                yield response

    def _unreachable(self, error: Exception) -> BackendError:
        if isinstance(error, TimeoutError):
            return BackendError(f"{self._url} said nothing for {self._timeout_s:g} s: is it still loading its model?")
        why = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        return BackendError(f"{self._url} cannot be reached ({why}): is the server running, and is the address right?")


# Models that think aloud do it in a field of its own; its time and tokens count, its text is no part of the answer.
_WRITTEN = ("content", "reasoning_content", "reasoning")


def _parts(url: str) -> tuple[bool, str, int | None, str]:
    """https or not, host, port and path of an address. Raises UsageError."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    plain = url.isascii() and url.isprintable() and " " not in url and "@" not in parts.netloc
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or not plain:
        raise UsageError(f"--url is {url!r}: give an address such as http://127.0.0.1:8000/v1")
    return parts.scheme == "https", parts.hostname, port, parts.path.rstrip("/")


def _events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    """The JSON objects of a stream of server-sent events. Raises BackendError for what is none, and for an error."""
    for line in response:
        field, _, value = (part.strip() for part in line.partition(b":"))
        if field != b"data":
            continue
        if value == b"[DONE]":
            return
        try:
            event = json.loads(value)
        except ValueError:
            event = None
        if not isinstance(event, dict):
            raise BackendError(f"the server streamed {value[:80]!r}, which is not a JSON object")
        if event.get("error"):
            raise BackendError(f"the server broke off{_complaint(value)}")
        yield event


def _delta(event: dict[str, Any]) -> dict[str, Any]:
    """What an event adds to the first answer; {} for one that adds nothing."""
    choices = event.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    delta = choice.get("delta") if isinstance(choice, dict) else None
    return delta if isinstance(delta, dict) else {}


def _complaint(body: bytes) -> str:
    """What an error's body says, behind a colon and on one line; nothing for an empty one."""
    said: object = body.decode("utf-8", "replace")
    try:
        parsed = json.loads(body)
        said = parsed.get("error", said) if isinstance(parsed, dict) else said
        said = said.get("message", said) if isinstance(said, dict) else said
    except ValueError:
        pass
    text = " ".join(str(said).split())[:200]
    return f": {text}" if text else ""
