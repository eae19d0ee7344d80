"""Values and combinations of flags that are refused before a model is loaded, with the engine's own bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.cli.scripted import SKY, ScriptedModel, tools

from outrider.api import Request, Sampling
from outrider.cli import checks
from outrider.cli.main import main
from outrider.cli.tools import Load
from outrider.engine import admission
from outrider.engine.sequence import World
from outrider.errors import UsageError

WORLD = World(vocab=1000, context=4096, eos=frozenset({2}), uses_p=False)
BITS = str(2**64)

NONSENSE = [
    ("--gamma -1", "--gamma is -1"),
    ("--gamma 3 --drafter none", "--gamma needs a drafter"),
    ("--gamma 3 --no-speculate", "--gamma and --no-speculate do not go together"),
    ("--max-draft -1", "--max-draft is -1"),
    ("--max-draft 3 --drafter none", "--max-draft needs a drafter"),
    ("--max-draft 3 --no-speculate", "--max-draft and --no-speculate do not go together"),
    ("--prediction f --drafter none", "--prediction needs a drafter"),
    ("--prediction f --no-speculate", "--prediction and --no-speculate do not go together"),
    ("--prediction - --grammar -", "--grammar and --prediction would both read standard input"),
    ("--drafter magic", "--drafter: drafter is 'magic'; built in are 'auto', 'ngram', "),
    ("--drafter model", "the drafter model needs --draft-model"),
    ("--drafter store --store s --draft-model m", "--draft-model is for the drafters auto and model: choose one"),
    ("--drafter none --head h", "--head is for the drafters auto and head: choose one"),
    ("--drafter none --store s", "--store is for the drafters auto and store: choose one"),
    ("--threads 0", "--threads is 0"),
    ("--threads 257", "--threads is 257"),
    ("--temperature nan", "--temperature is nan"),
    ("--temperature -0.1", "--temperature is -0.1"),
    ("--temperature inf", "--temperature is inf"),
    ("--temperature 1e-9", "--temperature is 1e-09"),
    ("--temperature 101", "--temperature is 101.0"),
    ("--top-k -1", "--top-k is -1"),
    ("--top-p 0", "--top-p is 0.0"),
    ("--top-p nan", "--top-p is nan"),
    ("--min-p 1.5", "--min-p is 1.5"),
    ("--typical-p 0", "--typical-p is 0.0"),
    ("--seed -1", "--seed is -1"),
    (f"--seed {BITS}", f"--seed is {BITS}"),
    ("--frequency-penalty 2.5", "--frequency-penalty is 2.5"),
    ("--presence-penalty -3", "--presence-penalty is -3.0"),
    ("--repetition-penalty 0", "--repetition-penalty is 0.0"),
    ("--logit-bias 50", "--logit-bias is '50': give ID=BIAS"),
    ("--logit-bias x=1", "--logit-bias is 'x=1': give ID=BIAS"),
    ("--logit-bias -1=1", "--logit-bias is '-1=1': give ID=BIAS"),
    ("--logit-bias 1=nan", "--logit-bias is '1=nan': a bias lies in -100 to 100"),
    ("--logit-bias 1=-101", "--logit-bias is '1=-101': a bias lies in -100 to 100"),
    ("--logit-bias 1=2 --logit-bias 1=3", "--logit-bias names token 1 twice"),
    ("--allowed-token-ids 1,,2", "--allowed-token-ids is '1,,2': give token ids"),
    ("--banned-token-ids 1_0", "--banned-token-ids is '1_0': give token ids"),
    ("--stop-token-ids -2", "--stop-token-ids is '-2': give token ids"),
    ("--max-tokens 0", "--max-tokens is 0"),
    ("--min-tokens -1", "--min-tokens is -1"),
    ("--min-tokens 11 --max-tokens 10", "--min-tokens is 11: give 0 to --max-tokens, which is 10"),
    ("--stop=", "--stop is empty"),
    ("--stop caf\udce9", "--stop is not UTF-8 (byte 0xe9 at offset 3)"),
    ("--stop a " * 17, "--stop is given 17 times"),
    ("--n 0", "--n is 0"),
    ("--n 129", "--n is 129"),
    ("--logprobs -1 --json", "--logprobs is -1"),
    ("--prompt-logprobs 101 --json", "--prompt-logprobs is 101"),
    ("--logprobs 2", "--logprobs tells numbers, which plain text has no place for: add --json"),
    ("--prompt-logprobs 0 --explain", "--prompt-logprobs tells numbers"),
    ("--logprobs-mode processed", "--logprobs-mode needs --logprobs"),
    ("--regex=", "--regex is empty"),
    ("--regex \udcff", "--regex is not UTF-8"),
    ("--json-object --constrain-after=", "--constrain-after is empty"),
    ("--constrain-after x", "--constrain-after needs a form"),
    ("--json-object --regex a", "--regex and --json-object do not go together"),
    ("--json-schema a --grammar b", "--json-schema and --grammar do not go together"),
]


@pytest.mark.parametrize(("given", "says"), NONSENSE)
def test_nonsense_is_one_sentence_before_a_model_is_loaded(
    given: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    loads: list[Load] = []
    assert main(["run", "hi", *given.split()], tools(ScriptedModel(SKY), loads)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"outrider: {says}")
    assert err.count("\n") == 1
    assert loads == []


def with_sampling(**changes: Any) -> Request:
    return Request([1, 2, 3], sampling=Sampling(**changes))


def with_request(**changes: Any) -> Request:
    return Request([1, 2, 3], **changes)


# Flag, the request with its value, and values at and beyond each end of its range.
ENDS: list[tuple[str, Callable[..., Request], list[float], list[float]]] = [
    ("temperature", with_sampling, [0, 1e-6, 100], [0.9e-6, 100.1]),
    ("top_k", with_sampling, [0, 2**31 - 1], [-1, 2**31]),
    ("top_p", with_sampling, [1e-300, 1], [0, 1.001]),
    ("min_p", with_sampling, [0, 1], [-0.001, 1.001]),
    ("typical_p", with_sampling, [1e-300, 1], [0, 1.001]),
    ("seed", with_sampling, [0, 2**64 - 1], [-1, 2**64]),
    ("frequency_penalty", with_sampling, [-2, 2], [-2.001, 2.001]),
    ("presence_penalty", with_sampling, [-2, 2], [-2.001, 2.001]),
    ("repetition_penalty", with_sampling, [0.01, 10], [0.009, 10.001]),
    ("max_tokens", with_request, [1, 10**9], [0]),
    ("min_tokens", with_request, [0, 256], [-1, 257]),
    ("n", with_request, [1, 128], [0, 129]),
    ("max_draft", with_request, [0, 2**31 - 1], [-1, 2**31]),
    ("logprobs", with_request, [0, 100], [-1, 101]),
    ("prompt_logprobs", with_request, [0, 100], [-1, 101]),
]


@pytest.mark.parametrize(("name", "make", "allowed", "refused"), ENDS)
def test_bounds_are_the_engine_s(
    name: str, make: Callable[..., Request], allowed: list[float], refused: list[float]
) -> None:
    flag = "--" + name.replace("_", "-")
    arguments = ["run", "hi", "--max-tokens", "256"] if name == "min_tokens" else ["run", "hi"]
    for value in allowed:
        admission.check(make(**{name: value}), WORLD)
        assert main([*arguments, flag, str(value), "--json"], tools(ScriptedModel(SKY))) == 0
    for value in refused:
        with pytest.raises(UsageError, match=f"^{name} is "):
            admission.check(make(**{name: value}), WORLD)
        assert main([*arguments, flag, str(value), "--json"], tools(ScriptedModel(SKY))) == 2


def test_bounds_of_counts_and_biases_are_the_engine_s() -> None:
    from outrider import loading

    assert checks.MOST_THREADS == loading.MOST_THREADS
    assert checks.MOST_STOPS == admission.MOST_STOPS
    for bias in (-100, 100):
        admission.check(with_sampling(logit_bias=((5, bias),)), WORLD)
        assert checks.biases([f"5={bias}"]) == {5: bias}
    for beyond in (-100.1, 100.1):
        with pytest.raises(UsageError, match="logit_bias of 5 is"):
            admission.check(with_sampling(logit_bias=((5, beyond),)), WORLD)


def test_ids() -> None:
    assert checks.ids("--stop-token-ids", "3,17") == (3, 17)
    assert checks.ids("--stop-token-ids", "3") == (3,)
    assert checks.ids("--stop-token-ids", None) is None
