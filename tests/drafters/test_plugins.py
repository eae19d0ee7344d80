"""Drafters of other packages: the one in docs/plugins.md, installed as a distribution; and plugins that are no good."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
from tests.cli.scripted import SKY, ScriptedModel, tools

from outrider.api import Request
from outrider.cli.main import main
from outrider.cli.tools import Load
from outrider.drafters import plugins
from outrider.drafters.base import Drafter
from outrider.engine.engine import Engine
from outrider.errors import UsageError
from outrider.policy.fixed import Fixed
from outrider.testing.table import RandomLaw, TableBackend
from outrider.testing.text import ByteDetokenizer

DOCUMENT = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text()
LONGEST = 25  # lines, blank ones included
VOCAB = 12

Install: TypeAlias = Callable[[str, str, str], None]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", DOCUMENT, re.DOTALL)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a module, and a distribution with its entry points, on the path."""
    names: list[str] = []
    monkeypatch.syspath_prepend(tmp_path)

    def put(module: str, source: str, entries: str) -> None:
        names.append(module)
        (tmp_path / f"{module}.py").write_text(source)
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[outrider.drafters]\n{entries}\n")
        importlib.invalidate_caches()

    yield put
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def echo(install: Install) -> None:
    """The plugin of the document, as it stands there."""
    (table,) = blocks("toml")
    heading, entry = table.strip().splitlines()
    assert heading == '[project.entry-points."outrider.drafters"]'
    name, target = entry.replace('"', "").split(" = ")
    install(target.partition(":")[0], blocks("python")[0], f"{name} = {target}")


def ids(drafter: Drafter | None) -> tuple[tuple[int, ...], int, int]:
    """The answer's ids, and how many tokens were drafted and accepted."""
    engine = Engine(TableBackend(RandomLaw(VOCAB, 2, 5), VOCAB), drafter, Fixed(4), ByteDetokenizer, frozenset())
    chunks = list(engine.generate([Request([1, 2, 3], max_tokens=80)]))
    usage = chunks[-1].usage
    assert usage is not None
    return tuple(token for chunk in chunks for token in chunk.token_ids), usage.drafted, usage.accepted


@pytest.mark.usefixtures("echo")
def test_the_document_s_plugin_drafts() -> None:
    assert len(blocks("python")[0].splitlines()) <= LONGEST
    drafter = plugins.make("echo")
    assert drafter.name == "echo"
    assert plugins.make("echo") is not drafter
    answer, drafted, accepted = ids(drafter)
    assert answer == ids(None)[0]
    assert len(answer) == 80
    assert drafted > accepted > 0


def test_the_document_s_examples_run() -> None:
    namespace: dict[str, object] = {"__name__": "example"}
    for source in blocks("python"):
        exec(compile(source, "docs/plugins.md", "exec"), namespace)
    assert len(blocks("python")) == 2


@pytest.mark.usefixtures("echo")
def test_a_plugin_s_name_is_a_drafter_s_name_on_the_command_line() -> None:
    loads: list[Load] = []
    assert main(["run", "hi", "--drafter", "echo"], tools(ScriptedModel(SKY), loads)) == 0
    assert [load.drafter for load in loads] == ["echo"]


def test_a_name_that_is_built_in_is_never_looked_up(install: Install) -> None:
    install("usurper", "raise RuntimeError('imported')", "ngram = usurper:Ngram")
    plugins.check("ngram")


@pytest.mark.usefixtures("echo")
def test_an_unknown_name_lists_what_there_is(install: Install) -> None:
    install("other", "", "zigzag = other:Nothing")
    says = "^drafter is 'magic'; built in are 'auto', 'ngram', .*'none'; installed plugins: 'echo', 'zigzag'$"
    for look_up in (plugins.check, plugins.make):
        with pytest.raises(UsageError, match=says):
            look_up("magic")


def test_no_plugins() -> None:
    with pytest.raises(UsageError, match=r"installed plugins: none$"):
        plugins.check("magic")


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("import nowhere_at_all", "could not be made (ModuleNotFoundError: No module named 'nowhere_at_all'); mend or"),
        ("1 / 0", "could not be made (ZeroDivisionError: division by zero)"),
        ("", "could not be made (AttributeError: module 'bad' has no attribute 'Made')"),
        ("Made = 5", "could not be made (TypeError: 'int' object is not callable)"),
        ("def Made(model): return model", "could not be made (TypeError: Made() missing 1 required"),
        ("class Made:\n    begin = propose = print", "is a Made without observe, end; the entry point has to name"),
        ("def Made(): return None", "is a NoneType without begin, propose, observe, end;"),
    ],
)
def test_a_bad_plugin_is_one_clear_error(source: str, says: str, install: Install) -> None:
    install("bad", source, "bad = bad:Made")
    plugins.check("bad")
    with pytest.raises(UsageError, match=re.escape(f"drafter 'bad' of the plugin 'bad:Made' {says}")):
        plugins.make("bad")


def test_importing_the_module_brings_nothing_heavy() -> None:
    code = "import sys, outrider.drafters.plugins; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
