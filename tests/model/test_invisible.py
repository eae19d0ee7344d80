"""The promise on the real model: speculation changes no token id, whoever drafts, however much, at any temperature."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import pytest
from tests.model.answers import Answer, Sums, World, ids_of
from tests.model.conftest import Prompts
from tests.model.prefixed import PrefixedBackend

from outrider.api import Request, Sampling
from outrider.core.step import Budget, View
from outrider.core.types import Draft
from outrider.drafters.base import Drafter
from outrider.drafters.ngram import NgramDrafter
from outrider.testing.drafters import FunctionDrafter, trees

pytestmark = [pytest.mark.slow, pytest.mark.model]

GAMMAS = (1, 2, 3, 5, 8, 16)
TEMPERATURES = (0.0, 1.0)
TOKENS = 48
CHUNK_ROWS = 1 << 20  # whole prompts in the first pass, as PrefixedBackend wants them

Plain = dict[float, list[Answer]]  # temperature -> the answers of plain decoding


def requests(prompts: Prompts, temperature: float) -> list[Request]:
    return [
        Request(prompt, TOKENS, Sampling(temperature=temperature, seed=1000 + index), ignore_eos=True)
        for index, prompt in enumerate(chain.from_iterable(prompts.values()))
    ]


def adversary(vocab: int, common: int) -> FunctionDrafter:
    """Random ids in one pass, the same id over and over in another: the likeliest one, so that some are accepted."""
    chance = random.Random(11)

    def guess(view: View, budget: Budget) -> Draft:
        constant = chance.random() < 0.5
        return Draft.chain(tuple(common if constant else chance.randrange(vocab) for _ in range(budget.depth)))

    return FunctionDrafter("adversary", guess)


@pytest.fixture(scope="module")
def plain(world: World, prompts: Prompts) -> Plain:
    """Plain decoding reads the prompts itself, in the engine's chunks."""
    return {temperature: world.answers(requests(prompts, temperature)) for temperature in TEMPERATURES}


@pytest.fixture(scope="module")
def prefixed(world: World, prompts: Prompts) -> Iterator[World]:
    backend = PrefixedBackend(world.backend, list(chain.from_iterable(prompts.values())))
    yield replace(world, backend=backend, chunk_rows=CHUNK_ROWS)
    backend.forget()


def test_what_is_compared(prompts: Prompts, plain: Plain) -> None:
    assert [len(of_group) for of_group in prompts.values()] == [4] * 6
    for answers in plain.values():
        assert [len(answer.token_ids) for answer in answers] == [TOKENS] * 24
        assert len(set(ids_of(answers))) > 20
        assert Sums.of(answers).passes == Sums.of(answers).tokens
    assert ids_of(plain[0.0]) != ids_of(plain[1.0])


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("name", ["ngram", "adversary"])
def test_same_ids(name: str, gamma: int, temperature: float, plain: Plain, prefixed: World, prompts: Prompts) -> None:
    common, _ = Counter(chain.from_iterable(ids_of(plain[temperature]))).most_common(1)[0]
    drafter: Drafter = NgramDrafter() if name == "ngram" else adversary(prefixed.backend.vocab, common)
    answers = prefixed.speculative(drafter, gamma).answers(requests(prompts, temperature))
    assert ids_of(answers) == ids_of(plain[temperature])
    sums = Sums.of(answers)
    print(sums)
    assert sums.drafted > 0
    assert sums.accepted > 0
    assert sums.rejected > 0
    assert sums.passes < sums.tokens


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_same_ids_with_trees(temperature: float, plain: Plain, prefixed: World, prompts: Prompts) -> None:
    asked = requests(prompts, temperature)
    known = {tuple(request.prompt): ids for request, ids in zip(asked, ids_of(plain[temperature]), strict=True)}
    drafter = trees(known, 0, prefixed.backend.vocab, seed=5)
    answers = prefixed.speculative(drafter, 6).answers(asked)
    assert ids_of(answers) == ids_of(plain[temperature])
    sums = Sums.of(answers)
    assert min(sums.accepted, sums.rejected) > 100
    assert sums.passes < 0.7 * sums.tokens
    assert any(list(outcome.draft.parents) != list(range(-1, len(outcome.draft) - 1)) for outcome in drafter.outcomes)


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_same_ids_one_at_a_time(temperature: float, plain: Plain, world: World, prompts: Prompts) -> None:
    """As a user runs it: one sequence in the engine, prompt and all. The longest prompt and the shortest."""
    asked = requests(prompts, temperature)
    order = sorted(range(len(asked)), key=lambda index: len(asked[index].prompt))
    chosen = [order[0], order[-1]]
    alone = replace(world, slots=1).speculative(NgramDrafter(), 4).answers([asked[index] for index in chosen])
    assert ids_of(alone) == [plain[temperature][index].token_ids for index in chosen]
