"""Where the chunks of an answer go: coloured or plain text, one JSON object, or the story of each pass."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any, Protocol, TextIO

from outrider.api import Chunk, Logprob, Usage
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
    """Streams the text; on a terminal in colours, with a summary on standard error. Of n samples each has a header."""

    def __init__(self, out: TextIO, err: TextIO, model: Model, terminal: bool, colour: bool, n: int = 1) -> None:
        self._out, self._err, self._model = out, err, model
        self._terminal, self._colour, self._n = terminal, colour, n
        self._sample = -1
        self._painter: render.Painter | None = None
        self._last = "\n"
        self._tokens = self._accepted = self._passes = 0

    def add(self, chunk: Chunk) -> None:
        if chunk.sample != self._sample:
            self._begin(chunk.sample)
        self._passes += chunk.story is not None
        self._tokens += len(chunk.token_ids)
        self._accepted += sum(origin in render.SHADES for origin in chunk.origins)
        text = self._painter.paint(chunk) if self._painter else chunk.text
        self._write(render.visible(text) if self._terminal and not self._painter else text)
        self._last = chunk.text[-1:] or self._last
        if chunk.usage is not None:
            self.broken()
            if self._terminal:
                print(render.summary(chunk.usage, chunk.finish_reason, self._colour), file=self._err)

    def _begin(self, sample: int) -> None:
        self._sample = sample
        self._painter = render.Painter(self._model.detokenizer()) if self._colour else None
        if self._n > 1:
            self._write(f"{header(sample, self._n)}\n")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()

    def broken(self) -> None:
        if self._last != "\n":
            self._write("\n")
            self._last = "\n"

    def close(self) -> None: ...

    def interrupted(self) -> None:
        self.broken()
        print(render.partial_summary(self._tokens, self._accepted, self._passes), file=self._err)


class StorySink:
    """Tells what each pass drafted, kept and added, then the whole answer; of n samples, one after the other."""

    def __init__(self, out: TextIO, model: Model, colour: bool, n: int = 1) -> None:
        self._out, self._model, self._colour, self._n = out, model, colour, n
        self._introduced = False
        self._begin(-1)

    def _begin(self, sample: int) -> None:
        self._sample = sample
        self._number = self._told = self._given = 0
        self._text: list[str] = []

    def _write(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()

    def add(self, chunk: Chunk) -> None:
        if chunk.sample != self._sample:
            self._begin(chunk.sample)
        self._text.append(chunk.text)
        self._given += len(chunk.token_ids)
        if chunk.story is not None:
            if not self._introduced:  # only now: a request may be refused before its first pass
                self._introduced = True
                self._write(story.INTRODUCTION)
            if self._number == 0 and self._n > 1:
                self._write(f"{header(chunk.sample, self._n)}\n")
            self._number += 1
            self._told += len(chunk.story.path) + 1
            self._write(story.tell(self._number, chunk.story, self._model.token_text, self._colour))
        if chunk.finish_reason is not None:
            self._write(story.ending(chunk.finish_reason, self._told - self._given))
            self._write(f"the answer:\n{render.visible(''.join(self._text))}\n")
        if chunk.usage is not None:
            self._write(story.moral(chunk.usage))

    def close(self) -> None: ...

    def interrupted(self) -> None:
        self._write(f"interrupted; the answer so far:\n{render.visible(''.join(self._text))}")

    def broken(self) -> None: ...


class JsonSink:
    """Collects the answer, or the n answers, and prints them as one JSON object."""

    def __init__(self, out: TextIO, seed: int | None, explain: bool, n: int = 1) -> None:
        self._out, self._seed, self._explain, self._n = out, seed, explain, n
        self._answers = [_Answer() for _ in range(n)]

    def add(self, chunk: Chunk) -> None:
        self._answers[chunk.sample].add(chunk)

    def close(self) -> None:
        first = self._answers[0]
        written = [answer.written(self._explain) for answer in self._answers]
        whole: dict[str, Any] = written[0] if self._n == 1 else {"samples": written}
        whole["prompt_tokens"] = first.usage.prompt_tokens if first.usage else None
        if self._seed is not None:
            whole["seed"] = self._seed
        if first.prompt_logprobs is not None:
            whole["prompt_logprobs"] = [_logprob(one) if one else None for one in first.prompt_logprobs]
        print_json(whole, self._out)

    def interrupted(self) -> None:
        """Half an object would help nobody."""

    def broken(self) -> None: ...


class _Answer:
    """One sample, as far as it came."""

    def __init__(self) -> None:
        self._chunks: list[Chunk] = []
        self.usage: Usage | None = None
        self.prompt_logprobs: tuple[Logprob | None, ...] | None = None

    def add(self, chunk: Chunk) -> None:
        self._chunks.append(chunk)
        self.usage = chunk.usage or self.usage
        self.prompt_logprobs = chunk.prompt_logprobs or self.prompt_logprobs

    def written(self, explain: bool) -> dict[str, Any]:
        """What is said of each sample."""
        chunks = self._chunks
        stats = asdict(self.usage) if self.usage else {}
        for said_elsewhere in ("prompt_tokens", "completion_tokens"):
            stats.pop(said_elsewhere, None)
        answer: dict[str, Any] = {
            "text": "".join(chunk.text for chunk in chunks),
            "token_ids": [token for chunk in chunks for token in chunk.token_ids],
            "finish_reason": next((chunk.finish_reason for chunk in chunks if chunk.finish_reason), None),
            "stats": stats,
        }
        if any(chunk.logprobs is not None for chunk in chunks):
            answer["logprobs"] = [_logprob(one) for chunk in chunks for one in chunk.logprobs or ()]
        if explain:
            answer["story"] = [asdict(chunk.story) for chunk in chunks if chunk.story is not None]
        return answer


def _logprob(one: Logprob) -> dict[str, Any]:
    top = [{"id": token, "logprob": _finite(value)} for token, value in one.top]
    return {"id": one.id, "logprob": _finite(one.logprob), "top": top}


def _finite(value: float) -> float | None:
    """JSON has no infinities: an impossible token has null."""
    return value if math.isfinite(value) else None


def header(sample: int, n: int) -> str:
    """The line above one of n answers, counted from 1."""
    return f"--- sample {sample + 1} of {n} ---"


def print_json(value: dict[str, Any], out: TextIO) -> None:
    """One JSON object on one line, in ASCII where the output could not take more."""
    unicode = (out.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(value, ensure_ascii=not unicode), file=out, flush=True)
