"""A server over a table for a model: everything real but the weights, on loopback."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

import httpx

from outrider.api import Chunk, Drafted, Failed, FailureKind, Generator, Live, LiveState, Request, Snapshot
from outrider.constraints.base import MatcherMaker
from outrider.constraints.compiler import Compiler
from outrider.constraints.vocabulary import Vocabulary
from outrider.drafters.base import Drafter
from outrider.drafters.grammar import GrammarDrafter
from outrider.drafters.hybrid import First
from outrider.drafters.ngram import NgramDrafter
from outrider.drafters.predicted import PredictedDrafter
from outrider.engine.engine import Engine
from outrider.errors import Draining, Overloaded
from outrider.models.chat import ChatTemplate
from outrider.models.spec import TokenizerData
from outrider.models.tokenizer import Detokenizer, Tokenizer
from outrider.policy.fixed import Fixed
from outrider.server.app import make
from outrider.server.house import House, Settings, fingerprint
from outrider.server.logs import Log
from outrider.server.running import listen
from outrider.server.running import make as make_server
from outrider.testing.gguf_maker import CHAT_TEMPLATE, tiny_vocabulary
from outrider.testing.table import LogitsOf, RandomLaw, ScriptedLaw, TableBackend

VOCAB = 300
CONTEXT = 4096
END = 2  # <|im_end|>
TOKENS, TYPES, MERGES = tiny_vocabulary(VOCAB)
TOKENIZER = Tokenizer(TokenizerData("gpt2", "smollm", TOKENS, TYPES, MERGES, eos=END))
CHAT = ChatTemplate(CHAT_TEMPLATE)
MODEL = "table"
L = TypeVar("L", bound=Live)
GUESSES = {
    "ngram": Drafted("ngram", 16, 13, (9, 4, 3), (7, 4, 2)),
    "predicted": Drafted("predicted", 4, 2, (2, 2, 1), (1, 1, 0)),
}
HELLO: list[dict[str, str]] = [{"role": "user", "content": "hi"}]


class TableFace:
    """The words of the table's model."""

    context = CONTEXT

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        return TOKENIZER.encode_prompt(CHAT.render(messages), special=True)

    def raw(self, text: str) -> list[int]:
        return TOKENIZER.encode_prompt(text, special=True)

    def plain(self, text: str) -> list[int]:
        return TOKENIZER.encode(text, special=False)

    def text(self, ids: Sequence[int]) -> str:
        return TOKENIZER.decode(ids, skip_special=True)

    def token_text(self, token: int) -> str:
        return TOKENIZER.decode([token], skip_special=False)

    def token_bytes(self, token: int) -> bytes:
        return TOKENIZER.token_bytes(token)

    def detokenizer(self) -> Detokenizer:
        return Detokenizer(TOKENIZER, skip_special=True)


class ThreadLive:
    """A Live that answers each request in a thread of its own.

    between is called after each chunk; most: requests at once, more are Overloaded. fail: what a request ends with.
    """

    def __init__(self, generator: Generator, between: Callable[[], None] = lambda: None, most: int = 1000) -> None:
        self._generator = generator
        self._names = generator.world.drafters if isinstance(generator, Engine) else ()
        self._between = between
        self._most = most
        self._lock = threading.Lock()
        self._running: dict[int, threading.Thread] = {}
        self._cancelled: set[int] = set()
        self._count = 0
        self._state = LiveState.READY
        self.asked: list[Request] = []
        self.cancelled_while_running = 0
        self.fail: FailureKind | None = None

    def submit(self, request: Request, listener: Callable[[Chunk | Failed], None]) -> int:
        with self._lock:
            if self._state is not LiveState.READY:
                raise Draining("the engine is about to stop")
            if len(self._running) >= self._most:
                raise Overloaded(f"{self._most} requests are running", 7.0)
            chunks = self._generator.generate([request])
            self.asked.append(request)
            self._count += 1
            ticket = self._count
            thread = threading.Thread(target=self._run, args=(ticket, chunks, listener), daemon=True)
            self._running[ticket] = thread
        thread.start()
        return ticket

    def _run(self, ticket: int, chunks: Iterator[Chunk], listener: Callable[[Chunk | Failed], None]) -> None:
        try:
            for number, chunk in enumerate(chunks):
                if ticket in self._cancelled:
                    return
                if self.fail is not None and number == 1:
                    listener(Failed(0, "it broke", self.fail))
                    return
                listener(chunk)
                self._between()
        finally:
            with self._lock:
                self._running.pop(ticket)

    def cancel(self, ticket: int) -> None:
        with self._lock:
            self.cancelled_while_running += ticket in self._running and ticket not in self._cancelled
            self._cancelled.add(ticket)

    def drain(self, timeout_s: float) -> bool:
        self._state = LiveState.DRAINING
        end = time.monotonic() + timeout_s
        while self._running and time.monotonic() < end:
            time.sleep(0.01)
        return not self._running

    def close(self) -> None:
        self._state = LiveState.CLOSED
        with self._lock:
            self._cancelled |= set(self._running)

    def snapshot(self) -> Snapshot:
        running = len(self._running)
        return Snapshot(
            state=self._state,
            uptime_s=12.5,
            running=running,
            waiting=2,
            sequences=running,
            paused=0,
            kv_blocks_used=3,
            kv_blocks_cached=1,
            kv_blocks_total=64,
            kv_bytes_total=1 << 20,
            prefix_hits_tok=5,
            prefix_misses_tok=7,
            preemptions=1,
            passes=11,
            rows=40,
            tokens=30,
            drafted=20,
            accepted=15,
            drafted_by_position=(10, 6, 4),
            accepted_by_position=(8, 5, 2),
            drafters=tuple(GUESSES.get(name, Drafted(name, 0, 0, (), ())) for name in self._names),
            budget=3.5,
            goodput_tok_s=99.0,
            pass_rows_histogram=(1, 2, 8),
        )


