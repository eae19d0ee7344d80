"""Where `outrider run` reads from: the prompt, and the files with the answer's form and with what it may repeat."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from outrider.asking import Form, Guessing
from outrider.cli.checks import decoded
from outrider.errors import UsageError

NOTHING = "there is nothing to answer"
FORM = "it should say what the answer must be"
EXPECTED = "it should hold text that the answer may repeat"


def read_prompt(given: str | None, stdin: TextIO | None) -> str:
    """The prompt from the argument, or from standard input for `-` and for none. Raises UsageError.

    Both have to be UTF-8. From input, a byte order mark is dropped, line ends become newlines, and the last one, which
    echo and editors add, is not part of the prompt.
    """
    if given is not None and given != "-":
        return decoded(os.fsencode(given), "the prompt", NOTHING)
    if stdin is None or (given is None and stdin.isatty()):  # None: the shell closed it
        raise UsageError('there is no prompt: give one, as in outrider run "Why is the sky blue?", or pipe it in')
    text = _clean(decoded(stdin.buffer.read(), "standard input", NOTHING)).removesuffix("\n")
    if not text:
        raise UsageError(f"standard input is empty: {NOTHING}")
    return text


def read_form(form: Form, prompt: str | None, stdin: TextIO | None) -> Form:
    """The form with the files' texts in place of their names; `-` is standard input, unless the prompt is read there.

    Raises UsageError for a file that cannot be read, is not UTF-8, is empty, or should hold JSON and does not. A byte
    order mark is dropped, and line ends become newlines.
    """
    if isinstance(form.json_schema, str):
        text = _read("--json-schema", form.json_schema, prompt, stdin)
        try:
            json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"--json-schema {form.json_schema} is not JSON: {error}") from None
        return replace(form, json_schema=text)
    if form.grammar is not None:
        return replace(form, grammar=_read("--grammar", form.grammar, prompt, stdin))
    return form


def read_guessing(guessing: Guessing, prompt: str | None, stdin: TextIO | None) -> Guessing:
    """The prediction's file text in place of its name, under the rules of read_form. Raises UsageError."""
    if guessing.prediction is None:
        return guessing
    return replace(guessing, prediction=_read("--prediction", guessing.prediction, prompt, stdin, EXPECTED))


def _read(flag: str, name: str, prompt: str | None, stdin: TextIO | None, holds: str = FORM) -> str:
    if name != "-":
        try:
            raw = Path(name).read_bytes()
        except (OSError, ValueError) as error:  # ValueError: a null character
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise UsageError(f"{flag} {name} cannot be read ({why}): give the path of a text file") from None
        return _not_blank(decoded(raw, f"{flag} {name}", holds), f"{flag} {name}", holds)
    if prompt is None or prompt == "-":
        raise UsageError(f"{flag} - and the prompt would both be read from standard input: give one in another way")
    if stdin is None:
        raise UsageError(f"{flag} - reads standard input, which is closed: give a file")
    where = f"{flag} - (standard input)"
    return _not_blank(decoded(stdin.buffer.read(), where, holds), where, holds)


def _not_blank(text: str, where: str, holds: str) -> str:
    clean = _clean(text)
    if not clean.strip():
        raise UsageError(f"{where} is empty: {holds}")
    return clean


def _clean(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
