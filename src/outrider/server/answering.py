"""One request to the model: from the body to the last byte, whoever goes away in between."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from outrider.api import Chunk, Failed, Live, Request
from outrider.errors import OutriderError
from outrider.server import note
from outrider.server.house import Limits
from outrider.server.mailbox import Item, Mailbox
from outrider.server.note import Note
from outrider.server.problems import BAD, LATE, TIMEOUT, TOO_LARGE, WRONG_TYPE, Problem, of_failure
from outrider.server.telling import Json

HEAD_S = 10.0  # a stream's headers wait so long for its first token, so that an early failure still has its status
ALIVE_S = 15.0  # a comment in a silent stream keeps proxies from closing it
_SAY_S = 2.0  # for the last words to a reader that is too slow
# Forms that are compiled at once: a nasty one takes seconds, and no number of them may take all threads from others.
_COMPILERS = 2
_STREAM = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
_JSON = [(b"content-type", b"application/json")]


class Teller(Protocol):
    """Turns chunks into what a client reads."""

    def first(self) -> list[Json]: ...
    def events(self, number: int, chunk: Chunk) -> list[Json]: ...
    def last(self) -> list[Json]: ...
    def whole(self) -> Json: ...
    def usage(self) -> Json: ...


class Job:
    """What a body asks for: the engine's requests, who tells their answers, and whether in a stream."""

    def __init__(self, requests: Sequence[Request], teller: Teller, stream: bool, user: str | None) -> None:
        self.requests = requests
        self.teller = teller
        self.stream = stream
        self.user = user


Prepare = Callable[[object, Note], Job]  # the body's JSON; may take its time, and raises Problem and OutriderError


