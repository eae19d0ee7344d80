"""dev.py: what it does when, and that nothing half-done counts as done. Steps are written down, not taken."""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

DEV = Path(__file__).parents[1] / "dev.py"
PYPROJECT = """
[build-system]
requires = ["builder"]
[project]
dependencies = ["numpy"]
[project.optional-dependencies]
test = ["pytest"]
oracle = ["torch"]
"""


class Steps:
    """Stands in for dev.step: writes the commands down, and fails on request."""

    def __init__(self, dev: ModuleType) -> None:
        self._dev = dev
        self.done: list[str] = []
        self.fail_at = ""

    def __call__(self, title: str, command: list[str], log: str, lock: int) -> None:
        kind = "venv" if "venv" in command else "build" if "--editable" in command else "install"
        self.done.append(kind if kind != "install" else " ".join(["install", *command[command.index("builder") :]]))
        if kind == self.fail_at:
            raise self._dev.Trouble(f"{title} failed")
        if kind == "venv":
            binaries = Path(command[-1]) / "bin"
            binaries.mkdir()
            (binaries / "python").touch()

    def take(self) -> list[str]:
        done, self.done = self.done, []
        return [one.split()[0] for one in done]


@pytest.fixture
def dev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, at home in a small clone whose path has a space."""
    spec = importlib.util.spec_from_file_location("dev", DEV)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    root = tmp_path / "a clone"
    (root / "native").mkdir(parents=True)
    (root / "native" / "engine.cpp").write_text("int one;")
    (root / "pyproject.toml").write_text(PYPROJECT)
    monkeypatch.setattr(module, "ROOT", str(root))
    monkeypatch.setattr(module, "require_compiler", lambda: None)
    return module


@pytest.fixture
def steps(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Steps:
    steps = Steps(dev)
    monkeypatch.setattr(dev, "step", steps)
    return steps


def test_the_second_time_there_is_nothing_to_do(dev: ModuleType, steps: Steps) -> None:
    dev.ensure(dev.MAIN, set())
    assert steps.take() == ["venv", "install", "build"]
    dev.ensure(dev.MAIN, set())
    assert steps.take() == []


@pytest.mark.parametrize("name", ["native/engine.cpp", "native/new.h", "pyproject.toml"])
def test_a_change_is_built_without_a_new_environment(name: str, dev: ModuleType, steps: Steps) -> None:
    dev.ensure(dev.MAIN, {"test"})
    steps.take()
    with open(os.path.join(dev.ROOT, name), "a") as file:
        file.write("\n# more\n")
    dev.ensure(dev.MAIN, set())
    assert steps.done[0].endswith("numpy pytest")  # what was there stays
    assert steps.take() == ["install", "build"]


@pytest.mark.parametrize("fail_at", ["venv", "install", "build"])
def test_what_failed_is_not_believed(fail_at: str, dev: ModuleType, steps: Steps) -> None:
    steps.fail_at = fail_at
    for _ in range(2):
        with pytest.raises(dev.Trouble, match="failed"):
            dev.ensure(dev.MAIN, set())
        assert not dev.is_ready(dev.MAIN, set())
    steps.fail_at = ""
    dev.ensure(dev.MAIN, set())
    assert dev.is_ready(dev.MAIN, set())


def test_an_extra_that_failed_does_not_stick(dev: ModuleType, steps: Steps) -> None:
    dev.ensure(dev.MAIN, {"test"})
    steps.fail_at = "install"
    with pytest.raises(dev.Trouble):
        dev.ensure(dev.MAIN, {"test", "oracle"})
    steps.fail_at = ""
    steps.take()
    dev.ensure(dev.MAIN, {"test"})
    assert "torch" not in steps.done[0]
    dev.ensure(dev.MAIN, {"oracle"})
    assert "torch" in steps.done[-2]
    assert dev.is_ready(dev.MAIN, {"oracle", "test"})


def test_a_moved_clone_and_a_lost_interpreter_get_a_new_environment(
    dev: ModuleType, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    dev.ensure(dev.MAIN, set())
    os.unlink(dev.MAIN.python)
    steps.take()
    dev.ensure(dev.MAIN, set())
    assert steps.take() == ["venv", "install", "build"]
    moved = dev.ROOT + " elsewhere"
    os.rename(dev.ROOT, moved)
    monkeypatch.setattr(dev, "ROOT", moved)
    dev.ensure(dev.MAIN, set())
    assert steps.take() == ["venv", "install", "build"]


def test_an_environment_of_somebody_else_is_left_alone(dev: ModuleType, steps: Steps) -> None:
    mine = Path(dev.ROOT, ".venv", "mine")
    mine.parent.mkdir()
    mine.touch()
    with pytest.raises(dev.Trouble, match=r"is not dev\.py's own"):
        dev.ensure(dev.MAIN, set())
    assert mine.exists()
    assert steps.take() == []


def test_a_damaged_note_is_an_unfinished_set_up(dev: ModuleType, steps: Steps) -> None:
    dev.ensure(dev.MAIN, set())
    Path(dev.MAIN.folder, dev.STAMP).write_text('{"base": "3.1')
    steps.take()
    dev.ensure(dev.MAIN, set())
    assert steps.take() == ["venv", "install", "build"]


def test_a_failing_step_shows_its_last_lines(dev: ModuleType, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('early'); [print('line', i) for i in range(40)]; raise SystemExit(7)"]
    with dev.locked() as lock, pytest.raises(dev.Trouble) as caught:
        dev.step("trying", command, str(tmp_path / "log"), lock)
    message = str(caught.value)
    assert "trying failed (exit status 7)" in message
    assert "line 39" in message
    assert "early" not in message


def test_all_checks_run_and_one_failure_counts(
    dev: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bad = [sys.executable, "-c", "raise SystemExit(3)"]
    good = [sys.executable, "-c", "print('ran')"]
    assert dev.run_all([good]) == 0
    assert dev.run_all([bad, good]) == 1
    out, err = capfd.readouterr()
    assert out.count("ran") == 2
    assert "FAILED: python" in err


def test_tests_that_take_all_cores_run_alone(dev: ModuleType) -> None:
    side_by_side, alone = dev.suites([])
    ignored = {part.removeprefix("--ignore=") for part in side_by_side if part.startswith("--ignore=")}
    assert "tests" in side_by_side
    assert ignored == set(alone[3:]) == {"tests/native", "tests/model", "tests/oracle"}
    assert dev.suites(["-k", "name"]) == [[dev.MAIN.python, "-m", "pytest", "-k", "name"]]


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    dev: dict[str, Any] = runpy.run_path(str(DEV))
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(dev["Trouble"], match=r"no C\+\+ compiler was found: .*apt install g\+\+"):
        dev["require_compiler"]()
    monkeypatch.setenv("CXX", "no-such-compiler -O2")
    with pytest.raises(dev["Trouble"], match="CXX names no-such-compiler"):
        dev["require_compiler"]()


def test_an_old_python_gets_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 4, "final", 0))
    with pytest.raises(SystemExit, match=r"Python 3\.11 or newer is needed"):
        runpy.run_path(str(DEV))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["walk"], "unknown verb 'walk'"),
        (["setup", "--orakel"], "setup knows only --oracle, not '--orakel'"),
        (["check", "src"], "check takes no arguments, not 'src'"),
    ],
)
def test_nonsense(arguments: list[str], says: str, dev: ModuleType, steps: Steps) -> None:
    with pytest.raises(dev.Trouble, match=says):
        dev.main(arguments)
    assert steps.take() == []


def test_help_names_every_verb(dev: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert dev.main([]) == 0
    text = capsys.readouterr().out
    assert all(f"\n  {verb} " in text for verb in dev.VERBS)
