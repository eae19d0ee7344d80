"""The Python face over a real tokenizer and a table for a model: prompts, arguments, results."""

from __future__ import annotations

import inspect
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from typing import Any, cast

import pytest

from outrider.api import (
    Chunk,
    Constraint,
    ConstraintKind,
    FinishReason,
    LogprobsMode,
    Origin,
    Request,
    Sampling,
    Usage,
)
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


KEYWORDS = """raw max_tokens temperature top_k top_p min_p typical_p frequency_penalty presence_penalty
    repetition_penalty logit_bias allowed_token_ids banned_token_ids min_tokens ignore_eos stop stop_token_ids seed n
    logprobs logprobs_mode prompt_logprobs echo json_schema json_object regex grammar constrain_after speculate
    max_draft prediction drafters"""


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
    _, prompt, *keywords = parameters[0].values()
    assert prompt.name == "prompt"
    assert [keyword.name for keyword in keywords] == KEYWORDS.split()
    assert {keyword.kind for keyword in keywords} == {inspect.Parameter.KEYWORD_ONLY}


class Recording:
    """A generator that takes down what it is asked, and answers with one token."""

    def __init__(self) -> None:
        self.asked: list[Request] = []

    def generate(self, requests: Sequence[Request]) -> Iterator[Chunk]:
        self.asked += requests
        for sample in range(requests[0].n):
            usage = Usage(1, 1, 1, 1, 0, 0, 0, (), (), 1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
            yield Chunk(0, "a", (5,), (Origin.BONUS,), None, FinishReason.STOP, usage, sample)


def test_every_keyword_arrives_in_the_request() -> None:
    generator = Recording()
    model = LLM("recording", generator, llm(RandomLaw(VOCAB, 1, 1)).backend, TOKENIZER, None)
    given: dict[str, Any] = {
        "raw": True,
        "max_tokens": 40,
        "temperature": 0.5,
        "top_k": 7,
        "top_p": 0.9,
        "min_p": 0.1,
        "typical_p": 0.8,
        "frequency_penalty": 0.25,
        "presence_penalty": -0.5,
        "repetition_penalty": 1.5,
        "logit_bias": {4: 1.0},
        "allowed_token_ids": [4, 5],
        "banned_token_ids": [6],
        "min_tokens": 2,
        "ignore_eos": True,
        "stop": "x",
        "stop_token_ids": [9],
        "seed": 11,
        "n": 2,
        "logprobs": 3,
        "logprobs_mode": "processed",
        "prompt_logprobs": 1,
        "echo": True,
        "json_schema": {"type": "null"},
        "constrain_after": "then",
        "max_draft": 3,
        "prediction": "<|im_end|> fish",
        "drafters": ["ngram", "predicted"],
    }
    # The other three forms exclude json_schema, and speculate=False a prediction; test_asking has them.
    assert set(KEYWORDS.split()) - set(given) == {"json_object", "regex", "grammar", "speculate"}
    result = model.generate("hi", **given)
    list(model.stream("hi", **given))
    first, second = generator.asked
    assert first == second
    assert (first.max_tokens, first.min_tokens, first.ignore_eos, first.n) == (40, 2, True, 2)
    assert (first.stop, first.stop_token_ids) == (("x",), (9,))
    assert (first.logprobs, first.logprobs_mode, first.prompt_logprobs) == (3, LogprobsMode.PROCESSED, 1)
    assert (first.speculate, first.max_draft, first.drafters) == (True, 3, ("ngram", "predicted"))
    assert first.prediction == tuple(TOKENIZER.encode("<|im_end|> fish", special=False))
    assert 2 not in first.prediction, "a prediction is text: it cannot spell a control token"
    assert first.constraint == Constraint(ConstraintKind.JSON_SCHEMA, '{"type": "null"}', "then")
    assert first.sampling == Sampling(
        temperature=0.5,
        top_k=7,
        top_p=0.9,
        min_p=0.1,
        typical_p=0.8,
        frequency_penalty=0.25,
        presence_penalty=-0.5,
        repetition_penalty=1.5,
        logit_bias=((4, 1.0),),
        allowed_token_ids=(4, 5),
        banned_token_ids=(6,),
        seed=11,
    )
    assert [sample.text for sample in result.samples] == ["hia", "hia"]


@pytest.mark.parametrize(
    ("form", "constraint"),
    [
        ({"json_object": True}, Constraint(ConstraintKind.JSON_SCHEMA, '{"type": "object"}')),
        ({"regex": "a+"}, Constraint(ConstraintKind.REGEX, "a+")),
        ({"grammar": 'start: "a"'}, Constraint(ConstraintKind.GRAMMAR, 'start: "a"')),
    ],
)
def test_forms_arrive_in_the_request(form: dict[str, Any], constraint: Constraint) -> None:
    generator = Recording()
    model = LLM("recording", generator, llm(RandomLaw(VOCAB, 1, 1)).backend, TOKENIZER, None)
    model.generate("hi", raw=True, **form)
    assert generator.asked[0].constraint == constraint


def test_samples_are_what_requests_of_their_own_get() -> None:
    model = llm(RandomLaw(VOCAB, 2, 1))
    result = model.generate("hi", raw=True, n=3, temperature=1.0, seed=5, max_tokens=12, ignore_eos=True)
    assert result.samples[0] is result
    assert len({sample.token_ids for sample in result.samples}) == 3
    for number, sample in enumerate(result.samples):
        sampling = Sampling(temperature=1.0, seed=5, sample=number)
        request = Request(model.encode("hi", raw=True), max_tokens=12, sampling=sampling, ignore_eos=True)
        chunks = list(model.generator.generate([request]))
        assert tuple(token for chunk in chunks for token in chunk.token_ids) == sample.token_ids
        assert "".join(chunk.text for chunk in chunks) == sample.text
        assert (sample.seed, sample.stats.completion_tokens, sample.others) == (5, 12, () if number else result.others)


def test_one_answer_is_its_only_sample() -> None:
    result = saying("fish", "x").generate("x", raw=True)
    assert result.samples == (result,)


def test_chunks_say_which_sample_they_belong_to() -> None:
    model = llm(RandomLaw(VOCAB, 2, 1))
    asked: dict[str, Any] = {"raw": True, "n": 2, "temperature": 1.0, "seed": 5, "max_tokens": 12, "ignore_eos": True}
    chunks = list(model.stream("hi", **asked))
    whole = model.generate("hi", **asked)
    for number, sample in enumerate(whole.samples):
        assert "".join(chunk.text for chunk in chunks if chunk.sample == number) == sample.text


def test_one_log_probability_for_each_id() -> None:
    model = saying("red fish, blue fish, red fish, blue fish", "hi there")
    asked: dict[str, Any] = {"raw": True, "logprobs": 2, "prompt_logprobs": 1}
    result = model.generate("hi there", **asked)
    assert result.logprobs is not None
    assert tuple(one.id for one in result.logprobs) == result.token_ids
    # At temperature 0 a token is the likeliest of the two that are told.
    assert all(len(one.top) == 2 and one.top[0] == (one.id, one.logprob) for one in result.logprobs)
    assert result.stats.accepted > 0
    told = [one for chunk in model.stream("hi there", **asked) for one in chunk.logprobs or ()]
    assert tuple(told) == result.logprobs
    assert result.prompt_logprobs is not None
    ids = model.encode("hi there", raw=True)
    assert [one and one.id for one in result.prompt_logprobs] == [None, *ids[1:]]


def test_no_log_probabilities_unless_asked() -> None:
    result = saying("fish", "x").generate("x", raw=True)
    assert (result.logprobs, result.prompt_logprobs) == (None, None)


def test_echo_puts_the_prompt_in_front_of_the_text_alone() -> None:
    model = saying("red fish", "Go: ")
    plain, echoed = (model.generate("Go: ", raw=True, echo=echo, logprobs=0) for echo in (False, True))
    assert (plain.text, echoed.text) == ("red fish", "Go: red fish")
    assert (plain.token_ids, plain.origins, plain.logprobs) == (echoed.token_ids, echoed.origins, echoed.logprobs)
    first, *rest = model.stream("Go: ", raw=True, echo=True)
    assert first == Chunk(0, "Go: ", (), ())
    assert "".join(chunk.text for chunk in rest) == "red fish"


def test_echo_of_messages_is_what_the_model_saw() -> None:
    model = llm(RandomLaw(VOCAB, 1, 1))
    messages = [{"role": "user", "content": "hi"}]
    result = model.generate(messages, echo=True, max_tokens=3, ignore_eos=True, n=2)
    assert all(sample.text.startswith("user\nhi\nassistant\n") for sample in result.samples)
    assert [chunk.sample for chunk in model.stream(messages, echo=True, max_tokens=3, n=2)][:2] == [0, 1]


def test_closing_an_echoing_stream_closes_the_answer() -> None:
    model = llm(RandomLaw(VOCAB, 1, 1))
    backend = cast(TableBackend, model.backend)
    stream = cast(Generator[Chunk, None, None], model.stream("hi", raw=True, echo=True, ignore_eos=True))
    next(stream)
    next(stream)
    assert backend.sequences == 1
    stream.close()
    assert backend.sequences == 0


def test_ends_and_bans() -> None:
    model = saying("alpha beta gamma", "x")
    ids = TOKENIZER.encode("alpha beta gamma", special=False)
    asked: dict[str, Any] = {"raw": True, "max_tokens": 30}
    assert model.generate("x", stop_token_ids=[ids[3]], **asked).token_ids == tuple(ids[: ids.index(ids[3])])
    assert ids[3] not in model.generate("x", banned_token_ids=[ids[3]], **asked).token_ids
    assert model.generate("x", min_tokens=len(ids) + 2, **asked).stats.completion_tokens >= len(ids) + 2
    only = model.generate("x", allowed_token_ids=[ids[0]], ignore_eos=True, **asked)
    assert set(only.token_ids) == {ids[0]}
    assert model.generate("x", logit_bias={ids[1]: 100.0}, **asked).token_ids[0] == ids[1]


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
        ({"n": 0}, "n is 0"),
        ({"top_p": 0.0}, "top_p is 0.0"),
        ({"logprobs": 101}, "logprobs is 101"),
        ({"logprobs": 2, "logprobs_mode": "cooked"}, "logprobs_mode is 'cooked'"),
        ({"logit_bias": {"7": 1.0}}, "logit_bias has the key '7'"),
        ({"logit_bias": {VOCAB: 1.0}}, "logit_bias contains 300"),
        ({"min_tokens": 300}, "min_tokens is 300"),
        ({"regex": "a", "json_object": True}, "regex and json_object do not go together"),
        ({"echo": True, "constrain_after": "x"}, "constrain_after is 'x' but there is no constraint"),
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
