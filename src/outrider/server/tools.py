"""Tools: what the model is told of them, the grammar that its calls cannot leave, and the way back to OpenAI's form.

A call is written as <tool_call>, a line with {"name": NAME, "arguments": {...}}, </tool_call>: the form that the Hermes
and Qwen models were trained on. The arguments are JSON that the tool's own schema accepts, whatever the model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from outrider.asking import Form
from outrider.server.problems import BAD, Problem
from outrider.server.reading import Reader

OPEN, CLOSE = "<tool_call>", "</tool_call>"
MOST_CALLS = 16
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FREE = r"/(?s:.*)/ & ~/(?s:.*)<tool_call>(?s:.*)/"
_CALLED = r"/(?s:.*)<tool_call>/ & ~/(?s:.*)<tool_call>(?s:.+)/"


@dataclass(frozen=True, slots=True)
class Tool:
    """One function that the model may call; parameters is a JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, object]

    def told(self) -> str:
        """The line about it in the prompt."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return json.dumps({"type": "function", "function": function}, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools that may be called; free: the model may also just answer."""

    tools: tuple[Tool, ...]
    free: bool
    most: int

    def system(self) -> str:
        """What the prompt says about them."""
        lines = "\n".join(tool.told() for tool in self.tools)
        when = "When one of them helps, call it" if self.free else "Call one of them"
        return (
            f"These tools can be called:\n<tools>\n{lines}\n</tools>\n{when} by writing\n"
            f'{OPEN}\n{{"name": NAME, "arguments": {{...}}}}\n{CLOSE}'
        )

    def form(self) -> Form:
        """The grammar of the answer."""
        more = f" ({json.dumps(chr(10) + OPEN)} call){{0,{self.most - 1}}}" if self.most > 1 else ""
        start = f"FREE | CALLED call{more}" if self.free else f"{json.dumps(OPEN)} call{more}"
        lines = [f"start: {start}", f"call: {' | '.join(f'call{index}' for index in range(len(self.tools)))}"]
        for index, tool in enumerate(self.tools):
            head, tail = json.dumps("\n" + call_head(tool.name)), json.dumps("}\n" + CLOSE)
            lines += [f"call{index}: {head} args{index} {tail}", f"args{index}: %json {_closed(tool.parameters)}"]
        return Form(grammar="\n".join([*lines, f"FREE: {_FREE}", f"CALLED: {_CALLED}"] if self.free else lines))


def call_head(name: str) -> str:
    """A call up to its arguments."""
    return f'{{"name": {json.dumps(name)}, "arguments": '


def call_text(name: str, arguments: str) -> str:
    """A whole call, as the grammar has it."""
    return f"{OPEN}\n{call_head(name)}{arguments}}}\n{CLOSE}"


def read(reader: Reader) -> Tools | None:
    """Take tools, tool_choice and parallel_tool_calls; None where nothing is to be called. Raises Problem."""
    items = reader.items("tools")
    choice = reader.take("tool_choice")
    parallel = reader.flag("parallel_tool_calls", True)
    if not items:
        if choice not in (None, "none", "auto"):
            raise reader.wrong("tool_choice", choice, "there are no tools; give some, or leave it out")
        return None
    tools = [_tool(Reader(item, f"tools[{index}]")) for index, item in enumerate(items)]
    names = [tool.name for tool in tools]
    if len(set(names)) != len(names):
        raise Problem(BAD, f"tools has {max(names, key=names.count)!r} twice; give each its own name", "tools")
    if choice == "none":
        return None
    most = MOST_CALLS if parallel else 1
    if choice in (None, "auto", "required"):
        return Tools(tuple(tools), choice != "required", most)
    name = _chosen(reader, choice)
    if name not in names:
        raise reader.wrong("tool_choice", choice, f"there is no such tool; there is {', '.join(names)}")
    return Tools((tools[names.index(name)],), False, 1)


def _chosen(reader: Reader, choice: object) -> str:
    if not isinstance(choice, dict):
        raise reader.wrong("tool_choice", choice, 'it may be "none", "auto", "required", or name a function')
    inner = Reader(choice, reader.path("tool_choice"))
    inner.only("type", ("function",))
    function = inner.needed("function")
    name = function.needed_text("name")
    function.done()
    inner.done()
    return name


