"""What stands before every route: a request id, the right name, a key; one log line behind it."""

from __future__ import annotations

import re
import secrets
import traceback
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outrider.errors import OutriderError
from outrider.server import note
from outrider.server.access import Keys, check_host
from outrider.server.house import Settings
from outrider.server.logs import Log
from outrider.server.note import Note
from outrider.server.problems import INTERNAL, Problem, of_error

_SAFE_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
# Whatever needs no key: whether the server is well, and the page, which asks for one itself.
_OPEN = re.compile(r"/|/health(/\w+)?|/static/[\w.-]+|/favicon\.ico")
_ALWAYS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


class Front:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, settings: Settings, log: Log, seen: Callable[[Note], None]) -> None:
        self._app = app
        self._hosts = settings.hosts
        self._keys = Keys(settings.keys)
        self._log = log
        self._seen = seen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; lifespan messages pass through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        told = Note(given if _SAFE_ID.fullmatch(given) else secrets.token_hex(8), scope["method"], scope["path"])
        note.put(scope, told)

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                told.status = message["status"]
                found = MutableHeaders(scope=message)
                found["X-Request-Id"] = told.id
                for name, value in _ALWAYS.items():
                    found.setdefault(name, value)
            await send(message)

        try:
            check_host(headers.get("host"), self._hosts)
            if not _OPEN.fullmatch(scope["path"]) and scope["method"] != "OPTIONS":
                told.key = self._keys.check(headers.get("authorization"))
            await self._app(scope, receive, marked)
        except Problem as problem:
            await self._refuse(problem, told, scope, receive, marked)
        except OutriderError as error:
            await self._refuse(of_error(error), told, scope, receive, marked)
        except Exception as error:
            self._log.write("fault", {"id": told.id, "trace": traceback.format_exc()}, "error")
            fault = Problem(INTERNAL, f"unexpected {type(error).__name__}; this is a fault of the server")
            await self._refuse(fault, told, scope, receive, marked)
        finally:
            self._seen(told)
            self._log.request(told)

    async def _refuse(self, problem: Problem, told: Note, scope: Scope, receive: Receive, send: Send) -> None:
        told.outcome, told.message = "refused" if problem.status < INTERNAL else "failed", problem.message
        if not told.status:  # otherwise the answer has begun, and can only end
            response = JSONResponse(problem.body(), problem.status, problem.headers())
            await response(scope, receive, send)
