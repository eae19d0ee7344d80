"""Constraints over the default model's vocabulary: 49,152 ids, two ends of text, bytes that no token has."""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from tests.constraints.vocabularies import ids_in, push_all, pushable

from outrider.api import Constraint, ConstraintKind
from outrider.constraints.base import Matcher
from outrider.constraints.compiler import Compiler
from outrider.constraints.vocabulary import Vocabulary
from outrider.models import gguf
from outrider.models.tokenizer import Tokenizer

pytestmark = pytest.mark.model

# Case 19: a nullable field, an enum, maxLength.
HEROES = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 12},
            "power": {"enum": ["fire", "ice", "the power of friendship"]},
            "nickname": {"type": ["string", "null"], "maxLength": 8},
            "age": {"type": "integer", "minimum": 1, "maximum": 900},
        },
        "required": ["name", "power", "nickname", "age"],
        "additionalProperties": False,
    },
    "minItems": 3,
    "maxItems": 3,
}
SCHEMA = Constraint(ConstraintKind.JSON_SCHEMA, json.dumps(HEROES))


@pytest.fixture(scope="module")
def tokenizer(default_model: Path) -> Tokenizer:
    return Tokenizer(gguf.read(default_model).tokenizer)


@pytest.fixture(scope="module")
def compiler(tokenizer: Tokenizer) -> Compiler:
    encode = partial(tokenizer.encode, special=False)
    spell, is_special = tokenizer.token_bytes, tokenizer.is_special
    # As for a backend that pads its rows to a multiple of 128.
    return Compiler(Vocabulary(49_280, tokenizer.vocab, spell, is_special, tokenizer.eos_ids, encode))


def step(matcher: Matcher, chance: random.Random, ends: frozenset[int]) -> int:
    allowed = np.flatnonzero(np.unpackbits(matcher.mask().view(np.uint8), bitorder="little"))
    token = int(chance.choice(allowed))
    assert token not in ends
    assert matcher.allows([token]) == 1
    assert matcher.push(token)
    return token


def test_thirty_random_answers_at_once_parse_and_validate(compiler: Compiler, tokenizer: Tokenizer) -> None:
    chance = random.Random(1)
    answers: list[tuple[Matcher, list[int]]] = [(compiler(SCHEMA), []) for _ in range(30)]
    running = answers
    while running:
        for matcher, tokens in running:
            tokens.append(step(matcher, chance, tokenizer.eos_ids))
            if chance.random() < 0.2:  # a rejected node
                matcher.pop(1)
                tokens.pop()
        running = [(matcher, tokens) for matcher, tokens in running if not matcher.ended]
    for matcher, tokens in answers:
        assert ids_in(matcher, 49_280) == tokenizer.eos_ids
        jsonschema.validate(json.loads(tokenizer.decode(tokens, skip_special=False)), HEROES)


def test_masks_are_what_can_be_pushed(compiler: Compiler, tokenizer: Tokenizer) -> None:
    matcher = compiler(SCHEMA)
    for text in ('[{"', 'name":"', "Zo", 'ë","power":"'):
        push_all(matcher, tokenizer.encode(text, special=False))
        assert pushable(matcher, 49_280) == ids_in(matcher, 49_280) - tokenizer.eos_ids


def test_forced_text_is_cut_as_the_model_would(compiler: Compiler, tokenizer: Tokenizer) -> None:
    matcher = compiler(SCHEMA)
    assert tokenizer.decode(matcher.forced(16), skip_special=False) == '[{"name":"'
    push_all(matcher, tokenizer.encode('[{"name":"A","power":"the', special=False))
    expected = tokenizer.encode(' power of friendship","nickname":', special=False)
    assert list(matcher.forced(len(expected) - 1)) == expected[:-1]


@pytest.mark.parametrize("marker", ["```json\n", "</think>", "Answer:", "é"])
def test_a_marker_in_the_middle_of_free_text(compiler: Compiler, tokenizer: Tokenizer, marker: str) -> None:
    constraint = Constraint(ConstraintKind.REGEX, "[0-9]{4}", after=marker)
    matcher = compiler(constraint)
    free = tokenizer.encode(f"Well, {marker[:-1]} is not it. So: ", special=False)
    push_all(matcher, free)
    assert not ids_in(matcher, 49_280) & set(range(17))
    push_all(matcher, tokenizer.encode(marker, special=False))
    allowed = ids_in(matcher, 49_280)
    assert {tokenizer.token_bytes(token) for token in allowed} == {b"%d" % digit for digit in range(10)}
    push_all(matcher, tokenizer.encode("1984", special=False))
    assert matcher.ended


def test_a_character_that_the_vocabulary_lacks_leaves_no_token(compiler: Compiler, tokenizer: Tokenizer) -> None:
    lacking = "\U00050000"  # its first byte is one of 21 that have no token
    matcher = compiler(Constraint(ConstraintKind.JSON_SCHEMA, json.dumps({"enum": ["a", f"b{lacking}"]})))
    push_all(matcher, tokenizer.encode('"b', special=False))
    assert ids_in(matcher, 49_280) == set()
    matcher.pop(1)
    push_all(matcher, tokenizer.encode('a"', special=False))
    assert matcher.ended