class Answer:
    """An ASGI application that answers one request, and abandons it as soon as the client has gone."""

    def __init__(self, live: Live, prepare: Prepare, limits: Limits, translate: Callable[[OutriderError], Problem]):
        self._live = live
        self._prepare = prepare
        self._limits = limits
        self._translate = translate
        self._compilers = ThreadPoolExecutor(_COMPILERS, "outrider-form")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises Problem where nothing was sent yet."""
        told = note.of(scope)
        body = await read_body(Headers(scope=scope), receive, self._limits)
        mailbox = Mailbox(self._live)
        work = asyncio.create_task(self._work(body, mailbox, told, send))
        gone = asyncio.create_task(_until_gone(receive))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
            else:
                told.outcome = "gone"
        finally:
            mailbox.close()
            for task in (work, gone):
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Problem, OutriderError):
                await work

    async def _work(self, body: bytes, mailbox: Mailbox, told: Note, send: Send) -> None:
        telling: _Whole | _Stream | None = None
        try:
            async with asyncio.timeout(self._limits.request_s):
                job = await self._begin(body, mailbox, told)
                telling = _Stream(job, send) if job.stream else _Whole(job, send)
                await _gather(job, mailbox, telling, told)
        except TimeoutError:
            told.outcome = "timeout"
            late = f"the answer took longer than the {self._limits.request_s:g} s that a request may take"
            await _fail(telling, Problem(TIMEOUT, late, code="timeout"))
        except Problem as problem:
            if telling is not None:
                told.outcome, told.message = "failed", problem.message
            await _fail(telling, problem)

    async def _begin(self, body: bytes, mailbox: Mailbox, told: Note) -> Job:
        """In threads: a long prompt or a new schema takes a while, and the loop serves others meanwhile."""
        try:
            job = await asyncio.to_thread(self._prepared, body, told)
            told.user = job.user
            # A form is compiled as it is submitted.
            formed = any(request.constraint is not None for request in job.requests)
            threads = self._compilers if formed else None
            await asyncio.get_running_loop().run_in_executor(threads, mailbox.submit, job.requests)
        except OutriderError as error:
            raise self._translate(error) from error
        return job

    def _prepared(self, body: bytes, told: Note) -> Job:
        job = self._prepare(parse_json(body), told)
        told.prompt_tok = sum(len(request.prompt) for request in job.requests)
        return job


class _Whole:
    """One JSON object at the end."""

    def __init__(self, job: Job, send: Send) -> None:
        self._job = job
        self._send = send
        job.teller.first()

    async def add(self, items: Sequence[Item]) -> None:
        for number, item in items:
            if isinstance(item, Chunk):
                self._job.teller.events(number, item)

    async def end(self) -> None:
        found = self._job.teller.whole()
        body = json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        head = [*_JSON, (b"content-length", str(len(body)).encode())]
        await self._send({"type": "http.response.start", "status": 200, "headers": head})
        await self._send({"type": "http.response.body", "body": body})

    async def fail(self, problem: Problem) -> None:
        raise problem


class _Stream:
    """Server-sent events; the headers go out with the first of them."""

    def __init__(self, job: Job, send: Send) -> None:
        self._job = job
        self._send = send
        self._begun = False

    async def add(self, items: Sequence[Item]) -> None:
        """All that came at once goes out in one piece; nothing at all keeps the connection alive."""
        events = [event(one) for one in self._begin()]
        for number, item in items:
            if isinstance(item, Chunk):
                events += [event(one) for one in self._job.teller.events(number, item)]
        await self._write(b"".join(events) or b": waiting\n\n")

    async def end(self) -> None:
        told = [*self._begin(), *self._job.teller.last()]
        await self._write(b"".join([*map(event, told), b"data: [DONE]\n\n"]), more=False)

    async def fail(self, problem: Problem) -> None:
        if not self._begun:
            raise problem
        # The status went out long ago, so the error is an event. A reader that takes nothing does not get it.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SAY_S):
                await self._write(event(problem.body()), more=False)

    def _begin(self) -> list[Json]:
        if self._begun:
            return []
        return self._job.teller.first()

    async def _write(self, data: bytes, more: bool = True) -> None:
        if not self._begun:
            self._begun = True
            await self._send({"type": "http.response.start", "status": 200, "headers": list(_STREAM)})
        await self._send({"type": "http.response.body", "body": data, "more_body": more})


async def _fail(telling: _Whole | _Stream | None, problem: Problem) -> None:
    """Say it where the answer has begun. Raises the problem where it has not."""
    if telling is None:
        raise problem
    await telling.fail(problem)


async def _gather(job: Job, mailbox: Mailbox, telling: _Whole | _Stream, told: Note) -> None:
    """Hand over everything that comes until every answer has ended. Raises Problem where one fails."""
    waiting = sum(request.n for request in job.requests)
    patience = HEAD_S
    while waiting:
        items = await mailbox.take(patience if job.stream else None)
        patience = ALIVE_S
        for _, item in items:
            if isinstance(item, Failed):
                raise of_failure(item)
            if told.first_s is None and item.token_ids:
                told.first_s = told.seconds
            waiting -= item.finish_reason is not None
        await telling.add(items)
    await telling.end()
    _count(job.teller.usage(), told)


def _count(usage: Mapping[str, Any], told: Note) -> None:
    told.completion_tok = usage["completion_tokens"]
    told.drafted, told.accepted = usage["drafted"], usage["accepted"]


async def _until_gone(receive: Receive) -> None:
    """Returns when the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


def event(data: Mapping[str, object]) -> bytes:
    """A server-sent event."""
    return b"data: " + json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n\n"


async def read_body(headers: Headers, receive: Receive, limits: Limits) -> bytes:
    """The body, as long as it says that it is JSON. Raises Problem where it is too large or does not come."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # Also keeps web pages of other sites out: a browser asks first before it sends this type to another site.
        said = f"the Content-Type is {kind!r}" if kind else "there is no Content-Type"
        raise Problem(WRONG_TYPE, f"{said}; send JSON, with the header Content-Type: application/json")
    most = limits.body_bytes
    too_large = Problem(TOO_LARGE, f"the body has more than the {most} bytes that this server takes")
    length = headers.get("content-length", "")
    if length.isdigit() and int(length) > most:
        raise too_large
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.read_s):
            while True:
                message: Message = await receive()
                if message["type"] == "http.disconnect":
                    raise Problem(BAD, "the client went away before the whole body had come")
                piece = message.get("body", b"")
                size += len(piece)
                if size > most:
                    raise too_large
                pieces.append(piece)
                if not message.get("more_body", False):
                    return b"".join(pieces)
    except TimeoutError:
        raise Problem(LATE, f"the body did not come within {limits.read_s:g} s") from None


def parse_json(body: bytes) -> object:
    """The body's value. Raises Problem for what is no JSON."""
    try:
        found: object = json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except RecursionError:
        raise Problem(BAD, "the body is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise Problem(BAD, f"the body is no UTF-8 at byte {error.start}") from None
    except ValueError as error:
        raise Problem(BAD, f"the body is no JSON: {error}") from None
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")
