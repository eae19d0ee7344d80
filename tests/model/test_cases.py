"""Inputs on which speculative decoders in the field have failed, on the real model."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from tests.model.answers import Sums, World, ids_of

from outrider.api import FinishReason, Request, Sampling
from outrider.backends.native import NativeBackend
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
    return Request(ids, tokens, Sampling(temperature, seed=42))


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


def test_nothing_follows_the_end_of_text(world: World, chat: ChatTemplate) -> None:
    """A drafter that drafts on past the end; and the same answer when the end is ignored."""
    request = asked(world, chat, "What is the capital of France? Answer in one sentence.", 64)
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
        assert answer.usage.completion_tokens == len(answer.token_ids)
        assert answer.usage.accepted > 0


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


def test_a_seed_means_the_same_every_time(world: World) -> None:
    prompt = world.tokenizer.encode("A robot may not", special=False)
    request = Request(prompt, 10, Sampling(1.0, seed=42))
    alone = [world.answers([request])[0].token_ids for _ in range(3)]
    together = ids_of(world.speculative(NgramDrafter(), 3).answers([request] * 3))
    assert len({*alone, *together}) == 1
    other = world.answers([replace(request, sampling=Sampling(1.0, seed=43))])
    sample = world.answers([replace(request, sampling=Sampling(1.0, seed=42, sample=1))])
    assert len({alone[0], other[0].token_ids, sample[0].token_ids}) == 3
