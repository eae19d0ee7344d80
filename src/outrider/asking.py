"""What may be asked of a model besides its prompt, in six groups, and the Request that it becomes.

The Python face and the command line share these words. Whether a value is in range is the engine's question
(engine.admission); what is refused here is what a Request cannot even say.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from outrider.api import Constraint, ConstraintKind, LogprobsMode, Request, Sampling
from outrider.errors import UsageError

PREDICTED = "predicted"  # the drafter of predictions
_ANY_OBJECT = '{"type": "object"}'


@dataclass(frozen=True, slots=True)
class Chance:
    """How the law of the next token is narrowed, and what it is drawn with; a seed of None is a new one."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Nudges:
    """What moves or forbids single tokens."""

    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: Mapping[int, float] | None = None
    allowed_token_ids: Iterable[int] | None = None
    banned_token_ids: Iterable[int] | None = None

    def bias(self) -> tuple[tuple[int, float], ...]:
        """logit_bias as pairs. UsageError for what is no mapping, and for a key that is no id."""
        if self.logit_bias is None:
            return ()
        if not isinstance(self.logit_bias, Mapping):
            raise UsageError(f"logit_bias is {self.logit_bias!r:.80}; give a mapping such as {{50256: -100.0}}")
        for key, value in self.logit_bias.items():
            # JSON has only text for keys, so this is the mistake that people make.
            if not isinstance(key, int):
                raise UsageError(
                    f"logit_bias has the key {key!r:.80} (value {value!r:.80}); a key is a token id, an int"
                )
        return tuple(self.logit_bias.items())


@dataclass(frozen=True, slots=True)
class Ending:
    """Where the answer ends."""

    max_tokens: int = 256
    min_tokens: int = 0
    ignore_eos: bool = False
    stop: str | Sequence[str] | None = None
    stop_token_ids: Iterable[int] | None = None

    def strings(self) -> tuple[str, ...]:
        """The stop strings: none, one or several."""
        return () if self.stop is None else (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)


@dataclass(frozen=True, slots=True)
class Form:
    """What the answer's text must be: one of the first four, at most; behind a marker text, if one is given."""

    json_schema: Mapping[str, object] | bool | str | None = None
    json_object: bool = False
    regex: str | None = None
    grammar: str | None = None
    constrain_after: str | None = None

    def constraint(self) -> Constraint | None:
        """The constraint, if there is one. UsageError for two at once, or for a value that is none."""
        texts = {"regex": self.regex, "grammar": self.grammar, "constrain_after": self.constrain_after}
        for name, text in texts.items():
            if text is not None and (not isinstance(text, str) or not text):
                raise UsageError(f"{name} is {text!r:.80}; give a text of at least one character")
        given = [name for name in ("json_schema", "regex", "grammar") if getattr(self, name) is not None]
        given += ["json_object"] if self.json_object else []
        if len(given) > 1:
            raise UsageError(f"{' and '.join(given)} do not go together; give one of them")
        if not given:
            if self.constrain_after is not None:
                raise UsageError(
                    f"constrain_after is {self.constrain_after!r:.80} but there is no constraint; it needs one of "
                    "json_schema, json_object, regex and grammar"
                )
            return None
        if self.regex is not None:
            return Constraint(ConstraintKind.REGEX, self.regex, self.constrain_after)
        if self.grammar is not None:
            return Constraint(ConstraintKind.GRAMMAR, self.grammar, self.constrain_after)
        schema = _ANY_OBJECT if self.json_object else self._schema()
        return Constraint(ConstraintKind.JSON_SCHEMA, schema, self.constrain_after)

    def _schema(self) -> str:
        schema = self.json_schema
        if isinstance(schema, str):
            return schema
        if not isinstance(schema, Mapping | bool):
            raise UsageError(f"json_schema is {schema!r:.80}; give a dict, True or False, or JSON text")
        try:
            return json.dumps(schema if isinstance(schema, bool) else dict(schema), allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"json_schema cannot be written as JSON: {error}") from error


