"""Inputs on which speculative decoders in the field have failed, on the real model."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from tests.model.answers import Sums, World, ids_of
from tests.model.selfdraft import SelfDrafter

import outrider
from outrider.api import Constraint, ConstraintKind, FinishReason, Request, Sampling
from outrider.backends.native import NativeBackend
from outrider.core.rules import RULES
from outrider.core.types import Law
from outrider.drafters.base import Drafter
from outrider.drafters.ngram import NgramDrafter
from outrider.models.chat import ChatTemplate
from outrider.models.spec import ModelFile
from outrider.testing.drafters import oracle

pytestmark = [pytest.mark.slow, pytest.mark.model]

GAMMAS = (1, 2, 3, 5, 8, 16)
COPY = "Copy this line ten times, numbered: red fish, blue fish, old fish."
CREATIVE = "Write the beginning of a fairy tale about a lighthouse that wanted to travel."


def asked(world: World, chat: ChatTemplate, text: str, tokens: int, temperature: float = 0.0) -> Request:
    ids = world.tokenizer.encode_prompt(chat.render(text), special=True)
    return Request(ids, tokens, Sampling(temperature=temperature, seed=42))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_copying_is_the_same_for_every_gamma(world: World, chat: ChatTemplate, temperature: float) -> None:
    request = asked(world, chat, COPY, 200, temperature)
    plain = world.answers([request])
    for gamma in GAMMAS:
        answers = world.speculative(NgramDrafter(), gamma).answers([request])
        assert ids_of(answers) == ids_of(plain), f"gamma {gamma}"
        assert answers[0].finish_reason == plain[0].finish_reason
        assert Sums.of(answers).accepted > 0
        assert Sums.of(answers).passes < Sums.of(answers).tokens


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_drafter_that_knows_the_answer_is_always_right(world: World, chat: ChatTemplate, temperature: float) -> None:
    """With the noise keyed by position that holds at any temperature; n tokens in about n / (gamma + 1) passes."""
    request = replace(asked(world, chat, CREATIVE, 60, temperature), ignore_eos=True)
    (plain,) = world.answers([request])
    drafter = oracle({tuple(request.prompt): plain.token_ids}, past=0)
    (answer,) = world.speculative(drafter, 5).answers([request])
    assert answer.token_ids == plain.token_ids
    assert answer.usage.accepted == answer.usage.drafted == 50
    assert answer.usage.passes == 10


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(("rule", "law"), [("coupled", Law.POINT), *((name, Law.IID) for name in sorted(RULES))])
def test_the_target_as_its_own_drafter(
    world: World, chat: ChatTemplate, rule: str, law: Law, temperature: float
) -> None:
    """Everything is accepted: with the target's noise by equality, and drawn from p itself by all rules that use q."""
    request = replace(asked(world, chat, CREATIVE, 60, temperature), ignore_eos=True)
    itself = replace(world, rule=RULES[rule]).speculative(SelfDrafter(world.backend, law), 5)
    (answer,) = itself.answers([request])
    assert len(answer.token_ids) == 60
    if rule == "coupled" or temperature == 0.0:
        assert answer.token_ids == world.answers([request])[0].token_ids
    if rule == "coupled" and law is Law.IID and temperature > 0.0:
        # Drawn without the target's noise, equal tokens are a matter of luck.
        assert 0 < answer.usage.accepted < answer.usage.drafted
    else:
        assert answer.usage.accepted == answer.usage.drafted == 50


def test_nothing_follows_the_end_of_text(world: World, chat: ChatTemplate) -> None:
    """A drafter that drafts on past the end; and the same answer when the end is ignored."""
    request = replace(asked(world, chat, "What is the capital of France? Answer in one sentence.", 64), logprobs=1)
    (plain,) = world.answers([request])
    assert plain.finish_reason is FinishReason.STOP
    endless = replace(request, ignore_eos=True)
    (on,) = world.answers([endless])
    length = len(plain.token_ids)
    assert on.token_ids[:length] == plain.token_ids
    assert on.token_ids[length] in world.tokenizer.eos_ids
    drafter = oracle({tuple(request.prompt): on.token_ids}, past=0)
    for question, expected in ((request, plain), (endless, on)):
        (answer,) = world.speculative(drafter, 8).answers([question])
        assert answer.token_ids == expected.token_ids
        assert answer.finish_reason == expected.finish_reason
        assert (answer.text, answer.logprobs) == (expected.text, expected.logprobs)
        assert answer.usage.completion_tokens == len(answer.token_ids)
        # The draft was right throughout, and what of it lay behind the end is counted nowhere.
        assert answer.usage.accepted == answer.usage.drafted > 0


