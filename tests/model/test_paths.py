"""Chunks, instruction sets and threads change nothing on the real model: logits, keys and values bit for bit."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import pytest
from tests.model.answers import Sums, World, ids_of
from tests.model.conftest import Prompts
from tests.model.prefixed import read

from outrider import _native
from outrider.api import Request, Sampling
from outrider.backends.base import Extend, Want
from outrider.backends.native import NativeBackend
from outrider.drafters.ngram import NgramDrafter
from outrider.models.spec import ModelFile

pytestmark = [pytest.mark.slow, pytest.mark.model]

TEXT = """def count(words):
    seen = {}
    for word in words:
        seen[word] = seen.get(word, 0) + 1
    return seen

print(count("the cat and the dog and the bird".split()))
"""


def trace(backend: NativeBackend, tokens: list[int], chunk: int) -> tuple[bytes, bytes, bytes]:
    """The bytes of the last row's logits and of all keys and values, read `chunk` tokens at a time."""
    seq = backend.open()
    read(backend, seq, tokens[:-1], chunk)
    scores = backend.extend([Extend(seq, tokens[-1:], None, [Want.LOGITS])])
    logits = scores.logits(0, 0).tobytes()
    backend.commit([(seq, (0,))])
    keys, values = backend.export_cache(seq)
    backend.close(seq)
    return logits, keys, values


@pytest.fixture(scope="module")
def tokens(world: World) -> list[int]:
    return world.tokenizer.encode(TEXT, special=False)


@pytest.fixture(scope="module")
def expected(model_file: ModelFile, tokens: list[int]) -> tuple[bytes, bytes, bytes]:
    """From the portable path, which defines the result, on one thread."""
    return trace(NativeBackend(model_file, isa="portable", threads=1), tokens, 512)


@pytest.mark.parametrize("isa", _native.isas())
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_instruction_sets_and_threads(
    isa: str, threads: int, model_file: ModelFile, tokens: list[int], expected: tuple[bytes, bytes, bytes]
) -> None:
    backend = NativeBackend(model_file, isa=isa, threads=threads)
    assert (backend.capabilities.isa, backend.capabilities.threads) == (isa, threads)
    assert trace(backend, tokens, 512) == expected
    assert trace(backend, tokens[:20], 1) == trace(backend, tokens[:20], 7)


@pytest.mark.parametrize("isa", _native.isas())
def test_instruction_sets_answer_alike(isa: str, model_file: ModelFile, world: World, tokens: list[int]) -> None:
    """Greedy and drawn, speculatively there and plainly here."""
    asked = [
        Request(tokens, 16, Sampling(temperature=temperature, seed=7), ignore_eos=True) for temperature in (0.0, 1.0)
    ]
    there = World(NativeBackend(model_file, isa=isa), world.tokenizer, NgramDrafter(), 3).answers(asked)
    assert ids_of(there) == ids_of(world.answers(asked))
    assert Sums.of(there).drafted > 0


def test_chunks_of_a_long_prompt(world: World, prompts: Prompts) -> None:
    assert isinstance(world.backend, NativeBackend)
    longest = max(chain.from_iterable(prompts.values()), key=len)
    assert len(longest) > 512
    whole = trace(world.backend, longest, len(longest))
    for chunk in (512, 255, 17, 1):
        assert trace(world.backend, longest, chunk) == whole, f"chunks of {chunk}"


def test_chunks_of_the_engine(world: World, prompts: Prompts) -> None:
    """A batch in which some sequences decode while the prompts of others are still being read."""
    asked = [Request(of_group[0], 24, ignore_eos=True) for of_group in prompts.values()]
    whole = ids_of(world.answers(asked))
    assert len(set(whole)) == len(whole)
    for chunk_rows in (100, 9):
        chunked = replace(world, chunk_rows=chunk_rows, slots=3).speculative(NgramDrafter(), 4)
        answers = chunked.answers(asked)
        assert ids_of(answers) == whole
        assert Sums.of(answers).accepted > 0
