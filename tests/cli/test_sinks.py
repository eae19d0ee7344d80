"""What is printed of several samples, of log-probabilities, and of forced tokens."""

from __future__ import annotations

import json

import pytest
from tests.cli.scripted import HERO, SKY, SKY_TEXT, ScriptedModel, tools

from outrider.api import Chunk, FinishReason
from outrider.cli.main import main
from outrider.cli.run import in_turn

SAMPLES = [SKY_TEXT, "The sky is very blue.", "The sky is very"]


def out_of(model: ScriptedModel, arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["run", "hi", *arguments.split()], tools(model)) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_samples_stand_one_after_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    want = "".join(f"--- sample {number} of 3 ---\n{text}\n" for number, text in enumerate(SAMPLES, 1))
    assert out_of(ScriptedModel(SKY), "--n 3", capsys) == want


def test_the_first_sample_streams_while_the_others_wait() -> None:
    def chunk(sample: int, text: str, last: bool = False) -> Chunk:
        return Chunk(0, text, (), (), finish_reason=FinishReason.STOP if last else None, sample=sample)

    given = [chunk(2, "g", True), chunk(0, "a"), chunk(1, "d"), chunk(0, "b"), chunk(0, "c", True), chunk(1, "e", True)]
    taken: list[str] = []

    def watched() -> object:
        for one in given:
            taken.append(one.text)
            yield one

    shown = [(one.text, len(taken)) for one in in_turn(watched())]  # type: ignore[arg-type]
    # Beside each text: how many chunks had come by then. The second sample joins in with "d" when the first is over.
    assert shown == [("a", 2), ("b", 4), ("c", 5), ("d", 5), ("e", 6), ("g", 6)]


def test_samples_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    answer = json.loads(out_of(ScriptedModel(SKY), "--n 3 --json --temperature 1 --seed 4 --explain", capsys))
    assert set(answer) == {"samples", "prompt_tokens", "seed"}
    assert (answer["prompt_tokens"], answer["seed"]) == (20, 4)
    assert [sample["text"] for sample in answer["samples"]] == SAMPLES
    assert [sample["finish_reason"] for sample in answer["samples"]] == ["stop", "length", "length"]
    assert [len(sample["story"]) for sample in answer["samples"]] == [4, 3, 2]
    assert all(set(sample) == {"text", "token_ids", "finish_reason", "stats", "story"} for sample in answer["samples"])


def test_the_story_of_samples(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = out_of(ScriptedModel(SKY), "--n 2 --explain", capsys).split("--- sample 2 of 2 ---")
    assert first.count("Each pass the drafter guesses") == 1
    assert "--- sample 1 of 2 ---\n\npass 1:" in first
    assert "pass 4:" in first
    assert "pass 3:" in second
    assert "pass 4:" not in second
    assert f"the answer:\n{SKY_TEXT}\n" in first
    assert f"the answer:\n{SAMPLES[1]}\n" in second
    assert "6 tokens took 3 passes" in second


def test_colours_of_each_sample_begin_anew(capsys: pytest.CaptureFixture[str]) -> None:
    out = out_of(ScriptedModel(SKY), "--n 2 --color always", capsys)
    assert out.count("The\x1b[32m sky\x1b[0m\x1b[32m is\x1b[0m very\x1b[32m blue\x1b[0m.\n") == 2


@pytest.mark.parametrize("colour", ["always", "never"])
def test_echo(colour: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = out_of(ScriptedModel(SKY), f"--echo --n 2 --max-tokens 1 --color {colour}", capsys)
    assert out == "--- sample 1 of 2 ---\nhiThe\n--- sample 2 of 2 ---\nhiThe\n"


def test_log_probabilities_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    answer = json.loads(out_of(ScriptedModel(SKY), "--json --logprobs 2 --prompt-logprobs 2", capsys))
    assert [one["id"] for one in answer["logprobs"]] == answer["token_ids"]
    impossible = {"id": 11, "logprob": None}
    assert answer["logprobs"][1] == {"id": 1, "logprob": -0.25, "top": [{"id": 1, "logprob": -0.25}, impossible]}
    assert answer["prompt_logprobs"] == [
        None,
        {"id": 7, "logprob": -0.25, "top": [{"id": 7, "logprob": -0.25}, impossible]},
    ]


def test_log_probabilities_of_samples(capsys: pytest.CaptureFixture[str]) -> None:
    answer = json.loads(out_of(ScriptedModel(SKY), "--json --n 2 --logprobs 0 --prompt-logprobs 0", capsys))
    assert [len(sample["logprobs"]) for sample in answer["samples"]] == [6, 6]
    assert len(answer["prompt_logprobs"]) == 2
    assert all("prompt_logprobs" not in sample for sample in answer["samples"])


def test_nothing_of_log_probabilities_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert {"logprobs", "prompt_logprobs"}.isdisjoint(json.loads(out_of(ScriptedModel(SKY), "--json", capsys)))


def test_forced_tokens_have_their_own_colour(capsys: pytest.CaptureFixture[str]) -> None:
    cyan, green, off = "\x1b[36m", "\x1b[32m", "\x1b[0m"
    out = out_of(ScriptedModel(HERO), "--color always", capsys)
    assert out == f"{cyan}The{off}{cyan} sky{off}{green} is{off} blue.\n"


def test_forced_tokens_in_the_story(capsys: pytest.CaptureFixture[str]) -> None:
    out = out_of(ScriptedModel(HERO), "--explain --json-object", capsys)
    assert "3 drafted (2 forced by the constraint), 3 accepted\n" in out
    lines = [line.split(maxsplit=2) for line in out.splitlines() if line.startswith('  ✓ "')]
    assert [line[1] for line in lines] == ['"The"', '"', '"']
    assert out.count("forced by the constraint, accepted") == 2
    assert 'rejected: the target cut the forced text otherwise, "."' in out
    assert json.loads(out_of(ScriptedModel(HERO), "--explain --json", capsys))["story"][0]["forced"] == 2


def test_an_error_in_the_middle_of_samples_ends_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    calls = iter(range(100))

    def fail() -> None:
        if next(calls) == 4:
            raise RuntimeError("broken")

    assert main(["run", "hi", "--n", "2"], tools(ScriptedModel(SKY, fail))) == 1
    out, _ = capsys.readouterr()
    assert out.startswith("--- sample 1 of 2 ---\nThe sky is very")
    assert out.endswith("\n")