def test_short_answers_of_a_list_end_early(world: World) -> None:
    """Few-shot questions with answers of a word; the draft goes on with the next questions."""
    shots = "Q: Capital of Spain?\nA: Madrid\n\nQ: Capital of Italy?\nA: Rome\n\nQ: Capital of France?\nA:"
    prompt = world.tokenizer.encode(shots, special=False)
    (endless,) = world.answers([Request(prompt, 64, ignore_eos=True)])
    request = Request(prompt, 64, stop=("\n",), logprobs=2)
    (plain,) = world.answers([request])
    assert plain.finish_reason is FinishReason.STOP
    assert len(plain.token_ids) < 8
    drafter = oracle({tuple(prompt): endless.token_ids}, past=0)
    (answer,) = world.speculative(drafter, 8).answers([request])
    assert (answer.token_ids, answer.text, answer.logprobs) == (plain.token_ids, plain.text, plain.logprobs)
    assert answer.usage.passes == 1
    assert answer.usage.accepted == answer.usage.drafted == len(answer.token_ids)


@pytest.mark.parametrize("alone", [True, False])
def test_a_stop_string_cuts_text_ids_and_log_probabilities_alike(world: World, alone: bool) -> None:
    """Early in an accepted draft, at once and in the stream; alone, or with other sequences in the pass."""
    prompt = world.tokenizer.encode("alpha beta gamma delta\n" * 5, special=False)
    (endless,) = world.answers([Request(prompt, 40, ignore_eos=True)])
    assert "gamma" in endless.text
    request = Request(prompt, 40, stop=("gamma",), logprobs=1)
    batch = [request] if alone else [request, Request(prompt[:5], 40), replace(request, stop=("beta b",))]
    plain = world.answers(batch)
    assert plain[0].text == endless.text[: endless.text.index("gamma")]
    assert plain[0].finish_reason is FinishReason.STOP
    for drafter in (NgramDrafter(), oracle({tuple(prompt): endless.token_ids}, past=0)):
        for gamma in (1, 3, 8):
            answers = world.speculative(drafter, gamma).answers(batch)
            assert [(a.token_ids, a.text, a.logprobs) for a in answers] == [
                (a.token_ids, a.text, a.logprobs) for a in plain
            ]
            assert Sums.of(answers).drafted > 0


def test_a_full_context_ends_the_answer(world: World, model_file: ModelFile) -> None:
    """Eight positions are left and sixteen tokens are drafted."""
    spec = replace(model_file.spec, context=256)
    full = replace(world, backend=NativeBackend(replace(model_file, spec=spec)))
    (word,) = world.tokenizer.encode(" word", special=False)
    prompt = [word] * 248
    request = Request(prompt, 100, ignore_eos=True)
    (plain,) = full.answers([request])
    assert len(plain.token_ids) == 8
    known = {tuple(prompt): plain.token_ids}
    drafters: list[Drafter] = [NgramDrafter(), oracle(known, past=word)]
    answers = [full.speculative(drafter, 16).answers([request])[0] for drafter in drafters]
    assert ids_of(answers) == [plain.token_ids] * 2
    assert {answer.finish_reason for answer in (plain, *answers)} == {FinishReason.LENGTH}
    assert answers[-1].usage.passes == 1


def test_text_without_repeats(world: World, chat: ChatTemplate) -> None:
    """Little to look up: the same ids, no slower in passes, and nothing left behind."""
    chance = random.Random(5)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(3, 9))) for _ in range(200)]
    text = f"Write a new text with none of these words: {' '.join(words)}"
    request = replace(asked(world, chat, text, 300), ignore_eos=True)
    assert isinstance(world.backend, NativeBackend)
    before = world.backend.open_sequences
    plain = world.answers([request])
    answers = world.speculative(NgramDrafter(), 5).answers([request])
    assert ids_of(answers) == ids_of(plain)
    assert Sums.of(answers).passes <= Sums.of(plain).passes
    assert world.backend.open_sequences == before


def test_a_ragged_batch_is_its_single_runs(world: World, chat: ChatTemplate) -> None:
    batch = [
        asked(world, chat, COPY, 60),
        asked(world, chat, CREATIVE, 60),
        Request(world.tokenizer.encode("The", special=False), 60),
    ]
    assert len(batch[-1].prompt) == 1
    single = [world.answers([request])[0] for request in batch]
    together = world.speculative(NgramDrafter(), 5).answers(batch)
    assert ids_of(together) == ids_of(single)
    assert {usage.passes < usage.completion_tokens for usage in (answer.usage for answer in together)} >= {True}


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_a_seed_means_the_same_every_time(world: World, temperature: float) -> None:
    """One at a time, in parallel, with speculation; another seed or sample is another answer."""
    prompt = world.tokenizer.encode("A robot may not", special=False)
    sampling = Sampling(temperature=temperature, seed=42)
    request = Request(prompt, 10, sampling)
    alone = [world.answers([request])[0].token_ids for _ in range(5)]
    together = ids_of(world.speculative(NgramDrafter(), 3).answers([request] * 5))
    assert len({*alone, *together}) == 1
    other = world.answers([replace(request, sampling=replace(sampling, seed=43))])
    sample = world.answers([replace(request, sampling=replace(sampling, sample=1))])
    assert len({alone[0], other[0].token_ids, sample[0].token_ids}) == 3