@dataclass(frozen=True, slots=True)
class Telling:
    """How many answers, and what is told besides their text."""

    n: int = 1
    logprobs: int | None = None
    logprobs_mode: str = "raw"
    prompt_logprobs: int | None = None
    echo: bool = False

    def mode(self) -> LogprobsMode:
        """The mode. UsageError for an unknown one, and for one that nothing would follow from."""
        modes = [mode.value for mode in LogprobsMode]
        if self.logprobs_mode not in modes:
            raise UsageError(f"logprobs_mode is {self.logprobs_mode!r:.80}; it may be {' or '.join(map(repr, modes))}")
        mode = LogprobsMode(self.logprobs_mode)
        if mode is not LogprobsMode.RAW and self.logprobs is None:
            raise UsageError(f"logprobs_mode is {mode.value!r} but logprobs is None; ask for logprobs, 0 or more")
        return mode


@dataclass(frozen=True, slots=True)
class Guessing:
    """What speculation may do for this answer; it changes the speed, the answer only where the rule says so."""

    speculate: bool = True
    max_draft: int | None = None
    prediction: str | None = None
    drafters: Sequence[str] | None = None

    def text(self) -> str:
        """The text that is expected in the answer, empty for none. UsageError for what is no text, or never used."""
        if self.prediction is None:
            return ""
        if not isinstance(self.prediction, str):
            raise UsageError(f"prediction is {self.prediction!r:.80}; give the text that the answer may repeat")
        if not self.speculate:
            raise UsageError("there is a prediction but speculate is False, so nothing would use it; leave one out")
        if self.drafters is not None and PREDICTED not in self.drafters:
            raise UsageError(
                f"there is a prediction but drafters leaves out {PREDICTED!r}, so nothing would use it; add it, or "
                "leave the prediction out"
            )
        return self.prediction

    def names(self) -> tuple[str, ...] | None:
        """Who may draft; None: all. UsageError for what is no list of names, and where nobody may."""
        if self.drafters is None:
            return None
        if isinstance(self.drafters, str) or not isinstance(self.drafters, Sequence):
            raise UsageError(f"drafters is {self.drafters!r:.80}; give a list of names, such as ['suffix']")
        if not self.speculate:
            raise UsageError(f"drafters is {self.drafters!r:.80} but speculate is False; leave one out")
        return tuple(self.drafters)


@dataclass(frozen=True, slots=True)
class Ask:
    """Everything that may be asked besides the prompt; raw leaves the chat template out."""

    raw: bool = False
    chance: Chance = field(default_factory=Chance)
    nudges: Nudges = field(default_factory=Nudges)
    ending: Ending = field(default_factory=Ending)
    form: Form = field(default_factory=Form)
    telling: Telling = field(default_factory=Telling)
    guessing: Guessing = field(default_factory=Guessing)

    def request(self, prompt: Sequence[int], prediction: Sequence[int] = ()) -> Request:
        """The request for a prompt's ids and those of guessing.text(). UsageError for what a request cannot say."""
        chance, nudges, ending, telling = self.chance, self.nudges, self.ending, self.telling
        return Request(
            prompt=prompt,
            max_tokens=ending.max_tokens,
            sampling=Sampling(
                repetition_penalty=nudges.repetition_penalty,
                frequency_penalty=nudges.frequency_penalty,
                presence_penalty=nudges.presence_penalty,
                logit_bias=nudges.bias(),
                allowed_token_ids=_ids("allowed_token_ids", nudges.allowed_token_ids),
                banned_token_ids=_ids("banned_token_ids", nudges.banned_token_ids) or (),
                temperature=chance.temperature,
                top_k=chance.top_k,
                top_p=chance.top_p,
                min_p=chance.min_p,
                typical_p=chance.typical_p,
                seed=secrets.randbits(32) if chance.seed is None else chance.seed,
            ),
            stop=ending.strings(),
            ignore_eos=ending.ignore_eos,
            stop_token_ids=_ids("stop_token_ids", ending.stop_token_ids) or (),
            min_tokens=ending.min_tokens,
            n=telling.n,
            logprobs=telling.logprobs,
            logprobs_mode=telling.mode(),
            prompt_logprobs=telling.prompt_logprobs,
            constraint=self.form.constraint(),
            speculate=self.guessing.speculate,
            max_draft=self.guessing.max_draft,
            drafters=self.guessing.names(),
            prediction=tuple(prediction),
        )


def _ids(name: str, given: Iterable[int] | None) -> tuple[int, ...] | None:
    if given is None:
        return None
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise UsageError(f"{name} is {given!r:.80}; give token ids, such as [2, 17]")
    return tuple(given)