def _tool(reader: Reader) -> Tool:
    reader.only("type", ("function",))
    function = reader.needed("function")
    name = function.needed_text("name")
    if not _NAME.fullmatch(name):
        raise function.wrong("name", name, "give up to 64 letters, digits, _ and -")
    description = function.text("description") or ""
    parameters = function.take("parameters")
    if parameters is not None and not isinstance(parameters, dict):
        raise function.wrong("parameters", parameters, "give a JSON schema, an object")
    function.flag("strict", True)  # the schema always holds, which is what both values allow
    function.done()
    reader.done()
    return Tool(name, description, parameters or {"type": "object", "properties": {}})


def _closed(schema: Mapping[str, object]) -> str:
    """The schema for the grammar: compact, and without properties that it does not name.

    Every value of the narrower schema is one of the wider; a small model would invent names without end.
    """
    found = dict(schema)
    found.setdefault("type", "object")
    composed = {"$ref", "allOf", "anyOf", "oneOf", "patternProperties", "unevaluatedProperties"} & found.keys()
    if found["type"] == "object" and not composed:
        found.setdefault("additionalProperties", False)
    guidance = found.get("x-guidance")
    found["x-guidance"] = {"whitespace_flexible": False, **(guidance if isinstance(guidance, dict) else {})}
    return json.dumps(found)


@dataclass(frozen=True, slots=True)
class CallPart:
    """A piece of a call: its name comes first, then arguments, piece by piece."""

    index: int
    name: str | None
    arguments: str


class CallReader:
    """Cuts an answer into text and calls, however its text is cut into chunks.

    What might be the beginning of a call is held back until it is certain.
    """

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._heads = {OPEN + "\n" + call_head(tool.name): tool.name for tool in tools}
        self._close = "}\n" + CLOSE
        self._held = ""
        self._inside: _Json | None = None
        self.calls = 0

    def push(self, text: str) -> tuple[str, list[CallPart]]:
        """The text outside of calls, and the parts of calls, that became certain."""
        self._held += text
        free: list[str] = []
        parts: list[CallPart] = []
        while True:
            step = self._within(parts) if self._inside else self._outside(free, parts)
            if not step:
                return "".join(free), parts

    def finish(self) -> str:
        """What is left at the end of the answer, and no call after all."""
        rest, self._held = self._held, ""
        return "" if self._inside or (self.calls and not rest.strip()) else rest

    def _outside(self, free: list[str], parts: list[CallPart]) -> bool:
        """Up to the arguments of the next call; whether one began."""
        at = self._held.find(OPEN)
        if at < 0:
            kept = _overlap(self._held, OPEN)
            self._say(free, self._held[: len(self._held) - kept])
            self._held = self._held[len(self._held) - kept :]
            return False
        self._say(free, self._held[:at])
        self._held = self._held[at:]
        for head, name in self._heads.items():
            if self._held.startswith(head):
                self._held = self._held[len(head) :]
                self._inside = _Json()
                parts.append(CallPart(self.calls, name, ""))
                self.calls += 1
                return True
        return False

    def _say(self, free: list[str], text: str) -> None:
        # Between calls and after them stands nothing but line feeds.
        if not self.calls or text.strip():
            free.append(text)

    def _within(self, parts: list[CallPart]) -> bool:
        """The arguments, and the end of the call; whether it was reached."""
        if self._inside is not None and not self._inside.ended:
            length = self._inside.length(self._held)
            if length:
                parts.append(CallPart(self.calls - 1, None, self._held[:length]))
                self._held = self._held[length:]
        if self._inside is None or not self._inside.ended or not self._held.startswith(self._close):
            return False
        self._held = self._held[len(self._close) :]
        self._inside = None
        return True


class _Json:
    """Finds the end of a JSON object, character by character."""

    def __init__(self) -> None:
        self._depth = 0
        self._quoted = False
        self._escaped = False
        self.ended = False

    def length(self, text: str) -> int:
        """How much of the text belongs to the object."""
        for index, character in enumerate(text):
            if self._quoted:
                self._quoted = self._escaped or character != '"'
                self._escaped = character == "\\" and not self._escaped
            elif character == '"':
                self._quoted = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                if self._depth == 0:
                    self.ended = True
                    return index + 1
        return len(text)


def _overlap(text: str, marker: str) -> int:
    """The length of the longest end of the text with which the marker begins."""
    return next((n for n in range(min(len(text), len(marker) - 1), 0, -1) if marker.startswith(text[-n:])), 0)
