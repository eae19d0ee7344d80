"""`outrider store`: texts, ids and the model's own answers become a store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.scripted import SKY, ScriptedModel, tools
from tests.cli.sites import SiteMaker, maker
from tests.plan.worlds import VOCAB

from outrider.api import Request, Sampling
from outrider.cli.main import main
from outrider.cli.tools import Tools, Words
from outrider.drafters.store import StoreDrafter
from outrider.drafters.storefile import StoreFile

__all__ = ["maker"]  # the fixture

DIGEST = bytes(range(100, 132))


def words(model: str | None) -> Words:
    return Words(f"words of {model}", VOCAB, DIGEST, lambda text: [ord(letter) % VOCAB for letter in text])


DOORS = replace(tools(ScriptedModel(SKY)), words=words)


def text_of(path: Path) -> list[int]:
    """The ids of a store, documents divided by -1."""
    return [token - 1 for token in StoreFile(path).arrays.text.tolist()]


def built(folder: Path, *files: Path) -> list[int]:
    out = folder / "made.store"
    assert main(["store", "build", "--out", str(out), *map(str, files)], DOORS) == 0
    return text_of(out)


def test_each_text_is_a_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "b"
    first.write_bytes(b"\xef\xbb\xbfab")
    second.write_text("c")
    ids = [ord(letter) % VOCAB for letter in "abc"]
    assert built(tmp_path, first, second) == [*ids[:2], -1, ids[2], -1]
    assert "made.store: 3 tokens of 2 documents, 0.0 MB" in capsys.readouterr().out
    store = StoreFile(tmp_path / "made.store")
    assert (store.vocab, store.tokenizer) == (VOCAB, DIGEST)
    StoreDrafter(store, DIGEST)


def test_lines_hold_text_or_ids(tmp_path: Path) -> None:
    lines = tmp_path / "log.jsonl"
    entries = [{"text": "ab"}, {"token_ids": [3, 1], "text": "zz"}, {"token_ids": [2], "tokenizer": DIGEST.hex()}]
    lines.write_text("\n\n".join(map(json.dumps, entries)))
    assert built(tmp_path, lines) == [ord("a") % VOCAB, ord("b") % VOCAB, -1, 3, 1, -1, 2, -1]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("nonsense", "line 2 is not JSON (Expecting value"),
        ("[" * 100_000, "line 2 is not JSON"),
        ("[1, 2]", "line 2 has neither token_ids"),
        ('{"ids": [1]}', "line 2 has neither token_ids"),
        (f'{{"token_ids": [{VOCAB}]}}', f"line 2 has neither token_ids in 0..{VOCAB - 1} nor text"),
        ('{"token_ids": [-1], "text": "a"}', "line 2 has neither token_ids"),
        ('{"token_ids": [true]}', "line 2 has neither token_ids"),
        ('{"token_ids": "12"}', "line 2 has neither token_ids"),
        ('{"token_ids": [1], "tokenizer": "00"}', "line 2 has ids of another tokenizer than words of None's"),
    ],
)
def test_bad_lines(tmp_path: Path, line: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"text": "a"}\n' + line)
    assert says in refused(["build", "--out", str(tmp_path / "no.store"), str(path)], capsys)
    assert not (tmp_path / "no.store").exists()


def refused(arguments: Sequence[str], capsys: pytest.CaptureFixture[str], doors: Tools = DOORS) -> str:
    assert main(["store", *arguments], doors) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return err


def test_files_that_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, latin, empty = tmp_path / "good", tmp_path / "latin", tmp_path / "empty"
    good.write_text("a")
    latin.write_bytes(b"caf\xe9")
    empty.write_bytes(b"")
    out = ["build", "--out", str(tmp_path / "x.store")]
    assert "none cannot be read (No such file" in refused([*out, str(tmp_path / "none")], capsys)
    assert "latin is not UTF-8" in refused([*out, str(latin)], capsys)
    assert "empty is empty" in refused([*out, str(empty)], capsys)
    nowhere = str(tmp_path / "no" / "x.store")
    assert "cannot be written (No such file" in refused(["build", "--out", nowhere, str(good)], capsys)
    assert "--out" in refused(["build", str(good)], capsys)


@pytest.fixture
def doors(maker: SiteMaker) -> Tools:
    return replace(maker.doors(), words=words)


def prompts(folder: Path, *lines: str) -> str:
    path = folder / "prompts.txt"
    path.write_text("\n".join(lines))
    return str(path)


def generated(folder: Path, doors: Tools, *arguments: str) -> list[list[int]]:
    out = folder / "answers.jsonl"
    asked = prompts(folder, *(f"a prompt, number {number}" for number in range(9)))
    assert main(["store", "generate", "--prompts", asked, "--out", str(out), *arguments], doors) == 0
    entries = [json.loads(line) for line in out.read_text().splitlines()]
    assert {entry["tokenizer"] for entry in entries} == {DIGEST.hex()}
    return [entry["token_ids"] for entry in entries]


def test_answers_are_the_models_own(
    tmp_path: Path, doors: Tools, maker: SiteMaker, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of each prompt the greedy one, then the drawn ones, each behind the last 8 ids of the prompt."""
    found = generated(tmp_path, doors, "--max-tokens", "12", "--samples", "2", "--seed", "5", "--temperature", "0.9")
    plain = doors.site(None, None).generator("none", 0)
    expected: list[list[int]] = []
    asked = [tuple(maker._encode(f"a prompt, number {number}")) for number in range(9)]
    for group in (asked[:8], asked[8:]):
        requests = [Request(prompt, 12) for prompt in group]
        requests += [
            Request(prompt, 12, Sampling(temperature=0.9, seed=5, sample=sample))
            for prompt in group
            for sample in (0, 1)
        ]
        for request in requests:
            answer = [token for chunk in plain.generate([request]) for token in chunk.token_ids]
            expected += [[*request.prompt[-8:], *answer]] if answer else []
    assert found == expected
    assert len({tuple(ids) for ids in found}) > 18, "the samples are alike, so this sees nothing"
    out, err = capsys.readouterr()
    assert f"answers.jsonl: {len(found)} answers more, {sum(map(len, found))} tokens" in out
    assert "answered 8 of 9 prompts\nanswered 9 of 9 prompts" in err
    assert built(tmp_path, tmp_path / "answers.jsonl") == [id_ for ids in found for id_ in (*ids, -1)]


