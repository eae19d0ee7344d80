"""What holds for the files of the repository themselves."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SKIPPED = {".git", ".venv", ".venv-sanitize", "build", "dist", "__pycache__"}
LONGEST_FILE = 400
LONGEST_FUNCTION = 60
# Written so that this file does not contain what it looks for.
REGISTRIES = [
    r"(files\.)?py" + r"thonhosted\.org",
    r"(test\.)?py" + r"pi\.org",
    r"registry\.npm" + r"js\.org",
    r"deb\.deb" + r"ian\.org",
]
MACHINE_PATHS = [r"(?<![\w.])/" + name + r"/\w" for name in ("work", "root", "tmp/w", "home")]


def texts() -> list[tuple[str, str]]:
    """Name and content of each text file that belongs to the repository: what git tracks or would track."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split("\0")
        paths = [ROOT / name for name in listed if name]
    except (OSError, subprocess.CalledProcessError):  # an unpacked archive
        paths = [path for path in ROOT.rglob("*") if not SKIPPED & set(path.relative_to(ROOT).parts)]
    found = []
    for path in sorted(paths):
        if path.is_file():
            content = path.read_bytes()
            if b"\0" not in content:
                found.append((str(path.relative_to(ROOT)), content.decode()))
    return found


def python_files() -> list[Path]:
    return sorted([ROOT / "dev.py", *(ROOT / "src").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")])


@pytest.mark.parametrize("pattern", REGISTRIES + MACHINE_PATHS)
def test_no_registry_and_no_place_of_one_machine_is_named(pattern: str) -> None:
    everything = texts()
    assert {"README.md", "dev.py", "pyproject.toml"} <= {name for name, _ in everything}
    assert [name for name, text in everything if re.search(pattern, text)] == []


def test_files_and_functions_are_short() -> None:
    files = python_files()
    assert len(files) > 20
    too_long = []
    for path in files:
        text = path.read_text()
        lines = len(text.splitlines())
        if lines >= LONGEST_FILE:
            too_long.append(f"{path.relative_to(ROOT)}: {lines} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                if length >= LONGEST_FUNCTION:
                    too_long.append(f"{path.relative_to(ROOT)}: {node.name} has {length} lines")
    assert too_long == []


def test_every_native_file_is_short() -> None:
    files = [path for path in (ROOT / "native").rglob("*") if path.suffix in {".cpp", ".h"}]
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in files}
    assert {name: length for name, length in lengths.items() if length >= LONGEST_FILE} == {}


def test_no_loose_ends() -> None:
    marks = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX)\b")
    assert [name for name, text in texts() if marks.search(text)] == []


def test_commands_of_the_documents_exist() -> None:
    verbs = runpy.run_path(str(ROOT / "dev.py"))["VERBS"]
    named = {
        (name, verb)
        for name, text in texts()
        if name.endswith(".md") or name in {"Makefile", ".ci/run"}
        for verb in re.findall(r"python3 dev\.py ([a-z]+)", text)
    }
    assert {verb for name, verb in named if name == "README.md"} >= {"outrider", "test"}
    assert {(name, verb) for name, verb in named if verb not in verbs} == set()


def test_the_first_screen_has_exactly_two_commands() -> None:
    first = (ROOT / "README.md").read_text().split("## ")[0]
    (block,) = re.findall(r"```sh\n(.*?)```", first, re.DOTALL)
    commands = [line.partition("#")[0].split()[:3] for line in block.splitlines()]
    assert commands == [["python3", "dev.py", "outrider"], ["python3", "dev.py", "test"]]


def test_links_between_documents_lead_somewhere() -> None:
    broken = [
        f"{name}: {target}"
        for name, text in texts()
        if name.endswith(".md")
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
        if not (ROOT / name).parent.joinpath(target).exists()
    ]
    assert broken == []
