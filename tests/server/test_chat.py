"""/v1/chat/completions: every field honoured, in a stream and whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from tests.server.worlds import (
    HELLO,
    MODEL,
    TOKENIZER,
    Site,
    TableFace,
    ThreadLive,
    engine,
    raving,
    saying,
    serving,
    text_of,
)

from outrider.api import Chunk, FinishReason, Origin, Request, Sampling, Usage

FISH = "red fish, blue fish, red fish, blue fish"
CAFE = "naïve café 🐟 naïve café 🐟"


@pytest.fixture(scope="module")
def fish() -> Iterator[Site[ThreadLive]]:
    with serving(ThreadLive(engine(saying(FISH)))) as site:
        yield site


@pytest.fixture(scope="module")
def raver() -> Iterator[Site[ThreadLive]]:
    with serving(ThreadLive(engine(raving()))) as site:
        yield site


def test_a_whole_answer(fish: Site[ThreadLive]) -> None:
    found = fish.chat(model=MODEL, temperature=0)
    (choice,) = found["choices"]
    assert choice["message"] == {"role": "assistant", "content": FISH, "refusal": None}
    assert choice["finish_reason"] == "stop"
    assert choice["index"] == 0
    assert choice["logprobs"] is None
    assert found["object"] == "chat.completion"
    assert found["id"].startswith("chatcmpl-")
    assert found["model"] == MODEL
    assert found["system_fingerprint"] == "table-0123456789ab-numerics1-coupled"
    assert "seed" not in found, "nothing was drawn"
    usage = found["usage"]
    assert usage["prompt_tokens"] == len(TableFace().chat(HELLO))
    assert usage["completion_tokens"] == len(TOKENIZER.encode(FISH, special=False))
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["drafted"] >= usage["accepted"] > 0
    assert usage["passes"] < usage["completion_tokens"]
    assert usage["tokens_per_pass"] > 1
    assert usage["plain_passes"] == usage["completion_tokens"] + 1


def test_a_stream_is_the_same_answer_with_several_tokens_a_chunk(fish: Site[ThreadLive]) -> None:
    events = fish.stream(temperature=0, stream_options={"include_usage": True})
    whole = fish.chat(temperature=0)
    assert text_of(events) == FISH
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert len({event["id"] for event in events}) == 1
    assert {event["object"] for event in events} == {"chat.completion.chunk"}
    assert events[-1]["choices"] == []
    kept = ("prompt_tokens", "completion_tokens", "drafted", "accepted", "passes")
    assert {name: events[-1]["usage"][name] for name in kept} == {name: whole["usage"][name] for name in kept}
    assert [event["usage"] for event in events[:-1]] == [None] * (len(events) - 1)
    assert [event["choices"][0]["finish_reason"] for event in events[:-1]] == [None] * (len(events) - 2) + ["stop"]
    assert len(events) - 2 < whole["usage"]["completion_tokens"], "several tokens a chunk"


def test_a_stream_has_a_usage_only_where_it_was_asked_for(fish: Site[ThreadLive]) -> None:
    assert all("usage" not in event for event in fish.stream(temperature=0))


def test_one_token_a_chunk(fish: Site[ThreadLive]) -> None:
    events = fish.stream(temperature=0, token_chunks=True, story=True)
    tokens = [token for event in events for token in event["choices"][0].get("outrider", {}).get("tokens", ())]
    assert [token["id"] for token in tokens if token["id"] is not None] == TOKENIZER.encode(FISH, special=False)
    counts = [len(event["choices"][0].get("outrider", {}).get("tokens", ())) for event in events]
    assert max(counts) == 1
    assert text_of(events) == FISH


@pytest.mark.parametrize("one", [True, False])
def test_never_half_a_character(one: bool) -> None:
    with serving(ThreadLive(engine(saying(CAFE)))) as site:
        events = site.stream(temperature=0, token_chunks=one, story=True, logprobs=True)
    assert text_of(events) == CAFE
    assert "�" not in "".join(text_of([event]) for event in events)
    told = [token["text"] for event in events for token in event["choices"][0].get("outrider", {}).get("tokens", ())]
    assert "".join(told) == CAFE
    logprobs = [entry for event in events for entry in (event["choices"][0]["logprobs"] or {}).get("content", ())]
    assert bytes(byte for entry in logprobs for byte in entry["bytes"]) == CAFE.encode()


def test_the_story_tells_origins_and_passes(fish: Site[ThreadLive]) -> None:
    events = [event["choices"][0] for event in fish.stream(temperature=0, story=True)][1:]
    origins = [token["origin"] for choice in events for token in choice["outrider"]["tokens"]]
    passes = [choice["outrider"]["pass"] for choice in events]
    assert set(origins) == {"accepted", "recovered", "bonus"}
    assert sum(one["kept"] for one in passes) >= origins.count("accepted") > 0
    assert all(one["drafted"] >= one["kept"] >= 0 and one["seconds"] >= 0 for one in passes)
    assert {one["own"] for one in passes} == {"recovered", "bonus"}
    told = [token for event in events for token in event.get("outrider", {}).get("tokens", [])]
    assert {token["origin"] for token in told if "drafter" in token} == {"accepted"}
    assert {token["drafter"] for token in told if token["origin"] == "accepted"} == {"ngram"}
    whole = fish.chat(temperature=0, story=True)["choices"][0]["outrider"]
    assert [token["id"] for part in whole for token in part["tokens"]] == TOKENIZER.encode(FISH, special=False)


def test_speculation_off_gives_the_same_ids(raver: Site[ThreadLive]) -> None:
    asked: dict[str, Any] = {"temperature": 0.9, "seed": 5, "max_tokens": 60, "story": True}
    fast, plain = raver.chat(**asked), raver.chat(**asked, speculate=False)

    def ids(found: dict[str, Any]) -> list[int]:
        return [token["id"] for part in found["choices"][0]["outrider"] for token in part["tokens"]]

    assert ids(fast) == ids(plain)
    assert fast["usage"]["drafted"] > 0 == plain["usage"]["drafted"]
    assert raver.chat(**asked, max_draft=1)["usage"]["drafted"] < fast["usage"]["drafted"]


def test_the_seed_is_drawn_and_told_and_repeats_the_answer(raver: Site[ThreadLive]) -> None:
    first, second = raver.chat(max_tokens=30), raver.chat(max_tokens=30)
    assert first["seed"] != second["seed"], "OpenAI's default temperature is 1"
    again = raver.chat(max_tokens=30, seed=first["seed"])
    assert again["choices"][0]["message"] == first["choices"][0]["message"] != second["choices"][0]["message"]
    assert again["system_fingerprint"] == first["system_fingerprint"]
    assert {event["seed"] for event in raver.stream(max_tokens=5, seed=-1)} == {2**64 - 1}


def test_n_samples(raver: Site[ThreadLive]) -> None:
    found = raver.chat(n=3, seed=4, max_tokens=12)
    texts = [choice["message"]["content"] for choice in found["choices"]]
    assert [choice["index"] for choice in found["choices"]] == [0, 1, 2]
    assert len(set(texts)) == 3
    events = raver.stream(n=3, seed=4, max_tokens=12, stream_options={"include_usage": True})
    assert [text_of(events, index) for index in range(3)] == texts
    assert found["usage"]["prompt_tokens"] == len(TableFace().chat(HELLO)), "counted once"
    assert found["usage"]["completion_tokens"] == events[-1]["usage"]["completion_tokens"] == 36


def test_every_sampling_field_arrives(raver: Site[ThreadLive]) -> None:
    raver.chat(
        temperature=0.5,
        top_p=0.9,
        top_k=7,
        min_p=0.05,
        seed=3,
        frequency_penalty=0.5,
        presence_penalty=-0.5,
        repetition_penalty=1.2,
        logit_bias={"9": -100, "12": 1.5},
        stop=["zzz", "qqq"],
        max_completion_tokens=7,
        max_draft=2,
        drafters=["ngram"],
        min_tokens=3,
        ignore_eos=True,
    )
    request = raver.live.asked[-1]
    assert request.sampling == Sampling(
        temperature=0.5,
        seed=3,
        repetition_penalty=1.2,
        frequency_penalty=0.5,
        presence_penalty=-0.5,
        logit_bias=((9, -100.0), (12, 1.5)),
        top_k=7,
        top_p=0.9,
        min_p=0.05,
    )
    assert request.stop == ("zzz", "qqq")
    assert (request.max_tokens, request.max_draft, request.speculate) == (7, 2, True)
    assert request.drafters == ("ngram",)
    assert (request.min_tokens, request.ignore_eos) == (3, True)


def test_lengths(raver: Site[ThreadLive]) -> None:
    found = raver.chat(max_tokens=5, ignore_eos=True)
    assert found["choices"][0]["finish_reason"] == "length"
    assert found["usage"]["completion_tokens"] == 5
    assert raver.refusal(max_tokens=5, max_completion_tokens=6)[1]["param"] == "max_tokens"
    raver.chat(max_tokens=4, max_completion_tokens=4)
    raver.chat(stop="e", logit_bias={str(TOKENIZER.encode("e", special=False)[0]): 100})
    room = TableFace.context - len(TableFace().chat(HELLO))
    assert raver.live.asked[-1].max_tokens == room, "as much as the context leaves"


def test_stop_strings_end_text_ids_and_usage(fish: Site[ThreadLive]) -> None:
    found = fish.chat(temperature=0, stop=" blue", story=True)
    assert found["choices"][0]["message"]["content"] == "red fish,"
    assert found["choices"][0]["finish_reason"] == "stop"
    ids = [token["id"] for part in found["choices"][0]["outrider"] for token in part["tokens"]]
    assert found["usage"]["completion_tokens"] == len(ids)
    assert text_of(fish.stream(temperature=0, stop=["blue fish, r"])) == "red fish, "


def test_logprobs(raver: Site[ThreadLive]) -> None:
    found = raver.chat(max_tokens=4, logprobs=True, top_logprobs=3, temperature=0)
    content = found["choices"][0]["logprobs"]["content"]
    assert len(content) == 4
    for entry in content:
        assert set(entry) == {"token", "logprob", "bytes", "top_logprobs"}
        assert len(entry["top_logprobs"]) == 3
        assert entry["top_logprobs"][0]["logprob"] == entry["logprob"] < 0
        assert bytes(entry["bytes"]).decode(errors="replace") == entry["token"]
    assert raver.chat(max_tokens=1, logprobs=True)["choices"][0]["logprobs"]["content"][0]["top_logprobs"] == []
    assert raver.refusal(top_logprobs=3)[1]["param"] == "top_logprobs"


def test_predicted_outputs_are_counted(fish: Site[ThreadLive]) -> None:
    guess = "red fish, blue fish, green fish, blue fish"
    found = fish.chat(temperature=0, prediction={"type": "content", "content": guess})
    details = found["usage"]["completion_tokens_details"]
    assert found["choices"][0]["message"]["content"] == FISH
    assert details["accepted_prediction_tokens"] > 0
    assert details["rejected_prediction_tokens"] > 0
    assert details["accepted_prediction_tokens"] <= found["usage"]["accepted"]
    parts = [{"type": "text", "text": FISH}]
    exact = fish.chat(temperature=0, prediction={"type": "content", "content": parts})["usage"]
    assert exact["completion_tokens_details"]["accepted_prediction_tokens"] == exact["accepted"] > 0
    assert exact["passes"] < found["usage"]["passes"]
    without = fish.chat(temperature=0)["usage"]["completion_tokens_details"]
    assert set(without.values()) == {0}
    assert fish.refusal(prediction={"type": "content", "content": guess}, speculate=False)[0] == 400


def test_json_object_and_schema(raver: Site[ThreadLive]) -> None:
    schema = {
        "type": "object",
        "properties": {"colour": {"enum": ["red", "blue"]}, "size": {"enum": [1, 2]}},
        "required": ["colour", "size"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "hero", "schema": schema, "strict": True}}
    found = raver.chat(response_format=form, seed=1)
    told = json.loads(found["choices"][0]["message"]["content"])
    assert told["colour"] in ("red", "blue")
    assert told["size"] in (1, 2)
    assert found["choices"][0]["finish_reason"] == "stop"
    assert found["usage"]["forced"] > 0
    assert (
        raver.chat(response_format={"type": "json_object"}, max_tokens=3)["choices"][0]["message"]["content"][0] == "{"
    )
    raver.chat(response_format={"type": "text"}, max_tokens=3)
    described = {"type": "json_schema", "json_schema": {"name": "x", "description": "A hero.", "schema": schema}}
    raver.chat(response_format=described)
    prompt = TOKENIZER.decode(raver.live.asked[-1].prompt, skip_special=False)
    assert prompt.startswith("<|im_start|>system\nThe answer is JSON: A hero.<|im_end|>")


def test_messages_become_the_template_s(raver: Site[ThreadLive]) -> None:
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    told = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": parts}]
    raver.chat(messages=told, max_tokens=1)
    prompt = TOKENIZER.decode(raver.live.asked[-1].prompt, skip_special=False)
    assert prompt == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\none two<|im_end|>\n<|im_start|>assistant\n"
    )


def test_what_is_done_anyway_may_be_said(raver: Site[ThreadLive]) -> None:
    raver.chat(store=False, service_tier="auto", modalities=["text"], max_tokens=1, user="anna", metadata=None)


class Stuck:
    """A generator that gets stuck at once."""

    def generate(self, requests: Sequence[Request]) -> Iterator[Chunk]:
        usage = Usage(1, 1, 1, 1, 0, 0, 0, (), (), 1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        yield Chunk(
            0, "a", (TOKENIZER.encode("a", special=False)[0],), (Origin.BONUS,), None, FinishReason.STUCK, usage
        )


def test_an_answer_that_is_stuck_says_so() -> None:
    with serving(ThreadLive(Stuck())) as site:
        choice = site.chat()["choices"][0]
        events = site.stream()
    assert choice["message"]["content"] == "a"
    for one in (choice, events[-1]["choices"][0]):
        assert one["finish_reason"] == "length", "it is not whole, and OpenAI has no word for why"
        assert one["outrider"] == {"finish": "stuck"}