def test_answers_are_added_to_the_file(tmp_path: Path, doors: Tools) -> None:
    first = generated(tmp_path, doors, "--samples", "0", "--max-tokens", "3")
    assert len(first) <= 9
    assert generated(tmp_path, doors, "--samples", "0", "--max-tokens", "3") == [*first, *first]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--samples", "-1"], "--samples is -1"),
        (["--samples", "129"], "--samples is 129"),
        (["--temperature", "0"], "--temperature is 0.0: give 0.01 to 100, or --samples 0"),
        (["--max-tokens", "0"], "--max-tokens is 0"),
        (["--seed", "-1"], "--seed is -1"),
        (["--threads", "0"], "--threads is 0"),
        (["--prompts", "/nowhere/prompts"], "--prompts /nowhere/prompts cannot be read"),
        (["--out", "/nowhere/answers"], "--out /nowhere/answers cannot be written"),
    ],
)
def test_bad_flags(
    tmp_path: Path, doors: Tools, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    good = ["--prompts", prompts(tmp_path, "hello"), "--out", str(tmp_path / "answers")]
    assert says in refused(["generate", *good, *arguments], capsys, doors)
    assert not (tmp_path / "answers").exists()


def test_a_prompt_that_does_not_fit(tmp_path: Path, doors: Tools, capsys: pytest.CaptureFixture[str]) -> None:
    asked = prompts(tmp_path, "hello", "x" * 2000)
    says = refused(["generate", "--prompts", asked, "--out", str(tmp_path / "answers")], capsys, doors)
    assert "has 2000 tokens and leaves no room for an answer in the context of 2000" in says


def test_the_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store"], DOORS) == 0
    assert {"build", "generate"} <= set(capsys.readouterr().out.split())
