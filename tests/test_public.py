"""The public face: light to import, sorted, complete."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys

import pytest

import outrider
from outrider import api


def test_all_is_sorted_and_every_name_exists() -> None:
    # Capitals first, as sorted() has them with the acronym in front.
    assert outrider.__all__ == sorted(outrider.__all__, key=lambda name: (not name.isupper(), name))
    assert dir(outrider) == sorted(outrider.__all__)
    for name in outrider.__all__:
        assert getattr(outrider, name) is getattr(outrider, name)


def test_whatever_the_public_values_are_made_of_is_public() -> None:
    values = [getattr(outrider, name) for name in ("Request", "Sampling", "Chunk", "Result", "Usage", "Pass")]
    texts = [str(field.type) for value in values for field in dataclasses.fields(value)]
    parts = {word for text in texts for word in re.findall(r"\b[A-Z]\w+", text) if hasattr(api, word)}
    assert {"Sampling", "Constraint", "Logprob", "LogprobsMode", "Origin", "Usage"} <= parts
    assert parts - {"Sequence"} <= set(outrider.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'outrider' has no attribute 'speculate'"):
        outrider.speculate  # noqa: B018


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import outrider, sys; print(*sorted(name for name in sys.modules if name.partition('.')[0] in "
    code += "('numpy', 'tokenizers', 'gguf', 'jinja2', 'llguidance', 'torch', 'outrider')))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.split() == ["outrider"]


def test_load_stays_a_function_whatever_is_imported_first() -> None:
    import outrider.loading

    assert callable(outrider.load)
    assert outrider.load is outrider.loading.load
