"""OpenAI-compatible servers: what they are asked, how they are timed, and how they fail."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest
from tests.bench.fake_server import Fake, event, serving

from outrider.bench.contenders import Answer, Settings
from outrider.bench.server import Server
from outrider.errors import BackendError, UsageError

HELLO = [{"role": "user", "content": "hi"}]


def ticking(start: float = 10.0, step: float = 0.25) -> Callable[[], float]:
    """A clock that goes on by `step` whenever it is read."""
    now = start - step

    def clock() -> float:
        nonlocal now
        now += step
        return now

    return clock


def ask(fake: Fake, settings: Settings | None = None, model: str | None = None, key: str | None = None) -> Answer:
    with serving(fake):
        return Server(fake.url + "/", model, settings or Settings(), key=key, clock=ticking()).answer(HELLO)


def test_what_is_asked() -> None:
    fake = Fake()
    ask(fake, Settings(7, 0.5, 3), key="secret")
    assert fake.heard == [
        {
            "path": "/v1/chat/completions",
            "model": "first",
            "messages": HELLO,
            "max_tokens": 7,
            "temperature": 0.5,
            "seed": 3,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ]
    assert fake.keys == ["Bearer secret"]


def test_a_named_model_is_asked_for_and_no_key_is_sent_unasked() -> None:
    fake = Fake(models=b"none of these")
    ask(fake, model="second")
    assert [heard["model"] for heard in fake.heard] == ["second"]
    assert fake.keys == [None]


def test_seconds_run_from_the_first_piece_to_the_last() -> None:
    found = ask(Fake(pieces=("a", "b", "ü"), usage=9))
    assert found == Answer("abü", None, 9, 8, 0.5, None)


def test_one_piece_has_no_speed() -> None:
    assert ask(Fake(pieces=("all at once",), usage=9)) == Answer("all at once", None, 9, 0, 0.0, None)
    assert ask(Fake(pieces=(), usage=0)) == Answer("", None, 0, 0, 0.0, None)


def test_thoughts_take_time_and_are_no_text() -> None:
    thought = event(choices=[{"delta": {"content": None, "reasoning_content": "hm"}}])
    assert ask(Fake(extra=[thought], usage=9)) == Answer("Hello", None, 9, 8, 0.5, None)


@pytest.mark.parametrize(
    ("fake", "words"),
    [
        (Fake(usage=None), "did not say how many tokens it wrote; it must know stream_options.include_usage"),
        (Fake(complaint=(404, b'{"error": {"message": "no such\\nmodel"}}')), "answered 404 Not Found: no such model"),
        (Fake(complaint=(503, b"loading")), "answered 503 Service Unavailable: loading"),
        (Fake(complaint=(500, b"")), "/chat/completions answered 500 Internal Server Error"),
        (Fake(complaint=(400, b"[1]")), "answered 400 Bad Request: [1]"),
        (Fake(complaint=(200, b'{"choices": []}')), "did not say how many tokens it wrote"),
        (Fake(extra=[event(error={"message": "out of memory"})]), "the server broke off: out of memory"),
        (Fake(extra=[b"data: {\n\n"]), "the server streamed b'{', which is not a JSON object"),
        (Fake(extra=[b"data: 7\n\n"]), "which is not a JSON object"),
    ],
)
def test_a_failure_is_one_sentence(fake: Fake, words: str) -> None:
    with pytest.raises(BackendError) as caught:
        ask(fake)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_silent_server_times_out() -> None:
    with serving(Fake(silent=True)) as fake:
        server = Server(fake.url, None, Settings(), timeout_s=0.05)
        with pytest.raises(BackendError, match=r"said nothing for 0.05 s"):
            server.answer(HELLO)


@pytest.mark.parametrize("model", [None, "named"])
def test_nobody_listens(model: str | None) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but not listening
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with pytest.raises(BackendError, match=r"cannot be reached \(Connection refused\): is the server running"):
            Server(url, model, Settings())


@pytest.mark.parametrize("models", [b"[]", b"{", b'{"data": []}', b'{"data": [{"name": "x"}]}'])
def test_a_server_that_names_no_model(models: bytes) -> None:
    with serving(Fake(models=models)) as fake, pytest.raises(BackendError, match="give the name with --api-model"):
        Server(fake.url, None, Settings())


def test_an_address_without_an_api() -> None:
    with serving(Fake()) as fake, pytest.raises(BackendError, match="/v2/models answered 404"):
        Server(fake.url.replace("v1", "v2"), None, Settings())


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8000",
        "ftp://host/v1",
        "http://",
        "http://host:port/v1",
        "http://host:99999/v1",
        "http://host/v1?a=b",
        "http://me:secret@host/v1",
        "http://ho st/v1",
        "http://hö.st/v1",
        "http://[::1/v1",
    ],
)
def test_a_malformed_address(url: str) -> None:
    with pytest.raises(UsageError, match=r"^--url is .*: give an address such as http://127.0.0.1:8000/v1$"):
        Server(url, "m", Settings())
