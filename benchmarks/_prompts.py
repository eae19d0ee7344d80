"""Prompts of Spec-Bench, whose file lies outside the repository."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass
from pathlib import Path

from outrider.errors import SourceError
from outrider.models.chat import ChatTemplate
from outrider.models.spec import TokenizerData
from outrider.models.tokenizer import Tokenizer

SPECBENCH = "OUTRIDER_SPECBENCH"
GROUPS = ("translation", "summarization", "qa", "math_reasoning", "rag")
OTHERS = "mt_bench"


@dataclass(frozen=True, slots=True)
class Prompt:
    """A first turn in the model's chat template."""

    group: str
    ids: list[int]


def add_options(parser: argparse.ArgumentParser, others: Path | None = None) -> None:
    """--questions and --per-group; others: a file of the same form, for what is not to be fitted to Spec-Bench."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "specbench" / "question.jsonl"
    parser.add_argument(
        "--questions",
        type=Path,
        default=others or Path(os.environ.get(SPECBENCH, beside)),
        help="prompts, in the form of Spec-Bench's question.jsonl; default: "
        + ("" if others else f"${SPECBENCH}, else ")
        + "%(default)s",
    )
    parser.add_argument("--per-group", type=int, default=3, help="prompts of each of their groups; default %(default)s")


def turns(path: Path, per_group: int) -> dict[str, list[str]]:
    """First turns by group, spread over the file. Raises SourceError where the file is not there."""
    if not path.is_file():
        raise SourceError(f"{path} does not exist; give Spec-Bench's question.jsonl with --questions")
    found: dict[str, list[str]] = {}
    for line in path.read_text("utf-8").splitlines():
        question = json.loads(line)
        group = question["category"] if question["category"] in GROUPS else OTHERS
        found.setdefault(group, []).append(question["turns"][0])
    return {group: texts[:: max(1, len(texts) // per_group)][:per_group] for group, texts in found.items()}


def prompts(path: Path, per_group: int, data: TokenizerData) -> list[Prompt]:
    """The first turns as the model gets them."""
    tokenizer, chat = Tokenizer(data), ChatTemplate(data.chat_template)
    return [
        Prompt(group, tokenizer.encode_prompt(chat.render(text), special=True))
        for group, texts in turns(path, per_group).items()
        for text in texts
    ]
