"""The default model, and prompts of Spec-Bench as its chat template writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.model.answers import World

from outrider.backends.native import NativeBackend
from outrider.constraints.compiler import Compiler
from outrider.constraints.vocabulary import Vocabulary
from outrider.models import gguf
from outrider.models.chat import ChatTemplate
from outrider.models.spec import ModelFile
from outrider.models.tokenizer import Tokenizer

GROUPS = ("translation", "summarization", "qa", "math_reasoning", "rag")
OTHERS = "mt_bench"
PER_GROUP = 4

Prompts = dict[str, list[list[int]]]  # group -> ids of its prompts


@pytest.fixture(scope="session")
def model_file(default_model: Path) -> ModelFile:
    return gguf.read(default_model)


@pytest.fixture(scope="session")
def chat(model_file: ModelFile) -> ChatTemplate:
    return ChatTemplate(model_file.tokenizer.chat_template)


@pytest.fixture(scope="session")
def world(model_file: ModelFile) -> Iterator[World]:
    """The model as it is loaded by default; whoever uses it leaves no sequence open."""
    backend = NativeBackend(model_file)
    tokenizer = Tokenizer(model_file.tokenizer)
    encode = partial(tokenizer.encode, special=False)
    vocabulary = Vocabulary(
        backend.vocab, tokenizer.vocab, tokenizer.token_bytes, tokenizer.is_special, tokenizer.eos_ids, encode
    )
    yield World(backend, tokenizer, matchers=Compiler(vocabulary))
    assert backend.open_sequences == 0


@pytest.fixture(scope="session")
def prompts(world: World, chat: ChatTemplate, specbench: Path) -> Prompts:
    """Four first turns of each group, spread over its questions."""
    turns: dict[str, list[str]] = {}
    for line in specbench.read_text("utf-8").splitlines():
        question = json.loads(line)
        group = question["category"] if question["category"] in GROUPS else OTHERS
        turns.setdefault(group, []).append(question["turns"][0])
    assert sorted(turns) == sorted([*GROUPS, OTHERS])
    return {
        group: [
            world.tokenizer.encode_prompt(chat.render(turn), special=True)
            for turn in of_group[:: len(of_group) // PER_GROUP][:PER_GROUP]
        ]
        for group, of_group in turns.items()
    }
