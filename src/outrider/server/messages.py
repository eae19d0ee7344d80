"""Messages of OpenAI's chat API to those that a model's own template takes: a role and a text each.

Tool calls and their results become text in the form that tools.py makes the model write; the model's template need not
know of tools.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from outrider.server.common import content
from outrider.server.problems import BAD, Problem
from outrider.server.reading import Reader
from outrider.server.tools import call_text

Message = dict[str, str]

SYSTEM, USER, ASSISTANT, TOOL = "system", "user", "assistant", "tool"
_ROLES = {SYSTEM: SYSTEM, "developer": SYSTEM, USER: USER, ASSISTANT: ASSISTANT, TOOL: TOOL}


def read(items: Sequence[object] | None) -> list[Message]:
    """The messages for the template. Raises Problem for malformed ones, and for what is no text."""
    if not items:
        raise Problem(BAD, 'messages is missing or empty; give at least one {"role": ..., "content": ...}', "messages")
    called: dict[str, str] = {}
    return [_message(Reader(item, f"messages[{index}]"), called) for index, item in enumerate(items)]


def with_system(messages: list[Message], text: str) -> list[Message]:
    """The messages, with a text at the end of the system message, or as one."""
    if not text:
        return messages
    if messages and messages[0]["role"] == SYSTEM:
        first = {"role": SYSTEM, "content": f"{messages[0]['content']}\n\n{text}"}
        return [first, *messages[1:]]
    return [{"role": SYSTEM, "content": text}, *messages]


def _message(reader: Reader, called: dict[str, str]) -> Message:
    """One message; called are the ids of the calls so far, with the names of their functions."""
    given = reader.needed_text("role")
    role = _ROLES.get(given)
    if role is None:
        raise reader.wrong("role", given, f"it may be {', '.join(_ROLES)}")
    text = content(reader, "content")
    if role == ASSISTANT:
        reader.only("refusal", ("",))
        calls = _calls(reader, called)
        text = "\n".join(filter(None, [text, *calls])) if calls else text
    if text is None:
        raise Problem(BAD, f"{reader.path('content')} is missing; give a text", reader.path("content"))
    if role == TOOL:
        call = reader.needed_text("tool_call_id")
        if call not in called:
            raise reader.wrong("tool_call_id", call, "no message before it has such a call")
        # Few templates know a role for it.
        role = USER
        result = json.dumps({"name": called[call], "content": text}, ensure_ascii=False)
        text = f"<tool_response>\n{result}\n</tool_response>"
    reader.done({"name": "put it into the content", "audio": "only text is read"})
    return {"role": role, "content": text}


def _calls(reader: Reader, called: dict[str, str]) -> list[str]:
    texts = []
    for index, item in enumerate(reader.items("tool_calls") or ()):
        call = Reader(item, f"{reader.path('tool_calls')}[{index}]")
        call.only("type", ("function",))
        call.whole("index", 0, 1 << 30)
        name = call.needed_text("id")
        function = call.needed("function")
        called[name] = function.needed_text("name")
        texts.append(call_text(called[name], _arguments(function)))
        function.done()
        call.done()
    return texts


def _arguments(function: Reader) -> str:
    given = function.text("arguments") or "{}"
    try:
        return json.dumps(json.loads(given), ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        raise function.wrong("arguments", given, "give the JSON text of an object") from None
