"""What a caller did wrong, or what went wrong here, in the form that OpenAI's clients know."""

from __future__ import annotations

from outrider.api import Failed, FailureKind
from outrider.errors import Draining, OutriderError, Overloaded, UsageError

BAD, UNAUTHORIZED, FORBIDDEN, NOT_FOUND, LATE, TOO_LARGE, WRONG_TYPE = 400, 401, 403, 404, 408, 413, 415
TOO_MANY, INTERNAL, UNAVAILABLE, TIMEOUT = 429, 500, 503, 504
_TYPES = {UNAUTHORIZED: "authentication_error", FORBIDDEN: "permission_error", TOO_MANY: "rate_limit_error"}
_FAILURES = {
    FailureKind.USAGE: BAD,
    FailureKind.OVERLOAD: UNAVAILABLE,
    FailureKind.TIMEOUT: TIMEOUT,
    FailureKind.INTERNAL: INTERNAL,
}
_RETRY_S = 1.0


class Problem(Exception):
    """An answer that is an error: an HTTP status, one sentence, the field that it is about, a code for programs."""

    def __init__(
        self,
        status: int,
        message: str,
        param: str | None = None,
        code: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.retry_after_s = retry_after_s

    def body(self) -> dict[str, object]:
        """The JSON of OpenAI's errors."""
        kind = _TYPES.get(self.status, "invalid_request_error" if self.status < INTERNAL else "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def headers(self) -> dict[str, str]:
        """Retry-After, in whole seconds as HTTP has it, and what a 401 must say."""
        found = {} if self.retry_after_s is None else {"Retry-After": str(max(1, round(self.retry_after_s)))}
        return {**found, "WWW-Authenticate": "Bearer"} if self.status == UNAUTHORIZED else found


def of_error(error: OutriderError, params: frozenset[str] = frozenset()) -> Problem:
    """One of the house's own errors as a problem; params are the fields that its sentence may begin with."""
    match error:
        case Overloaded():
            return Problem(TOO_MANY, str(error), code="overloaded", retry_after_s=error.retry_after_s)
        case Draining():
            return Problem(UNAVAILABLE, str(error), code="draining", retry_after_s=_RETRY_S)
        case UsageError():
            # Sentences of the house begin with what they are about.
            first = str(error).partition(" ")[0]
            return Problem(BAD, str(error), first if first in params else None)
    return Problem(INTERNAL, str(error))


def of_failure(failed: Failed) -> Problem:
    """A request that ended by an error after it was taken."""
    status = _FAILURES[failed.kind]
    return Problem(status, failed.message, code=failed.kind.value, retry_after_s=_RETRY_S if status == 503 else None)
