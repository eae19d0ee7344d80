"""Where the chunks of an answer go: coloured or plain text, one JSON object, or the story of each pass."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Protocol, TextIO

from outrider.api import Chunk, FinishReason, Origin, Usage
from outrider.cli import render, story
from outrider.cli.tools import Model


class Sink(Protocol):
    """Where chunks go."""

    def add(self, chunk: Chunk) -> None: ...
    def close(self) -> None: ...
    def interrupted(self) -> None: ...
    def broken(self) -> None:
        """An error ended the answer; its message follows on standard error."""
        ...


class TextSink:
    """Streams the text; on a terminal in colours, with a summary on standard error."""

    def __init__(self, out: TextIO, err: TextIO, model: Model, terminal: bool, colour: bool) -> None:
        self._out, self._err, self._terminal, self._colour = out, err, terminal, colour
        self._painter = render.Painter(model.detokenizer()) if colour else None
        self._last = "\n"
        self._tokens = self._accepted = self._passes = 0
        self._end: Chunk | None = None

    def add(self, chunk: Chunk) -> None:
        self._passes += 1
        self._tokens += len(chunk.token_ids)
        self._accepted += chunk.origins.count(Origin.ACCEPTED)
        if chunk.usage is not None:
            self._end = chunk
        text = self._painter.paint(chunk) if self._painter else chunk.text
        self._write(render.visible(text) if self._terminal and not self._painter else text)
        self._last = chunk.text[-1:] or self._last

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()

    def broken(self) -> None:
        if self._last != "\n":
            self._write("\n")

    def close(self) -> None:
        self.broken()
        if self._terminal and self._end is not None and self._end.usage is not None:
            print(render.summary(self._end.usage, self._end.finish_reason, self._colour), file=self._err)

    def interrupted(self) -> None:
        self.broken()
        print(render.partial_summary(self._tokens, self._accepted, self._passes), file=self._err)


class StorySink:
    """Tells what each pass drafted, kept and added, then the whole answer."""

    def __init__(self, out: TextIO, model: Model, colour: bool) -> None:
        self._out, self._model, self._colour = out, model, colour
        self._number = self._told = self._given = 0
        self._text: list[str] = []
        self._end: Chunk | None = None

    def _write(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()

    def add(self, chunk: Chunk) -> None:
        self._text.append(chunk.text)
        self._given += len(chunk.token_ids)
        if chunk.story is not None:
            if self._number == 0:  # only now: a request may be refused before its first pass
                self._write(story.INTRODUCTION)
            self._number += 1
            self._told += len(chunk.story.path) + 1
            self._write(story.tell(self._number, chunk.story, self._model.token_text, self._colour))
        if chunk.finish_reason is not None:
            self._end = chunk
            self._write(story.ending(chunk.finish_reason, self._told - self._given))

    def close(self) -> None:
        self._write(f"the answer:\n{render.visible(''.join(self._text))}\n")
        if self._end is not None and self._end.usage is not None:
            self._write(story.moral(self._end.usage, self._end.finish_reason))

    def interrupted(self) -> None:
        self._write(f"interrupted; the answer so far:\n{render.visible(''.join(self._text))}")

    def broken(self) -> None: ...


class JsonSink:
    """Collects the answer and prints it as one JSON object."""

    def __init__(self, out: TextIO, seed: int | None, explain: bool) -> None:
        self._out, self._seed, self._explain = out, seed, explain
        self._text: list[str] = []
        self._ids: list[int] = []
        self._story: list[dict[str, Any]] = []
        self._reason: FinishReason | None = None
        self._usage: Usage | None = None

    def add(self, chunk: Chunk) -> None:
        self._text.append(chunk.text)
        self._ids += chunk.token_ids
        if chunk.story is not None:
            self._story.append(asdict(chunk.story))
        self._reason = chunk.finish_reason or self._reason
        self._usage = chunk.usage or self._usage

    def close(self) -> None:
        stats = asdict(self._usage) if self._usage else {}
        stats.pop("completion_tokens", None)
        answer: dict[str, Any] = {
            "text": "".join(self._text),
            "token_ids": self._ids,
            "prompt_tokens": stats.pop("prompt_tokens", None),
            "finish_reason": self._reason,
            "stats": stats,
        }
        if self._seed is not None:
            answer["seed"] = self._seed
        if self._explain:
            answer["story"] = self._story
        print_json(answer, self._out)

    def interrupted(self) -> None:
        """Half an object would help nobody."""

    def broken(self) -> None: ...


def print_json(value: dict[str, Any], out: TextIO) -> None:
    """One JSON object on one line, in ASCII where the output could not take more."""
    unicode = (out.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(value, ensure_ascii=not unicode), file=out, flush=True)
