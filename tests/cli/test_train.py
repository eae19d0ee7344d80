"""`outrider train` over a table of laws and a trainer that only takes down what it is asked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.cli.trains import AROUND, DIGEST, MINE, World
from tests.plan.worlds import EOS, VOCAB
from tests.train.test_data import table

from outrider.api import Chunk, Generator, Request
from outrider.cli import real, train_data
from outrider.cli.main import main
from outrider.drafters.store import StoreDrafter
from outrider.drafters.storefile import StoreFile
from outrider.testing.gguf_maker import tiny_llama
from outrider.train import data
from outrider.train.types import Kind
from outrider.train.writing import Written


@pytest.fixture
def world() -> World:
    return World()


def train(world: World, *arguments: object) -> int:
    return main(["train", *map(str, arguments)], world.doors())


def refused(world: World, capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert train(world, *arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1), err
    return err


def test_a_store_of_the_targets_own_text(tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Each answer behind the last 8 ids of its prompt; one that ended has the end of text behind it."""
    out = tmp_path / "made"
    assert train(world, "--out", out, "--kind", "store", "--tokens", 400, "--seed", 5) == 0
    lines = list(data.lines(out / "data.jsonl", VOCAB))
    expected = []
    for line in lines:
        prompt = (1, 2, *line.prompt, 3)
        expected += [*prompt[-8:], *line.answer, *([EOS] if line.ended else []), -1]
    store = StoreFile(out / "answers.store")
    assert [token - 1 for token in store.arrays[0].tolist()] == expected
    StoreDrafter(store, DIGEST)
    assert {line.ended for line in lines} == {True, False}, "all answers ended alike, so this sees nothing"
    told, err = capsys.readouterr()
    assert re.search(rf"answers\.store: {store.tokens} tokens of {len(lines)} answers, 0\.0 MB", told)
    assert f"data.jsonl: {len(lines)} answers, {sum(len(line.answer) for line in lines)} tokens" in err


def test_what_a_store_was_made_of(tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert train(world, "--out", "my folder", "--kind", "store", "--tokens", 300, "--target", "x", "--seed", 5) == 0
    made = json.loads(Path("my folder/answers.json").read_text())
    assert made["target"] == {"name": "table x", "fingerprint": MINE.hex()}
    assert made["bytes"] == Path("my folder/answers.store").stat().st_size
    assert made["tokens"] == StoreFile("my folder/answers.store").tokens
    provenance = made["provenance"]
    assert provenance["command"] == ("outrider train --target x --out 'my folder' --kind store --tokens 300 --seed 5")
    lines = list(data.lines(Path("my folder/data.jsonl"), VOCAB))
    (origin,) = provenance["data"]
    assert origin["seeds"] == [lines[0].seed, lines[-1].seed]
    assert (origin["answers"], origin["tokens"]) == (len(lines), sum(len(line.answer) for line in lines))
    assert origin["recipe"]["temperature"] == 1.0
    assert provenance["versions"]["numpy"] == np.__version__


def test_the_same_command_goes_on(tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str]) -> None:
    def some(tokens: int) -> tuple[bytes, bytes]:
        assert train(world, "--out", tmp_path, "--kind", "store", "--tokens", tokens) == 0
        return (tmp_path / "data.jsonl").read_bytes(), (tmp_path / "answers.store").read_bytes()

    first = some(300)
    assert some(300) == first
    world.generator = never
    assert some(200) == first
    world.generator = table
    more = some(500)
    assert more[0].startswith(first[0])
    assert more[1] != first[1]


def never() -> Generator:
    raise AssertionError("the weights were read, and nothing was to be written")


