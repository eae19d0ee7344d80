"""What is not supported, malformed, too large or too much is refused: the status, and the name of the field."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from tests.server.worlds import HELLO, Site, ThreadLive, engine, raving, serving

from outrider.server.house import Limits, Settings

IMAGE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TOOL = {"type": "function", "function": {"name": "f"}}
NAMED = {"type": "function", "function": {"name": "g"}}


@pytest.fixture(scope="module")
def site() -> Iterator[Site[ThreadLive]]:
    limits = Limits(body_bytes=100_000, prompt_tok=200, answer_tok=500)
    with serving(ThreadLive(engine(raving())), Settings(limits=limits)) as found:
        yield found


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("reasoning_effort", {"reasoning_effort": "low"}),
        ("functions", {"functions": []}),
        ("audio", {"audio": {}}),
        ("metadata", {"metadata": {"a": "b"}}),
        ("tempreature", {"tempreature": 0.5}),
        ("store", {"store": True}),
        ("modalities", {"modalities": ["text", "audio"]}),
        ("temperature", {"temperature": "hot"}),
        ("temperature", {"temperature": -1}),
        ("temperature", {"temperature": True}),
        ("temperature", {"temperature": 1e-9}),
        ("top_p", {"top_p": 2}),
        ("top_p", {"top_p": 0}),
        ("top_k", {"top_k": 1.5}),
        ("n", {"n": 0}),
        ("n", {"n": 10_000}),
        ("max_tokens", {"max_tokens": 0}),
        ("max_tokens", {"max_tokens": 501}),
        ("min_tokens", {"min_tokens": 9, "max_tokens": 5}),
        ("ignore_eos", {"ignore_eos": 1}),
        ("seed", {"seed": "x"}),
        ("stop", {"stop": [1]}),
        ("stop", {"stop": ""}),
        ("logit_bias", {"logit_bias": {"x": 1}}),
        ("logit_bias", {"logit_bias": {"5": "1"}}),
        ("logit_bias", {"logit_bias": [1]}),
        ("logit_bias", {"logit_bias": {"100000": 1}}),
        ("stream", {"stream": "yes"}),
        ("stream_options", {"stream_options": {"include_usage": True}}),
        ("stream_options.x", {"stream": True, "stream_options": {"x": 1}}),
        ("token_chunks", {"token_chunks": True}),
        ("top_logprobs", {"logprobs": True, "top_logprobs": 21}),
        ("response_format.type", {"response_format": {"type": "xml"}}),
        ("response_format", {"response_format": "json_object"}),
        ("response_format.json_schema", {"response_format": {"type": "json_schema"}}),
        (
            "response_format.json_schema.name",
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}},
        ),
        ("prediction.type", {"prediction": {"type": "magic", "content": "x"}}),
        ("max_draft", {"max_draft": -1}),
        ("drafters", {"drafters": "ngram"}),
        ("drafters", {"drafters": [1]}),
        ("drafters", {"drafters": []}),
        ("drafters", {"drafters": ["ngram", "store"]}),
        ("drafters", {"drafters": ["ngram"], "speculate": False}),
        ("messages", {"messages": []}),
        ("messages", {"messages": "hi"}),
        ("messages[0]", {"messages": ["hi"]}),
        ("messages[0].role", {"messages": [{"role": "wizard", "content": "hi"}]}),
        ("messages[0].role", {"messages": [{"content": "hi"}]}),
        ("messages[0].content", {"messages": [{"role": "user"}]}),
        ("messages[0].name", {"messages": [{"role": "user", "content": "x", "name": "anna"}]}),
        ("messages[0].content[0].type", {"messages": [IMAGE]}),
        ("messages[0].tool_call_id", {"messages": [{"role": "tool", "content": "x", "tool_call_id": "nobody"}]}),
        (
            "messages[0].tool_calls[0].function.arguments",
            {
                "messages": [
                    {"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "f", "arguments": "{"}}]}
                ]
            },
        ),
        ("tools[0].type", {"tools": [{"type": "web_search"}]}),
        ("tools[0].function", {"tools": [{"type": "function"}]}),
        ("tools[0].function.name", {"tools": [{"type": "function", "function": {"name": "a b"}}]}),
        ("tools", {"tools": [TOOL, TOOL]}),
        ("tool_choice", {"tool_choice": "required"}),
        ("tool_choice", {"tools": [TOOL], "tool_choice": "sometimes"}),
        ("tool_choice", {"tools": [TOOL], "tool_choice": NAMED}),
        ("response_format", {"tools": [TOOL], "response_format": {"type": "json_object"}}),
    ],
)
def test_a_field_that_is_wrong_is_named(site: Site[ThreadLive], param: str, fields: dict[str, Any]) -> None:
    status, error = site.refusal(**fields)
    assert (status, error["param"], error["type"]) == (400, param, "invalid_request_error")
    assert param.rpartition(".")[2].partition("[")[0] in error["message"]


def test_an_unknown_drafter_is_refused_with_those_that_are_known(site: Site[ThreadLive]) -> None:
    status, error = site.refusal(drafters=["store"])
    assert (status, error["param"]) == (400, "drafters")
    assert error["message"] == "drafters names 'store'; it may name 'predicted', 'ngram', 'grammar'"
    prediction = {"type": "content", "content": "x"}
    assert "leaves out 'predicted'" in site.refusal(drafters=["ngram"], prediction=prediction)[1]["message"]


def test_a_schema_that_cannot_be_held_is_refused(site: Site[ThreadLive]) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"not": {}}}}
    status, error = site.refusal(response_format=form)
    assert status == 400
    assert "JSON schema" in error["message"]
    bad = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "not": {}}}}
    assert site.refusal(tools=[bad])[0] == 400


def test_another_model_is_not_found(site: Site[ThreadLive]) -> None:
    status, error = site.refusal(model="gpt-99")
    assert (status, error["code"], error["param"]) == (404, "model_not_found", "model")
    assert "table" in error["message"]


def test_a_prompt_that_is_too_long(site: Site[ThreadLive]) -> None:
    status, error = site.refusal(messages=[{"role": "user", "content": "x" * 300}])
    assert (status, error["code"]) == (400, "context_length_exceeded")
    assert "at most 200" in error["message"]


def test_addresses(site: Site[ThreadLive]) -> None:
    assert site.refusal("/v1/embeddings", input="x")[0] == 404
    assert "embeddings" in site.refusal("/v1/embeddings", input="x")[1]["message"]
    assert site.refusal("/v1/nothing")[0] == 404
    assert site.client.get("/v1/chat/completions").status_code == 405
    assert site.client.get("/v1/models/other").json()["error"]["code"] == "model_not_found"
    assert site.client.get("/static/..%2fapp.py").status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[1]",
        b'"text"',
        b"\xff\xfe",
        b'{"temperature": NaN}',
        b"[" * 50_000,
        b'{"seed": ' + b"9" * 5000 + b"}",
        b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
    ],
)
def test_malformed_bodies(site: Site[ThreadLive], body: bytes) -> None:
    response = site.client.post("/v1/chat/completions", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    assert response.json()["error"]["message"]
    assert response.headers["content-type"] == "application/json"


def test_only_json_is_read(site: Site[ThreadLive]) -> None:
    response = site.client.post("/v1/chat/completions", content=json.dumps({"messages": HELLO}))
    assert response.status_code == 415
    assert "Content-Type: application/json" in response.json()["error"]["message"]


def test_large_bodies(site: Site[ThreadLive]) -> None:
    assert site.refusal(messages=[{"role": "user", "content": "x" * 200_000}])[0] == 413

    def pieces() -> Iterator[bytes]:
        yield b'{"messages": "'
        for _ in range(300):
            yield b"x" * 1000

    headers = {"Content-Type": "application/json"}
    response = site.client.post("/v1/chat/completions", content=pieces(), headers=headers)
    assert response.status_code == 413
    assert "100000 bytes" in response.json()["error"]["message"]


def test_the_server_lives_on_after_nonsense(site: Site[ThreadLive]) -> None:
    for garbage in (
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x00\x01\x02\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nContent-",
    ):
        with socket.create_connection(("127.0.0.1", site.port)) as raw:
            raw.sendall(garbage)
    assert site.chat(max_tokens=2)["usage"]["completion_tokens"] == 2
