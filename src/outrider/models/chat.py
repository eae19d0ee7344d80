"""Messages to the text that a chat model was trained on, through the template in the model file.

The template is a stranger's program: it runs in jinja2's immutable sandbox, without loops of over 100,000 rounds, and
with bounds on what one operation and the whole result may grow to. A template that computes for ever without writing
anything (nested loops), or doubles a string of its own with ~, is beyond what jinja2 can bound.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError
from jinja2.exceptions import SecurityError
from jinja2.filters import do_indent
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from outrider.errors import ModelFileError, UsageError

_MAX_NUMBER = 1 << 20  # elements of a repetition, arguments of a call
_MAX_INDENT = 1 << 8
_GROWTH_CHARACTERS = 16 << 20  # that a template may write beyond the messages themselves


class _Refusal(TemplateError):
    """The template called raise_exception: it does not accept these messages."""


class _Sandbox(ImmutableSandboxedEnvironment):
    """jinja2's sandbox, with the settings that chat templates are written for, and bounded operations."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
        # Their widths have no bound, and no chat format needs them.
        for name in ("center", "format", "wordwrap"):
            del self.filters[name]
        del self.globals["lipsum"]
        self.filters["indent"] = _indent
        self.filters["tojson"] = _to_json
        self.globals["raise_exception"] = _refuse

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """No str.format: a width of ten digits inside a format would be ten gigabytes."""
        if super().wrap_str_format(value) is not None:
            raise SecurityError("str.format is not supported")
        return None

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call something with bounded numbers: 'x'.ljust(10**10) is refused."""
        for value in (*args, *kwargs.values()):
            _bound(value, "an argument")
        return super().call(context, obj, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Refuse what could make a value of unbounded size out of small ones."""
        if operator == "%" and isinstance(left, str):
            raise SecurityError("formatting with % is not supported")
        if operator == "*" and (isinstance(left, Sequence) or isinstance(right, Sequence)):
            _bound(_size(left) * _size(right), "a repetition")
        if operator == "**":
            _bound(right, "an exponent", 64)
            _bound(left, "a base")
        return super().call_binop(context, operator, left, right)


def _bound(value: object, what: str, limit: int = _MAX_NUMBER) -> None:
    if isinstance(value, (int, float)) and not abs(value) <= limit:
        raise SecurityError(f"{what} is over {limit}")


def _indent(text: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    _bound(_size(width), "an indent", _MAX_INDENT)
    return do_indent(text, width, first, blank)


def _size(value: object) -> float:
    if isinstance(value, (int, float)):
        return abs(value)
    return len(value) if isinstance(value, Sequence) else 0


def _to_json(value: object, indent: int | None = None) -> str:
    # jinja2's own filter escapes for HTML, which no chat format wants.
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: object) -> NoReturn:
    raise _Refusal(str(message))


def check_messages(messages: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The messages, copied; UsageError that names the first one without a text role and a text content."""
    if not messages:
        raise UsageError("messages is empty; give at least one {'role': ..., 'content': ...}")
    checked: list[dict[str, str]] = []
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise UsageError(f"message {index} is {message!r:.80}; it must be {{'role': ..., 'content': ...}}")
        if extra := sorted(map(str, set(message) - {"role", "content"})):
            raise UsageError(f"message {index} has {extra[0]!r:.80}; only 'role' and 'content' are supported")
        for field in ("role", "content"):
            if not isinstance(message.get(field), str):
                raise UsageError(f"message {index} has {field} {message.get(field)!r:.80}; it must be a string")
        if not message["role"]:
            raise UsageError(f"message {index} has an empty role; use 'system', 'user' or 'assistant'")
        checked.append(dict(message))
    return checked


class ChatTemplate:
    """A compiled chat template.

    Raises UsageError where the model has none, ModelFileError where it is no valid jinja2.
    """

    def __init__(self, source: str | None, *, bos: str = "", eos: str = "") -> None:
        if source is None:
            raise UsageError("the model has no chat template; use raw=True to continue the prompt as it stands")
        try:
            self._template = _Sandbox().from_string(source)
        except TemplateSyntaxError as error:
            raise ModelFileError(f"the model's chat template has an error in line {error.lineno}: {error}") from error
        except RecursionError as error:
            raise ModelFileError("the model's chat template is nested too deeply") from error
        self._bos = bos
        self._eos = eos

    def render(self, prompt: str | Sequence[Mapping[str, str]], *, add_generation_prompt: bool = True) -> str:
        """The text for a prompt (one user message) or for messages; control tokens are written out in it.

        add_generation_prompt opens the assistant's turn. Raises UsageError for malformed messages and for messages
        that the template refuses, ModelFileError for a template that fails or writes without end.
        """
        messages = check_messages([{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt)
        limit = _GROWTH_CHARACTERS + 2 * sum(len(message["content"]) for message in messages)
        pieces: list[str] = []
        written = 0
        try:
            for piece in self._template.generate(
                messages=messages,
                add_generation_prompt=add_generation_prompt,
                bos_token=self._bos,
                eos_token=self._eos,
            ):
                written += len(piece)
                if written > limit:
                    raise SecurityError(f"it writes over {limit} characters")
                pieces.append(piece)
        except _Refusal as error:
            raise UsageError(f"the model's chat template refuses these messages: {error}; see also raw=True") from error
        except Exception as error:  # the template is foreign code: whatever it raises is the file's fault
            raise ModelFileError(
                f"the model's chat template fails ({type(error).__name__}: {error}); use raw=True to do without"
            ) from error
        return "".join(pieces)
