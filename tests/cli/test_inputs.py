"""Files and standard input that say what form the answer must have."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from tests.cli.scripted import SKY, ScriptedModel, tools

from outrider.asking import Form, Guessing
from outrider.cli.main import main
from outrider.cli.tools import Load

SCHEMA = '{"type": "object"}'
GRAMMAR = 'start: "a"\n | "b"\n'


def asked(arguments: list[str]) -> Form:
    """The form that the model was asked for."""
    model = ScriptedModel(SKY)
    assert main(["run", *arguments], tools(model)) == 0
    ((_, ask),) = model.asked
    return ask.form


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    """What stands in standard input, which is no terminal."""
    content = io.BytesIO()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(content, encoding="utf-8"))
    return content


def test_files_are_read(tmp_path: Path) -> None:
    schema, grammar = tmp_path / "hero.json", tmp_path / "ab.lark"
    schema.write_text(SCHEMA)
    grammar.write_text(GRAMMAR)
    assert asked(["hi", "--json-schema", str(schema)]) == Form(json_schema=SCHEMA)
    assert asked(["hi", "--grammar", str(grammar), "--constrain-after", "Answer:"]) == Form(
        grammar=GRAMMAR, constrain_after="Answer:"
    )
    assert asked(["hi", "--json-object"]) == Form(json_object=True)


def test_a_mark_and_foreign_line_ends_are_no_part_of_a_file(tmp_path: Path) -> None:
    grammar, schema = tmp_path / "ab.lark", tmp_path / "hero.json"
    grammar.write_bytes(b"\xef\xbb\xbf" + GRAMMAR.replace("\n", "\r\n").encode())
    schema.write_bytes(b'\xef\xbb\xbf{"type":\r\n"object"}\r\n')
    assert asked(["hi", "--grammar", str(grammar)]).grammar == GRAMMAR
    assert asked(["hi", "--json-schema", str(schema)]).json_schema == '{"type":\n"object"}\n'


def test_a_schema_from_standard_input(stdin: io.BytesIO) -> None:
    stdin.write(SCHEMA.encode())
    stdin.seek(0)
    assert asked(["hi", "--json-schema", "-"]).json_schema == SCHEMA


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read (No such file or directory)"),
        (b"", "is empty"),
        (b"\xef\xbb\xbf \r\n", "is empty"),
        (b'{"caf\xe9": true}', "is not UTF-8 (byte 0xe9 at offset 5)"),
        (b"\xff\xfe{\x00}\x00", "is not UTF-8 (byte 0xff at offset 0)"),
        (b'{"type": object}', "is not JSON: Expecting value: line 1 column 10"),
        (b"[" * 100_000, "is not JSON: "),
    ],
)
def test_bad_schemas(content: bytes | None, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "hero.json"
    if content is not None:
        path.write_bytes(content)
    assert refused(["hi", "--json-schema", str(path)], capsys).startswith(f"outrider: --json-schema {path} {says}")


def test_a_folder_is_no_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "cannot be read (Is a directory)" in refused(["hi", "--json-schema", str(tmp_path)], capsys)
    assert "cannot be read (Is a directory)" in refused(["hi", "--grammar", str(tmp_path)], capsys)


@pytest.mark.parametrize("prompt", [[], ["-"]])
def test_standard_input_is_read_once(prompt: list[str], stdin: io.BytesIO, capsys: pytest.CaptureFixture[str]) -> None:
    stdin.write(b"both")
    stdin.seek(0)
    says = "--grammar - and the prompt would both be read from standard input"
    assert refused([*prompt, "--grammar", "-"], capsys).startswith(f"outrider: {says}")


def test_a_closed_input_is_no_schema(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert "which is closed" in refused(["hi", "--json-schema", "-"], capsys)


def test_a_prediction_is_a_file_or_standard_input(tmp_path: Path, stdin: io.BytesIO) -> None:
    path = tmp_path / "draft.txt"
    path.write_bytes(b"\xef\xbb\xbf  one\r\ntwo\r\n")
    stdin.write(b"three\n")
    stdin.seek(0)
    found: list[Guessing] = []
    for name in (str(path), "-"):
        model = ScriptedModel(SKY)
        assert main(["run", "hi", "--prediction", name], tools(model)) == 0
        found += [ask.guessing for _, ask in model.asked]
    assert found == [Guessing(prediction="  one\ntwo\n"), Guessing(prediction="three\n")]


def test_bad_predictions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty, foreign = tmp_path / "empty.txt", tmp_path / "foreign.txt"
    empty.write_bytes(b"\n")
    foreign.write_bytes(b"caf\xe9")
    for path, says in (
        (empty, "is empty: it should hold text that the answer may repeat"),
        (foreign, "is not UTF-8 (byte 0xe9 at offset 3)"),
        (tmp_path, "cannot be read (Is a directory)"),
    ):
        given = ["hi", "--prediction", str(path)]
        assert refused(given, capsys).startswith(f"outrider: --prediction {path} {says}")


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one sentence of a refusal before anything is loaded."""
    loads: list[Load] = []
    assert main(["run", *arguments], tools(ScriptedModel(SKY), loads)) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), loads) == ("", 1, [])
    return err
