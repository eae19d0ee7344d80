"""`outrider run`: the prompt in, the answer out, as plain text, coloured text, JSON or a story."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from dataclasses import replace

from outrider.api import Chunk
from outrider.cli import sinks
from outrider.cli.checks import check
from outrider.cli.inputs import read_form, read_guessing, read_prompt
from outrider.cli.tools import Model, Options, Tools

INTERRUPTED = 130  # 128 + SIGINT, what a shell reports


def run(tools: Tools, options: Options) -> int:
    """Answers one prompt; returns the exit status. Raises OutriderError, and UsageError for nonsense."""
    check(options)
    ask, stdin = options.ask, sys.stdin
    form = read_form(ask.form, options.prompt, stdin)
    guessing = read_guessing(ask.guessing, options.prompt, stdin)
    prompt = read_prompt(options.prompt, stdin)
    chance = ask.chance
    if chance.seed is None and chance.temperature > 0:
        chance = replace(chance, seed=secrets.randbits(32))  # drawn here, so that the answer can name it
    model = tools.load(options.load)
    sink = make_sink(options, chance.seed, model)
    try:
        for chunk in in_turn(model.answer(prompt, replace(ask, form=form, chance=chance, guessing=guessing))):
            sink.add(chunk)
    except BrokenPipeError:
        raise  # nobody is left to tell
    except KeyboardInterrupt:
        sink.interrupted()
        return INTERRUPTED
    except BaseException:
        sink.broken()
        raise
    sink.close()
    return 0


def in_turn(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """The chunks of one sample after those of another: sample 0 as it comes, each next one once the last has ended."""
    waiting: dict[int, list[Chunk]] = {}
    current = 0
    for chunk in chunks:
        if chunk.sample != current:
            waiting.setdefault(chunk.sample, []).append(chunk)
            continue
        yield chunk
        while chunk.finish_reason is not None:
            current += 1
            held = waiting.pop(current, [])
            yield from held
            if not held:
                break
            chunk = held[-1]


def wants_colour(choice: str, terminal: bool) -> bool:
    """Whether to colour: as chosen, and for auto on a terminal that knows colours and a user who did not say no."""
    if choice == "auto":
        return terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return choice == "always"


def make_sink(options: Options, seed: int | None, model: Model) -> sinks.Sink:
    """The sink that the flags ask for, on standard output."""
    terminal = sys.stdout.isatty()
    colour = wants_colour(options.color, terminal)
    n = options.ask.telling.n
    if options.as_json:
        return sinks.JsonSink(sys.stdout, seed if options.ask.chance.temperature > 0 else None, options.explain, n)
    if options.explain:
        return sinks.StorySink(sys.stdout, model, colour, n)
    return sinks.TextSink(sys.stdout, sys.stderr, model, terminal, colour, n)
