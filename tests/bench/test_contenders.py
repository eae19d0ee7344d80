"""Answers of a generator in this process, and what they are said to cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from tests.bench.scripted import Scripted, encode

from outrider.api import Chunk, Generator, Request
from outrider.bench.contenders import Answer, Local, Settings, add_by_position
from outrider.core.step import Budget, View
from outrider.core.types import Draft
from outrider.engine.engine import Engine
from outrider.errors import OutriderError, UsageError
from outrider.policy.fixed import Fixed
from outrider.testing.drafters import FunctionDrafter, oracle
from outrider.testing.table import ScriptedLaw, TableBackend
from outrider.testing.text import ByteDetokenizer

HELLO = [{"role": "user", "content": "hi"}]
PROMPT = tuple(encode(HELLO))
SCRIPT = b"an answer of twenty!"
VOCAB = 128


def engine(drafter: FunctionDrafter | None, gamma: int = 0) -> Engine:
    """Over the table: says SCRIPT, then newlines, which end the answer."""
    backend = TableBackend(ScriptedLaw(VOCAB, len(PROMPT), [*SCRIPT, 10]), VOCAB)
    return Engine(backend, drafter, Fixed(gamma), ByteDetokenizer, frozenset({10}))


def answer(generator: Generator, max_tokens: int = 128) -> Answer:
    return Local("it", lambda: generator, encode, Settings(max_tokens)).answer(HELLO)


def test_the_request_is_the_settings() -> None:
    generator = Scripted()
    Local("it", lambda: generator, encode, Settings(7, 0.5, 3)).answer(HELLO)
    (request,) = generator.asked
    assert (tuple(request.prompt), request.max_tokens) == (PROMPT, 7)
    assert (request.sampling.temperature, request.sampling.seed) == (0.5, 3)


def test_plain_decoding() -> None:
    found = answer(engine(None))
    assert (found.text, found.ids, found.tokens) == (SCRIPT.decode(), tuple(SCRIPT), 20)
    assert found.timed_tokens == 19
    assert found.cost is not None
    assert (found.cost.passes, found.cost.drafted, found.cost.reached) == (21, (), ())


def test_the_first_pass_and_its_tokens_are_not_timed() -> None:
    found = answer(Scripted(at_once=4, pass_s=0.5), 12)
    assert (found.tokens, found.timed_tokens, found.decode_s) == (12, 8, 1.0)
    assert found.cost is not None
    assert (found.cost.passes, found.cost.draft_s, found.cost.target_s) == (3, 0.125, 0.5)


def test_a_perfect_drafter_is_reached_everywhere() -> None:
    found = answer(engine(oracle({PROMPT: list(SCRIPT)}, past=10), 4))
    assert found.ids == tuple(SCRIPT)
    assert found.cost is not None
    assert found.cost.passes == 5
    assert found.cost.drafted == found.cost.reached == found.cost.accepted == (4, 4, 4, 4)


def test_reached_leaves_out_what_lies_behind_a_rejection() -> None:
    def guess(view: View, budget: Budget) -> Draft:
        at = len(view.tokens) - len(PROMPT)
        right = [*SCRIPT, 10, 10, 10, 10][at : at + 4]
        return Draft.chain((right[0], right[1], 0, right[3]))

    found = answer(engine(FunctionDrafter("third is wrong", guess), 4))
    assert found.ids == tuple(SCRIPT)
    assert found.cost is not None
    # Three tokens a pass: 6 passes that reach position 3, and a last one for the two tokens that are left.
    assert found.cost.passes == 7
    assert found.cost.drafted == (7, 7, 6, 6)
    assert found.cost.reached == (7, 7, 6)
    assert found.cost.accepted == (7, 7, 0, 0)


def test_a_tree_counts_by_depth() -> None:
    def guess(view: View, budget: Budget) -> Draft:
        at = len(view.tokens) - len(PROMPT)
        right = [*SCRIPT, 10, 10, 10][at : at + 3]
        return Draft((0, right[0], right[1], 0), (-1, -1, 1, 0))

    found = answer(engine(FunctionDrafter("tree", guess), 4))
    assert found.ids == tuple(SCRIPT)
    assert found.cost is not None
    assert (found.cost.drafted, found.cost.reached, found.cost.accepted) == ((7, 7), (7, 7), (7, 7))


class Silent:
    def generate(self, requests: Sequence[Request]) -> Iterator[Chunk]:
        yield Chunk(0, "a", (97,), ())


def test_an_answer_without_an_end_is_none() -> None:
    with pytest.raises(OutriderError, match="stopped before the answer ended"):
        answer(Silent())


def test_what_the_generator_refuses() -> None:
    with pytest.raises(UsageError, match="max_tokens is 0"):
        answer(engine(None), 0)


def test_sums_by_position() -> None:
    assert add_by_position([(1, 2), (), (1, 1, 1)]) == (2, 3, 1)
    assert add_by_position([]) == ()


def test_a_round_begins_with_a_fresh_generator() -> None:
    """Drafters remember answers: the second round would be a recital."""
    made: list[Scripted] = []

    def make() -> Scripted:
        made.append(Scripted())
        return made[-1]

    contender = Local("it", make, encode, Settings(8))
    contender.answer(HELLO)
    contender.fresh()
    contender.answer(HELLO)
    assert [len(generator.asked) for generator in made] == [1, 1]