def test_without_a_seed_answers_differ(default_model: Path) -> None:
    llm = outrider.load(default_model)
    results = [llm.generate("A robot may not", raw=True, temperature=1.0, max_tokens=10) for _ in range(20)]
    assert len({result.token_ids for result in results}) > 10
    again = llm.generate("A robot may not", raw=True, temperature=1.0, max_tokens=10, seed=results[0].seed)
    assert again.token_ids == results[0].token_ids


def test_penalties_count_what_was_drafted(world: World) -> None:
    """A penalty sees the tokens drafted before it, so a draft that repeats itself is judged as plain decoding would."""
    prompt = world.tokenizer.encode("Say hello many times: hello", special=False)
    penalties = [
        Sampling(),
        Sampling(frequency_penalty=-2.0),
        Sampling(frequency_penalty=2.0),
        Sampling(repetition_penalty=1.3),
        Sampling(presence_penalty=2.0),
    ]
    batch = [Request(prompt, 48, sampling, ignore_eos=True) for sampling in penalties]
    plain = world.answers(batch)
    none, rewarded, *punished = ids_of(plain)
    assert rewarded not in punished
    assert none not in punished
    for gamma in (2, 8):
        answers = world.speculative(NgramDrafter(), gamma).answers(batch)
        assert ids_of(answers) == ids_of(plain)
        assert min(Sums.of(answers).accepted, Sums.of(answers).rejected) > 0


def test_all_filters_at_once_and_several_samples(world: World, chat: ChatTemplate) -> None:
    """min_p, top_k and top_p together; n = 2 leaves speculation on for itself and for its neighbour."""
    ids = world.tokenizer.encode_prompt(chat.render(COPY), special=True)
    sampling = Sampling(temperature=1.0, min_p=0.05, top_k=20, top_p=0.9, seed=7)
    batch = [Request(ids, 60, sampling, n=2, prompt_logprobs=1, logprobs=1), asked(world, chat, COPY, 60)]
    plain = world.answers(batch)
    answers = world.speculative(NgramDrafter(), 5).answers(batch)
    assert ids_of(answers) == ids_of(plain)
    assert [a.logprobs for a in answers] == [a.logprobs for a in plain]
    assert all(answer.usage.accepted > 0 for answer in answers)
    assert plain[0].token_ids != plain[1].token_ids
    single = [Request(ids, 60, replace(sampling, sample=sample)) for sample in (0, 1)]
    assert ids_of(world.answers(single)) == ids_of(plain[:2])
    unfiltered = world.answers([Request(ids, 60, Sampling(temperature=1.0, seed=7))])
    assert unfiltered[0].token_ids != plain[0].token_ids
    told = plain[0].prompt_logprobs
    assert told is not None
    assert told == answers[0].prompt_logprobs
    assert [entry and entry.id for entry in told] == [None, *ids[1:]]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_thirty_times_three_heroes_as_json(world: World, chat: ChatTemplate, temperature: float) -> None:
    """Asked for in a code fence, under a schema; the drafter knows nothing of the schema."""
    hero = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 24},
            "kind": {"enum": ["hero", "villain"]},
            "weakness": {"type": ["string", "null"], "maxLength": 24},
        },
        "required": ["name", "kind", "weakness"],
        "additionalProperties": False,
    }
    schema = {"type": "array", "items": hero, "minItems": 3, "maxItems": 3}
    request = asked(world, chat, "Give me three heroes as JSON, wrapped in a code fence", 160)
    constraint = Constraint(ConstraintKind.JSON_SCHEMA, json.dumps(schema))
    batch = [
        replace(request, sampling=Sampling(temperature=temperature, seed=seed), constraint=constraint)
        for seed in range(30)
    ]
    answers = world.speculative(NgramDrafter(), 4).answers(batch)
    for answer in answers:
        assert answer.finish_reason is FinishReason.STOP
        assert list(Draft202012Validator(schema).iter_errors(json.loads(answer.text))) == []
    assert len(set(ids_of(answers))) == (30 if temperature else 1)
    assert ids_of(answers[:5]) == ids_of(world.answers(batch[:5]))
    assert min(Sums.of(answers).accepted, Sums.of(answers).rejected) > 0
