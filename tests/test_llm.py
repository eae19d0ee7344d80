"""The Python face over a real tokenizer and a table for a model: prompts, arguments, results."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, cast

import pytest

from outrider.api import Chunk, FinishReason, Request
from outrider.drafters.ngram import NgramDrafter
from outrider.engine.engine import Engine
from outrider.errors import OutriderError, UsageError
from outrider.llm import LLM, Result
from outrider.models.chat import ChatTemplate
from outrider.models.spec import TokenizerData
from outrider.models.tokenizer import Detokenizer, Tokenizer
from outrider.policy.fixed import Fixed
from outrider.testing.gguf_maker import CHAT_TEMPLATE, tiny_vocabulary
from outrider.testing.table import LogitsOf, RandomLaw, ScriptedLaw, TableBackend

VOCAB = 300
TOKENS, TYPES, MERGES = tiny_vocabulary(VOCAB)
TOKENIZER = Tokenizer(TokenizerData("gpt2", "smollm", TOKENS, TYPES, MERGES, eos=2))


def llm(law: LogitsOf, chat: str | None = CHAT_TEMPLATE) -> LLM:
    backend = TableBackend(law, VOCAB, context=256)
    detokenizer = partial(Detokenizer, TOKENIZER, skip_special=True)
    engine = Engine(backend, NgramDrafter(), Fixed(4), detokenizer, TOKENIZER.eos_ids)
    return LLM("table", engine, backend, TOKENIZER, None if chat is None else ChatTemplate(chat))


def saying(text: str, prompt: str) -> LLM:
    """A model that says a text and then <|im_end|> after this raw prompt."""
    script = [*TOKENIZER.encode(text, special=False), 2]
    return llm(ScriptedLaw(VOCAB, len(TOKENIZER.encode_prompt(prompt, special=True)), script))


def test_a_text_is_one_user_message() -> None:
    model = llm(RandomLaw(VOCAB, 1, 1))
    rendered = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert model.encode("hi") == TOKENIZER.encode(rendered, special=True)
    assert model.encode("hi") == model.encode([{"role": "user", "content": "hi"}]) == model.encode(rendered, raw=True)
    assert model.encode("hi")[0] == 1, "the control token is one id"


def test_generate_gives_the_whole_answer() -> None:
    result = saying("red fish, blue fish, red fish, blue fish", "Go: ").generate("Go: ", raw=True)
    assert result.text == "red fish, blue fish, red fish, blue fish"
    assert result.token_ids == tuple(TOKENIZER.encode(result.text, special=False))
    assert result.finish_reason is FinishReason.STOP
    assert str(result.finish_reason) == "stop"
    assert result.prompt_tokens == result.stats.prompt_tokens == len(TOKENIZER.encode("Go: ", special=True))
    assert result.stats.completion_tokens == len(result.token_ids) == len(result.origins)
    assert result.stats.accepted > 0
    assert result.seed is None


def test_stream_joins_to_generate() -> None:
    model = saying("naïve 🐟 fish, naïve 🐟 fish", "x")
    chunks = list(model.stream("x", raw=True, max_tokens=30))
    result = model.generate("x", raw=True, max_tokens=30)
    assert "".join(chunk.text for chunk in chunks) == result.text
    assert tuple(token for chunk in chunks for token in chunk.token_ids) == result.token_ids
    assert tuple(origin for chunk in chunks for origin in chunk.origins) == result.origins
    assert len(chunks) < len(result.token_ids)


def test_stop_may_be_one_string_or_several() -> None:
    model = saying("alpha beta gamma delta", "x")
    assert model.generate("x", raw=True, stop="gamma").text == "alpha beta "
    assert model.generate("x", raw=True, stop=["delta", " beta"]).text == "alpha"


def test_generate_and_stream_take_the_same_arguments() -> None:
    parameters = [inspect.signature(method).parameters for method in (LLM.generate, LLM.stream)]
    assert parameters[0] == parameters[1]


def test_unseeded_answers_differ_and_report_the_seed_that_repeats_them() -> None:
    """Case 14: 20 unseeded calls."""
    model = llm(RandomLaw(VOCAB, 2, 1))
    results = [model.generate("A robot may not", max_tokens=10, temperature=1.0, ignore_eos=True) for _ in range(20)]
    assert len({result.token_ids for result in results}) > 1
    first = results[0]
    again = model.generate("A robot may not", max_tokens=10, temperature=1.0, ignore_eos=True, seed=first.seed)
    assert again.token_ids == first.token_ids
    assert again.seed == first.seed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"temperature": 1.0, "seed": -5}, "seed is -5"),
        ({"stop": ""}, "stop contains ''"),
        ({"prompt": "word " * 600}, "leaves no room for an answer in the context of 256"),
        ({"prompt": ""}, "the prompt has no tokens"),
        ({"prompt": [{"role": "user", "content": "hi"}]}, "raw=True takes one text"),
    ],
)
def test_bad_arguments_are_refused_before_the_first_chunk(arguments: dict[str, Any], words: str) -> None:
    model = llm(RandomLaw(VOCAB, 1, 1))
    asked: dict[str, Any] = {"prompt": "hi", "raw": True} | arguments
    with pytest.raises(UsageError, match=words):
        model.stream(**asked)
    with pytest.raises(UsageError, match=words):
        model.generate(**asked)
    assert cast(TableBackend, model.backend).passes == []


def test_a_model_without_a_chat_template_asks_for_raw() -> None:
    model = llm(RandomLaw(VOCAB, 1, 1), chat=None)
    with pytest.raises(UsageError, match="no chat template; use raw=True"):
        model.generate("hi")
    assert len(model.generate("hi", raw=True, max_tokens=3, ignore_eos=True).token_ids) == 3


def test_text_of_tokens() -> None:
    model = llm(RandomLaw(VOCAB, 1, 1))
    assert model.token_text(2) == "<|im_end|>"
    detokenizer = model.detokenizer()
    ids = [*TOKENIZER.encode("a fish", special=False), 2]
    assert "".join(detokenizer.push(token) for token in ids) + detokenizer.flush() == "a fish"


def test_a_generator_that_stops_early_is_an_error() -> None:
    class Cut:
        def generate(self, requests: Sequence[Request]) -> Iterator[Chunk]:
            return iter([Chunk(0, "a", (1,), ())])

    model = llm(RandomLaw(VOCAB, 1, 1))
    cut = LLM("cut", Cut(), model.backend, TOKENIZER, None)
    with pytest.raises(OutriderError, match="stopped before the answer ended"):
        cut.generate("x", raw=True)


def test_results_are_values() -> None:
    assert Result.__dataclass_params__.frozen  # type: ignore[attr-defined]