def compiler() -> Compiler:
    """Of the table's vocabulary."""
    vocabulary = Vocabulary(
        VOCAB,
        TOKENIZER.vocab,
        TOKENIZER.token_bytes,
        TOKENIZER.is_special,
        TOKENIZER.eos_ids,
        partial(TOKENIZER.encode, special=False),
    )
    return Compiler(vocabulary)


def engine(law: LogitsOf, drafter: Drafter | None = None, matchers: MatcherMaker | None = None) -> Engine:
    """Speculative, with constraints, over a table; by default with n-grams and predictions."""
    inner = First([PredictedDrafter(), NgramDrafter()]) if drafter is None else drafter
    detokenizer = partial(Detokenizer, TOKENIZER, skip_special=True)
    backend = TableBackend(law, VOCAB, context=CONTEXT, block_tokens=16)
    return Engine(
        backend, GrammarDrafter(inner), Fixed(4), detokenizer, TOKENIZER.eos_ids, matchers=matchers or compiler()
    )


def saying(text: str, messages: Sequence[Mapping[str, str]] = HELLO) -> LogitsOf:
    """A model that answers these messages with a text."""
    script = [*TOKENIZER.encode(text, special=False), END]
    return ScriptedLaw(VOCAB, len(TableFace().chat(messages)), script)


def raving(seed: int = 1) -> LogitsOf:
    """A model that writes anything."""
    return RandomLaw(VOCAB, 1, seed)


def house(live: Live) -> House:
    return House(live, TableFace(), MODEL, fingerprint(MODEL, "0123456789abcdef", "coupled"), "auto", "coupled", 1)


@dataclass
class Site(Generic[L]):
    """A server that runs: its address, a client, its Live, and what it logged."""

    url: str
    port: int
    client: httpx.Client
    live: L
    log: io.StringIO = field(default_factory=io.StringIO)

    def post(self, path: str, **data: Any) -> httpx.Response:
        return self.client.post(path, json=data)

    def chat(self, **data: Any) -> dict[str, Any]:
        """The answer of a chat; it has to be one."""
        response = self.post("/v1/chat/completions", **{"messages": HELLO, **data})
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    def events(self, path: str = "/v1/chat/completions", **data: Any) -> list[dict[str, Any]]:
        """The events of a stream; [DONE] has to be the last of them."""
        with self.client.stream("POST", path, json={"stream": True, **data}) as response:
            assert response.status_code == 200, response.read()
            assert response.headers["content-type"].startswith("text/event-stream")
            lines = [line for line in response.iter_lines() if line]
        assert lines[-1] == "data: [DONE]"
        return [json.loads(line.removeprefix("data: ")) for line in lines[:-1] if not line.startswith(":")]

    def stream(self, **data: Any) -> list[dict[str, Any]]:
        return self.events(**{"messages": HELLO, **data})

    def refusal(self, path: str = "/v1/chat/completions", **data: Any) -> tuple[int, dict[str, Any]]:
        """Status and error of a request that is refused."""
        default = {"messages": HELLO} if path.endswith("chat/completions") else {}
        response = self.post(path, **{**default, **data})
        assert response.status_code >= 400, response.text
        error: dict[str, Any] = response.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return response.status_code, error

    def logged(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.getvalue().splitlines()]


@contextmanager
def serving(live: L, settings: Settings | None = None) -> Iterator[Site[L]]:
    """The server in a thread of its own, without signals."""
    log = io.StringIO()
    app = make(house(live), settings or Settings(), Log(log))
    opened = listen("127.0.0.1", 0)
    server = make_server(app, Log(log))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([opened])))
    port = opened.getsockname()[1]
    thread.start()
    try:
        wait_for(lambda: server.started)
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=url, timeout=30) as client:
            yield Site(url, port, client, live, log)
    finally:
        live.close()
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


def wait_for(done: Callable[[], object], seconds: float = 20.0) -> None:
    """Until something is true; fails when it takes too long."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def raw_request(port: int, content: bytes, path: str = "/v1/chat/completions") -> socket.socket:
    """A connection that has sent a request and read nothing."""
    raw = socket.create_connection(("127.0.0.1", port))
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(content)}"
    raw.sendall(f"{head}\r\n\r\n".encode() + content)
    return raw


def text_of(events: Sequence[Mapping[str, Any]], index: int = 0) -> str:
    """The text of one choice of a stream."""
    choices = [choice for event in events for choice in event["choices"] if choice["index"] == index]
    return "".join(choice["delta"].get("content") or "" for choice in choices)
