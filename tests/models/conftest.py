"""Tiny model files, made once, and the default model's tokenizer."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.models import gguf
from outrider.models.spec import TokenizerData
from outrider.models.tokenizer import Tokenizer
from outrider.testing.gguf_maker import tiny_llama


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small, well-formed model file; read-only."""
    return tiny_llama(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


@pytest.fixture(scope="session")
def tiny_data(tiny: Path) -> TokenizerData:
    return gguf.read(tiny).tokenizer


@pytest.fixture(scope="session")
def tiny_tokenizer(tiny_data: TokenizerData) -> Tokenizer:
    return Tokenizer(tiny_data)


@pytest.fixture(scope="session")
def default_tokenizer(default_model: Path) -> Tokenizer:
    return Tokenizer(gguf.read(default_model).tokenizer)
