"""Real clients: the openai package, the llm command-line tool, curl."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from pydantic import BaseModel
from tests.server.worlds import HELLO, MODEL, Site, ThreadLive, engine, raving, saying, serving

from outrider.server.house import Settings

FISH = "red fish, blue fish, red fish, blue fish"
KEY = "correct-horse"
ASKED: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"]},
    },
}


@pytest.fixture(scope="module")
def site() -> Iterator[Site[ThreadLive]]:
    with serving(ThreadLive(engine(saying(FISH))), Settings(keys=(KEY,))) as found:
        yield found


@pytest.fixture(scope="module")
def raver() -> Iterator[Site[ThreadLive]]:
    with serving(ThreadLive(engine(raving(3)))) as found:
        yield found


@pytest.fixture
def client(site: Site[ThreadLive]) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{site.url}/v1", api_key=KEY, max_retries=0) as found:
        yield found


@pytest.fixture
def wild(raver: Site[ThreadLive]) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{raver.url}/v1", api_key="any", max_retries=0) as found:
        yield found


def test_openai_whole(client: openai.OpenAI) -> None:
    found = client.chat.completions.create(model=MODEL, messages=ASKED, temperature=0)
    assert found.choices[0].message.content == FISH
    assert found.choices[0].finish_reason == "stop"
    assert found.system_fingerprint
    assert found.usage is not None
    assert found.usage.total_tokens == found.usage.prompt_tokens + found.usage.completion_tokens
    assert (found.usage.model_extra or {})["accepted"] > 0
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).id == MODEL


def test_openai_streamed(client: openai.OpenAI) -> None:
    with client.chat.completions.create(
        model=MODEL, messages=ASKED, temperature=0, stream=True, stream_options={"include_usage": True}
    ) as stream:
        chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == FISH
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens > len(chunks) - 2


def test_openai_stream_helper(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(model=MODEL, messages=ASKED, temperature=0) as stream:
        text = "".join(event.delta for event in stream if event.type == "content.delta")
        whole = stream.get_final_completion()
    assert text == FISH == whole.choices[0].message.content


def test_openai_async(site: Site[ThreadLive]) -> None:
    async def ask() -> tuple[str | None, str]:
        async with openai.AsyncOpenAI(base_url=f"{site.url}/v1", api_key=KEY, max_retries=0) as client:
            whole = await client.chat.completions.create(model=MODEL, messages=ASKED, temperature=0)
            stream = await client.chat.completions.create(model=MODEL, messages=ASKED, temperature=0, stream=True)
            pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
        return whole.choices[0].message.content, "".join(pieces)

    assert asyncio.run(ask()) == (FISH, FISH)


def test_openai_completions(wild: openai.OpenAI) -> None:
    found = wild.completions.create(model=MODEL, prompt=["a", "b"], max_tokens=5, seed=1, logprobs=1)
    assert len(found.choices) == 2
    assert found.choices[0].logprobs is not None
    assert len(found.choices[0].logprobs.tokens or ()) == 5


def test_openai_tools(wild: openai.OpenAI) -> None:
    found = wild.chat.completions.create(model=MODEL, messages=ASKED, tools=[WEATHER], tool_choice="required", seed=1)
    message = found.choices[0].message
    assert found.choices[0].finish_reason == "tool_calls"
    assert message.tool_calls
    call = message.tool_calls[0]
    assert call.type == "function"
    assert json.loads(call.function.arguments)["city"] in ("Paris", "Rome")
    # The answer goes back as it came, with the result behind it.
    told: list[ChatCompletionMessageParam] = [*ASKED, message.to_dict()]  # type: ignore[list-item]
    told.extend({"role": "tool", "tool_call_id": one.id, "content": "sunny"} for one in message.tool_calls)
    again = wild.chat.completions.create(model=MODEL, messages=told, tools=[WEATHER], max_tokens=3, seed=1)
    assert again.choices[0].finish_reason == "length"


def test_openai_tools_streamed(wild: openai.OpenAI) -> None:
    with wild.chat.completions.stream(
        model=MODEL, messages=ASKED, tools=[WEATHER], tool_choice="required", seed=1
    ) as stream:
        events = list(stream)
        message = stream.get_final_completion().choices[0].message
    assert message.tool_calls
    assert json.loads(message.tool_calls[0].function.arguments)["city"] in ("Paris", "Rome")
    assert any(event.type == "tool_calls.function.arguments.done" for event in events)


class Hero(BaseModel):
    """What structured output is asked for."""

    brave: bool
    friends: list[bool]


def test_openai_structured_output(wild: openai.OpenAI) -> None:
    found = wild.chat.completions.parse(model=MODEL, messages=ASKED, response_format=Hero, seed=2, max_tokens=2000)
    assert found.choices[0].finish_reason == "stop"
    assert isinstance(found.choices[0].message.parsed, Hero)


def test_openai_predicted_output(client: openai.OpenAI) -> None:
    found = client.chat.completions.create(
        model=MODEL, messages=ASKED, temperature=0, prediction={"type": "content", "content": FISH}
    )
    assert found.choices[0].message.content == FISH
    assert found.usage is not None
    details = found.usage.completion_tokens_details
    assert details is not None
    assert (details.accepted_prediction_tokens or 0) > 5
    assert details.rejected_prediction_tokens is not None


def test_openai_extensions(wild: openai.OpenAI) -> None:
    found = wild.chat.completions.create(
        model=MODEL, messages=ASKED, max_tokens=20, seed=1, extra_body={"speculate": False, "top_k": 5, "min_p": 0.01}
    )
    assert found.usage is not None
    assert (found.usage.model_extra or {})["drafted"] == 0


def test_openai_errors(site: Site[ThreadLive], client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=MODEL, messages=ASKED, reasoning_effort="low")
    assert caught.value.param == "reasoning_effort"
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="other", messages=ASKED)
    with pytest.raises(openai.NotFoundError, match="embedding"):
        client.embeddings.create(model=MODEL, input="x")
    with (
        openai.OpenAI(base_url=f"{site.url}/v1", api_key="wrong-key", max_retries=0) as stranger,
        pytest.raises(openai.AuthenticationError),
    ):
        stranger.models.list()


@pytest.mark.slow
def test_llm_the_command_line_tool(site: Site[ThreadLive], tmp_path: Path) -> None:
    (tmp_path / "extra-openai-models.yaml").write_text(
        f"- model_id: mine\n  model_name: {MODEL}\n  api_base: {site.url}/v1\n  api_key_name: outrider\n"
        "  supports_tools: true\n  supports_schema: true\n"
    )
    (tmp_path / "keys.json").write_text(json.dumps({"outrider": KEY}))
    environment = {**os.environ, "LLM_USER_PATH": str(tmp_path)}
    for more in ([], ["--no-stream"]):
        done = subprocess.run(
            [sys.executable, "-m", "llm", "-m", "mine", "-o", "temperature", "0", "hi", *more],
            capture_output=True,
            text=True,
            env=environment,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == FISH


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl(site: Site[ThreadLive]) -> None:
    def curl(*arguments: str) -> str:
        command = ["curl", "-sS", "--max-time", "30", "-H", f"Authorization: Bearer {KEY}", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    chat, kind = f"{site.url}/v1/chat/completions", ["-H", "Content-Type: application/json"]
    body = {"messages": HELLO, "temperature": 0}
    assert json.loads(curl(chat, *kind, "-d", json.dumps(body)))["choices"][0]["message"]["content"] == FISH
    streamed = curl("-N", chat, *kind, "-d", json.dumps({**body, "stream": True}))
    assert streamed.endswith("data: [DONE]\n\n")
    assert "Content-Type: application/json" in json.loads(curl(chat, "-d", json.dumps(body)))["error"]["message"]
