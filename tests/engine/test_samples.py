"""Samples of one prompt: each is a request of its own, and the prompt is read once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.engine.worlds import VOCAB, world

from outrider.api import Request, Sampling
from outrider.drafters.base import Drafter
from outrider.drafters.ngram import NgramDrafter
from outrider.testing import drafters
from outrider.testing.table import RandomLaw

LAW = RandomLaw(VOCAB, 2, seed=31)
PROMPT = tuple(index * 5 % VOCAB for index in range(50))
REQUEST = Request(PROMPT, 20, Sampling(1.0, 7), ignore_eos=True, n=5)


def solo(sample: int) -> Request:
    return replace(REQUEST, n=1, sampling=replace(REQUEST.sampling, sample=sample))


@pytest.mark.parametrize("slots", [1, 2, 3, 32])
@pytest.mark.parametrize("drafter", [None, NgramDrafter(), drafters.uniform(VOCAB, 3)], ids=["none", "ngram", "random"])
def test_each_sample_is_a_solo_request(drafter: Drafter | None, slots: int) -> None:
    made = world(LAW, drafter, slots=slots, chunk_rows=16)
    found = made.answer(REQUEST, solo(2))
    assert [answer.ids for answer in found[:5]] == [world(LAW).answer(solo(sample))[0].ids for sample in range(5)]
    assert found[5].ids == found[2].ids
    assert len({answer.ids for answer in found[:5]}) == 5
    assert made.backend.sequences == 0


def test_the_prompt_is_read_once() -> None:
    made = world(LAW)
    made.answer(replace(REQUEST, max_tokens=1))
    # The prompt, and its last token again for each of the four that fork it.
    assert sum(made.backend.passes) == len(PROMPT) + 4


def test_a_sample_that_ends_at_once_leaves_the_prompt_to_the_others() -> None:
    request = Request((4,), 1, Sampling(1.0, 3), n=6, ignore_eos=True)
    for slots in (1, 2, 6):
        made = world(LAW, slots=slots)
        assert len(made.answer(request)) == 6
        assert made.backend.sequences == 0


@pytest.mark.parametrize("taken", range(1, 12))
def test_an_abandoned_family_leaves_nothing(taken: int) -> None:
    drafter = drafters.uniform(VOCAB, 3)
    made = world(LAW, drafter, slots=2)
    stream = made.engine.generate([REQUEST])
    for _ in range(taken):
        next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert made.backend.sequences == 0
    assert drafter.sequences == 0


def test_samples_tell_the_prompts_logprobs_each() -> None:
    found = world(LAW, slots=2).answer(replace(REQUEST, prompt_logprobs=1))
    assert len({answer.prompt_logprobs for answer in found}) == 1
    assert found[0].prompt_logprobs is not None
    assert len(found[0].prompt_logprobs) == len(PROMPT)


def test_other_requests_do_not_wait_for_a_prompt_that_is_being_read() -> None:
    """Samples that wait for their first one let a later request take the slot."""
    made = world(LAW, slots=2)
    chunks = list(made.engine.generate([REQUEST, Request((1, 2), 3, ignore_eos=True)]))
    assert {chunk.request for chunk in chunks[:2]} == {0, 1}
