"""Two hundred schemas of the kinds that real tools send, answered greedily and drawn, thirty at once in one batch.

BUDGET tokens are enough for all but a few: a small model may ramble in a string, a number or a tree without bounds.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.model.answers import Answer, Sums, World, ids_of
from tests.model.schemas import features
from tests.model.schemas.build import Refused
from tests.model.schemas.collection import CASES, REFUSED

from outrider.api import Constraint, ConstraintKind, FinishReason, Origin, Request, Sampling
from outrider.core.types import EMPTY
from outrider.drafters.grammar import GrammarDrafter
from outrider.drafters.ngram import NgramDrafter
from outrider.errors import UsageError
from outrider.models.chat import ChatTemplate
from outrider.testing.drafters import FunctionDrafter

pytestmark = [pytest.mark.slow, pytest.mark.model]

BUDGET = 384
AT_ONCE = 30
GAMMA = 8
TEMPERATURES = (0.0, 1.0)
LEAST_ENDED = 0.95

Runs = dict[float, list[Answer]]  # temperature -> an answer for each case


def constraint(schema: Any) -> Constraint:
    return Constraint(ConstraintKind.JSON_SCHEMA, json.dumps(schema))


def requests(world: World, chat: ChatTemplate, temperature: float) -> list[Request]:
    return [
        Request(
            world.tokenizer.encode_prompt(chat.render(case.prompt), special=True),
            BUDGET,
            Sampling(temperature=temperature, seed=index),
            constraint=constraint(case.schema),
        )
        for index, case in enumerate(CASES)
    ]


def faults(schema: Any, text: str) -> list[str]:
    """What is wrong with an answer; decimals are kept exact, or 0.07 would be no multiple of 0.01."""
    exact = json.loads(json.dumps(schema), parse_float=Decimal)
    value = json.loads(text, parse_float=Decimal)
    return [error.message for error in Draft202012Validator(exact).iter_errors(value)]


def ended(answers: list[Answer]) -> Iterator[tuple[Any, str]]:
    """Schema and text of the answers that ended by themselves."""
    for case, answer in zip(CASES, answers, strict=True):
        if answer.finish_reason is FinishReason.STOP:
            yield case.schema, answer.text


@pytest.fixture(scope="module")
def guessed(world: World, chat: ChatTemplate) -> Runs:
    """With what the grammar forces drafted, and n-grams where it forces nothing."""
    speculative = replace(world, slots=AT_ONCE).speculative(GrammarDrafter(NgramDrafter()), GAMMA)
    return {temperature: speculative.answers(requests(world, chat, temperature)) for temperature in TEMPERATURES}


@pytest.fixture(scope="module")
def plain(world: World, chat: ChatTemplate) -> Runs:
    at_once = replace(world, slots=AT_ONCE)
    return {temperature: at_once.answers(requests(world, chat, temperature)) for temperature in TEMPERATURES}


def test_what_is_asked() -> None:
    """Two hundred different valid schemas, every feature in some of them."""
    assert len({case.name for case in CASES}) == len({str(case.schema) for case in CASES}) == 200
    counts = Counter(name for case in CASES for name in features.of_schema(case.schema))
    print(counts.most_common())
    assert set(counts) == features.ALL
    assert min(counts.values()) >= 2
    for case in CASES:
        Draft202012Validator.check_schema(case.schema)


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_answers_that_end_are_right(temperature: float, guessed: Runs) -> None:
    answers = guessed[temperature]
    wrong = [(text, found) for schema, text in ended(answers) if (found := faults(schema, text))]
    assert wrong == []
    unfinished = [case.name for case, answer in zip(CASES, answers, strict=True) if len(answer.token_ids) == BUDGET]
    print(unfinished, Sums.of(answers))
    assert len(list(ended(answers))) >= LEAST_ENDED * len(CASES)
    assert {answer.finish_reason for answer in answers} <= {FinishReason.STOP, FinishReason.LENGTH}


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_json_is_compact(temperature: float, guessed: Runs) -> None:
    """No blank outside strings."""
    outside = [re.sub(r'"(\\.|[^"\\])*"', '""', text) for _, text in ended(guessed[temperature])]
    assert outside
    assert [text for text in outside if re.search(r"\s", text)] == []


def test_every_feature_decided_something(guessed: Runs) -> None:
    used: Counter[str] = Counter()
    nulls = 0
    for answers in guessed.values():
        for schema, text in ended(answers):
            value = json.loads(text)
            names = features.of_answer(schema, value)
            used.update(names)
            nulls += "nullable" in names and "null" in text
    print(used.most_common())
    assert {name: used[name] for name in features.ALL if used[name] < 3} == {}
    assert 0 < nulls < used["nullable"]


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_speculation_does_not_show(temperature: float, guessed: Runs, plain: Runs) -> None:
    assert ids_of(guessed[temperature]) == ids_of(plain[temperature])
    reasons = [[answer.finish_reason for answer in runs[temperature]] for runs in (guessed, plain)]
    assert reasons[0] == reasons[1]
    sums, plainly = Sums.of(guessed[temperature]), Sums.of(plain[temperature])
    print(sums, plainly)
    assert min(sums.accepted, sums.rejected) > 0
    assert sums.passes < 0.8 * plainly.passes
    assert plainly.drafted == 0


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_forced_tokens_have_their_own_origin(temperature: float, guessed: Runs, plain: Runs) -> None:
    """Whatever comes before the first choice is forced, but for the target's own token at the end of each pass."""
    by_name = {case.name: answer for case, answer in zip(CASES, guessed[temperature], strict=True)}
    for name in ("a constant object", "six levels deep", "no arguments"):
        answer = by_name[name]
        assert answer.origins[:GAMMA] == (Origin.FORCED,) * min(GAMMA, len(answer.origins)), name
        assert set(answer.origins) <= {Origin.FORCED, Origin.BONUS, Origin.RECOVERED}
        assert answer.usage.forced > 0.6 * len(answer.token_ids)
    origins = Counter(origin for answer in guessed[temperature] for origin in answer.origins)
    print(origins)
    assert all(origins[origin] > 0 for origin in Origin)
    assert {origin for answer in plain[temperature] for origin in answer.origins} == {Origin.BONUS}


def test_a_batch_is_its_single_runs(world: World, chat: ChatTemplate, guessed: Runs) -> None:
    chosen = range(3, len(CASES), 40)
    asked = requests(world, chat, 1.0)
    alone = world.speculative(GrammarDrafter(NgramDrafter()), 3)
    assert [alone.answers([asked[index]])[0].token_ids for index in chosen] == [
        guessed[1.0][index].token_ids for index in chosen
    ]


def test_without_a_constraint_few_are_right(world: World, chat: ChatTemplate) -> None:
    """So it is the constraint that makes them so."""
    asked = [replace(request, constraint=None, max_tokens=48) for request in requests(world, chat, 0.0)[::5]]
    right = 0
    for case, answer in zip(CASES[::5], world.answers(asked), strict=True):
        try:
            right += not faults(case.schema, answer.text)
        except json.JSONDecodeError:
            continue
    assert right < 4


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_what_cannot_be_honoured_is_refused_before_the_first_token(case: Refused, world: World) -> None:
    """Also for the good request beside it: nothing of the batch may run."""
    spy = FunctionDrafter("spy", lambda view, budget: EMPTY)
    good = Request([1, 2, 3], 4)
    with pytest.raises(UsageError, match=re.escape(case.mentions)):
        world.speculative(spy, 1).answers([good, replace(good, constraint=constraint(case.schema))])
    assert spy.outcomes == []
    assert spy.sequences == 0
