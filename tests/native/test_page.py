"""docs/numerics.md names tests that exist and numbers that are in the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "numerics.md").read_text()
SECTIONS = PAGE.split("\n## ")[1:]


def test_every_named_test_exists() -> None:
    named = re.findall(r"`((?:[\w/]+/)?test_\w+\.py)::(test_\w+)`", PAGE)
    assert len(named) > 40
    missing = []
    for file, name in named:
        path = ROOT / file if "/" in file else Path(__file__).parent / file
        if not path.exists() or f"def {name}(" not in path.read_text():
            missing.append(f"{file}::{name}")
    assert missing == []


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: str(section.partition("\n")[0]))
def test_every_section_says_what_holds_it(section: str) -> None:
    assert "*Held by* " in section or section.startswith("Not promised")


def test_coefficients_are_those_of_the_code() -> None:
    (section,) = [s for s in SECTIONS if s.startswith("exp and log")]
    number = r"-?\d+\.\d{4,}(?:e[+-]?\d+)?"
    code = (ROOT / "native" / "src" / "kernels" / "math.h").read_text()
    stated = {float(text) for text in re.findall(number, section)}
    assert len(stated) == 18
    assert {float(text) for text in re.findall(number, code)} == stated
