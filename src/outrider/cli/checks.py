"""What the flags of `outrider run` must be, asked before a model is loaded.

The bounds are the engine's; tests/cli holds them equal to engine.admission's and loading's.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence

from outrider.cli.tools import Options
from outrider.drafters import plugins
from outrider.errors import UsageError

MOST_THREADS, MOST_STOPS, MOST_SAMPLES, MOST_LOGPROBS = 256, 16, 128, 100
LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 1e-6, 100.0
LOWEST_REPETITION, HIGHEST_REPETITION = 0.01, 10.0


def check(options: Options) -> None:
    """Raises UsageError for a value that no model could make sense of, and for flags that do not go together."""
    load = options.load
    known_drafter("--drafter", load.drafter)
    companions = drafter_needs([load.drafter], load.draft_model, load.store, load.head)
    for complaint in (*_values(options), *_texts(options), *_together(options), *companions):
        raise UsageError(complaint)


def known_drafter(flag: str, name: str) -> None:
    """Raises UsageError where no drafter of this name is built in or installed."""
    try:
        plugins.check(name)
    except UsageError as error:
        raise UsageError(f"{flag}: {error}") from None


def drafter_needs(names: Sequence[str], draft_model: str | None, store: str | None, head: str | None) -> Iterator[str]:
    """What drafters lack for their work, and what is given that none of them uses; a complaint each."""
    if draft_model is None and "model" in names:
        yield "the drafter model needs --draft-model"
    for flag, given, users in (
        ("--draft-model", draft_model, plugins.WITH_MODEL),
        ("--store", store, plugins.WITH_STORE),
        ("--head", head, plugins.WITH_HEAD),
    ):
        if given is not None and not set(users) & set(names):
            yield f"{flag} is for the drafters {' and '.join(users)}: choose one of them"


def ids(flag: str, given: str | None) -> tuple[int, ...] | None:
    """Token ids between commas. Raises UsageError."""
    if given is None:
        return None
    try:
        return tuple(_whole(one) for one in given.split(","))
    except ValueError:
        raise UsageError(f"{flag} is {given!r}: give token ids, such as 2,17") from None


def biases(given: Sequence[str] | None) -> dict[int, float] | None:
    """ID=BIAS, several times. Raises UsageError."""
    if not given:
        return None
    found: dict[int, float] = {}
    for one in given:
        token, _, bias = one.partition("=")
        try:
            at, value = _whole(token), float(bias)
        except ValueError:
            raise UsageError(f"--logit-bias is {one!r}: give ID=BIAS, such as 50=-3.5") from None
        if at in found:
            raise UsageError(f"--logit-bias names token {at} twice: give it once")
        if not -100 <= value <= 100:  # NaN fails too
            raise UsageError(f"--logit-bias is {one!r}: a bias lies in -100 to 100; --banned-token-ids forbids a token")
        found[at] = value
    return found


def tokens(
    bias: Sequence[str] | None, allowed: str | None, banned: str | None
) -> tuple[dict[int, float] | None, tuple[int, ...] | None, tuple[int, ...] | None]:
    """The three flags that name single tokens. Raises UsageError."""
    return biases(bias), ids("--allowed-token-ids", allowed), ids("--banned-token-ids", banned)


def text_of(given: str, flag: str) -> str:
    """An argument as text; raises UsageError where it is not UTF-8, or empty."""
    return decoded(os.fsencode(given), flag, "give at least one character")


def decoded(raw: bytes, where: str, remedy: str) -> str:
    """The bytes as text; raises UsageError where they are not UTF-8, or none at all."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{where} is not UTF-8 (byte 0x{raw[error.start]:02x} at offset {error.start}): convert it first, for "
            "example with iconv -f latin1 -t utf-8"
        ) from None
    if not text:
        raise UsageError(f"{where} is empty: {remedy}")
    return text


def _whole(text: str) -> int:
    # int() would take "1_000" and " 7" as well, which nobody means.
    if not (text.isascii() and text.isdigit()):
        raise ValueError(text)
    return int(text)


