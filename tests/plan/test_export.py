"""Settings as other engines' configuration: the names of the versions that are stated."""

from __future__ import annotations

import json
import shlex

import pytest

from outrider.errors import UsageError
from outrider.plan.export import VERSIONS, Engine, Method, Settings, Value, export

LOOKUP = Settings(Method.NGRAM, 4)
MODEL = Settings(Method.DRAFT_MODEL, 6, "org/small model")


@pytest.mark.parametrize(
    ("engine", "found", "config"),
    [
        (Engine.VLLM, LOOKUP, {"method": "ngram", "num_speculative_tokens": 4}),
        (Engine.VLLM, MODEL, {"method": "draft_model", "model": "org/small model", "num_speculative_tokens": 6}),
        (Engine.LLAMA_CPP, LOOKUP, {"--spec-type": "ngram-simple", "--spec-ngram-simple-size-m": 4}),
        (
            Engine.LLAMA_CPP,
            MODEL,
            {"--spec-type": "draft-simple", "--spec-draft-model": "org/small model", "--spec-draft-n-max": 6},
        ),
        (
            Engine.SGLANG,
            LOOKUP,
            {
                "speculative_algorithm": "NGRAM",
                "speculative_num_draft_tokens": 5,
                "speculative_ngram_max_bfs_breadth": 1,
            },
        ),
        (
            Engine.SGLANG,
            MODEL,
            {
                "speculative_algorithm": "STANDALONE",
                "speculative_draft_model_path": "org/small model",
                "speculative_num_steps": 6,
                "speculative_eagle_topk": 1,
                "speculative_num_draft_tokens": 7,
            },
        ),
        (Engine.TRANSFORMERS, LOOKUP, {"prompt_lookup_num_tokens": 4}),
        (
            Engine.TRANSFORMERS,
            MODEL,
            {
                "num_assistant_tokens": 6,
                "num_assistant_tokens_schedule": "constant",
                "assistant_confidence_threshold": 0.0,
            },
        ),
    ],
)
def test_config(engine: Engine, found: Settings, config: dict[str, Value]) -> None:
    written = export(engine, found)
    assert written.config == config
    assert written.version == VERSIONS[engine]
    assert "MODEL" in written.usage or engine is Engine.TRANSFORMERS
    assert written.note


@pytest.mark.parametrize("found", [LOOKUP, MODEL])
def test_shells_read_back_what_was_meant(found: Settings) -> None:
    vllm = export(Engine.VLLM, found)
    assert json.loads(shlex.split(vllm.usage)[-1]) == vllm.config
    llama = export(Engine.LLAMA_CPP, found)
    words = shlex.split(llama.usage)[3:]
    assert dict(zip(words[::2], words[1::2], strict=True)) == {name: str(v) for name, v in llama.config.items()}
    sglang = export(Engine.SGLANG, found)
    words = shlex.split(sglang.usage)[5:]
    flags = {f"--{name.replace('_', '-')}": str(value) for name, value in sglang.config.items()}
    assert dict(zip(words[::2], words[1::2], strict=True)) == flags


@pytest.mark.parametrize("found", [LOOKUP, MODEL])
def test_python_reads_the_lines_for_transformers(found: Settings) -> None:
    usage = export(Engine.TRANSFORMERS, found).usage
    compile(usage, "usage", "exec")
    assert ("assistant_model=assistant" in usage) == (found is MODEL)
    assert ("'org/small model'" in usage) == (found is MODEL)


@pytest.mark.parametrize(
    ("method", "gamma", "draft_model", "says"),
    [
        (Method.NGRAM, 0, None, "gamma is 0"),
        (Method.DRAFT_MODEL, 4, None, "draft model is missing"),
        (Method.NGRAM, 4, "org/small", "'org/small' is given"),
    ],
)
def test_settings_that_do_not_go_together(method: Method, gamma: int, draft_model: str | None, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Settings(method, gamma, draft_model)
