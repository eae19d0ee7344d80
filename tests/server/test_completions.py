"""/v1/completions, /v1/models, /tokenize and /detokenize."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.server.worlds import CONTEXT, END, MODEL, TOKENIZER, VOCAB, Site, ThreadLive, engine, raving, serving

from outrider.testing.table import ScriptedLaw

PATH = "/v1/completions"
GO = "Go: "
FISH = "red fish, blue fish, red fish, blue fish"


@pytest.fixture(scope="module")
def fish() -> Iterator[Site[ThreadLive]]:
    script = [*TOKENIZER.encode(FISH, special=False), END]
    law = ScriptedLaw(VOCAB, len(TOKENIZER.encode_prompt(GO, special=True)), script)
    with serving(ThreadLive(engine(law))) as site:
        yield site


@pytest.fixture(scope="module")
def raver() -> Iterator[Site[ThreadLive]]:
    with serving(ThreadLive(engine(raving()))) as site:
        yield site


def test_a_text_is_continued(fish: Site[ThreadLive]) -> None:
    found = fish.post(PATH, prompt=GO, temperature=0, max_tokens=50).json()
    assert found["object"] == "text_completion"
    assert found["choices"] == [{"index": 0, "text": FISH, "logprobs": None, "finish_reason": "stop"}]
    assert found["usage"]["accepted"] > 0
    assert found["system_fingerprint"]
    events = fish.events(PATH, prompt=GO, temperature=0, max_tokens=50, stream_options={"include_usage": True})
    assert "".join(event["choices"][0]["text"] for event in events[:-1]) == FISH
    assert events[-1]["usage"]["completion_tokens"] == found["usage"]["completion_tokens"]
    assert len(events) - 1 < found["usage"]["completion_tokens"]


def test_one_token_a_chunk(fish: Site[ThreadLive]) -> None:
    events = fish.events(PATH, prompt=GO, temperature=0, max_tokens=50, token_chunks=True)
    assert "".join(event["choices"][0]["text"] for event in events) == FISH
    assert len(events) >= len(TOKENIZER.encode(FISH, special=False))


def test_sixteen_tokens_unless_asked(raver: Site[ThreadLive]) -> None:
    found = raver.post(PATH, prompt="x", ignore_eos=True).json()
    assert found["usage"]["completion_tokens"] == 16
    assert found["choices"][0]["finish_reason"] == "length"


def test_prompts_may_be_ids_and_several(raver: Site[ThreadLive]) -> None:
    ids = TOKENIZER.encode("abc", special=False)
    texts = [
        raver.post(PATH, prompt=prompt, seed=1).json()["choices"][0]["text"] for prompt in ("abc", ids, ["abc"], [ids])
    ]
    assert len(set(texts)) == 1
    assert texts[0]
    found = raver.post(PATH, prompt=["abc", "xyz"], n=2, best_of=2, seed=1).json()
    assert [choice["index"] for choice in found["choices"]] == [0, 1, 2, 3]
    assert len({choice["text"] for choice in found["choices"]}) == 4
    assert found["choices"][0]["text"] == texts[0], "an answer does not depend on its neighbours"
    assert found["usage"]["prompt_tokens"] == 6
    assert 16 < found["usage"]["completion_tokens"] <= 64


def test_logprobs_in_the_older_form(raver: Site[ThreadLive]) -> None:
    choice = raver.post(PATH, prompt="abc", logprobs=2, max_tokens=4, temperature=0).json()["choices"][0]
    told = choice["logprobs"]
    assert all(len(token) == 1 or token.startswith("bytes:") for token in told["tokens"])
    assert told["text_offset"][0] == 0
    assert len(told["tokens"]) == len(told["token_logprobs"]) == len(told["top_logprobs"]) == 4
    assert all(len(top) >= 2 for top in told["top_logprobs"])
    assert all(
        top[token] == value
        for top, token, value in zip(told["top_logprobs"], told["tokens"], told["token_logprobs"], strict=True)
    )


def test_echo_tells_the_prompt_and_its_logprobs(raver: Site[ThreadLive]) -> None:
    choice = raver.post(PATH, prompt="abc", echo=True, logprobs=0, max_tokens=2, seed=1).json()["choices"][0]
    told = choice["logprobs"]
    assert choice["text"].startswith("abc")
    assert told["tokens"][:3] == ["a", "b", "c"]
    assert told["token_logprobs"][0] is None
    assert told["top_logprobs"][0] is None
    assert all(value < 0 for value in told["token_logprobs"][1:])
    assert len(told["tokens"]) == 5
    events = raver.events(PATH, prompt="abc", echo=True, logprobs=0, max_tokens=2, seed=1)
    assert "".join(event["choices"][0]["text"] for event in events) == choice["text"]
    assert [token for event in events for token in event["choices"][0]["logprobs"]["tokens"]] == told["tokens"]
    ids = TOKENIZER.encode("abc", special=False)
    assert raver.post(PATH, prompt=ids, echo=True, max_tokens=1).json()["choices"][0]["text"].startswith("abc")


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("prompt", {}),
        ("prompt", {"prompt": []}),
        ("prompt", {"prompt": [1, "a"]}),
        ("prompt", {"prompt": [[]]}),
        ("prompt", {"prompt": 5}),
        ("prompt", {"prompt": [100_000]}),
        ("prompt", {"prompt": ["a"] * 65}),
        ("suffix", {"prompt": "x", "suffix": "y"}),
        ("best_of", {"prompt": "x", "best_of": 3}),
        ("logprobs", {"prompt": "x", "logprobs": True}),
        ("messages", {"prompt": "x", "messages": []}),
    ],
)
def test_a_field_that_is_wrong_is_named(raver: Site[ThreadLive], param: str, fields: dict[str, object]) -> None:
    status, error = raver.refusal(PATH, **fields)
    assert (status, error["param"]) == (400, param)


def test_models(raver: Site[ThreadLive]) -> None:
    entry = {"id": MODEL, "object": "model", "created": 1, "owned_by": "outrider", "max_model_len": CONTEXT}
    assert raver.client.get("/v1/models").json() == {"object": "list", "data": [entry]}
    assert raver.client.get(f"/v1/models/{MODEL}").json() == entry


def test_tokenize_and_detokenize(raver: Site[ThreadLive]) -> None:
    found = raver.post("/tokenize", prompt="hé<|im_end|>", pieces=True).json()
    assert found["tokens"] == TOKENIZER.encode("hé<|im_end|>", special=True)
    assert found["count"] == len(found["tokens"])
    assert found["pieces"][-1] == "<|im_end|>"
    assert raver.post("/tokenize", text="<|im_end|>").json()["count"] > 1, "text is no control token"
    told = raver.post("/tokenize", messages=[{"role": "user", "content": "hi"}]).json()["tokens"]
    assert TOKENIZER.decode(told, skip_special=False).startswith("<|im_start|>user\nhi")
    assert raver.post("/detokenize", tokens=found["tokens"]).json() == {"prompt": "hé"}
    assert raver.post("/detokenize", tokens=[END], special=True).json() == {"prompt": "<|im_end|>"}
    assert raver.refusal("/detokenize", tokens=[VOCAB])[0] == 400
    assert raver.refusal("/detokenize", tokens=["a"])[1]["param"] == "tokens"
    assert raver.refusal("/tokenize", prompt="a", text="b")[0] == 400
    assert raver.refusal("/tokenize", prompt="a", other=1)[1]["param"] == "other"
