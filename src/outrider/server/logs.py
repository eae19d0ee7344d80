"""Structured logs: a JSON object a line on standard error. Prompts and answers are no part of them."""

from __future__ import annotations

import json
import logging
import sys
import threading
from datetime import UTC, datetime
from typing import TextIO

from outrider.server.note import Note


class Log:
    """Writes lines; safe from several threads."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._lock = threading.Lock()

    def write(self, event: str, fields: dict[str, object], level: str = "info") -> None:
        """One line: time, level, event, then the fields that are not None."""
        line: dict[str, object] = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "level": level,
            "event": event,
        }
        line |= {name: value for name, value in fields.items() if value is not None}
        text = json.dumps(line, ensure_ascii=False, default=str)
        with self._lock:
            print(text, file=self._stream, flush=True)

    def request(self, note: Note) -> None:
        """The line of one request."""
        self.write(
            "request",
            {
                "id": note.id,
                "method": note.method,
                "path": note.path,
                "status": note.status,
                "outcome": note.outcome,
                "seconds": round(note.seconds, 4),
                "first_s": None if note.first_s is None else round(note.first_s, 4),
                "prompt_tokens": note.prompt_tok,
                "completion_tokens": note.completion_tok,
                "drafted": note.drafted,
                "accepted": note.accepted,
                "key": note.key or None,
                "user": note.user,
                "message": note.message,
                "body": note.body,
            },
            "error" if note.status >= 500 else "info",
        )


class Bridge(logging.Handler):
    """Brings what the HTTP library logs into the same lines."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """One record as a line."""
        trace = self.format(record) if record.exc_info else None
        self._log.write(record.name, {"message": record.getMessage(), "trace": trace}, record.levelname.lower())
