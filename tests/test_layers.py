"""Who may import whom: the design's table, checked over the syntax tree of every module. A new arrow is a decision."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src"
ANYWHERE = ("outrider.errors", "outrider.api", "outrider.core")
DRAFTER = ("outrider.drafters.base",)

# Package or module -> what of the house it may import besides ANYWHERE and itself; the longest matching name counts.
HOUSE: dict[str, tuple[str, ...]] = {
    # The face: names are imported when they are first used.
    "outrider": ("outrider.llm", "outrider.loading"),
    "outrider.__main__": ("outrider.cli",),
    "outrider.errors": (),
    "outrider.api": (),
    "outrider.core": (),
    "outrider.models": (),
    "outrider.backends": (),
    "outrider.backends.base": ("outrider.models.spec", "outrider.models.headfile"),
    "outrider.backends.native": ("outrider.backends.base", "outrider.models", "outrider._native"),
    "outrider.backends.torch": ("outrider.backends.base", "outrider.models"),
    "outrider.drafters": (),
    "outrider.drafters.base": (),
    "outrider.drafters.ngram": DRAFTER,
    "outrider.drafters.growing": (),
    "outrider.drafters.suffix": (*DRAFTER, "outrider._native"),
    "outrider.drafters.predicted": (*DRAFTER, "outrider.drafters.growing"),
    "outrider.drafters.storeindex": (),
    "outrider.drafters.storefile": ("outrider.drafters.storeindex", "outrider._native"),
    "outrider.drafters.store": (*DRAFTER, "outrider.drafters.storefile", "outrider._native"),
    "outrider.drafters.recycle": (*DRAFTER, "outrider._native"),
    "outrider.drafters.worth": (),
    "outrider.drafters.blended": ("outrider.drafters.merge", "outrider.drafters.worth", *DRAFTER, "outrider._native"),
    "outrider.drafters.expecting": (*DRAFTER, "outrider.drafters.predicted"),
    "outrider.drafters.merge": (),
    "outrider.drafters.team": (*DRAFTER, "outrider.drafters.merge"),
    "outrider.drafters.hybrid": (*DRAFTER, "outrider.drafters.merge", "outrider.drafters.team"),
    "outrider.drafters.plugins": DRAFTER,
    "outrider.drafters.model": (
        *DRAFTER,
        "outrider.backends.base",
        "outrider.drafters.chains",
        "outrider.drafters.trees",
        "outrider.drafters.vocabularies",
    ),
    "outrider.drafters.chains": ("outrider.backends.base",),
    "outrider.drafters.trees": ("outrider.backends.base", "outrider.drafters.chains"),
    "outrider.drafters.vocabularies": (),
    "outrider.drafters.head": ("outrider._native", *DRAFTER, "outrider.backends.base", "outrider.drafters.growing"),
    "outrider.drafters.grammar": DRAFTER,
    "outrider.policy": ("outrider.policy.base",),
    "outrider.policy.base": (),
    "outrider.policy.goodput": ("outrider.policy.base", "outrider.cost.model", "outrider._native"),
    "outrider.cost": (),
    "outrider.cost.profile": ("outrider.cost.types", "outrider.backends.base"),
    "outrider.cost.drafting": ("outrider.cost.types", *DRAFTER),
    "outrider.constraints": (),
    "outrider.engine": (*DRAFTER, "outrider.backends.base", "outrider.policy.base", "outrider.constraints.base"),
    "outrider.plan": ("outrider.cost",),
    # They go through known answers with a drafter.
    "outrider.plan.here": ("outrider.cost", "outrider.plan.replay", *DRAFTER),
    "outrider.plan.replay": DRAFTER,
    "outrider.bench": (),
    "outrider.check": (),
    # A body becomes a Request as everywhere else; the planner's tab shows the planner's own figures.
    "outrider.server": ("outrider.asking",),
    "outrider.server.planner": ("outrider.server", "outrider.plan", "outrider.cost"),
    "outrider.train": ("outrider.models", "outrider.backends.base", "outrider.backends.native"),
    # What every face may be asked for; the Python face: a Generator with text on both sides.
    "outrider.asking": (),
    "outrider.machine": (),
    "outrider.llm": ("outrider.asking", "outrider.backends.base", "outrider.models"),
    "outrider.testing": (*DRAFTER, "outrider.backends.base", "outrider.policy.base", "outrider.models"),
}
EVERYTHING_BUT: dict[str, tuple[str, ...]] = {
    "outrider.loading": ("outrider.cli", "outrider.server"),
    "outrider.cli": (),
}
# No look at the clock, the disk, the network or global chance in the pure core.
IMPURE = {"time", "datetime", "random", "secrets", "os", "io", "pathlib", "logging", "socket", "tempfile", "subprocess"}
OUTSIDE: dict[str, set[str]] = {"outrider.core": {"numpy"}, "outrider.errors": set(), "outrider.api": set()}
# Libraries that only these packages may import, however late.
HEAVY = {
    "torch": ("outrider.train", "outrider.backends.torch"),
    "transformers": ("outrider.train", "outrider.backends.torch"),
    "llguidance": ("outrider.constraints",),
}


def modules() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports(source: str) -> set[str]:
    """Everything that a module imports, also inside functions; `from a import b` is a.b if that is a module, else a."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide arrows; write the whole name"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in MODULES or whole == "outrider._native" else str(node.module))
    return found


