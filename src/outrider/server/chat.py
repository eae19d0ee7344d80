"""/v1/chat/completions: the request read, and the answer told."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

from outrider.api import Chunk, FinishReason, Logprob, Request, Usage
from outrider.asking import Ask, Form, Telling
from outrider.server import messages, tools
from outrider.server.common import MOST_LOGPROBS, MOST_TOKENS, REMEDIES, Common, check_prompt, most_tokens, read
from outrider.server.counting import PredictionCount, usage_json
from outrider.server.house import Face, House, Limits, Settings
from outrider.server.pieces import Piece, Splitter, one_by_one
from outrider.server.problems import BAD, Problem
from outrider.server.reading import Reader
from outrider.server.telling import Envelope, Json, entry, finish, story
from outrider.server.tools import CallPart, CallReader, Tools

WHOLE, CHUNK = "chat.completion", "chat.completion.chunk"


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat request, read."""

    common: Common
    messages: list[messages.Message]
    tools: Tools | None
    form: Form
    max_tokens: int | None
    logprobs: int | None

    def request(self, face: Face, limits: Limits, scope: str) -> Request:
        """What the engine is asked. Raises Problem, and UsageError for what a template or a Request refuses."""
        prompt = face.chat(self.messages)
        check_prompt(len(prompt), limits)
        most = most_tokens(self.max_tokens, None, len(prompt), face.context, limits)
        common = self.common
        ask = Ask(
            chance=common.chance,
            nudges=common.nudges,
            ending=replace(common.ending, max_tokens=most),
            form=self.form,
            telling=Telling(n=common.n, logprobs=self.logprobs),
            guessing=common.guessing,
        )
        return replace(ask.request(prompt, face.plain(common.guessing.text())), scope=scope)


def parse(data: object, house: House, settings: Settings) -> Chat:
    """The request of a JSON body. Raises Problem naming the first field that is wrong or not supported."""
    reader = Reader(data)
    common = read(reader, house, settings)
    told = messages.read(reader.items("messages"))
    called = tools.read(reader)
    form, about = _form(reader, called)
    reader.only("modalities", (["text"],))
    most, older = reader.whole("max_completion_tokens", 1, MOST_TOKENS), reader.whole("max_tokens", 1, MOST_TOKENS)
    if most is not None and older is not None and most != older:
        raise Problem(BAD, f"max_completion_tokens is {most} and max_tokens {older}; give one of them", "max_tokens")
    logprobs = _logprobs(reader)
    reader.done(REMEDIES)
    system = "\n\n".join(filter(None, [called.system() if called else "", about]))
    return Chat(common, messages.with_system(told, system), called, form, most or older, logprobs)


def _form(reader: Reader, called: Tools | None) -> tuple[Form, str]:
    """The form of the answer, and what the prompt says of it."""
    inner = reader.inner("response_format")
    if inner is None:
        return called.form() if called else Form(), ""
    kind = inner.needed_text("type")
    if kind not in ("text", "json_object", "json_schema"):
        raise inner.wrong("type", kind, "it may be text, json_object or json_schema")
    if kind != "text" and called:
        raise Problem(BAD, f"response_format {kind} and tools do not go together; leave one out", "response_format")
    form, about = called.form() if called else Form(json_object=kind == "json_object"), ""
    if kind == "json_schema":
        described = inner.needed("json_schema")
        described.needed_text("name")
        described.flag("strict", True)  # the schema always holds
        about = described.text("description") or ""
        schema = described.take("schema")
        if not isinstance(schema, dict | bool):
            raise described.wrong("schema", schema, "give a JSON schema")
        described.done()
        form = Form(json_schema=schema)
    inner.done()
    return form, f"The answer is JSON: {about}" if about else ""


def _logprobs(reader: Reader) -> int | None:
    wanted = reader.flag("logprobs", False)
    top = reader.whole("top_logprobs", 0, MOST_LOGPROBS)
    if top and not wanted:
        raise Problem(BAD, f"top_logprobs is {top} but logprobs is not true; set it", "top_logprobs")
    return (top or 0) if wanted else None


