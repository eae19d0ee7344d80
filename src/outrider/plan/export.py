"""Found settings as other engines' own configuration.

The names were read in the sources of the versions in VERSIONS (vLLM, SGLang, Transformers) and in that build's --help
(llama.cpp, whose flags were renamed in its pull request 22964).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from outrider.errors import UsageError

Value: TypeAlias = str | int | float


class Engine(StrEnum):
    """The engines that settings can be written for."""

    VLLM = "vllm"
    LLAMA_CPP = "llama.cpp"
    SGLANG = "sglang"
    TRANSFORMERS = "transformers"


class Method(StrEnum):
    """What drafts."""

    NGRAM = "ngram"
    DRAFT_MODEL = "draft-model"


VERSIONS = {
    Engine.VLLM: "vLLM 0.33.0",
    Engine.LLAMA_CPP: "llama.cpp b10195",
    Engine.SGLANG: "SGLang 0.5.23",
    Engine.TRANSFORMERS: "Transformers 5.24.0",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What was found: the drafter, its draft length, and the draft model's name for the engine (draft-model only)."""

    method: Method
    gamma: int
    draft_model: str | None = None

    def __post_init__(self) -> None:
        """Raises UsageError unless the three go together."""
        if self.gamma < 1:
            raise UsageError(f"gamma is {self.gamma}: give 1 or more; without drafts an engine needs no configuration")
        if self.method is Method.DRAFT_MODEL and not self.draft_model:
            raise UsageError("the draft model is missing: name it as the engine knows it, a repository or a file")
        if self.method is Method.NGRAM and self.draft_model:
            raise UsageError(f"n-gram lookup takes no draft model, but {self.draft_model!r} is given: leave one out")


@dataclass(frozen=True, slots=True)
class Export:
    """config: the engine's own names and values. usage: how they are handed over, with MODEL for the target."""

    engine: Engine
    version: str
    config: Mapping[str, Value]
    usage: str
    note: str


def export(engine: Engine, found: Settings) -> Export:
    """The settings for an engine."""
    write = {
        Engine.VLLM: _vllm,
        Engine.LLAMA_CPP: _llama_cpp,
        Engine.SGLANG: _sglang,
        Engine.TRANSFORMERS: _transformers,
    }[engine]
    config, usage, note = write(found)
    return Export(engine, VERSIONS[engine], config, usage, note)


def _vllm(found: Settings) -> tuple[dict[str, Value], str, str]:
    config: dict[str, Value]
    if found.draft_model is None:
        config = {"method": "ngram", "num_speculative_tokens": found.gamma}
        note = "It looks up matches of 5 tokens; prompt_lookup_min and prompt_lookup_max change that."
    else:
        config = {"method": "draft_model", "model": found.draft_model, "num_speculative_tokens": found.gamma}
        note = "Both models need one vocabulary. In Python it is the argument speculative_config of vllm.LLM."
    return config, f"vllm serve MODEL --speculative-config {shlex.quote(json.dumps(config))}", note


def _llama_cpp(found: Settings) -> tuple[dict[str, Value], str, str]:
    config: dict[str, Value]
    if found.draft_model is None:
        config = {"--spec-type": "ngram-simple", "--spec-ngram-simple-size-m": found.gamma}
        note = "It looks up matches of 12 tokens; --spec-ngram-simple-size-n changes that."
    else:
        config = {
            "--spec-type": "draft-simple",
            "--spec-draft-model": found.draft_model,
            "--spec-draft-n-max": found.gamma,
        }
        note = "The older --draft-max was removed; without --spec-type the draft model is not used."
    return config, f"llama-server --model MODEL {_flags(config)}", note


def _sglang(found: Settings) -> tuple[dict[str, Value], str, str]:
    # Its draft tokens are the rows of the verifying pass: the last committed token counts.
    config: dict[str, Value]
    if found.draft_model is None:
        config = {
            "speculative_algorithm": "NGRAM",
            "speculative_num_draft_tokens": found.gamma + 1,
            "speculative_ngram_max_bfs_breadth": 1,
        }
        note = "A breadth of 1 makes its tree of guesses the chain that was planned."
    else:
        config = {
            "speculative_algorithm": "STANDALONE",
            "speculative_draft_model_path": found.draft_model,
            "speculative_num_steps": found.gamma,
            "speculative_eagle_topk": 1,
            "speculative_num_draft_tokens": found.gamma + 1,
        }
        note = "Its draft tokens include the last known one, hence gamma + 1."
    flags = {f"--{name.replace('_', '-')}": value for name, value in config.items()}
    return config, f"python -m sglang.launch_server --model-path MODEL {_flags(flags)}", note


def _transformers(found: Settings) -> tuple[dict[str, Value], str, str]:
    config: dict[str, Value]
    if found.draft_model is None:
        config = {"prompt_lookup_num_tokens": found.gamma}
        note = "It looks up matches of 2 tokens at most; max_matching_ngram_size changes that."
        return config, f"model.generate(**inputs, prompt_lookup_num_tokens={found.gamma})", note
    # Read from the assistant's generation config, not from generate's arguments.
    config = {
        "num_assistant_tokens": found.gamma,
        "num_assistant_tokens_schedule": "constant",
        "assistant_confidence_threshold": 0.0,
    }
    lines = [
        f"assistant = AutoModelForCausalLM.from_pretrained({found.draft_model!r})",
        *(f"assistant.generation_config.{name} = {value!r}" for name, value in config.items()),
        "model.generate(**inputs, assistant_model=assistant)",
    ]
    note = "The threshold of 0 keeps every draft at its full length; Transformers' own 0.4 ends it where it is unsure."
    return config, "\n".join(lines), note


def _flags(config: Mapping[str, Value]) -> str:
    return " ".join(f"{name} {shlex.quote(str(value))}" for name, value in config.items())
