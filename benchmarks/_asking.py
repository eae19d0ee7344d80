"""A small asynchronous client of OpenAI-compatible servers, light enough to share a machine with what it measures."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from outrider.errors import OutriderError


@dataclass(frozen=True, slots=True)
class Told:
    """One streamed answer: seconds from the request to its first text and to its end, and how many tokens it had."""

    first_s: float
    whole_s: float
    tokens: int

    @property
    def token_s(self) -> float:
        """Seconds a token between the first text and the end."""
        return (self.whole_s - self.first_s) / max(1, self.tokens - 1)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server listens, and what it calls its model (None: it does not care)."""

    host: str
    port: int
    model: str | None = None


async def request(place: Place, path: str, body: bytes) -> tuple[int, asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a POST; returns the status, with what comes behind the headers still to be read."""
    reader, writer = await asyncio.open_connection(place.host, place.port, limit=1 << 22)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {place.host}:{place.port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()
    line = await reader.readline()
    while (await reader.readline()).strip():
        pass
    return int(line.split()[1]) if line else 0, reader, writer


async def chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The chunks of a chunked body."""
    while size := int(await reader.readline() or b"0", 16):
        yield (await reader.readexactly(size + 2))[:-2]


async def events(reader: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    """The events of a stream. Raises OutriderError for one that is an error."""
    held = b""
    async for chunk in chunks(reader):
        held += chunk.replace(b"\r\n", b"\n")
        *whole, held = held.split(b"\n\n")
        for event in whole:
            if event.startswith(b"data: ") and event != b"data: [DONE]":
                found = json.loads(event[6:])
                if found.get("error"):
                    raise OutriderError(f"the server broke off: {found['error']}")
                yield found


async def complete(place: Place, prompt: list[int], most: int, extra: dict[str, object]) -> Told:
    """One greedy answer of exactly `most` tokens. Raises OutriderError where the server refuses."""
    asked: dict[str, object] = {"prompt": prompt, "max_tokens": most, "temperature": 0, "ignore_eos": True}
    asked |= {"stream": True, "stream_options": {"include_usage": True}, **extra}
    if place.model is not None:
        asked["model"] = place.model
    start = time.perf_counter()
    status, reader, writer = await request(place, "/v1/completions", json.dumps(asked).encode())
    first = last = 0.0
    counted, tokens = 0, None
    try:
        if status != 200:
            raise OutriderError(f"{place.host}:{place.port} answered {status}: {(await reader.read(500))!r:.300}")
        async for event in events(reader):
            if any(choice.get("text") for choice in event.get("choices", ())):
                last = time.perf_counter()
                first = first or last
                counted += 1
            usage = event.get("usage")
            if usage:
                tokens = int(usage["completion_tokens"])
    finally:
        writer.close()
    # A server that tells no usage is taken to send a token an event.
    return Told(first - start, last - start, counted if tokens is None else tokens)