class Choice:
    """One answer on its way out: chunks in, deltas out; what a whole response needs is kept as well."""

    def __init__(self, index: int, face: Face, chat: Chat, prediction: Sequence[int]) -> None:
        self.index = index
        self.count = PredictionCount(prediction)
        self.usage: Usage | None = None
        self.reason: FinishReason | None = None
        self.text: list[str] = []
        self.calls: list[Json] = []
        self.logprobs: list[Logprob] = []
        self.stories: list[Json] = []
        self._face = face
        self._manner = chat.common.manner
        self._reader = CallReader(chat.tools.tools) if chat.tools else None
        split = self._manner.token_chunks or self._manner.story
        self._splitter = Splitter(face.detokenizer()) if split else None

    def deltas(self, chunk: Chunk) -> list[Json]:
        """What a chunk adds, as choices of a stream."""
        self.count.see(chunk.story)
        if self._splitter is None:
            return [self._delta(chunk, None)]
        pieces = self._splitter.split(chunk)
        if not self._manner.token_chunks:
            return [self._delta(chunk, story(chunk, pieces))]
        found = []
        for number, part in enumerate(one_by_one(chunk, pieces)):
            one = [Piece(0 if part.token_ids else None, part.text)] if number < len(pieces) else []
            found.append(self._delta(part, story(part, one) if self._manner.story else None))
        return found

    def _delta(self, chunk: Chunk, told: Json | None) -> Json:
        text, parts = (chunk.text, []) if self._reader is None else self._reader.push(chunk.text)
        if chunk.finish_reason is not None:
            self.reason, self.usage = chunk.finish_reason, chunk.usage
            text += self._reader.finish() if self._reader else ""
        delta: Json = {}
        if text:
            delta["content"] = text
            self.text.append(text)
        if parts:
            delta["tool_calls"] = self._call_deltas(parts)
        found: Json = {"index": self.index, "delta": delta, "logprobs": None, "finish_reason": self._finish(chunk)}
        if chunk.logprobs is not None:
            found["logprobs"] = {"content": [entry(self._face, one) for one in chunk.logprobs], "refusal": None}
            self.logprobs += chunk.logprobs
        if told is not None:
            found["outrider"] = told
            self.stories.append(told)
        elif chunk.finish_reason is FinishReason.STUCK:
            found["outrider"] = {"finish": chunk.finish_reason.value}
        return found

    def _call_deltas(self, parts: Sequence[CallPart]) -> list[Json]:
        """One delta for each call that a chunk touched: two in a list would make clients add to the wrong one."""
        touched: dict[int, Json] = {}
        for part in parts:
            if part.name is not None:
                name = f"call_{secrets.token_hex(12)}"
                self.calls.append({"id": name, "type": "function", "function": {"name": part.name, "arguments": ""}})
                function: Json = {"name": part.name, "arguments": ""}
                touched[part.index] = {"index": part.index, "id": name, "type": "function", "function": function}
            whole = self.calls[part.index]["function"]
            delta = touched.setdefault(part.index, {"index": part.index, "function": {"arguments": ""}})["function"]
            for target in (whole, delta):
                if isinstance(target, dict):
                    target["arguments"] += part.arguments
        return list(touched.values())

    def _finish(self, chunk: Chunk) -> str | None:
        called = self._reader is not None and self._reader.calls
        return "tool_calls" if called and chunk.finish_reason is FinishReason.STOP else finish(chunk.finish_reason)

    def whole(self) -> Json:
        """The choice of a response that is no stream."""
        content = "".join(self.text)
        message: Json = {"role": "assistant", "content": None if self.calls and not content else content}
        message["refusal"] = None
        if self.calls:
            message["tool_calls"] = self.calls
        called = bool(self.calls) and self.reason is FinishReason.STOP
        found: Json = {"index": self.index, "message": message, "logprobs": None}
        found["finish_reason"] = "tool_calls" if called else finish(self.reason)
        if self.logprobs:
            found["logprobs"] = {"content": [entry(self._face, one) for one in self.logprobs], "refusal": None}
        if self.stories:
            found["outrider"] = self.stories
        elif self.reason is FinishReason.STUCK:
            found["outrider"] = {"finish": self.reason.value}
        return found


class ChatTeller:
    """Tells the answers to one chat request, as events or as one object."""

    def __init__(self, house: House, chat: Chat, request: Request) -> None:
        manner = chat.common.manner
        self.envelope = Envelope.of(house, "chatcmpl", chat.common.seed, manner.stream, manner.usage)
        self._prompt_tok = len(request.prompt)
        self._choices = [Choice(index, house.face, chat, request.prediction) for index in range(request.n)]

    def first(self) -> list[Json]:
        """The events before any text."""
        start: Json = {"role": "assistant", "content": ""}
        return [
            self.envelope.wrap(CHUNK, [{"index": c.index, "delta": start, "logprobs": None, "finish_reason": None}])
            for c in self._choices
        ]

    def events(self, number: int, chunk: Chunk) -> list[Json]:
        """The events of a chunk; number is always 0, for a chat is one request."""
        return [self.envelope.wrap(CHUNK, [delta]) for delta in self._choices[chunk.sample].deltas(chunk)]

    def last(self) -> list[Json]:
        """The events after every answer's end."""
        return [self.envelope.wrap(CHUNK, [], self.usage())] if self.envelope.usage else []

    def whole(self) -> Json:
        """The one object of a response that is no stream."""
        return self.envelope.wrap(WHOLE, [choice.whole() for choice in self._choices], self.usage())

    def usage(self) -> Json:
        """What all of it cost."""
        usages = [choice.usage for choice in self._choices if choice.usage is not None]
        return usage_json(self._prompt_tok, usages, [choice.count for choice in self._choices])
