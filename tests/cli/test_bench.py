"""outrider bench: what is printed, what it exits with, nonsense, interrupts, servers."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.bench.fake_server import Fake, serving
from tests.bench.scripted import Scripted, encode
from tests.cli.scripted import SKY, ScriptedModel
from tests.cli.scripted import tools as scripted_tools

from outrider.api import Chunk, Generator, Request
from outrider.cli.main import main
from outrider.cli.tools import Entrant, Entry, Field, Tools
from outrider.drafters.ngram import NgramDrafter
from outrider.engine.engine import Engine
from outrider.policy.fixed import Fixed
from outrider.testing.table import RandomLaw, TableBackend
from outrider.testing.text import ByteDetokenizer

QUICK = ["--max-tokens", "12", "--rounds", "2", "--per-group", "2"]
BOTH = ["--drafters", "none,ngram", *QUICK]
Make = Callable[[str], Generator]


def scripted(name: str) -> Generator:
    """Plain decoding a token a pass; everything else four, in the same time."""
    return Scripted(1 if name == "none" else 4)


def tools(make: Make = scripted, fields: list[Entry] | None = None) -> Tools:
    """Doors that lead to generators by name."""

    def field(entry: Entry) -> Field:
        if fields is not None:
            fields.append(entry)
        return Field(
            "scripted", "none at all", 3, encode, {one.name: partial(make, one.name) for one in entry.entrants}
        )

    return replace(scripted_tools(ScriptedModel(SKY)), field=field)


def lying(about: str) -> Make:
    """An n-gram drafter that changes one answer: the planted fault."""

    def make(name: str) -> Generator:
        if name == "none":
            return Scripted()
        return Scripted(4, lie=lambda request: about in bytes(request.prompt).decode())

    return make


class Broken:
    """Raises where the prompt holds a text, at the third chunk of the answer; for others it is scripted."""

    def __init__(self, about: str, error: BaseException) -> None:
        self._about = about
        self._error = error
        self._inner = Scripted()

    def generate(self, requests: Sequence[Request]) -> Iterator[Chunk]:
        for number, chunk in enumerate(self._inner.generate(requests)):
            if number == 2 and self._about in bytes(requests[0].prompt).decode():
                raise self._error
            yield chunk


@pytest.fixture
def questions(tmp_path: Path) -> str:
    path = tmp_path / "questions.jsonl"
    entries = [
        {"question_id": 7, "category": "writing", "turns": ["Tell a tale.", "Once more."]},
        {"question_id": 8, "category": "qa", "turns": ["Where is the sea?"]},
        {"question_id": 9, "category": "qa", "turns": ["Where is the moon?"]},
    ]
    path.write_bytes("\ufeff".encode() + "\r\n".join(map(json.dumps, entries)).encode())
    return str(path)


def test_json(questions: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["outrider", "bench", "--json"])
    fields: list[Entry] = []
    arguments = ["--questions", questions, "--json", "--model", "m.gguf", "--threads", "3", *BOTH]
    assert main(["bench", *arguments], tools(fields=fields)) == 0
    assert fields == [Entry("m.gguf", 3, [Entrant("none", "none"), Entrant("ngram", "ngram")], None, None)]
    out, err = capsys.readouterr()
    assert err == ""
    result = json.loads(out)
    assert [(row["task"], row["drafter"]) for row in result["rows"]] == [
        (task, drafter) for task in ("mt_bench", "qa", "all") for drafter in ("none", "ngram")
    ]
    plain, ngram = result["rows"][-2:]
    # 12 tokens in 12 passes of half a second, the first not timed; and in 3 passes, the first 4 tokens not timed.
    assert (plain["tokens_per_s"], plain["tokens_per_pass"], plain["acceptance_per_position"]) == (2.0, 1.0, [])
    assert (ngram["tokens_per_s"], ngram["tokens_per_pass"], ngram["speedup"]) == (8.0, 4.0, 4.0)
    assert (ngram["speedup_range"], ngram["acceptance_per_position"]) == ([4.0, 4.0], [1.0, 1.0, 1.0])
    assert (ngram["prompts"], ngram["identical"], ngram["failed"]) == (4, 1.0, 0)
    assert ngram["drafted_per_position"] == [24, 24, 24]  # 3 passes, 4 prompts, 2 rounds
    assert (ngram["decode_s"], ngram["draft_s"], ngram["target_s"]) == (4.0, 0.5, 2.0)
    assert (result["failures"], result["differences"], result["partial"]) == ([], [], False)
    assert (result["machine"]["isa"], result["machine"]["threads"]) == ("none at all", 3)
    assert (result["settings"]["model"], result["settings"]["questions"]) == ("scripted", questions)
    assert (result["settings"]["answers"], result["settings"]["of_answers"]) == (16, 16)
    assert result["date"]
    assert result["command"] == "outrider bench --json"
    assert result["version"]


def test_plain_ngram_and_auto_are_the_default_and_get_what_they_need(
    questions: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fields: list[Entry] = []
    given = ["--draft-model", "s.gguf", "--store", "s.bin", "--head", "h"]
    arguments = ["bench", "--questions", questions, "--json", *given, *QUICK]
    assert main(arguments, tools(fields=fields)) == 0
    entrants = [Entrant("none", "none"), Entrant("ngram", "ngram"), Entrant("auto", "auto", "h")]
    assert fields == [Entry(None, None, entrants, "s.gguf", "s.bin")]
    assert [row["drafter"] for row in json.loads(capsys.readouterr().out)["rows"][-3:]] == ["none", "ngram", "auto"]


def test_heads_are_compared_in_one_run(questions: str, capsys: pytest.CaptureFixture[str]) -> None:
    fields: list[Entry] = []
    heads = [part for head in ("none", "old/mine", "new/mine", "other", "other") for part in ("--head", head)]
    arguments = ["bench", "--questions", questions, "--json", "--drafters", "suffix,auto,head", *heads, *QUICK]
    assert main(arguments, tools(fields=fields)) == 0
    assert fields[0].entrants == [
        Entrant("none", "none"),
        Entrant("suffix", "suffix"),
        Entrant("auto, no head", "auto", "none"),
        Entrant("auto, old/mine", "auto", "old/mine"),
        Entrant("auto, new/mine", "auto", "new/mine"),
        Entrant("auto, other", "auto", "other"),
        Entrant("head, old/mine", "head", "old/mine"),
        Entrant("head, new/mine", "head", "new/mine"),
        Entrant("head, other", "head", "other"),
    ]
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["drafter"] for row in rows[-9:]] == [one.name for one in fields[0].entrants]


def test_table(questions: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--questions", questions, *BOTH], tools()) == 0
    out, err = capsys.readouterr()
    assert err == ""
    head, *rows = out.splitlines()
    assert head.startswith("task")
    assert [row.split()[:5] for row in rows[:6]] == [
        [task, drafter, count, *speeds]
        for task, count in (("mt_bench", "2"), ("qa", "2"), ("all", "4"))
        for drafter, speeds in (("none", ("2.0", "1.00")), ("ngram", ("8.0", "4.00")))
    ]
    text = " ".join(out.split())
    assert "total tokens / total decode seconds" in text
    assert text.endswith("ngram decodes 4.00 times as fast as plain decoding, the same ids.")
    assert max(map(len, out.splitlines())) <= 120


def test_our_own_questions_are_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--json", "--rounds", "1", "--max-tokens", "4"], tools()) == 0
    tasks = {row["task"]: row["prompts"] for row in json.loads(capsys.readouterr().out)["rows"]}
    assert tasks == {
        "mt_bench": 8, "translation": 4, "summarization": 4, "qa": 4, "math_reasoning": 4, "rag": 4, "all": 28,
    }  # fmt: skip


def test_plain_decoding_is_always_measured_and_first(questions: str, capsys: pytest.CaptureFixture[str]) -> None:
    for given in ("ngram", "ngram,none", "none , ngram,ngram"):
        assert main(["bench", "--questions", questions, "--drafters", given, "--json", *QUICK], tools()) == 0
        rows = json.loads(capsys.readouterr().out)["rows"]
        assert [row["drafter"] for row in rows[-2:]] == ["none", "ngram"]


def test_the_law_and_the_length_arrive(questions: str, capsys: pytest.CaptureFixture[str]) -> None:
    plain = Scripted()
    arguments = ["--questions", questions, "--drafters", "none", "--temperature", "0.5", "--seed", "9", *QUICK]
    assert main(["bench", *arguments], tools(lambda _: plain)) == 0
    assert {(r.max_tokens, r.sampling.temperature, r.sampling.seed) for r in plain.asked} == {(12, 0.5, 9)}
    assert len(plain.asked) == 9  # two rounds of four prompts, and one to warm up


def test_the_second_turn_follows_the_plain_answer(questions: str, capsys: pytest.CaptureFixture[str]) -> None:
    made: dict[str, Scripted] = {}  # of the last round

    def make(name: str) -> Generator:
        made[name] = Scripted(lie=lambda request: name == "ngram")
        return made[name]

    assert main(["bench", "--questions", questions, *QUICK], tools(make)) == 1
    asked = {name: [bytes(request.prompt) for request in scripted.asked] for name, scripted in made.items()}
    assert asked["none"] == asked["ngram"]
    assert asked["none"][1].startswith(b"u:Tell a tale.\na:")
    assert asked["none"][1].endswith(b"u:Once more.\n")


def test_a_planted_wrong_token_is_found_and_its_prompt_named(
    questions: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "--questions", questions, "--json", *BOTH], tools(lying("the moon"))) == 1
    out, err = capsys.readouterr()
    assert err.startswith("outrider: ngram changed the answer to question 9 (qa): token 3 is id ")
    assert err.count("\n") == 1
    result = json.loads(out)
    identical = {(row["task"], row["drafter"]): row["identical"] for row in result["rows"]}
    assert identical[("qa", "ngram")] == 0.5
    assert identical[("all", "ngram")] == 0.75
    assert identical[("mt_bench", "ngram")] == identical[("all", "none")] == 1.0
    assert [one["question"] for one in result["differences"]] == ["9"]


def test_a_lie_in_a_second_turn_names_the_turn(questions: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--questions", questions, *QUICK], tools(lying("Once more"))) == 1
    assert "changed the answer to question 7, turn 2 (mt_bench)" in capsys.readouterr().err


def test_a_failed_prompt_is_shown_and_counted(questions: str, capsys: pytest.CaptureFixture[str]) -> None:
    def make(name: str) -> Generator:
        return Broken("the sea", RuntimeError("out of\nluck")) if name == "ngram" else Scripted()

    assert main(["bench", "--questions", questions, "--json", *QUICK], tools(make)) == 1
    out, err = capsys.readouterr()
    assert err == "outrider: ngram failed on question 8 (qa): RuntimeError: out of luck\n"
    rows = {(row["task"], row["drafter"]): row for row in json.loads(out)["rows"]}
    assert (rows["qa", "ngram"]["prompts"], rows["qa", "ngram"]["failed"]) == (2, 1)
    assert (rows["qa", "none"]["failed"], rows["mt_bench", "ngram"]["failed"]) == (0, 0)
    assert rows["qa", "ngram"]["speedup"] == 1.0


def test_ctrl_c_prints_what_there_is(questions: str, capsys: pytest.CaptureFixture[str]) -> None:
    def make(name: str) -> Generator:
        return Broken("the moon", KeyboardInterrupt()) if name == "ngram" else Scripted()

    assert main(["bench", "--questions", questions, "--json", *BOTH], tools(make)) == 130
    out, err = capsys.readouterr()
    assert err == "outrider: interrupted after 7 of 16 answers: the figures are partial\n"
    result = json.loads(out)
    assert result["partial"] is True
    assert [row["prompts"] for row in result["rows"]] == [2, 2, 2, 1, 4, 3]


def test_ctrl_c_before_the_first_answer(questions: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--questions", questions, *BOTH], tools(lambda _: Broken("", KeyboardInterrupt()))) == 130
    assert capsys.readouterr() == ("", "outrider: interrupted after 0 of 16 answers: the figures are partial\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--drafters", "none,magic"], "--drafters: drafter is 'magic'; built in are 'auto', "),
        (["--drafters", ""], "--drafters: drafter is ''"),
        (["--drafters", "none,model"], "the drafter model needs --draft-model"),
        (["--drafters", "ngram", "--head", "h"], "--head is for the drafters auto and head"),
        (["--url", "http://127.0.0.1:1/v1", "--head", "h"], "--head is for the drafters beside --url"),
        (["--drafters", "ngram", "--store", "s"], "--store is for the drafters auto and store"),
        (["--drafters", "ngram", "--draft-model", "m"], "--draft-model is for the drafters auto and model"),
        (["--per-group", "0"], "--per-group is 0: give 1 or more"),
        (["--rounds", "0"], "--rounds is 0: give 1 to 1000"),
        (["--max-tokens", "0"], "--max-tokens is 0"),
        (["--temperature", "-1"], "--temperature is -1.0"),
        (["--temperature", "nan"], "--temperature is nan"),
        (["--seed", "-1"], "--seed is -1"),
        (["--threads", "0"], "--threads is 0"),
        (["--questions", "nowhere.jsonl"], "--questions nowhere.jsonl cannot be read"),
        (["--report", "page.pdf"], "--report is page.pdf: give a name that ends in .md or .html"),
        (["--report", "nowhere/page.md"], "--report nowhere/page.md cannot be written"),
        (["--api-model", "m"], "--api-model names a model of a server: give --url"),
        (["--url", "nonsense"], "--url is 'nonsense': give an address such as"),
        (["--url", "http://127.0.0.1:1/v1", "--threads", "2"], "--threads is for the drafters beside --url"),
        (["--url", "http://127.0.0.1:1/v1", "--store", "s"], "--store is for the drafters beside --url"),
        (["--url", "http://127.0.0.1:1/v1", "--draft-model", "m"], "--draft-model is for the drafters beside --url"),
        (["--url", "http://127.0.0.1:1/v1", "--model", "m"], "--model is for the drafters beside --url"),
        (["--url", "http://127.0.0.1:1/v1"], "http://127.0.0.1:1/v1 cannot be reached (Connection refused)"),
    ],
)
def test_nonsense_is_one_sentence_before_anything_is_loaded(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fields: list[Entry] = []
    assert main(["bench", *arguments], tools(fields=fields)) == 2
    out, err = capsys.readouterr()
    assert (out, fields) == ("", [])
    assert err.startswith(f"outrider: {words}")
    assert err.count("\n") == 1


def test_a_bad_line_of_the_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"category": "qa", "turns": ["a"]}\n{"category": "qa"}\n')
    assert main(["bench", "--questions", str(path)], tools()) == 2
    assert "q.jsonl, line 2 has the turns null" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "start"), [("page.md", "# Speculative"), ("page.html", "<!doctype html>")])
def test_report(name: str, start: str, questions: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / name
    assert main(["bench", "--questions", questions, "--report", str(page), *QUICK], tools()) == 0
    text = page.read_text("utf-8")
    assert text.startswith(start)
    assert "ngram decodes 4.00 times as fast as plain decoding" in text


def test_a_server_alone(questions: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_API_KEY", "secret")
    fields: list[Entry] = []
    with serving(Fake()) as fake:
        arguments = ["--questions", questions, "--url", fake.url, "--json", *QUICK]
        assert main(["bench", *arguments], tools(fields=fields)) == 0
    assert fields == []
    result = json.loads(capsys.readouterr().out)
    assert {row["drafter"] for row in result["rows"]} == {"server"}
    row = result["rows"][-1]
    assert (row["tokens"], row["speedup"], row["identical"], row["tokens_per_pass"]) == (40, None, None, None)
    assert row["tokens_per_s"] > 0
    assert result["settings"]["model"] == f"first at {fake.url}"
    assert set(fake.keys) == {"Bearer secret"}
    assert fake.heard[2]["messages"] == [
        {"role": "user", "content": "Tell a tale."},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Once more."},
    ]


def test_a_server_beside_the_drafters(questions: str, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake(complaint=(500, b"no luck"))) as fake:
        arguments = ["--questions", questions, "--url", fake.url, "--api-model", "second", "--drafters", "none"]
        assert main(["bench", *arguments, *QUICK], tools()) == 1
        assert {heard["model"] for heard in fake.heard} == {"second"}
        # Not the server's own answer, which there is none of: the plain one.
        assert len(fake.heard) == 9
        out, err = capsys.readouterr()
        assert err.count("server failed on question") == 4
        assert "/chat/completions answered 500 Internal Server Error: no luck" in err
        assert "timed from outside" in " ".join(out.split())
        fake.complaint = None
        assert main(["bench", *arguments, *QUICK, "--json"], tools()) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["drafter"], row["identical"]) for row in rows[-2:]] == [("none", 1.0), ("server", 0.0)]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_on_a_terminal(
    questions: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    screen = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", screen)
    assert main(["bench", "--questions", questions, "--json", *BOTH], tools()) == 0
    assert "round 2, qa" in screen.getvalue()
    assert "16/16" in screen.getvalue()
    assert json.loads(capsys.readouterr().out)["rows"]


@pytest.mark.parametrize("temperature", ["0", "1"])
def test_the_engine_over_a_table(temperature: str, questions: str, capsys: pytest.CaptureFixture[str]) -> None:
    backend = TableBackend(RandomLaw(128, 1, 5), 128, context=512)

    def make(name: str) -> Generator:
        drafter = None if name == "none" else NgramDrafter()
        return Engine(backend, drafter, Fixed(4), ByteDetokenizer, frozenset())

    arguments = ["--questions", questions, "--temperature", temperature, "--json", *BOTH]
    assert main(["bench", *arguments, "--rounds", "1", "--max-tokens", "60"], tools(make)) == 0
    plain, ngram = json.loads(capsys.readouterr().out)["rows"][-2:]
    assert ngram["identical"] == 1.0
    assert (plain["tokens"], plain["passes"], plain["drafted_per_position"]) == (240, 240, [])
    # The equality was not empty: something was drafted, kept, and rejected.
    assert ngram["tokens"] == 240 > ngram["passes"]
    reached, accepted = ngram["reached_per_position"], ngram["accepted_per_position"]
    assert reached[0] > accepted[0] > 0
    assert all(r <= d for r, d in zip(reached, ngram["drafted_per_position"], strict=False))
    assert ngram["acceptance_per_position"] == [a / r for a, r in zip(accepted, reached, strict=False)]
    assert backend.sequences == 0


@pytest.mark.model
def test_the_real_thing(default_model: Path, questions: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--model", str(default_model), "--questions", questions, "--per-group", "1", "--rounds", "1"]
    arguments += ["--drafters", "none,ngram"]
    assert main(["bench", *arguments, "--max-tokens", "32", "--threads", "1", "--json"]) == 0
    plain, ngram = json.loads(capsys.readouterr().out)["rows"][-2:]
    assert (plain["identical"], ngram["identical"]) == (1.0, 1.0)
    assert ngram["tokens"] == plain["tokens"] > ngram["passes"] > 0
    assert ngram["drafted_per_position"][0] > ngram["accepted_per_position"][0] > 0


def test_help_lists_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--help"]) == 0
    shown = capsys.readouterr().out
    names = """questions per-group drafters draft-model store head rounds url api-model model threads temperature seed
        max-tokens json report"""
    assert [name for name in names.split() if f"--{name}" not in shown] == []
