"""Answers under a JSON schema against free answers: tokens per second and per pass, with and without grammar drafting.

    python benchmarks/structured.py [--gamma 8]

Single stream, greedy. Each question is asked twice: under its schema, where the answer ends by itself, and without one,
end of text ignored. Speeds run from the first chunk to the last, as in decode.py; the milliseconds of an answer include
its prompt. A round measures every question, and for each of them every engine; ratios are taken within a round.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

import _report
from _report import Spread

from outrider.api import Constraint, ConstraintKind, FinishReason, Pass, Request
from outrider.backends.native import NativeBackend
from outrider.constraints.compiler import Compiler
from outrider.constraints.vocabulary import Vocabulary
from outrider.drafters.base import Drafter
from outrider.drafters.grammar import GrammarDrafter
from outrider.drafters.ngram import NgramDrafter
from outrider.engine.engine import Engine
from outrider.errors import OutriderError
from outrider.models import gguf, sources
from outrider.models.chat import ChatTemplate
from outrider.models.spec import ModelFile
from outrider.models.tokenizer import Detokenizer, Tokenizer
from outrider.policy.fixed import Fixed

PLAIN, NGRAM, GRAMMAR = "plain", "n-gram", "grammar, then n-gram"
FREE, SCHEMA = "free", "schema"
KINDS = (FREE, SCHEMA)
SCHEMA_TOKENS = 256


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _text(most: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": most}


def _list(items: Any, most: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": 1, "maxItems": most}


_NAME = _text(30)
QUESTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "What is the weather in Oslo, in degrees Celsius?",
        _object(
            {"name": {"const": "get_weather"}, "arguments": _object({"city": _NAME, "unit": {"enum": ["C", "F"]}})}
        ),
    ),
    (
        "Extract the person: Maria Lopez, a 41 year old baker from Lima.",
        _object({"name": _NAME, "age": {"type": ["integer", "null"], "minimum": 0, "maximum": 130}, "city": _NAME}),
    ),
    (
        "Give me three heroes with their kind and their weakness.",
        _object(
            {"heroes": _list(_object({"name": _NAME, "kind": {"enum": ["hero", "villain"]}, "weakness": _NAME}), 3)}
        ),
    ),
    (
        "I love this phone! Is this message positive, and what is it about?",
        _object(
            {"sentiment": {"enum": ["positive", "neutral", "negative"]}, "is_spam": {"type": "boolean"}, "topic": _NAME}
        ),
    ),
    (
        "Book a flight from Oslo to Rome for two people on 12 June 2025.",
        _object(
            {
                "origin": {"type": "string", "pattern": "^[A-Z]{3}$"},
                "destination": {"type": "string", "pattern": "^[A-Z]{3}$"},
                "departure_date": {"type": "string", "format": "date"},
                "passengers": {"type": "integer", "minimum": 1, "maximum": 9},
                "travel_class": {"enum": ["economy", "business", "first"]},
            }
        ),
    ),
    (
        "Describe three replicas of the shop with 256 megabytes each.",
        _object(
            {
                "apiVersion": {"const": "apps/v1"},
                "kind": {"const": "Deployment"},
                "metadata": _object({"name": _NAME}),
                "spec": _object({"replicas": {"type": "integer", "minimum": 0, "maximum": 20}, "image": _NAME}),
            }
        ),
    ),
    (
        "Summarise in two sentences why the sky is blue.",
        _object({"summary": _text(300)}),
    ),
    (
        "Plan the steps of baking bread.",
        _object(
            {
                "title": _NAME,
                "steps": _list(_object({"step": _text(60), "minutes": {"type": "integer", "maximum": 600}}), 4),
            }
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Run:
    """One answer: its ids, and the tokens and seconds after the first chunk."""

    ids: tuple[int, ...]
    tokens: int
    seconds: float
    whole_s: float
    passes: int
    forced: int
    sure: tuple[int, int]  # of the drafted forced tokens that were reached, but for the last of each draft: kept, all
    last: tuple[int, int]  # of those last ones


@dataclass(slots=True)
class Sums:
    """One engine's answers of one kind in one round."""

    runs: list[Run] = field(default_factory=list)

    @property
    def speed(self) -> float:
        return sum(run.tokens for run in self.runs) / sum(run.seconds for run in self.runs)

    @property
    def per_pass(self) -> float:
        return sum(len(run.ids) for run in self.runs) / sum(run.passes for run in self.runs)

    @property
    def forced(self) -> float:
        """The share of tokens that the grammar forced and a draft brought."""
        return sum(run.forced for run in self.runs) / sum(len(run.ids) for run in self.runs)

    @property
    def certain(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Forced tokens, kept and tried: those that were not the last of their draft, and the last ones."""
        pairs = [[getattr(run, name)[place] for run in self.runs] for name in ("sure", "last") for place in (0, 1)]
        kept, tried, last_kept, last_tried = map(sum, pairs)
        return (kept, tried), (last_kept, last_tried)

    @property
    def answer_s(self) -> float:
        return sum(run.whole_s for run in self.runs) / len(self.runs)


Rounds = dict[tuple[str, str], list[Sums]]  # (engine, kind) -> a round's sums


def answered(engine: Engine, request: Request) -> Run:
    """One answer, timed from outside. Raises OutriderError where a schema's answer did not end."""
    ids: list[int] = []
    stories: list[Pass] = []
    first, passes, forced, begun = 0, 0, 0, 0.0
    start = time.perf_counter()
    for chunk in engine.generate([request]):
        ids.extend(chunk.token_ids)
        if not first and ids:
            begun, first = time.perf_counter(), len(ids)
        if chunk.story is not None:
            stories.append(chunk.story)
        if chunk.usage is not None:
            passes, forced = chunk.usage.passes, chunk.usage.forced
            if request.constraint is not None and chunk.finish_reason is not FinishReason.STOP:
                raise OutriderError(f"an answer did not end within {request.max_tokens} tokens; bound its schema")
    end = time.perf_counter()
    seconds = end - begun, end - start
    return Run(tuple(ids), len(ids) - first, *seconds, passes, forced, *certainty(stories))


def certainty(stories: Sequence[Pass]) -> tuple[tuple[int, int], tuple[int, int]]:
    """How many forced tokens were kept, of those whose turn came: all but the last of each draft; the last ones."""
    sure, last = [0, 0], [0, 0]
    for story in stories:
        kept = sum(node < story.forced for node in story.path)
        tried = min(kept + 1, story.forced)
        of_last = int(tried == story.forced > 0)
        sure[0] += min(kept, story.forced - 1) if story.forced else 0
        sure[1] += tried - of_last
        last[0] += int(kept == story.forced > 0)
        last[1] += of_last
    return (sure[0], sure[1]), (last[0], last[1])


def asked(file: ModelFile, count: int) -> list[dict[str, Request]]:
    """Each question, free and under its schema."""
    tokenizer, chat = Tokenizer(file.tokenizer), ChatTemplate(file.tokenizer.chat_template)
    found = []
    for question, schema in QUESTIONS:
        ids = tokenizer.encode_prompt(chat.render(question), special=True)
        constraint = Constraint(ConstraintKind.JSON_SCHEMA, json.dumps(schema))
        free = Request(ids, count, ignore_eos=True)
        found.append({FREE: free, SCHEMA: Request(ids, SCHEMA_TOKENS, constraint=constraint)})
    return found


def our_engines(file: ModelFile, threads: int | None, gamma: int) -> dict[str, Engine]:
    """Plain decoding, and both ways to draft, over one backend."""
    backend, tokenizer = NativeBackend(file, threads=threads), Tokenizer(file.tokenizer)
    text = partial(Detokenizer, tokenizer, skip_special=True)
    encode = partial(tokenizer.encode, special=False)
    vocabulary = Vocabulary(
        backend.vocab, tokenizer.vocab, tokenizer.token_bytes, tokenizer.is_special, tokenizer.eos_ids, encode
    )
    matchers = Compiler(vocabulary)
    drafters: dict[str, tuple[Drafter | None, int]] = {
        PLAIN: (None, 0),
        NGRAM: (NgramDrafter(), gamma),
        GRAMMAR: (GrammarDrafter(NgramDrafter()), gamma),
    }
    return {
        name: Engine(backend, drafter, Fixed(most), text, tokenizer.eos_ids, matchers=matchers)
        for name, (drafter, most) in drafters.items()
    }


def measure(engines: dict[str, Engine], questions: Sequence[dict[str, Request]], rounds: int) -> Rounds:
    """Interleaved, with one answer of each engine before. Raises OutriderError where speculation shows."""
    results: Rounds = {(name, kind): [] for name in engines for kind in KINDS}
    for question in questions:  # compiles the schemas
        for engine in engines.values():
            answered(engine, question[SCHEMA])
    for number in range(rounds):
        for of_engine in results.values():
            of_engine.append(Sums())
        for question in questions:
            for kind, request in question.items():
                runs = {name: answered(engine, request) for name, engine in engines.items()}
                if len({run.ids for run in runs.values()}) > 1:
                    raise OutriderError("speculation changed an answer: that is a bug, not a speed")
                for name, run in runs.items():
                    results[name, kind][-1].runs.append(run)
        _report.say(f"round {number + 1} of {rounds} done")
    return results


def speeds(results: Rounds, name: str, kind: str) -> list[float]:
    return [sums.speed for sums in results[name, kind]]


def show(results: Rounds, names: Sequence[str]) -> None:
    """Speeds, ratios and what they come from."""
    _report.table(
        ["tokens per second", *KINDS, "schema / free"],
        [
            [
                name,
                *(Spread.of(speeds(results, name, kind)).text(digits=1) for kind in KINDS),
                Spread.of_ratios(speeds(results, name, SCHEMA), speeds(results, name, FREE)).text(),
            ]
            for name in names
        ],
    )
    _report.table(
        ["times plain", *KINDS],
        [
            [name, *(Spread.of_ratios(speeds(results, name, k), speeds(results, PLAIN, k)).text() for k in KINDS)]
            for name in names
            if name != PLAIN
        ],
    )
    _report.table(
        ["tokens per pass", *KINDS, "forced", "ms of a schema answer"],
        [
            [
                name,
                *(f"{median(sums.per_pass for sums in results[name, kind]):.2f}" for kind in KINDS),
                f"{100 * median(sums.forced for sums in results[name, SCHEMA]):.0f} %",
                Spread.of([sums.answer_s for sums in results[name, SCHEMA]]).text(1e3, 0),
            ]
            for name in names
        ],
    )


def data(results: Rounds) -> list[dict[str, object]]:
    """The same for programs."""
    return [
        {
            "engine": name,
            "kind": kind,
            "tokens_per_s": Spread.of([sums.speed for sums in of_engine]).data(),
            "times_plain": Spread.of_ratios(speeds(results, name, kind), speeds(results, PLAIN, kind)).data(),
            "tokens_per_pass": median(sums.per_pass for sums in of_engine),
            "forced_share": median(sums.forced for sums in of_engine),
            "forced_kept": of_engine[-1].certain,
            "answer_s": Spread.of([sums.answer_s for sums in of_engine]).data(),
        }
        for (name, kind), of_engine in results.items()
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _report.add_common(parser)
    parser.add_argument("--gamma", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=64, help="tokens of a free answer; default 64")
    arguments = parser.parse_args()
    _report.begin(arguments)
    file = gguf.read(sources.resolve(arguments.model))
    engines = our_engines(file, arguments.threads, arguments.gamma)
    results = measure(engines, asked(file, arguments.max_tokens), arguments.rounds)
    if not arguments.json:
        show(results, list(engines))
        (kept, tried), (last_kept, last_tried) = results[GRAMMAR, SCHEMA][-1].certain
        print(f"\nforced tokens kept: {kept} of {tried}; of the last ones of a draft {last_kept} of {last_tried}")
    _report.finish(arguments, {"questions": len(QUESTIONS), "engines": data(results)})


if __name__ == "__main__":
    _report.start(main)