def _values(options: Options) -> Iterator[str]:
    load, ask = options.load, options.ask
    chance, nudges, ending, telling = ask.chance, ask.nudges, ask.ending, ask.telling
    says = "0 (plain decoding) or more tokens per pass"
    yield from _between("--max-draft", ask.guessing.max_draft, 0, 2**31 - 1, says)
    lowest, highest = LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE
    yield from _between("--gamma", load.gamma, 0, math.inf, "0 or more drafted tokens per pass")
    yield from _between("--threads", load.threads, 1, MOST_THREADS, f"1 to {MOST_THREADS}")
    if chance.temperature != 0:
        says = f"0 (the likeliest token), or {lowest:g} to {highest:g}"
        yield from _between("--temperature", chance.temperature, lowest, highest, says)
    yield from _between("--top-k", chance.top_k, 0, 2**31 - 1, "0 (off) to 2**31 - 1 tokens")
    yield from _between("--top-p", chance.top_p, math.ulp(0.0), 1, "a probability above 0, up to 1 (off)")
    yield from _between("--min-p", chance.min_p, 0, 1, "0 (off) to 1")
    yield from _between("--typical-p", chance.typical_p, math.ulp(0.0), 1, "a probability above 0, up to 1 (off)")
    yield from _between("--seed", chance.seed, 0, 2**64 - 1, "a number from 0 to 2**64 - 1")
    yield from _between("--frequency-penalty", nudges.frequency_penalty, -2, 2, "-2 to 2; 0 is off")
    yield from _between("--presence-penalty", nudges.presence_penalty, -2, 2, "-2 to 2; 0 is off")
    lowest, highest = LOWEST_REPETITION, HIGHEST_REPETITION
    says = f"{lowest:g} to {highest:g}; 1 is off"
    yield from _between("--repetition-penalty", nudges.repetition_penalty, lowest, highest, says)
    yield from _between("--max-tokens", ending.max_tokens, 1, math.inf, "1 or more")
    says = f"0 to --max-tokens, which is {ending.max_tokens}"
    yield from _between("--min-tokens", ending.min_tokens, 0, ending.max_tokens, says)
    yield from _between("--n", telling.n, 1, MOST_SAMPLES, f"1 to {MOST_SAMPLES} answers")
    for flag, count in (("--logprobs", telling.logprobs), ("--prompt-logprobs", telling.prompt_logprobs)):
        yield from _between(flag, count, 0, MOST_LOGPROBS, f"0 to {MOST_LOGPROBS} alternatives")


def _between(flag: str, value: float | None, lowest: float, highest: float, allowed: str) -> Iterator[str]:
    if value is not None and not lowest <= value <= highest:  # NaN fails both
        yield f"{flag} is {value}: give {allowed}"


def _texts(options: Options) -> Iterator[str]:
    """Texts that are empty or not UTF-8 raise by themselves."""
    stops, form = options.ask.ending.strings(), options.ask.form
    if len(stops) > MOST_STOPS:
        yield f"--stop is given {len(stops)} times: give at most {MOST_STOPS}"
    for stop in stops:
        text_of(stop, "--stop")
    for flag, text in (("--regex", form.regex), ("--constrain-after", form.constrain_after)):
        if text is not None:
            text_of(text, flag)


def _together(options: Options) -> Iterator[str]:
    load, form, telling = options.load, options.ask.form, options.ask.telling
    if load.gamma and load.drafter == "none":
        yield "--gamma needs a drafter: leave out --drafter none"
    guessing = options.ask.guessing
    for flag, value in (("--max-draft", guessing.max_draft), ("--prediction", guessing.prediction)):
        if value is not None and load.drafter == "none":
            yield f"{flag} needs a drafter: leave out --drafter none"
        if value is not None and not guessing.speculate:
            yield f"{flag} and --no-speculate do not go together"
    if load.gamma and not guessing.speculate:
        yield "--gamma and --no-speculate do not go together"
    files = {"--json-schema": form.json_schema, "--grammar": form.grammar, "--prediction": guessing.prediction}
    piped = [flag for flag, name in files.items() if name == "-"]
    if len(piped) > 1:
        yield f"{' and '.join(piped)} would both read standard input: give one of them as a file"
    forms = {"--json-schema": form.json_schema, "--regex": form.regex, "--grammar": form.grammar}
    given = [flag for flag, value in forms.items() if value is not None]
    given += ["--json-object"] if form.json_object else []
    if len(given) > 1:
        yield f"{' and '.join(given)} do not go together: an answer has one form"
    if form.constrain_after is not None and not given:
        yield "--constrain-after needs a form: --json-schema, --json-object, --regex or --grammar"
    if telling.logprobs is None and telling.logprobs_mode != "raw":
        yield "--logprobs-mode needs --logprobs"
    for flag, count in (("--logprobs", telling.logprobs), ("--prompt-logprobs", telling.prompt_logprobs)):
        if count is not None and not options.as_json:
            yield f"{flag} tells numbers, which plain text has no place for: add --json"
