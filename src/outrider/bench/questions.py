"""Questions in Spec-Bench's format: one JSON object a line, with a category and the turns that a user says.

{"question_id": 81, "category": "writing", "turns": ["Compose ...", "Rewrite ..."]}; other keys are not looked at.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from outrider.errors import UsageError

ALL = "all"  # the task that stands for every question
# Spec-Bench (2401.07851) reports the eight categories of MT-Bench as one task.
MT_BENCH = "mt_bench"
MT_BENCH_CATEGORIES = frozenset(
    ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities")
)


@dataclass(frozen=True, slots=True)
class Question:
    """What a user says, turn by turn; name is its id, or its line in the file where it has none."""

    name: str
    task: str
    turns: tuple[str, ...]


def load(path: str | None) -> list[Question]:
    """The questions of a file, or our own for None. Raises UsageError for one that cannot be read or is malformed."""
    if path is None:
        own = resources.files("outrider.bench") / "questions.jsonl"
        return parse(own.read_bytes(), "our own questions")
    try:
        raw = Path(path).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a null character
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(
            f"--questions {path} cannot be read ({why}): give a file of questions, one JSON object a line"
        ) from None
    return parse(raw, f"--questions {path}")


def parse(raw: bytes, where: str) -> list[Question]:
    """The questions of a file's bytes. A byte order mark is dropped, any line end will do, blank lines are skipped.

    Raises UsageError, which names the line, for one that is not a question.
    """
    lines = raw.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    found = [_question(line, number, where) for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise UsageError(f"{where} has no questions: give one JSON object a line, with a category and turns")
    return found


def select(questions: Sequence[Question], per_group: int) -> list[Question]:
    """At most per_group of each task, spread evenly over it; tasks in the order in which they first appear."""
    tasks: dict[str, list[Question]] = {}
    for question in questions:
        tasks.setdefault(question.task, []).append(question)
    return [
        group[index * len(group) // count]
        for group in tasks.values()
        for count in (min(per_group, len(group)),)
        for index in range(count)
    ]


def _question(line: bytes, number: int, where: str) -> Question:
    place = f"{where}, line {number}"
    try:
        entry = json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise UsageError(f"{place} is not UTF-8 (byte 0x{line[error.start]:02x}): convert the file first") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{place} is not JSON ({error}): give one JSON object a line") from None
    if not isinstance(entry, dict):
        raise UsageError(f"{place} is {_short(entry)}: give an object such as {_EXAMPLE}")
    category, turns = entry.get("category"), entry.get("turns")
    if not isinstance(category, str) or not category.strip() or category == ALL:
        raise UsageError(f"{place} has the category {_short(category)}: give the name of a task other than {ALL!r}")
    if not isinstance(turns, list) or not turns or not all(isinstance(turn, str) and turn for turn in turns):
        raise UsageError(f"{place} has the turns {_short(turns)}: give a list of texts, at least one and none empty")
    task = MT_BENCH if category in MT_BENCH_CATEGORIES else category
    return Question(str(entry.get("question_id", f"of line {number}")), task, tuple(turns))


_EXAMPLE = '{"category": "qa", "turns": ["Why is the sky blue?"]}'


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