def test_a_head_is_asked_for(tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(world, "--out", tmp_path, "--tokens", 200, "--threads", 2) == 0
    (asked,) = world.asked
    assert (asked.target, asked.out, asked.kind) == (Path("table.gguf"), tmp_path, Kind.EAGLE3)
    assert asked.data == (tmp_path / "data.jsonl",)
    assert (asked.epochs, asked.minutes, asked.threads, asked.resume) == (3.0, None, 2, True)
    assert asked.command == f"outrider train --out {tmp_path} --threads 2 --tokens 200 --seed 0"
    out = capsys.readouterr().out
    assert f"{tmp_path}: a head, trained on 12,345 tokens in 5 min" in out
    assert "held-out: 2.125 tokens a pass (0.750 0.500)" in out
    assert "it ended early" in out


def test_every_flag_reaches_the_trainer(tmp_path: Path, world: World) -> None:
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    world.generator = never
    flags = "--minutes 7.5 --draft-vocab 99 --depth 3 --memory 0.5 --learning-rate 2e-4 --start old --no-resume"
    flags += " --states kept"
    flags += " --seed 4 --kind medusa"
    assert train(world, "--out", tmp_path, "--data", files[0], "--data", files[1], *flags.split()) == 0
    (asked,) = world.asked
    assert asked.data == tuple(files)
    assert (asked.epochs, asked.minutes, asked.draft_vocab, asked.depth) == (None, 7.5, 99, 3)
    assert (asked.memory_bytes, asked.start, asked.resume, asked.seed) == (2**29, Path("old"), False, 4)
    assert asked.kind is Kind.MEDUSA
    assert (asked.learning_rate, asked.states) == (2e-4, Path("kept"))
    assert asked.command == (
        f"outrider train --out {tmp_path} --kind medusa --data {files[0]} --data {files[1]} --seed 4 --minutes 7.5 "
        "--draft-vocab 99 --depth 3 --memory 0.5 --states kept --learning-rate 0.0002 --start old"
    )


def prompts(folder: Path, *lines: str) -> Path:
    path = folder / "prompts.txt"
    path.write_text("\n".join(lines))
    return path


def test_prompts_are_answered_first(tmp_path: Path, world: World) -> None:
    """Each once, however often it is in the file; with --only-prompts nothing else."""
    path = prompts(tmp_path, "hello", "you", "", "hello")
    expected = [AROUND.around(tuple(ord(letter) % EOS for letter in text)) for text in ("hello", "you")]
    flags = ["--kind", "store", "--tokens", 500, "--prompts", path]
    assert train(world, "--out", tmp_path / "both", *flags) == 0
    both = list(data.lines(tmp_path / "both" / "data.jsonl", VOCAB))
    assert [line.prompt for line in both if line.seed is None] == expected == [line.prompt for line in both[:2]]
    assert len(both) > 4
    assert train(world, "--out", tmp_path / "only", *flags, "--only-prompts") == 0
    assert list(data.lines(tmp_path / "only" / "data.jsonl", VOCAB)) == both[:2]


def test_answers_as_they_are_asked_for(tmp_path: Path, world: World) -> None:
    flags = ["--tokens", 300, "--seed", 5, "--answer-tokens", 9, "--opening", 2]
    assert train(world, "--out", tmp_path, "--kind", "store", *flags) == 0
    found = list(data.lines(tmp_path / "data.jsonl", VOCAB))
    assert max(len(line.answer) for line in found) == 9
    assert {line.opening for line in found} <= {0, 1, 2}
    assert sum(line.opening == 2 for line in found) > len(found) / 2
    made = json.loads((tmp_path / "answers.json").read_text())["provenance"]
    assert made["command"] == (
        f"outrider train --out {tmp_path} --kind store --tokens 300 --answer-tokens 9 --opening 2 --seed 5"
    )
    assert (made["data"][0]["recipe"]["answer_tokens"], made["data"][0]["recipe"]["opening_tokens"]) == (9, 2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--tokens 0", "--tokens is 0: give 1 or more"),
        ("--answer-tokens 1", "--answer-tokens is 1: give 2 or more"),
        ("--opening -1", "--opening is -1"),
        ("--opening 9 --answer-tokens 9", "--opening is 9: give 0 or more, at most 8"),
        ("--data a --opening 2", "--data does not go together with --answer-tokens and --opening"),
        ("--data a --answer-tokens 9", "--data does not go together with --answer-tokens and --opening"),
        ("--seed -1", "--seed is -1"),
        ("--threads 0", "--threads is 0: give 1 or more, at most 256"),
        ("--epochs 0", "--epochs is 0.0"),
        ("--epochs nan", "--epochs is nan"),
        ("--minutes 0", "--minutes is 0.0"),
        ("--draft-vocab 1", "--draft-vocab is 1"),
        ("--depth 17", "--depth is 17: give 1 or more, at most 16"),
        ("--memory -1", "--memory is -1.0"),
        ("--epochs 1 --minutes 1", "--epochs and --minutes do not go together"),
        ("--data a --prompts b", "--data and --prompts do not go together"),
        ("--only-prompts", "--only-prompts needs --prompts"),
        ("--kind nonsense", "'nonsense' is not one of"),
        ("--prompts no/prompts", "--prompts no/prompts cannot be read (No such file"),
    ],
)
def test_bad_flags(tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str], arguments: str, says: str) -> None:
    out = tmp_path / "out"
    assert says in refused(world, capsys, "--out", out, *arguments.split())
    assert not out.exists()
    assert not world.asked


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "has no prompts: give one a line"),
        (b" \n\n", "has no prompts: give one a line"),
        (b"caf\xe9", "cannot be read ('utf-8' codec can't decode"),
        (b"\x89PNG\r\n\x1a\n\0", "cannot be read ('utf-8' codec can't decode"),
        (b'{"turns": 3}', "line 1 has the category null"),
        (b"x" * 398, "has 401 tokens and leaves no room for an answer in the context of 400"),
    ],
)
def test_prompts_that_are_none(
    tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str], raw: bytes, says: str
) -> None:
    path = tmp_path / "prompts"
    path.write_bytes(raw)
    assert says in refused(world, capsys, "--out", tmp_path / "out", "--prompts", path)
    assert not (tmp_path / "out").exists()


