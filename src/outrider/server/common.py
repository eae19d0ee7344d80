"""The fields that chat and plain completions share."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from outrider.asking import Chance, Ending, Guessing, Nudges
from outrider.server.house import House, Limits, Settings
from outrider.server.problems import BAD, NOT_FOUND, Problem
from outrider.server.reading import Reader

MOST_TOKENS = 1 << 30
MOST_LOGPROBS = 20
MOST_CHOICES = 128
_SEED_MASK = (1 << 64) - 1

REMEDIES = {
    "functions": "use tools",
    "function_call": "use tool_choice",
    "suffix": "put it into the prompt",
    "audio": "only text is written",
}
# Fields that an engine's own sentences may begin with.
PARAMS = frozenset(
    {
        *("prompt", "stop", "seed", "n", "logprobs", "max_tokens", "min_tokens", "max_draft", "prediction"),
        *("drafters", "temperature", "top_k", "top_p", "min_p", "logit_bias"),
        *("frequency_penalty", "presence_penalty", "repetition_penalty"),
    }
)


@dataclass(frozen=True, slots=True)
class Manner:
    """How an answer is told: in a stream or whole, with what beside it."""

    stream: bool
    usage: bool  # a last event of a stream that has the usage
    token_chunks: bool  # one token an event
    story: bool  # where each token came from


@dataclass(frozen=True, slots=True)
class Common:
    """The shared fields, read; the seed is drawn where none was given."""

    manner: Manner
    chance: Chance
    nudges: Nudges
    ending: Ending  # but for max_tokens, which waits for the prompt
    guessing: Guessing
    n: int
    user: str | None

    @property
    def seed(self) -> int | None:
        """What repeats the answer; None where nothing is drawn."""
        return self.chance.seed if self.chance.temperature > 0 else None


def read(reader: Reader, house: House, settings: Settings) -> Common:
    """Take the shared fields. Raises Problem."""
    _model(reader, house)
    manner = _manner(reader)
    seed = reader.whole("seed", -(1 << 63), _SEED_MASK)
    chance = Chance(
        temperature=reader.number("temperature", settings.temperature, 0.0, 100.0),
        top_k=reader.whole("top_k", 0, MOST_TOKENS) or 0,
        top_p=reader.number("top_p", 1.0, 0.0, 1.0),
        min_p=reader.number("min_p", 0.0, 0.0, 1.0),
        seed=secrets.randbits(32) if seed is None else seed & _SEED_MASK,
    )
    nudges = Nudges(
        frequency_penalty=reader.number("frequency_penalty", 0.0, -2.0, 2.0),
        presence_penalty=reader.number("presence_penalty", 0.0, -2.0, 2.0),
        repetition_penalty=reader.number("repetition_penalty", 1.0, 0.01, 10.0),
        logit_bias=_bias(reader),
    )
    guessing = Guessing(
        speculate=reader.flag("speculate", True),
        max_draft=reader.whole("max_draft", 0, MOST_TOKENS),
        prediction=_prediction(reader),
        drafters=_drafters(reader),
    )
    n = reader.whole("n", 1, MOST_CHOICES) or 1
    # What they may say is what is done anyway.
    reader.only("store", (False,))
    reader.only("service_tier", ("auto", "default"))
    ending = Ending(
        min_tokens=reader.whole("min_tokens", 0, MOST_TOKENS) or 0,
        ignore_eos=reader.flag("ignore_eos", False),
        stop=_stop(reader),
    )
    return Common(manner, chance, nudges, ending, guessing, n, reader.text("user"))


def most_tokens(given: int | None, default: int | None, prompt_tok: int, context: int, limits: Limits) -> int:
    """How long an answer may become: what was asked for, else the default, else all that the context leaves.

    Raises Problem where more was asked for than this server gives.
    """
    most = limits.answer_tok
    if given is not None and most is not None and given > most:
        raise Problem(BAD, f"max_tokens is {given}; this server gives at most {most}", "max_tokens")
    room = max(1, context - prompt_tok)
    wanted = room if given is None and default is None else given or default or room
    return wanted if most is None else min(wanted, most)


def check_prompt(prompt_tok: int, limits: Limits) -> None:
    """Raises Problem for a prompt that is longer than this server takes."""
    if limits.prompt_tok is not None and prompt_tok > limits.prompt_tok:
        raise Problem(
            BAD,
            f"the prompt has {prompt_tok} tokens; this server takes at most {limits.prompt_tok}",
            "prompt",
            "context_length_exceeded",
        )


def _model(reader: Reader, house: House) -> None:
    name = reader.text("model")
    if name is not None and name != house.model:
        raise Problem(NOT_FOUND, f"there is no model {name!r} here; it is {house.model!r}", "model", "model_not_found")


def _manner(reader: Reader) -> Manner:
    stream = reader.flag("stream", False)
    options = reader.inner("stream_options")
    usage = False
    if options is not None:
        if not stream:
            raise Problem(BAD, "stream_options needs stream: true; leave one out", "stream_options")
        usage = options.flag("include_usage", False)
        options.only("include_obfuscation", (False,))
        options.done()
    token_chunks = reader.flag("token_chunks", False)
    if token_chunks and not stream:
        raise Problem(BAD, "token_chunks needs stream: true; leave one out", "token_chunks")
    return Manner(stream, usage, token_chunks, reader.flag("story", False))


def _stop(reader: Reader) -> tuple[str, ...]:
    value = reader.take("stop")
    if value is None:
        return ()
    texts = value if isinstance(value, list) else [value]
    found = tuple(text for text in texts if isinstance(text, str))
    if len(found) != len(texts):
        raise reader.wrong("stop", value, "give a text, or a list of texts")
    return found


def _drafters(reader: Reader) -> tuple[str, ...] | None:
    items = reader.items("drafters")
    if items is None:
        return None
    found = tuple(name for name in items if isinstance(name, str))
    if len(found) != len(items):
        raise reader.wrong("drafters", items, 'give a list of names, such as ["suffix"]')
    return found


def _bias(reader: Reader) -> dict[int, float] | None:
    given = reader.take("logit_bias")
    if given is None:
        return None
    if not isinstance(given, dict):
        raise reader.wrong("logit_bias", given, 'give an object such as {"50": -100}')
    found: dict[int, float] = {}
    for key, value in given.items():
        if not key.isascii() or not key.isdigit() or not isinstance(value, int | float) or isinstance(value, bool):
            raise reader.wrong(
                "logit_bias", {key: value}, 'a key is a token id and a value a number, as in {"50": -100}'
            )
        if int(key) in found:
            raise reader.wrong("logit_bias", {key: value}, "the id has a bias already; give each one")
        found[int(key)] = float(value)
    return found


def _prediction(reader: Reader) -> str | None:
    inner = reader.inner("prediction")
    if inner is None:
        return None
    inner.only("type", ("content",))
    text = content(inner, "content")
    inner.done()
    return text


def content(reader: Reader, name: str) -> str | None:
    """A text, or a list of parts that are all text, joined; None where it is absent. Raises Problem."""
    value = reader.take(name)
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise reader.wrong(name, value, "give a text, or a list of text parts")
    texts = []
    for index, part in enumerate(value):
        inner = Reader(part, f"{reader.path(name)}[{index}]")
        inner.only("type", ("text",))
        texts.append(inner.text("text") or "")
        inner.done()
    return "".join(texts)
