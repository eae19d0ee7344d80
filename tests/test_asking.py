"""What is asked in the faces' words, and the Request that it becomes."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from outrider.api import Constraint, ConstraintKind, LogprobsMode, Request, Sampling
from outrider.asking import PREDICTED, Ask, Chance, Ending, Form, Guessing, Nudges, Telling
from outrider.drafters.predicted import PredictedDrafter
from outrider.errors import UsageError

SCHEMA = {"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "null"}}}


def test_asking_for_nothing_is_the_default_request() -> None:
    assert Ask(chance=Chance(seed=0)).request([1, 2]) == Request([1, 2])


def test_everything_arrives() -> None:
    ask = Ask(
        chance=Chance(0.5, 40, 0.9, 0.05, 0.95, 9),
        nudges=Nudges(-1.0, 0.5, 1.1, {3: -100.0, 5: 2}, iter([1, 2, 3]), {2}),
        ending=Ending(50, 4, True, ["a", "b"], range(4, 6)),
        form=Form(regex="a+", constrain_after="</think>"),
        telling=Telling(2, 3, "processed", 0),
        guessing=Guessing(True, 5, "text", ["suffix", "predicted"]),
    )
    assert ask.guessing.text() == "text"
    assert ask.request((7, 8), [9, 4]) == Request(
        prompt=(7, 8),
        max_tokens=50,
        sampling=Sampling(
            repetition_penalty=1.1,
            frequency_penalty=-1.0,
            presence_penalty=0.5,
            logit_bias=((3, -100.0), (5, 2)),
            allowed_token_ids=(1, 2, 3),
            banned_token_ids=(2,),
            temperature=0.5,
            top_k=40,
            top_p=0.9,
            min_p=0.05,
            typical_p=0.95,
            seed=9,
        ),
        stop=("a", "b"),
        ignore_eos=True,
        stop_token_ids=(4, 5),
        min_tokens=4,
        n=2,
        logprobs=3,
        logprobs_mode=LogprobsMode.PROCESSED,
        prompt_logprobs=0,
        constraint=Constraint(ConstraintKind.REGEX, "a+", "</think>"),
        max_draft=5,
        drafters=("suffix", "predicted"),
        prediction=(9, 4),
    )
    assert Ask(guessing=Guessing(speculate=False)).request([1]).speculate is False


def test_predictions() -> None:
    assert Guessing().text() == Guessing(speculate=False).text() == Guessing(prediction="").text() == ""
    with pytest.raises(UsageError, match=r"^prediction is \[1, 2\]; give the text"):
        Guessing(prediction=[1, 2]).text()  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"^there is a prediction but speculate is False"):
        Guessing(False, prediction="x").text()
    with pytest.raises(UsageError, match=r"^there is a prediction but drafters leaves out 'predicted'"):
        Guessing(prediction="x", drafters=["suffix"]).text()


def test_who_may_draft() -> None:
    assert Guessing().names() is Guessing(speculate=False).names() is None
    assert Guessing(drafters=["suffix", "store"]).names() == ("suffix", "store")
    for wrong in ("suffix", 7):
        with pytest.raises(UsageError, match=f"^drafters is {wrong!r}; give a list of names"):
            Guessing(drafters=wrong).names()  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"^drafters is \['suffix'\] but speculate is False; leave one out"):
        Guessing(False, drafters=["suffix"]).names()


def test_the_drafter_of_predictions_is_called_as_it_calls_itself() -> None:
    assert PredictedDrafter.name == PREDICTED


def test_a_seed_of_none_is_a_new_one() -> None:
    seeds = {Ask(chance=Chance(1.0)).request([1]).sampling.seed for _ in range(20)}
    assert len(seeds) > 1
    assert all(0 <= seed < 2**64 for seed in seeds)


@pytest.mark.parametrize(("stop", "strings"), [(None, ()), ("ab", ("ab",)), (["a", "b"], ("a", "b")), ("", ("",))])
def test_stop_may_be_one_string_or_several(stop: Any, strings: tuple[str, ...]) -> None:
    assert Ending(stop=stop).strings() == strings


@pytest.mark.parametrize(
    ("form", "kind", "text"),
    [
        (Form(json_schema=SCHEMA), ConstraintKind.JSON_SCHEMA, json.dumps(SCHEMA)),
        (Form(json_schema='{"type":"null"}'), ConstraintKind.JSON_SCHEMA, '{"type":"null"}'),
        (Form(json_schema=True), ConstraintKind.JSON_SCHEMA, "true"),
        (Form(json_schema=False), ConstraintKind.JSON_SCHEMA, "false"),
        (Form(json_schema={}), ConstraintKind.JSON_SCHEMA, "{}"),
        (Form(json_object=True), ConstraintKind.JSON_SCHEMA, '{"type": "object"}'),
        (Form(regex="[0-9]+"), ConstraintKind.REGEX, "[0-9]+"),
        (Form(grammar='start: "a"'), ConstraintKind.GRAMMAR, 'start: "a"'),
    ],
)
def test_forms(form: Form, kind: ConstraintKind, text: str) -> None:
    assert form.constraint() == Constraint(kind, text)


def test_no_form_is_no_constraint() -> None:
    assert Form().constraint() is None
    assert Form(json_object=False).constraint() is None


def circular() -> dict[str, object]:
    schema: dict[str, object] = {}
    schema["properties"] = schema
    return schema


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (Ask(form=Form(json_schema=SCHEMA, regex="a")), "json_schema and regex do not go together; give one of them"),
        (Ask(form=Form(json_schema=False, json_object=True)), "json_schema and json_object do not go together"),
        (Ask(form=Form(grammar="a", regex="a", json_object=True)), "regex and grammar and json_object do not go"),
        (Ask(form=Form(constrain_after="x")), "constrain_after is 'x' but there is no constraint"),
        (Ask(form=Form(regex="a", constrain_after="")), "constrain_after is ''; give a text"),
        (Ask(form=Form(regex="")), "regex is ''; give a text"),
        (Ask(form=Form(regex=b"a")), "regex is b'a'; give a text"),  # type: ignore[arg-type]
        (Ask(form=Form(grammar=5)), "grammar is 5; give a text"),  # type: ignore[arg-type]
        (Ask(form=Form(json_schema=[1])), r"json_schema is \[1\]; give a dict, True or False, or JSON text"),  # type: ignore[arg-type]
        (Ask(form=Form(json_schema={"a": {1}})), "json_schema cannot be written as JSON: .*set is not JSON serial"),
        (Ask(form=Form(json_schema={"maximum": math.nan})), "json_schema cannot be written as JSON: .*not JSON compl"),
        (Ask(form=Form(json_schema=circular())), "json_schema cannot be written as JSON: Circular reference"),
        (Ask(nudges=Nudges(logit_bias={"50256": -100})), r"logit_bias has the key '50256' \(value -100\); a key is"),  # type: ignore[dict-item]
        (Ask(nudges=Nudges(logit_bias=[(5, 1.0)])), r"logit_bias is \[\(5, 1.0\)\]; give a mapping"),  # type: ignore[arg-type]
        (Ask(nudges=Nudges(allowed_token_ids=5)), "allowed_token_ids is 5; give token ids"),  # type: ignore[arg-type]
        (Ask(nudges=Nudges(banned_token_ids="5")), "banned_token_ids is '5'; give token ids"),  # type: ignore[arg-type]
        (Ask(ending=Ending(stop_token_ids=2)), "stop_token_ids is 2; give token ids"),  # type: ignore[arg-type]
        (Ask(telling=Telling(logprobs=1, logprobs_mode="cooked")), "logprobs_mode is 'cooked'; it may be 'raw' or"),
        (Ask(telling=Telling(logprobs_mode="processed")), "logprobs_mode is 'processed' but logprobs is None"),
    ],
)
def test_what_a_request_cannot_say_is_refused(ask: Ask, says: str) -> None:
    with pytest.raises(UsageError, match=f"^{says}"):
        ask.request([1])
