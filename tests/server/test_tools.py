"""Tools: the grammar holds the call, the reader finds it however the text is cut."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.worlds import HELLO, TOKENIZER, Site, TableFace, ThreadLive, engine, raving, saying, serving

from outrider.server import messages as reading
from outrider.server.tools import CallReader, Tool, call_text

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather somewhere.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Paris", "Rome"]}, "unit": {"enum": ["c", "f"]}},
            "required": ["city", "unit"],
        },
    },
}
CLOCK: dict[str, Any] = {"type": "function", "function": {"name": "clock"}}


@pytest.fixture(scope="module")
def raver() -> Iterator[Site[ThreadLive]]:
    with serving(ThreadLive(engine(raving(3)))) as site:
        yield site


def joined(events: list[dict[str, Any]]) -> tuple[str, list[dict[str, str]]]:
    """What a client makes of a stream: the text, and the calls."""
    text = ""
    calls: list[dict[str, str]] = []
    for event in events:
        delta = event["choices"][0]["delta"]
        text += delta.get("content") or ""
        for part in delta.get("tool_calls", ()):
            if part["index"] == len(calls):
                assert part["id"].startswith("call_")
                calls.append({"name": part["function"]["name"], "arguments": ""})
            calls[part["index"]]["arguments"] += part["function"]["arguments"]
    return text, calls


@pytest.mark.parametrize("one", [True, False])
def test_a_required_call_is_one_whatever_the_model(raver: Site[ThreadLive], one: bool) -> None:
    asked: dict[str, Any] = {
        "tools": [WEATHER, CLOCK],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "seed": 1,
    }
    events = raver.stream(**asked, token_chunks=one)
    text, calls = joined(events)
    assert text == ""
    assert len(calls) == 1
    assert calls[0]["name"] in ("get_weather", "clock")
    assert isinstance(json.loads(calls[0]["arguments"]), dict)
    assert events[-1]["choices"][0]["finish_reason"] == "tool_calls"
    whole = raver.chat(**asked)["choices"][0]
    assert whole["message"]["content"] is None
    assert [call["function"] for call in whole["message"]["tool_calls"]] == calls
    assert whole["finish_reason"] == "tool_calls"


def test_a_named_tool_is_the_one_called(raver: Site[ThreadLive]) -> None:
    found = raver.chat(tools=[CLOCK, WEATHER], tool_choice={"type": "function", "function": {"name": "get_weather"}})
    (call,) = found["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == "get_weather"
    arguments = json.loads(call["function"]["arguments"])
    assert set(arguments) == {"city", "unit"}, "no names that the schema does not have"
    assert arguments["city"] in ("Paris", "Rome")
    assert found["usage"]["forced"] > 0


def prompt_of(*tools: dict[str, Any]) -> list[dict[str, str]]:
    """The messages as the template gets them, with the tools told."""
    from outrider.server.reading import Reader
    from outrider.server.tools import read

    found = read(Reader({"tools": list(tools)}))
    assert found is not None
    return reading.with_system(list(HELLO), found.system())


def saying_to(text: str, *tools: dict[str, Any]) -> ThreadLive:
    """A model that, told of the tools, writes a text."""
    return ThreadLive(engine(saying(text, prompt_of(*tools))))


CALL = call_text("get_weather", '{"city":"Rome","unit":"c"}')


def test_a_model_that_is_free_may_answer_or_call_or_both() -> None:
    with serving(saying_to("It is <warm> there.", WEATHER)) as site:
        choice = site.chat(tools=[WEATHER], temperature=0)["choices"][0]
        assert choice["message"]["content"] == "It is <warm> there."
        assert "tool_calls" not in choice["message"]
        assert choice["finish_reason"] == "stop"
    with serving(saying_to(f"Let me see.\n{CALL}\n{CALL}", WEATHER)) as site:
        choice = site.chat(tools=[WEATHER], temperature=0)["choices"][0]
        text, calls = joined(site.stream(tools=[WEATHER], temperature=0))
        alone = site.chat(tools=[WEATHER], temperature=0, parallel_tool_calls=False)["choices"][0]
    assert choice["message"]["content"] == text == "Let me see.\n"
    assert [call["function"] for call in choice["message"]["tool_calls"]] == calls
    assert calls == [{"name": "get_weather", "arguments": '{"city":"Rome","unit":"c"}'}] * 2
    assert choice["finish_reason"] == "tool_calls"
    assert len(alone["message"]["tool_calls"]) == 1


def test_no_tools_are_told_where_none_may_be_called(raver: Site[ThreadLive]) -> None:
    raver.chat(tools=[WEATHER], tool_choice="none", max_tokens=1)
    assert list(raver.live.asked[-1].prompt) == TableFace().chat(HELLO)


def test_a_call_that_is_cut_off_is_no_whole_call(raver: Site[ThreadLive]) -> None:
    choice = raver.chat(tools=[WEATHER], tool_choice="required", max_tokens=60)["choices"][0]
    assert choice["finish_reason"] == "length"
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "get_weather"


def test_calls_and_results_of_earlier_turns_are_told(raver: Site[ThreadLive]) -> None:
    function = {"name": "clock", "arguments": '{"zone": "utc"}'}
    raver.chat(
        messages=[
            *HELLO,
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "noon"},
        ],
        tools=[CLOCK],
        max_tokens=1,
    )
    prompt = TOKENIZER.decode(raver.live.asked[-1].prompt, skip_special=False)
    assert "<tools>\n" in prompt
    assert call_text("clock", '{"zone":"utc"}') in prompt
    assert '<tool_response>\n{"name": "clock", "content": "noon"}\n</tool_response>' in prompt


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
TOOLS = [Tool("f", "", {}), Tool("fine_tool", "", {})]


@given(
    st.text().filter(lambda text: "<tool_call>" not in text),
    st.lists(st.tuples(st.sampled_from(["f", "fine_tool"]), st.dictionaries(st.text(), JSON, max_size=3)), max_size=3),
    st.lists(st.integers(1, 9), min_size=1, max_size=20),
)
def test_the_reader_finds_text_and_calls_however_they_are_cut(
    text: str, calls: list[tuple[str, dict[str, Any]]], cuts: list[int]
) -> None:
    told = [(name, json.dumps(arguments)) for name, arguments in calls]
    written = text + "\n".join(call_text(name, arguments) for name, arguments in told)
    reader = CallReader(TOOLS)
    free, names = "", []
    found: list[str] = []
    at = 0
    while at < len(written):
        length = cuts[at % len(cuts)]
        said, parts = reader.push(written[at : at + length])
        free += said
        for part in parts:
            if part.name is not None:
                names.append(part.name)
                found.append("")
            found[part.index] += part.arguments
        at += length
    free += reader.finish()
    assert free == text
    assert list(zip(names, found, strict=True)) == told


def test_a_beginning_that_never_became_a_call_is_text() -> None:
    reader = CallReader(TOOLS)
    assert reader.push("a <tool") == ("a ", [])
    assert reader.finish() == "<tool"