def under(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def entry(module: str, table: dict[str, tuple[str, ...]]) -> str | None:
    """The longest name in a table that covers a module; "outrider" covers nothing but itself."""
    covers = [name for name in table if name == module or (name != "outrider" and under(module, (name,)))]
    return max(covers, key=len, default=None)


def wrong_arrows(module: str, source: str) -> list[str]:
    """The imports of a module that the tables do not allow."""
    needed = imports(source)
    own = {name for name in needed if under(name, ("outrider",))}
    wrong = sorted(name for name in own if under(name, ("outrider.cli",)) and not may_use_cli(module))
    allowed = entry(module, HOUSE)
    free = entry(module, EVERYTHING_BUT)
    if free is not None:
        wrong += sorted(name for name in own if under(name, EVERYTHING_BUT[free]))
    elif allowed is None:
        wrong.append(f"{module} is not in the table")
    else:
        own_package = allowed if allowed != "outrider" else "outrider.__init__"
        may = (*ANYWHERE, own_package, *HOUSE[allowed])
        if under(module, ("outrider.errors", "outrider.api")):
            may = (own_package,)
        wrong += sorted(name for name in own if not under(name, may))
    for name in sorted(needed - own):
        top = name.partition(".")[0]
        pure = next((names for package, names in OUTSIDE.items() if under(module, (package,))), None)
        if pure is not None and (top in IMPURE or (top not in pure and top not in sys.stdlib_module_names)):
            wrong.append(name)
        if top in HEAVY and not under(module, HEAVY[top]):
            wrong.append(name)
    return wrong


def may_use_cli(module: str) -> bool:
    return under(module, ("outrider.cli", "outrider.__main__"))


@pytest.mark.parametrize("module", MODULES)
def test_arrows(module: str) -> None:
    assert wrong_arrows(module, MODULES[module].read_text()) == []


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("outrider.core.noise", "import random"),
        ("outrider.core.noise", "import tokenizers"),
        ("outrider.core.rules", "from outrider.backends.base import Draw"),
        ("outrider.core.rules", "def f():\n    import time"),
        ("outrider.api", "from outrider.core.types import Draft"),
        ("outrider.models.gguf", "from outrider.backends import base"),
        ("outrider.drafters.ngram", "from outrider.backends.base import Backend"),
        ("outrider.drafters.base", "import outrider.drafters.ngram"),
        ("outrider.engine.engine", "from outrider.drafters.ngram import NgramDrafter"),
        ("outrider.engine.engine", "from outrider.policy import fixed"),
        ("outrider.loading", "from outrider.cli.main import main"),
        ("outrider.engine.engine", "from outrider.constraints.compiler import Compiler"),
        ("outrider.llm", "import torch"),
        ("outrider.loading", "def f():\n    from llguidance import LLMatcher"),
        ("outrider.drafters.grammar", "import llguidance"),
        ("outrider.nowhere", "import os"),
        ("outrider", "from outrider.engine.engine import Engine"),
        ("outrider.engine.engine", "import outrider"),
    ],
)
def test_planted_arrows_are_caught(module: str, line: str) -> None:
    assert wrong_arrows(module, line) != []


def test_the_whole_house_was_seen() -> None:
    assert {"outrider", "outrider.core.noise", "outrider.engine.engine", "outrider.loading"} <= set(MODULES)
