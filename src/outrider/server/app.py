"""The routes, put together: make gives an ASGI application over a House."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from importlib import resources

from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request as Asked
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from outrider.api import LiveState
from outrider.server import chat, completions, planner, texts
from outrider.server.answering import Answer, Job, parse_json, read_body
from outrider.server.common import PARAMS
from outrider.server.front import Front
from outrider.server.house import House, Settings
from outrider.server.logs import Log
from outrider.server.metrics import CONTENT_TYPE, Meters
from outrider.server.note import Note
from outrider.server.problems import NOT_FOUND, TOO_MANY, UNAVAILABLE, Problem, of_error

# The page asks nobody but this server, runs no script but its own, and stands in nobody's frame.
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
_EMBEDDINGS = "this server writes text and has no embeddings: ask a server that has an embedding model"
_RETRY_S = 1.0
_WORDS = {404: "there is nothing at {path}", 405: "{path} does not know the method {method}"}


def make(house: House, settings: Settings, log: Log) -> ASGIApp:
    """The whole application."""
    routes = _Routes(house, settings)
    front: ASGIApp = Front(_Table(routes.table()), settings, log, routes.meters.see)
    if settings.origins:
        front = CORSMiddleware(
            front, allow_origins=settings.origins, allow_methods=["GET", "POST"], allow_headers=["*"]
        )
    return front


class _Routes:
    """What each address does."""

    def __init__(self, house: House, settings: Settings) -> None:
        self._house = house
        self._settings = settings
        self._busy = 0
        self.meters = Meters(house)
        self._files = _static()

    def table(self) -> list[Route]:
        """Address by address."""
        return [
            Route("/v1/chat/completions", self._model_route(self._chat), methods=["POST"]),
            Route("/v1/completions", self._model_route(self._completion), methods=["POST"]),
            Route("/v1/models", self._models, methods=["GET"]),
            Route("/v1/models/{name:path}", self._model, methods=["GET"]),
            Route("/v1/embeddings", _no_embeddings, methods=["GET", "POST"]),
            Route("/tokenize", self._text_route(texts.tokenize), methods=["POST"]),
            Route("/detokenize", self._text_route(texts.detokenize), methods=["POST"]),
            Route("/health", self._health, methods=["GET"]),
            Route("/health/ready", self._health, methods=["GET"]),
            Route("/health/live", self._alive, methods=["GET"]),
            Route("/metrics", self._metrics, methods=["GET"]),
            Route("/planner.json", self._planner, methods=["GET"]),
            Route("/server.json", self._server, methods=["GET"]),
            Route("/", self._file, methods=["GET"]),
            Route("/static/{name}", self._file, methods=["GET"]),
        ]

    def _model_route(self, prepare: Callable[[object, Note], Job]) -> ASGIApp:
        """A route that asks the model, as long as not too many do."""
        limits = self._settings.limits
        answer = Answer(self._house.live, prepare, limits, partial(of_error, params=PARAMS))

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            if self._house.live.snapshot().state is not LiveState.READY:
                raise Problem(UNAVAILABLE, "the server is about to stop; ask another", None, "draining", _RETRY_S)
            if self._busy >= limits.in_flight:
                said = f"{self._busy} requests are being answered, which is as many as may be; come again"
                raise Problem(TOO_MANY, said, None, "overloaded", _RETRY_S)
            self._busy += 1
            self.meters.in_flight.inc()
            try:
                await answer(scope, receive, send)
            finally:
                self._busy -= 1
                self.meters.in_flight.dec()

        return _Endpoint(serve)

    def _chat(self, data: object, note: Note) -> Job:
        asked = chat.parse(data, self._house, self._settings)
        self._remember(data, note)
        scope = self._scope(note, asked.common.user)
        request = asked.request(self._house.face, self._settings.limits, scope)
        teller = chat.ChatTeller(self._house, asked, request)
        return Job([request], teller, asked.common.manner.stream, asked.common.user)

    def _completion(self, data: object, note: Note) -> Job:
        asked = completions.parse(data, self._house, self._settings)
        self._remember(data, note)
        scope = self._scope(note, asked.common.user)
        requests = asked.requests(self._house.face, self._settings.limits, scope)
        teller = completions.CompletionTeller(self._house, asked, requests)
        return Job(requests, teller, asked.common.manner.stream, asked.common.user)

    def _remember(self, data: object, note: Note) -> None:
        if self._settings.log_prompts:
            note.body = data

    def _scope(self, note: Note, user: str | None) -> str:
        """Caches are shared by the requests of one key, or, where that is wanted, of one user of it."""
        return f"{note.key}/{user or ''}" if self._settings.scope_by_user else note.key

    def _text_route(self, work: Callable[[object, House], dict[str, object]]) -> Callable[[Asked], Awaitable[Response]]:
        async def serve(asked: Asked) -> Response:
            body = await read_body(asked.headers, asked.receive, self._settings.limits)
            found = await asyncio.to_thread(lambda: work(parse_json(body), self._house))
            return JSONResponse(found)

        return serve

    async def _models(self, asked: Asked) -> Response:
        return JSONResponse({"object": "list", "data": [self._entry()]})

    async def _model(self, asked: Asked) -> Response:
        name = asked.path_params["name"]
        if name != self._house.model:
            raise Problem(NOT_FOUND, f"there is no model {name!r:.80} here", "model", "model_not_found")
        return JSONResponse(self._entry())

    def _entry(self) -> dict[str, object]:
        house = self._house
        named = {"id": house.model, "object": "model", "created": house.created_s, "owned_by": "outrider"}
        return {**named, "max_model_len": house.face.context}

    async def _alive(self, asked: Asked) -> Response:
        return JSONResponse({"status": "live"})

    async def _health(self, asked: Asked) -> Response:
        state = self._house.live.snapshot().state
        return JSONResponse({"status": state.value}, 200 if state is LiveState.READY else UNAVAILABLE)

    async def _metrics(self, asked: Asked) -> Response:
        return Response(self.meters.text(), headers={"Content-Type": CONTENT_TYPE})

    async def _planner(self, asked: Asked) -> Response:
        return JSONResponse(await asyncio.to_thread(planner.plan, dict(asked.query_params)))

    async def _server(self, asked: Asked) -> Response:
        """What the page shows of the server."""
        house, limits = self._house, self._settings.limits
        now = house.live.snapshot()
        return JSONResponse(
            {
                "model": house.model,
                "fingerprint": house.fingerprint,
                "drafter": house.drafter,
                "drafters": [one.name for one in now.drafters],
                "rule": house.rule,
                "context": house.face.context,
                "most_tokens": limits.answer_tok or house.face.context,
                "state": now.state.value,
            }
        )

    async def _file(self, asked: Asked) -> Response:
        name = asked.path_params.get("name", "index.html")
        content = self._files.get(name)
        if content is None:
            raise Problem(NOT_FOUND, f"there is no file {name!r:.80}")
        kind = _TYPES[name.rpartition(".")[2]]
        return Response(content, headers={"Content-Type": kind, "Content-Security-Policy": _PAGE_POLICY})


class _Endpoint:
    """An ASGI application as a route's endpoint: a plain function would be taken for one that gets a Request."""

    def __init__(self, serve: ASGIApp) -> None:
        self._serve = serve

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._serve(scope, receive, send)


def _static() -> dict[str, bytes]:
    """The page's files, read once: a path never comes from a request."""
    folder = resources.files("outrider.server").joinpath("static")
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.name.rpartition(".")[2] in _TYPES}


async def _no_embeddings(asked: Asked) -> Response:
    raise Problem(NOT_FOUND, _EMBEDDINGS, code="not_supported")


class _Table:
    """The router, whose refusals are problems like all others."""

    def __init__(self, routes: list[Route]) -> None:
        self._router = Router(routes, redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self  # as inside an application: what is not found is raised, not written as plain text
        try:
            await self._router(scope, receive, send)
        except HTTPException as error:
            said = _WORDS.get(error.status_code, "the request cannot be served")
            raise Problem(error.status_code, said.format(path=scope["path"], method=scope["method"])) from None
