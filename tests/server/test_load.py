"""Too much at once, too late, too slow, gone: what the caller hears, and that nothing is left running."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from tests.server.worlds import HELLO, Site, ThreadLive, engine, raving, raw_request, serving, text_of, wait_for

from outrider.api import FailureKind
from outrider.server.house import Limits, Settings

PATH = "/v1/chat/completions"
HEAD = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "
HALF = f"{HEAD}99\r\n\r\n{{".encode()


class Gate:
    """Lets chunks through while it is open."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.reached = threading.Event()

    def __call__(self) -> None:
        self.reached.set()
        assert self.open.wait(20)


@contextmanager
def gated(settings: Settings | None = None, most: int = 1000) -> Iterator[tuple[Site[ThreadLive], Gate]]:
    gate = Gate()
    live = ThreadLive(engine(raving()), gate, most)
    with serving(live, settings) as site:
        try:
            yield site, gate
        finally:
            gate.open.set()


def body(**fields: object) -> bytes:
    return json.dumps({"messages": HELLO, "max_tokens": 4000, "ignored": None, **fields}).encode()


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_is_cancelled(stream: bool) -> None:
    with gated() as (site, gate):
        raw = raw_request(site.port, body(stream=stream))
        assert gate.reached.wait(20)
        assert site.live.snapshot().running == 1
        raw.close()
        wait_for(lambda: site.live.cancelled_while_running == 1)
        gate.open.set()
        wait_for(lambda: site.live.snapshot().running == 0)
        wait_for(lambda: any(line.get("outcome") == "gone" for line in site.logged()))
        assert site.chat(max_tokens=2), "and the server serves on"


def test_a_client_that_goes_away_in_the_middle_of_its_body() -> None:
    with gated() as (site, _):
        raw = raw_request(site.port, body()[:20])
        raw.close()
        half = socket.create_connection(("127.0.0.1", site.port))
        half.sendall(HALF)
        half.close()
        wait_for(lambda: len([line for line in site.logged() if line.get("path") == PATH]) >= 1)
        assert site.live.asked == []


def test_the_engine_s_queue_is_full() -> None:
    with gated(most=1) as (site, gate), ThreadPoolExecutor(1) as pool:
        first = pool.submit(site.chat, max_tokens=3)
        assert gate.reached.wait(20)
        response = site.post(PATH, messages=HELLO)
        assert response.status_code == 429
        assert response.headers["retry-after"] == "7"
        assert response.json()["error"]["type"] == "rate_limit_error"
        gate.open.set()
        assert first.result(20)["usage"]["completion_tokens"] == 3


def test_too_many_requests_at_once() -> None:
    with gated(Settings(limits=Limits(in_flight=1))) as (site, gate), ThreadPoolExecutor(1) as pool:
        first = pool.submit(site.chat, max_tokens=3)
        assert gate.reached.wait(20)
        response = site.post(PATH, messages=HELLO)
        assert response.status_code == 429
        assert int(response.headers["retry-after"]) >= 1
        assert site.client.get("/health").status_code == 200
        gate.open.set()
        first.result(20)
        assert site.chat(max_tokens=1)


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_that_takes_too_long(stream: bool) -> None:
    with gated(Settings(limits=Limits(request_s=0.3))) as (site, gate):
        response = site.post(PATH, messages=HELLO, stream=stream, max_tokens=50)
        if stream:
            assert response.status_code == 200, "its first token had come"
            last = response.text.strip().rpartition("data: ")[2]
            assert json.loads(last)["error"]["code"] == "timeout"
            assert "[DONE]" not in response.text
        else:
            assert response.status_code == 504
            assert "0.3 s" in response.json()["error"]["message"]
        wait_for(lambda: site.live.cancelled_while_running == 1)
        gate.open.set()


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (FailureKind.USAGE, 400),
        (FailureKind.OVERLOAD, 503),
        (FailureKind.TIMEOUT, 504),
        (FailureKind.INTERNAL, 500),
    ],
)
def test_an_answer_that_fails_in_the_middle(kind: FailureKind, status: int) -> None:
    live = ThreadLive(engine(raving()))
    live.fail = kind
    with serving(live) as site:
        found, error = site.refusal(max_tokens=50, temperature=0)
        assert (found, error["message"]) == (status, "it broke")
        streamed = site.post(PATH, messages=HELLO, stream=True, max_tokens=50)
        assert "it broke" in streamed.text
        assert "[DONE]" not in streamed.text


def test_while_draining_nothing_new_is_taken_and_running_answers_end() -> None:
    with gated() as (site, gate), ThreadPoolExecutor(2) as pool:
        running = pool.submit(site.stream, max_tokens=5, seed=1)
        assert gate.reached.wait(20)
        drained = pool.submit(site.live.drain, 20)
        wait_for(lambda: site.client.get("/health").status_code == 503)
        assert site.client.get("/health").json() == {"status": "draining"}
        assert site.client.get("/health/live").status_code == 200
        response = site.post(PATH, messages=HELLO)
        assert response.status_code == 503
        assert "retry-after" in response.headers
        gate.open.set()
        assert drained.result(20)
        assert text_of(running.result(20))


def test_a_body_that_does_not_come() -> None:
    with serving(ThreadLive(engine(raving())), Settings(limits=Limits(read_s=0.2))) as site:
        raw = socket.create_connection(("127.0.0.1", site.port))
        raw.sendall(HALF)
        raw.settimeout(20)
        assert raw.recv(100).startswith(b"HTTP/1.1 408")
        raw.close()


def test_a_reader_that_is_slow_gets_everything_and_holds_up_nobody() -> None:
    with serving(ThreadLive(engine(raving()))) as site:
        raw = raw_request(site.port, body(stream=True, max_tokens=800, seed=1, logprobs=True, top_logprobs=20))
        assert site.chat(max_tokens=5)
        wait_for(lambda: site.live.snapshot().running == 0)  # the engine is done, whoever reads
        received = b""
        while not received.endswith(b"0\r\n\r\n"):
            received += raw.recv(1 << 14)
            time.sleep(0.0005)
        raw.close()
        assert b"data: [DONE]" in received


def test_many_at_once_are_each_answered_as_alone() -> None:
    with serving(ThreadLive(engine(raving()))) as site:

        def ask(seed: int) -> str:
            return str(site.chat(seed=seed, max_tokens=20)["choices"][0]["message"]["content"])

        alone = [ask(seed) for seed in range(16)]
        with ThreadPoolExecutor(16) as pool:
            together = list(pool.map(ask, range(16)))
    assert together == alone
    assert len(set(alone)) > 8
