"""The oracle on the default model, computed once for all tests that compare with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.oracle.passages import PASSAGES
from tests.oracle.reference import DoubleArray, Reference

from outrider.models import gguf
from outrider.models.tokenizer import Tokenizer

Laws = dict[str, tuple[list[int], DoubleArray]]  # passage -> its ids, and log p [n, V] of the reference


@pytest.fixture(scope="session", autouse=True)
def _oracle() -> None:
    for package in ("torch", "transformers"):
        pytest.importorskip(package, reason=f"no {package} here; 'python3 dev.py setup --oracle' brings it")


@pytest.fixture(scope="session")
def default_laws(default_model: Path) -> Laws:
    """The reference's laws over the passages."""
    tokenizer = Tokenizer(gguf.read(default_model).tokenizer)
    reference = Reference(default_model)
    ids = {name: tokenizer.encode(text, special=True) for name, text in PASSAGES.items()}
    return {name: (tokens, reference.log_law(tokens)) for name, tokens in ids.items()}
