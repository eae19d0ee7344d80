"""`outrider run`: the prompt in, the answer out, as plain text, coloured text, JSON or a story."""

from __future__ import annotations

import os
import secrets
import sys
from dataclasses import dataclass
from typing import TextIO

from outrider.cli import sinks
from outrider.cli.tools import Load, Model, Tools
from outrider.errors import UsageError

# The engine's bounds, asked before a model is loaded; tests/cli holds them equal to engine.admission's and loading's.
LOWEST, HIGHEST, MOST_THREADS = 1e-6, 100.0, 256
INTERRUPTED = 130  # 128 + SIGINT, what a shell reports


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of `outrider run`, as given."""

    load: Load
    prompt: str | None
    max_tokens: int
    temperature: float
    seed: int | None
    stop: tuple[str, ...]
    raw: bool
    ignore_eos: bool
    as_json: bool
    explain: bool
    color: str  # auto, always, never


def run(tools: Tools, options: Options) -> int:
    """Answers one prompt; returns the exit status. Raises OutriderError, and UsageError for nonsense."""
    check(options)
    prompt = read_prompt(options.prompt, sys.stdin)
    seed = options.seed
    if seed is None and options.temperature > 0:
        seed = secrets.randbits(32)  # drawn here, so that the answer can name it
    model = tools.load(options.load)
    sink = make_sink(options, seed, model)
    try:
        for chunk in model.stream(
            prompt,
            raw=options.raw,
            max_tokens=options.max_tokens,
            temperature=options.temperature,
            seed=seed,
            stop=options.stop or None,
            ignore_eos=options.ignore_eos,
        ):
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


def check(options: Options) -> None:
    """Raises UsageError for a value that no model could make sense of."""
    load = options.load
    rules = (
        (load.gamma is not None and load.gamma < 0, f"--gamma is {load.gamma}: give 0 or more drafted tokens per pass"),
        (bool(load.gamma) and load.drafter == "none", "--gamma needs a drafter: leave out --drafter none"),
        (
            load.threads is not None and not 1 <= load.threads <= MOST_THREADS,
            f"--threads is {load.threads}: give 1 to {MOST_THREADS}",
        ),
        (options.max_tokens < 1, f"--max-tokens is {options.max_tokens}: give 1 or more"),
        (
            not (options.temperature == 0 or LOWEST <= options.temperature <= HIGHEST),  # NaN fails both
            f"--temperature is {options.temperature}: give 0 (the likeliest token), or {LOWEST:g} to {HIGHEST:g}",
        ),
        (
            options.seed is not None and not 0 <= options.seed < 2**64,
            f"--seed is {options.seed}: give a number from 0 to 2**64 - 1",
        ),
        ("" in options.stop, "--stop is empty: give the text at which the answer should end"),
    )
    for wrong, message in rules:
        if wrong:
            raise UsageError(message)


def read_prompt(given: str | None, stdin: TextIO | None) -> str:
    """The prompt from the argument, or from standard input for `-` and for none. Raises UsageError.

    Both have to be UTF-8. From input, a byte order mark is dropped, line ends become newlines, and the last one, which
    echo and editors add, is not part of the prompt.
    """
    if given is not None and given != "-":
        return decoded(os.fsencode(given), "the prompt")
    if stdin is None or (given is None and stdin.isatty()):  # None: the shell closed it
        raise UsageError('there is no prompt: give one, as in outrider run "Why is the sky blue?", or pipe it in')
    text = decoded(stdin.buffer.read(), "standard input").removeprefix("\ufeff")
    text = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
    if not text:
        raise UsageError("standard input is empty: there is nothing to answer")
    return text


def decoded(raw: bytes, where: str) -> str:
    """The bytes as text; raises UsageError where they are not UTF-8, or none at all."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{where} is not UTF-8 (byte 0x{raw[error.start]:02x} at offset {error.start}): convert it first, for "
            "example with iconv -f latin1 -t utf-8"
        ) from None
    if not text:
        raise UsageError(f"{where} is empty: there is nothing to answer")
    return text


def wants_colour(choice: str, terminal: bool) -> bool:
    """Whether to colour: as chosen, and for auto on a terminal that knows colours and a user who did not say no."""
    if choice == "auto":
        return terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return choice == "always"


def make_sink(options: Options, seed: int | None, model: Model) -> sinks.Sink:
    """The sink that the flags ask for, on standard output."""
    terminal = sys.stdout.isatty()
    colour = wants_colour(options.color, terminal)
    if options.as_json:
        return sinks.JsonSink(sys.stdout, seed if options.temperature > 0 else None, options.explain)
    if options.explain:
        return sinks.StorySink(sys.stdout, model, colour)
    return sinks.TextSink(sys.stdout, sys.stderr, model, terminal, colour)
