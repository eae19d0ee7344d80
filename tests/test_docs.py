"""The Python examples of the documents run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run_examples(name: str) -> int:
    """Runs the document's Python blocks, one after the other in one namespace; returns how many there were."""
    text = (ROOT / name).read_text()
    blocks = list(re.finditer(r"```python\n(.*?)```", text, re.DOTALL))
    namespace: dict[str, object] = {"__name__": "example"}
    for block in blocks:
        # Blank lines in front give a failure the document's own line numbers.
        source = "\n" * text[: block.start(1)].count("\n") + block[1]
        exec(compile(source, name, "exec"), namespace)
    return len(blocks)


def test_drafters() -> None:
    assert run_examples("docs/drafters.md") == 4


def test_sampling() -> None:
    assert run_examples("docs/sampling.md") == 1


@pytest.mark.model
@pytest.mark.usefixtures("default_model")
def test_readme(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_examples("README.md") == 1
    assert capsys.readouterr().out.strip()


@pytest.mark.model
@pytest.mark.usefixtures("default_model")
def test_exactness() -> None:
    assert run_examples("docs/exactness.md") == 1


@pytest.mark.model
@pytest.mark.usefixtures("default_model")
def test_constraints() -> None:
    assert run_examples("docs/constraints.md") == 1
