"""`outrider store generate`: the model's own answers, as token ids for a store."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from outrider.api import Request, Sampling
from outrider.cli.plan_here import read
from outrider.cli.render import count
from outrider.cli.tools import Site, Tools
from outrider.errors import UsageError

TAIL = 8  # ids of the prompt that are kept: how the first words of an answer are found again
TOGETHER = 8  # prompts that are answered at once
GAMMA = 4
MOST_SAMPLES = 128


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of `outrider store generate`."""

    prompts: str
    out: str
    samples: int
    temperature: float
    seed: int
    max_tokens: int
    model: str | None
    threads: int | None


def generate(tools: Tools, options: Options) -> int:
    """Answers all prompts, adds the answers to a file; returns the exit status. Raises OutriderError."""
    _check(options)
    texts = read(options.prompts)
    words, site = tools.words(options.model), tools.site(options.model, options.threads)
    prompts = [tuple(site.encode(text)) for text in texts]
    for text, prompt in zip(texts, prompts, strict=True):
        if len(prompt) >= site.backend.context:
            raise UsageError(
                f"the prompt {text[:40]!r} has {len(prompt)} tokens and leaves no room for an answer in the context of "
                f"{site.backend.context}: shorten it"
            )
    answers = tokens = 0
    with _opened(options.out) as out:
        for first in range(0, len(prompts), TOGETHER):
            for ids in _answers(site, prompts[first : first + TOGETHER], options):
                out.write(json.dumps({"tokenizer": words.digest.hex(), "token_ids": ids}) + "\n")
                answers, tokens = answers + 1, tokens + len(ids)
            out.flush()
            print(f"answered {min(first + TOGETHER, len(prompts))} of {len(prompts)} prompts", file=sys.stderr)
    print(f"{options.out}: {count(answers, 'answer')} more, {count(tokens, 'token')}")
    return 0


def _check(options: Options) -> None:
    if not 0 <= options.samples <= MOST_SAMPLES:
        raise UsageError(f"--samples is {options.samples}: give 0 to {MOST_SAMPLES} drawn answers for each prompt")
    if options.samples and not 0.01 <= options.temperature <= 100:
        raise UsageError(f"--temperature is {options.temperature}: give 0.01 to 100, or --samples 0 to draw nothing")
    for flag, value, least, most in (
        ("--max-tokens", options.max_tokens, 1, 2**31 - 1),
        ("--seed", options.seed, 0, 2**64 - 1),
        ("--threads", options.threads, 1, 256),
    ):
        if value is not None and not least <= value <= most:
            raise UsageError(f"{flag} is {value}: give {least} to {most}")


def _answers(site: Site, prompts: Sequence[tuple[int, ...]], options: Options) -> Iterator[list[int]]:
    """The ids of every answer to these prompts, each behind the end of its prompt; empty answers are left out."""
    requests = [Request(prompt, options.max_tokens) for prompt in prompts]
    if options.samples:
        drawn = Sampling(temperature=options.temperature, seed=options.seed)
        requests += [Request(prompt, options.max_tokens, drawn, n=options.samples) for prompt in prompts]
    found: dict[tuple[int, int], list[int]] = {}
    for chunk in site.generator("ngram", GAMMA).generate(requests):
        found.setdefault((chunk.request, chunk.sample), []).extend(chunk.token_ids)
    for (request, _), ids in sorted(found.items()):
        if ids:
            yield [*requests[request].prompt[-TAIL:], *ids]


def _opened(name: str) -> TextIO:
    try:
        return open(name, "a", encoding="utf-8")
    except (OSError, ValueError) as error:  # ValueError: a null character
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"--out {name} cannot be written ({why}): name another file") from None
