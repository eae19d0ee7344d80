"""Speculation is invisible: whatever the drafter, the ids, the text and the end are those of plain decoding."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import islice
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.worlds import EOS, VOCAB, Answer, join, world

from outrider.api import Chunk, Request, Sampling
from outrider.drafters.base import Drafter
from outrider.drafters.ngram import NgramDrafter
from outrider.testing import drafters
from outrider.testing.table import RandomLaw

Make: TypeAlias = Callable[[drafters.Answers, int], Drafter]
DRAFTERS: dict[str, Make] = {
    "ngram": lambda answers, seed: NgramDrafter(),
    "constant": lambda answers, seed: drafters.constant(seed % VOCAB),
    "random": lambda answers, seed: drafters.uniform(VOCAB, seed),
    "oracle": lambda answers, seed: drafters.oracle(answers, EOS),
    "trees": lambda answers, seed: drafters.trees(answers, EOS, VOCAB, seed),
}
GAMMAS = (1, 2, 3, 5, 8, 16)


def content(answer: Answer) -> tuple[object, ...]:
    return answer.text, answer.ids, answer.finish


def plain(law: RandomLaw, request: Request) -> Answer:
    return world(law).answer(request)[0]


def unending(law: RandomLaw, request: Request) -> tuple[int, ...]:
    """What the target would say with nothing to end it: the oracle's knowledge, past every end."""
    free = Request(request.prompt, 80, request.sampling, ignore_eos=True)
    return plain(law, free).ids


requests = st.builds(
    Request,
    prompt=st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=30).map(tuple),
    max_tokens=st.integers(1, 40),
    sampling=st.builds(
        Sampling, st.sampled_from([0.0, 0.0, 0.6, 1.0, 2.0]), st.integers(0, 2**64 - 1), st.integers(0, 3)
    ),
    stop=st.sampled_from([(), (), ("ab",), ("bca", "x"), ("\n", "cab", "zz")]),
    ignore_eos=st.booleans(),
)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(requests, min_size=1, max_size=4),
    st.integers(0, 2**32),
    st.integers(1, 3),
    st.sampled_from(sorted(DRAFTERS)),
    st.sampled_from(GAMMAS),
    st.integers(1, 40),
    st.integers(1, 4),
)
def test_any_batch_with_any_drafter_equals_single_plain_runs(
    batch: list[Request], seed: int, order: int, drafter: str, gamma: int, chunk_rows: int, slots: int
) -> None:
    law = RandomLaw(VOCAB, order, seed)
    answers = {tuple(request.prompt): unending(law, request) for request in batch}
    made = world(law, DRAFTERS[drafter](answers, seed), gamma, chunk_rows=chunk_rows, slots=slots)
    found = made.answer(*batch)
    alone = [plain(law, request) for request in batch]
    assert [content(answer) for answer in found] == [content(answer) for answer in alone]
    assert [answer.usage.plain_passes for answer in found] == [answer.usage.passes for answer in alone]
    assert made.backend.sequences == 0


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_the_equality_is_not_empty(drafter: str, temperature: float) -> None:
    """Every drafter drafts; the useful ones are accepted and rejected, and save passes."""
    law = RandomLaw(VOCAB, 2, seed=5)
    request = Request((1, 2, 3), 120, Sampling(temperature, 42), ignore_eos=True)
    baseline = plain(law, request)
    for gamma in GAMMAS:
        # The oracle's knowledge ends at half the answer: it is wrong from there on.
        made = world(law, DRAFTERS[drafter]({(1, 2, 3): baseline.ids[:60]}, 3), gamma)
        (answer,) = made.answer(request)
        usage = answer.usage
        assert answer.ids == baseline.ids
        assert usage.drafted > usage.accepted, "nothing is ever rejected"
        assert usage.completion_tokens == usage.passes + usage.accepted
        assert usage.passes == len(made.backend.passes)
        if drafter in ("ngram", "oracle", "trees"):
            assert usage.accepted > 0
            assert usage.passes < usage.completion_tokens
    assert baseline.usage.passes == 120
    assert baseline.usage.drafted == 0


