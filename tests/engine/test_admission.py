"""Every parameter out of range is refused before anything runs, by name, with its value and what is allowed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.engine.naive import LanguageMatcher
from tests.engine.worlds import EOS, VOCAB, world

from outrider.api import Constraint, ConstraintKind, Request, Sampling
from outrider.drafters.ngram import NgramDrafter
from outrider.errors import UsageError
from outrider.testing.table import RandomLaw

LAW = RandomLaw(VOCAB, 2, seed=4)
NAN, INF = float("nan"), float("inf")

SAMPLINGS: list[tuple[dict[str, Any], str]] = [
    ({"temperature": -1.0}, r"temperature is -1\.0; it may be 0 \(the arg-max\) or 1e-06 to 100"),
    ({"temperature": 1e-7}, "temperature is 1e-07"),
    ({"temperature": NAN}, "temperature is nan"),
    ({"temperature": "hot"}, "temperature is 'hot'"),
    ({"top_k": -1}, r"top_k is -1; it may be a whole number from 0 to 2\*\*31 - 1"),
    ({"top_k": 2.5}, r"top_k is 2\.5"),
    ({"top_k": True}, "top_k is True"),
    ({"top_p": 0.0}, r"top_p is 0\.0; it may be above 0 and at most 1"),
    ({"top_p": 1.01}, r"top_p is 1\.01"),
    ({"top_p": NAN}, "top_p is nan"),
    ({"min_p": -0.1}, r"min_p is -0\.1; it may be from 0 to 1"),
    ({"min_p": 2}, "min_p is 2"),
    ({"typical_p": 0}, "typical_p is 0; it may be above 0 and at most 1"),
    ({"frequency_penalty": 2.1}, r"frequency_penalty is 2\.1; it may be from -2 to 2"),
    ({"presence_penalty": -3}, "presence_penalty is -3; it may be from -2 to 2"),
    ({"repetition_penalty": 0.0}, r"repetition_penalty is 0\.0; it may be from 0\.01 to 10"),
    ({"repetition_penalty": INF}, "repetition_penalty is inf"),
    ({"logit_bias": ((1, 101.0),)}, r"logit_bias of 1 is 101\.0; it may be from -100 to 100"),
    ({"logit_bias": ((1, NAN),)}, "logit_bias of 1 is nan"),
    ({"logit_bias": ((VOCAB, 1.0),)}, rf"logit_bias contains {VOCAB}; ids of this model lie in 0\.\.{VOCAB - 1}"),
    ({"logit_bias": ((3, 1.0), (3, 2.0))}, "logit_bias names 3 twice"),
    ({"allowed_token_ids": ()}, "allowed_token_ids is empty"),
    ({"allowed_token_ids": (-1,)}, "allowed_token_ids contains -1"),
    ({"banned_token_ids": ("1",)}, "banned_token_ids contains '1'"),
    ({"banned_token_ids": tuple(range(VOCAB))}, "banned_token_ids bans every allowed id"),
    ({"allowed_token_ids": (1, 2), "banned_token_ids": (2, 1)}, "banned_token_ids bans every allowed id"),
    ({"seed": -1}, r"seed is -1; it may be a whole number from 0 to 2\*\*64 - 1"),
    ({"seed": 2**64}, "seed is 18446744073709551616"),
    ({"sample": 2**32}, "sample is 4294967296"),
]
REQUESTS: list[tuple[dict[str, Any], str]] = [
    ({"max_tokens": 0}, r"max_tokens is 0; it may be a whole number from 1 to 2\*\*63 - 1"),
    ({"min_tokens": -1}, "min_tokens is -1; it may be a whole number from 0 to 20"),
    ({"min_tokens": 21}, "min_tokens is 21; it may be a whole number from 0 to 20"),
    ({"n": 0}, "n is 0; it may be a whole number from 1 to 128"),
    ({"n": 129}, "n is 129"),
    ({"logprobs": -1}, "logprobs is -1; it may be a whole number from 0 to 100"),
    ({"prompt_logprobs": 101}, "prompt_logprobs is 101"),
    ({"logprobs_mode": "cooked"}, "logprobs_mode is 'cooked'; it may be 'raw' or 'processed'"),
    ({"stop": ("",)}, "stop contains ''"),
    ({"stop": ("a",) * 17}, "stop has 17 strings; give at most 16"),
    ({"stop_token_ids": (VOCAB,)}, f"stop_token_ids contains {VOCAB}"),
    ({"prediction": (1, -2)}, "prediction contains -2"),
    ({"max_draft": -1}, "max_draft is -1; it may be a whole number from 0"),
    ({"min_tokens": 1, "sampling": Sampling(allowed_token_ids=(EOS,))}, "min_tokens is 1, but every id"),
    ({"n": 2, "sampling": Sampling(sample=2**32 - 1)}, "sample is 4294967295"),
    ({"constraint": Constraint("poem", "x")}, "kind is 'poem'; it may be json_schema, regex, grammar"),  # type: ignore[arg-type]
    ({"constraint": Constraint(ConstraintKind.REGEX, None)}, "the constraint is a NoneType"),  # type: ignore[arg-type]
    ({"constraint": Constraint(ConstraintKind.REGEX, "!")}, "which nothing satisfies"),
]


@pytest.mark.parametrize(("changes", "message"), SAMPLINGS, ids=lambda value: str(value)[:40])
def test_samplings_out_of_range(changes: dict[str, Any], message: str) -> None:
    refused(Request((1, 2), 20, Sampling(**changes)), message)


@pytest.mark.parametrize(("changes", "message"), REQUESTS, ids=lambda value: str(value)[:40])
def test_requests_out_of_range(changes: dict[str, Any], message: str) -> None:
    refused(replace(Request((1, 2), 20), **changes), message)


def refused(request: Request, message: str) -> None:
    made = world(LAW, matchers=LanguageMatcher)
    with pytest.raises(UsageError, match=message):
        made.engine.generate([Request((1,)), request])
    assert made.backend.passes == []
    assert made.backend.sequences == 0


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (("store",), "drafters names 'store'; it may name 'ngram'"),
        (("ngram", 7), "drafters names 7; it may name 'ngram'"),
        ((), r"drafters is \(\); name some of 'ngram', or set speculate to false"),
        ("ngram", "drafters is 'ngram'; name some of"),
    ],
)
def test_drafters_that_are_not_there(chosen: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        world(LAW, NgramDrafter()).engine.generate([Request((1,), drafters=chosen)])
    with pytest.raises(UsageError, match="but nothing drafts here; leave it out, or load a drafter"):
        world(LAW).engine.generate([Request((1,), drafters=chosen)])


def test_a_constraint_needs_an_engine_with_constraints() -> None:
    with pytest.raises(UsageError, match="constraint is set, but this engine was made without"):
        world(LAW).engine.generate([Request((1,), constraint=Constraint(ConstraintKind.REGEX, "a"))])


def test_the_edges_are_allowed() -> None:
    edges = [
        Sampling(1e-6),
        Sampling(100.0, 2**64 - 1, 2**32 - 1),
        Sampling(1.0, top_k=2**31 - 1, top_p=1.0, min_p=1.0, typical_p=1.0),
        Sampling(1.0, top_p=1e-300, typical_p=1e-300),
        Sampling(1.0, frequency_penalty=2, presence_penalty=-2, repetition_penalty=0.01),
        Sampling(1.0, logit_bias=((0, 100.0), (1, -100.0)), allowed_token_ids=(1, 1, 2), repetition_penalty=10),
    ]
    found = world(LAW).answer(*[Request((1, 2), 5, sampling, ignore_eos=True, min_tokens=5) for sampling in edges])
    assert [len(answer.ids) for answer in found] == [5] * len(edges)
