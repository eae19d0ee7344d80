"""outrider run inside this process: text, JSON, the story, input, nonsense, faults."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.scripted import ESCAPES, SKY, SKY_TEXT, ScriptedModel, tools

from outrider.api import Usage
from outrider.asking import Ask, Chance, Ending, Form, Guessing, Nudges, Telling
from outrider.cli import flags
from outrider.cli.main import main
from outrider.cli.tools import Load
from outrider.drafters import plugins
from outrider.errors import SourceError

STATS = set(Usage.__dataclass_fields__) - {"prompt_tokens", "completion_tokens"}


def raising(fault: BaseException) -> Callable[[], None]:
    """A function that raises."""

    def fail() -> None:
        raise fault

    return fail


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel(SKY)


class Input(io.TextIOWrapper):
    """Standard input with given bytes, on a terminal or not."""

    def __init__(self, content: bytes, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(content), encoding="utf-8")
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTRIDER_TRACEBACK", raising=False)
    monkeypatch.setattr("sys.stdin", Input(b"", terminal=True))


def test_plain_text_and_nothing_else(model: ScriptedModel, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "hi"], tools(model)) == 0
    assert capsys.readouterr() == (SKY_TEXT + "\n", "")


def test_flags_arrive(model: ScriptedModel) -> None:
    loads: list[Load] = []
    given = """--model m.gguf --drafter model --draft-model s.gguf --gamma 5 --max-draft 3 --rule block --threads 3
        --temperature 0.5 --top-k 40 --top-p 0.9 --min-p 0.05 --typical-p 0.95 --seed 9
        --frequency-penalty -1 --presence-penalty 0.5 --repetition-penalty 1.1 --logit-bias 3=-100 --logit-bias 5=2.5
        --allowed-token-ids 1,2,3,5 --banned-token-ids 2
        --max-tokens 50 --min-tokens 4 --stop-token-ids 4,7 --ignore-eos
        --raw --n 2 --echo --logprobs 3 --logprobs-mode processed --prompt-logprobs 0 --json"""
    arguments = [*given.split(), "--stop", "a", "--stop", "b c", "--regex", "[a-z ]+", "--constrain-after", "</think>"]
    assert main(["run", "hi", *arguments], tools(model, loads)) == 0
    assert loads == [Load("m.gguf", "model", 5, 3, "block", "s.gguf", None)]
    assert model.asked == [
        (
            "hi",
            Ask(
                raw=True,
                chance=Chance(0.5, 40, 0.9, 0.05, 0.95, 9),
                nudges=Nudges(-1.0, 0.5, 1.1, {3: -100.0, 5: 2.5}, (1, 2, 3, 5), (2,)),
                ending=Ending(50, 4, True, ["a", "b c"], (4, 7)),
                form=Form(regex="[a-z ]+", constrain_after="</think>"),
                telling=Telling(2, 3, "processed", 0, True),
                guessing=Guessing(True, 3, None),
            ),
        )
    ]


def test_defaults(model: ScriptedModel) -> None:
    loads: list[Load] = []
    for given in ([], ["--drafter", "none"]):
        assert main(["run", "hi", *given], tools(model, loads)) == 0
    assert loads == [Load(None, "auto", None, None, "coupled"), Load(None, "none", None, None, "coupled")]
    assert model.asked == [("hi", Ask())] * 2


def test_what_speculation_may_do_arrives(model: ScriptedModel, tmp_path: Path) -> None:
    loads: list[Load] = []
    expected = tmp_path / "letter.txt"
    expected.write_text("Dear Sir,\n")
    given = ["--drafter", "store", "--store", "s.bin", "--prediction", str(expected)]
    assert main(["run", "hi", *given], tools(model, loads)) == 0
    assert main(["run", "hi", "--no-speculate"], tools(model, loads)) == 0
    assert main(["run", "hi", "--drafter", "head", "--head", "h"], tools(model, loads)) == 0
    assert [(load.drafter, load.draft_model, load.store, load.head) for load in loads] == [
        ("store", None, "s.bin", None),
        ("auto", None, None, None),
        ("head", None, None, "h"),
    ]
    guessing = [ask.guessing for _, ask in model.asked]
    assert guessing == [Guessing(prediction="Dear Sir,\n"), Guessing(speculate=False), Guessing()]


def test_json(model: ScriptedModel, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "hi", "--json"], tools(model)) == 0
    answer = json.loads(capsys.readouterr().out)
    assert set(answer) == {"text", "token_ids", "prompt_tokens", "finish_reason", "stats"}
    assert answer["text"] == SKY_TEXT
    assert answer["token_ids"] == [0, 1, 2, 6, 3, 4]
    assert answer["prompt_tokens"] == 20
    assert answer["finish_reason"] == "stop"
    assert set(answer["stats"]) == STATS
    assert answer["stats"]["drafted_per_position"] == [3, 1, 1]


def test_a_drawn_answer_names_its_seed(model: ScriptedModel, capsys: pytest.CaptureFixture[str]) -> None:
    for given in ([], ["--seed", "7"]):
        assert main(["run", "hi", "--json", "--temperature", "1", *given], tools(model)) == 0
    first, second = (json.loads(line)["seed"] for line in capsys.readouterr().out.splitlines())
    assert [ask.chance.seed for _, ask in model.asked] == [first, second]
    assert second == 7


def test_json_with_the_story(model: ScriptedModel, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "hi", "--json", "--explain"], tools(model)) == 0
    story = json.loads(capsys.readouterr().out)["story"]
    assert [one["path"] for one in story] == [[], [0, 1], [0], []]
    assert story[1]["drafted"] == [1, 2, 5]


def test_story(model: ScriptedModel, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "hi", "--explain"], tools(model)) == 0
    out = capsys.readouterr().out
    assert "pass 2: position 21, 2.0 ms, 3 drafted, 2 accepted\n" in out
    accepted, rejected = out.index('✓ " is"'), out.index('✗ " red"')
    assert accepted < rejected < out.index('rejected: the target wanted " very"') < out.index('+ " very"')
    assert '"<|im_end|>"' in out
    assert "the last token above is not part of it" in out
    assert f"the answer:\n{SKY_TEXT}\n" in out
    assert "6 tokens took 4 passes; one token a pass would have taken 7." in out
    assert "\x1b" not in out


def test_length_cut_in_the_story(model: ScriptedModel, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "hi", "--explain", "--max-tokens", "2"], tools(model)) == 0
    assert "(max_tokens or the context is full); the last 2 tokens above are not part of it" in capsys.readouterr().out


def test_colour_marks_accepted_tokens_only(model: ScriptedModel, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "hi", "--color", "always"], tools(model)) == 0
    green, off = "\x1b[32m", "\x1b[0m"
    want = f"The{green} sky{off}{green} is{off} very{green} blue{off}.\n"
    assert capsys.readouterr().out == want


def test_coloured_text_is_safe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "hi", "--color", "always"], tools(ScriptedModel(ESCAPES))) == 0
    assert capsys.readouterr().out == "The\x1b[32m␛[2J\x1b[0mé\n"


def test_piped_text_is_the_models_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "hi"], tools(ScriptedModel(ESCAPES))) == 0
    assert capsys.readouterr().out == "The\x1b[2Jé\n"


@pytest.mark.parametrize(
    ("content", "prompt"),
    [
        (b"Why?\n", "Why?"),
        (b"Why?", "Why?"),
        (b"one\r\ntwo\r\n", "one\ntwo"),
        (b"one\rtwo\n\n", "one\ntwo\n"),
        (b"\xef\xbb\xbfna\xc3\xafve\n", "naïve"),
    ],
)
@pytest.mark.parametrize("arguments", [["run"], ["run", "-"]])
def test_input(
    content: bytes, prompt: str, arguments: list[str], model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Input(content))
    assert main(arguments, tools(model)) == 0
    assert model.asked[0][0] == prompt


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"caf\xe9\n", "standard input is not UTF-8 (byte 0xe9 at offset 3)"),
        (b"", "standard input is empty"),
        (b"\n", "standard input is empty"),
    ],
)
def test_bad_input(
    content: bytes, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Input(content))
    assert main(["run"], tools(ScriptedModel(SKY))) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"outrider: {says}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run"], "there is no prompt"),
        (["run", ""], "the prompt is empty"),
        (["run", "caf\udce9"], "the prompt is not UTF-8 (byte 0xe9 at offset 3)"),
        (["run", "hi", "--gamma", "x"], "Invalid value for '--gamma'"),
        (["run", "hi", "--rule", "typical"], "Invalid value for '--rule'"),
        (["run", "hi", "--logprobs-mode", "cooked"], "Invalid value for '--logprobs-mode'"),
        (["run", "hi", "--drafter", "oracle"], "--drafter: drafter is 'oracle'; built in are 'auto', 'ngram', "),
        (["run", "hi", "there"], "Got unexpected extra argument"),
        (["run", "hi", "--gama", "3"], "No such option: --gama"),
        (["walk"], "No such command 'walk'"),
        (["--version", "run", "hi"], "--version stands alone"),
        (["profile", "--context", "-5"], "--context is -5"),
        (["profile", "--threads", "0"], "--threads is 0"),
    ],
)
def test_nonsense_is_one_sentence(
    arguments: list[str], says: str, model: ScriptedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments, tools(model)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"outrider: {says}")
    assert err.count("\n") == 1
    assert not model.asked


def missing(how: Load) -> ScriptedModel:
    raise SourceError("no such file: m.gguf; give the path of a .gguf file")


def test_an_error_of_ours_is_one_sentence(model: ScriptedModel, capsys: pytest.CaptureFixture[str]) -> None:
    doors = tools(model)
    assert main(["run", "hi"], replace(doors, load=missing)) == 2
    assert capsys.readouterr().err == "outrider: no such file: m.gguf; give the path of a .gguf file\n"


def test_interrupted_json_prints_no_half_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "hi", "--json"], tools(ScriptedModel(SKY, raising(KeyboardInterrupt())))) == 130
    assert capsys.readouterr().out == ""


def test_interrupted_while_loading(model: ScriptedModel, capsys: pytest.CaptureFixture[str]) -> None:
    def load(how: Load) -> ScriptedModel:
        raise KeyboardInterrupt

    doors = tools(model)
    assert main(["run", "hi"], replace(doors, load=load)) == 130
    assert capsys.readouterr() == ("", "outrider: interrupted\n")


def test_a_fault_in_the_middle(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "hi"], tools(ScriptedModel(SKY, raising(RuntimeError("broken"))))) == 1
    out, err = capsys.readouterr()
    assert out == "The\n"
    assert err.startswith("outrider: unexpected RuntimeError: broken; ")
    assert "OUTRIDER_TRACEBACK=1" in err
    assert err.count("\n") == 1


def test_traceback_on_request(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("OUTRIDER_TRACEBACK", "1")
    assert main(["run", "hi"], tools(ScriptedModel(SKY, raising(RuntimeError("broken"))))) == 1
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "\noutrider: unexpected RuntimeError: broken; " in err


def test_help_lists_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    text = capsys.readouterr().out
    themes = [flags.MODEL, flags.LAW, flags.PENALTIES, flags.END, flags.FORM, flags.OUTPUT]
    places = [text.index(f"\n{theme}:\n") for theme in themes]
    assert places == sorted(places)
    wanted = """--model --drafter --draft-model --store --head --prediction --gamma --max-draft --no-speculate --rule
        --threads --temperature --top-k --top-p --min-p --typical-p --seed
        --frequency-penalty --presence-penalty --repetition-penalty --logit-bias --allowed-token-ids --banned-token-ids
        --max-tokens --min-tokens --stop --stop-token-ids --ignore-eos --json-schema --json-object --regex --grammar
        --constrain-after --raw --n --echo --logprobs --logprobs-mode --prompt-logprobs --json --explain --color
        --help"""
    listed = {word.strip(",.") for line in text.splitlines() for word in line.split()[:2] if word.startswith("--")}
    assert listed == set(wanted.split())
    assert all(choice in text for choices in (plugins.BUILT_IN, flags.Rule, flags.Color) for choice in choices)
    assert 'outrider run "Why is the sky blue?"' in text
    assert max(map(len, text.splitlines())) <= 100
    assert main(["profile", "--help"]) == 0
    text = capsys.readouterr().out
    assert all(flag in text for flag in ("--model", "--context", "--threads", "--json"))


def test_help_of_the_whole(model: ScriptedModel, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], tools(model)) == 0
    text = capsys.readouterr().out
    assert all(f"\n  {command} " in text for command in ("run", "profile", "models"))


def test_models(model: ScriptedModel, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["models"], tools(model)) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["pypi:tiny==1.0", "98", "MB", "/cache/tiny.gguf"]
    assert main(["models"], tools(model, cached=())) == 0
    assert capsys.readouterr().out.startswith("No model is cached yet")


@pytest.mark.parametrize("arguments", [["run"], ["run", "-"]])
def test_a_closed_input_is_no_prompt(
    arguments: list[str], model: ScriptedModel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert main(arguments, tools(model)) == 2
    assert "there is no prompt" in capsys.readouterr().err