def test_the_target_as_its_own_drafter_is_always_right() -> None:
    """Case 2: with the same noise, acceptance is complete at temperature 0 and at 1, and no token is lost."""
    law = RandomLaw(VOCAB, 2, seed=6)
    for temperature in (0.0, 1.0):
        request = Request((1, 2), 45, Sampling(temperature, 9), ignore_eos=True)
        baseline = plain(law, request)
        (answer,) = world(law, drafters.oracle({(1, 2): baseline.ids}, 0), gamma=8).answer(request)
        assert answer.ids == baseline.ids
        assert answer.usage.drafted == answer.usage.accepted == 40
        assert answer.usage.passes == 5


def test_chunks_of_the_prompt_do_not_matter() -> None:
    law = RandomLaw(VOCAB, 3, seed=7)
    request = Request(tuple(index * 5 % VOCAB for index in range(100)), 30, Sampling(1.0, 3))
    found = [world(law, NgramDrafter(), chunk_rows=rows) for rows in (1, 7, 99, 100, 512)]
    answers = [content(made.answer(request)[0]) for made in found]
    assert len(set(answers)) == 1
    assert [len(made.backend.passes) for made in found] == sorted(
        (len(made.backend.passes) for made in found), reverse=True
    )
    assert max(found[1].backend.passes[:14]) == 7


def test_the_same_seed_repeats_and_others_differ() -> None:
    """Case 14: one at a time, together in a batch, and in threads."""
    law = RandomLaw(VOCAB, 2, seed=8)

    def ask(seed: int, temperature: float = 1.0) -> Request:
        return Request((3, 1), 10, Sampling(temperature, seed), ignore_eos=True)

    for temperature in (1.0, 2.0):
        made = world(law, NgramDrafter())
        single = made.answer(ask(42, temperature))[0].ids
        assert {answer.ids for answer in made.answer(*[ask(42, temperature)] * 5)} == {single}
        threaded: list[tuple[int, ...]] = []
        threads = [
            threading.Thread(target=lambda: threaded.append(made.answer(ask(42, temperature))[0].ids))  # noqa: B023
            for _ in range(5)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert threaded == [single] * 5
        assert made.answer(ask(43, temperature))[0].ids != single


def test_samples_of_one_seed_differ() -> None:
    law = RandomLaw(VOCAB, 2, seed=8)
    asked = [Request((3, 1), 10, Sampling(1.0, 42, sample), ignore_eos=True) for sample in range(4)]
    assert len({answer.ids for answer in world(law).answer(*asked)}) == 4


def test_a_ragged_batch_equals_single_runs() -> None:
    """Case 12: a repetitive, a creative and a one-token prompt share every pass."""
    law = RandomLaw(VOCAB, 2, seed=9)
    batch = [
        Request((1, 2, 3) * 12, 50, ignore_eos=True),
        Request((4, 5), 33, Sampling(1.3, 5), ignore_eos=True),
        Request((7,), 50, ignore_eos=True),
    ]
    made = world(law, NgramDrafter(), gamma=8)
    found = made.answer(*batch)
    assert [content(answer) for answer in found] == [content(plain(law, request)) for request in batch]
    assert any(
        len({len(s.drafted) for s in stories if s}) > 1 for stories in zip(*(a.stories for a in found), strict=False)
    )


def test_interleaved_iterators_do_not_disturb_each_other() -> None:
    law = RandomLaw(VOCAB, 2, seed=10)
    asked = [Request((index,), 20, Sampling(1.0, 1), ignore_eos=True) for index in range(2)]
    made = world(law, NgramDrafter())
    streams = [made.engine.generate([request]) for request in asked]
    chunks: list[list[Chunk]] = [[], []]
    while any(not found or found[-1].usage is None for found in chunks):
        for stream, found in zip(streams, chunks, strict=True):
            found.extend(islice(stream, 1))
    for found, request in zip(chunks, asked, strict=True):
        assert content(join(found, [1])[0]) == content(plain(law, request))