def test_a_folder_of_another_target(tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("head.json", "answers.json"):
        path = tmp_path / name
        path.write_text(json.dumps({"target": {"name": "llama", "fingerprint": "12" * 32}}))
        says = refused(world, capsys, "--out", tmp_path)
        assert "holds a drafter for llama (121212121212), and the target is table None (abababababab): name" in says
        path.write_text("nonsense")
        assert f"{name} cannot be read" in refused(world, capsys, "--out", tmp_path)
        path.write_text(json.dumps({"target": {"name": "table", "fingerprint": MINE.hex()}}))
    assert not (tmp_path / "data.jsonl").exists()
    assert train(world, "--out", tmp_path, "--tokens", 50) == 0
    world.fingerprint = b"\x33" * 32
    (tmp_path / "head.json").unlink()
    (tmp_path / "answers.json").unlink()
    capsys.readouterr()
    assert 'was written with fingerprint "' in refused(world, capsys, "--out", tmp_path)


def test_a_folder_that_is_a_file(tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert "Not a directory" in refused(world, capsys, "--out", tmp_path / "file")


def test_without_torch_nothing_is_written(tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.missing, world.generator = True, never
    assert "training needs torch; install it" in refused(world, capsys, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    world.generator = table
    assert train(world, "--out", tmp_path / "out", "--kind", "store", "--tokens", 50) == 0


class Interrupted:
    """A table; after so many chunks somebody presses Ctrl-C."""

    def __init__(self, after: int) -> None:
        self._after = after

    def generate(self, requests: Sequence[Request]) -> Iterator[Chunk]:
        for chunk in table().generate(requests):
            self._after -= 1
            if not self._after:
                raise KeyboardInterrupt
            yield chunk


def test_ctrl_c_loses_nothing(tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--kind", "store", "--tokens", 500]
    assert train(world, "--out", tmp_path / "whole", *flags) == 0
    world.generator = lambda: Interrupted(1700)
    capsys.readouterr()
    assert train(world, "--out", tmp_path / "cut", *flags) == 130
    assert capsys.readouterr().err == (
        f"outrider: interrupted; the same command goes on with what is in {tmp_path / 'cut'}\n"
    )
    kept = (tmp_path / "cut" / "data.jsonl").read_bytes()
    whole = (tmp_path / "whole" / "data.jsonl").read_bytes()
    assert whole.startswith(kept)
    assert 0 < len(kept) < len(whole)
    world.generator = table
    assert train(world, "--out", tmp_path / "cut", *flags) == 0
    assert (tmp_path / "cut" / "data.jsonl").read_bytes() == whole


def test_ctrl_c_while_it_trains(tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.fails = KeyboardInterrupt()
    assert train(world, "--out", tmp_path, "--tokens", 50) == 130
    assert "interrupted; the same command goes on" in capsys.readouterr().err


def test_a_disk_that_is_full(
    tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert train(world, "--out", tmp_path, "--kind", "store", "--tokens", 50) == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    assert train(world, "--out", tmp_path, "--kind", "store", "--tokens", 50, "--seed", 0) == 2
    assert "cannot be written (No space left on device): free space, or name another" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_dry_run_writes_nothing(tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    world.missing = True  # it can be asked before torch is there
    assert train(world, "--out", out, "--dry-run", "--tokens", 2_000_000) == 0
    told = capsys.readouterr().out
    assert not out.exists()
    assert re.search(r"data +2,000,000 tokens of answers, 0 of them are there", told)
    assert re.search(r"writing +\S.* for the other 2,000,000, at [\d,]+ tokens a second \(measured\)", told)
    assert re.search(r"training +40 min for 6,000,000 trained tokens", told)
    assert re.search(r"memory +3\.2 GB", told)
    assert re.search(r"disk +13\.0 MB of data, 7\.0 MB for the head", told)
    assert re.search(r"expected +0\.60 to 0\.70 of first guesses right", told)


def test_a_dry_run_knows_what_is_there(tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(world, "--out", tmp_path, "--kind", "store", "--tokens", 300) == 0
    tokens = sum(len(line.answer) for line in data.lines(tmp_path / "data.jsonl", VOCAB))
    before = sorted(path.name for path in tmp_path.iterdir())
    world.generator = never
    capsys.readouterr()
    assert train(world, "--out", tmp_path, "--kind", "store", "--tokens", 300, "--dry-run") == 0
    told = capsys.readouterr().out
    assert f"{tokens} tokens of answers, {tokens} of them are there" in told
    assert "for the store" in told
    assert "writing" not in told
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert "with seed 0 and is to go on with 1" in refused(
        world, capsys, "--out", tmp_path, "--kind", "store", "--seed", 1, "--dry-run"
    )
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert "--data has no answers" in refused(world, capsys, "--out", tmp_path, "--data", empty, "--dry-run")


def test_the_speed_is_measured_for_a_few_seconds_at_most() -> None:
    times = iter(range(0, 10_000, 2))
    speed = train_data.speed(table(), AROUND, lambda: float(next(times)))
    assert 0 < speed < 32 * 3


@pytest.mark.parametrize(("own", "left", "done"), [(False, "30 s", 250), (True, "2 min", 100)])
def test_the_time_left_is_that_of_the_prompts_where_they_are_all(own: bool, left: str, done: int) -> None:
    """Of 40 prompts 10 are answered with 100 tokens in 10 seconds, and 1,000 tokens were asked for."""
    told: list[tuple[int, str]] = []
    show: Any = SimpleNamespace(at=lambda done, says: told.append((done, says)))
    recipe: Any = SimpleNamespace(own=own)
    times = iter((0.0, 10.0))
    watch = train_data._watch(show, 0, train_data.Asked((), recipe, ((1,),) * 40, 1000), lambda: next(times))
    watch(Written(0, 10, 100))
    assert told == [(done, f"10 answers, 100 tokens, 10 a second, {left} left")]


def test_help_lists_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--help"]) == 0
    text = capsys.readouterr().out
    for flag in ("target", "out", "kind", "data", "prompts", "tokens", "minutes", "epochs", "draft-vocab", "dry-run"):
        assert f"--{flag}" in text
    assert text.count("outrider train") >= 5


def test_the_real_doors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tiny model writes, and its store is its own."""
    model = tiny_llama(tmp_path / "tiny.gguf", seed=3)
    flags = ["--target", str(model), "--out", str(tmp_path / "out"), "--threads", "1", "--tokens", "400"]
    assert main(["train", *flags, "--kind", "store"], real.TOOLS) == 0
    assert StoreFile(tmp_path / "out" / "answers.store").tokens > 400
    asked = prompts(tmp_path, "is the fish red?")
    other = ["--target", str(model), "--out", str(tmp_path / "other"), "--threads", "1", "--only-prompts"]
    assert main(["train", *other, "--kind", "store", "--prompts", str(asked)], real.TOOLS) == 0
    (line,) = data.lines(tmp_path / "other" / "data.jsonl", 320)
    target = real.TOOLS.target(str(model), 1)
    around = target.frame()
    message = line.prompt[len(around.opening) : -len(around.closing)]
    assert line.prompt == tuple(target.encode("is the fish red?")) == around.around(message)


def test_a_dry_run_through_the_real_doors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tiny_llama(tmp_path / "tiny.gguf", seed=3)
    flags = ["--target", str(model), "--out", str(tmp_path / "out"), "--threads", "1", "--tokens", "4000"]
    assert main(["train", *flags, "--dry-run"], real.TOOLS) == 0
    assert "for 11,700 trained tokens" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_a_target_without_a_template(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outrider.testing.gguf_maker.gguf.GGUFWriter.add_chat_template", lambda *_: None)
    model = tiny_llama(tmp_path / "bare.gguf")
    assert main(["train", "--target", str(model), "--out", str(tmp_path / "out"), "--kind", "store"], real.TOOLS) == 2
    assert "the target has no chat template, so that it cannot be led to write questions" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
