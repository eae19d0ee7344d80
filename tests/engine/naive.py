"""Plain decoding as one would write it down: one token after the other, everything from scratch, no engine.

The engine is compared with it, with speculation on and off. Texts are those of worlds.PIECES.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from tests.engine.worlds import EOS, PIECES

from outrider.api import Constraint, FinishReason, Logprob, LogprobsMode, Request
from outrider.core import sampling
from outrider.core.sampling import Draw
from outrider.core.types import FloatArray, WordArray
from outrider.errors import UsageError
from outrider.testing.table import LogitsOf

Content: TypeAlias = tuple[str, tuple[int, ...], FinishReason, tuple[Logprob, ...] | None]


@dataclass(frozen=True, slots=True)
class Language:
    """A constraint for tests: the text must be one of the strings, which are separated by "|"."""

    strings: tuple[str, ...]

    def next(self, text: str) -> set[int]:
        """The ids that may come after a text, the end of text included where it may end."""
        found = {
            token
            for token, piece in enumerate(PIECES[:EOS])
            if piece and any(string.startswith(text + piece) for string in self.strings)
        }
        return found | ({EOS} if text in self.strings else set())


class LanguageMatcher:
    """constraints.base.Matcher over a Language."""

    def __init__(self, constraint: Constraint) -> None:
        if constraint.text == "!":
            raise UsageError("the constraint is '!', which nothing satisfies")
        self._language = Language(tuple(constraint.text.split("|")))
        self._tokens: list[int] = []

    @property
    def _text(self) -> str:
        return "".join(PIECES[token] for token in self._tokens)

    @property
    def ended(self) -> bool:
        return self._language.next(self._text) == {EOS}

    def mask(self) -> WordArray:
        bits = sum(1 << token for token in self._language.next(self._text))
        return np.array([bits], np.uint32)

    def push(self, token: int) -> bool:
        if token == EOS or token not in self._language.next(self._text):
            return False
        self._tokens.append(token)
        return True

    def pop(self, count: int) -> None:
        assert 0 < count <= len(self._tokens)
        del self._tokens[-count:]

    def allows(self, tokens: Sequence[int]) -> int:
        count = 0
        for token in tokens:
            if not self.push(token):
                break
            count += 1
        if count:
            self.pop(count)
        return count

    def forced(self, most: int) -> tuple[int, ...]:
        """Always the shortest pieces of the only string that is left: sometimes not what the target takes."""
        left = [string for string in self._language.strings if string.startswith(self._text)]
        rest = left[0][len(self._text) :] if len(left) == 1 else ""
        found: list[int] = []
        while rest and len(found) < most:
            pieces = [piece for piece in PIECES[:EOS] if piece and rest.startswith(piece)]
            if not pieces:
                break
            found.append(PIECES.index(min(pieces, key=len)))
            rest = rest[len(PIECES[found[-1]]) :]
        return tuple(found)


def adjusted(logits: FloatArray, request: Request, answer: Sequence[int], language: Language | None) -> FloatArray:
    """Penalties, bias and masks, id by id."""
    s, row = request.sampling, logits.copy()
    counts = Counter(answer)
    bias = dict(s.logit_bias)
    for token in range(len(row)):
        value = row[token]
        if token in counts or token in request.prompt:
            factor = np.float32(s.repetition_penalty)
            value = value / factor if value > 0 else value * factor
        presence = s.presence_penalty if counts[token] else 0.0
        row[token] = value + np.float32(bias.get(token, 0.0) - s.frequency_penalty * counts[token] - presence)
    for token in choices(request, answer, language, set(range(len(row)))):
        row[token] = -np.inf
    return row


def choices(request: Request, answer: Sequence[int], language: Language | None, every: set[int]) -> set[int]:
    """The ids that must not be chosen."""
    s = request.sampling
    ends = set(request.stop_token_ids) | (set() if request.ignore_eos else {EOS})
    forbidden = set(s.banned_token_ids)
    if s.allowed_token_ids is not None:
        forbidden |= every - set(s.allowed_token_ids)
    if len(answer) < request.min_tokens:
        forbidden |= ends
    if language is not None:
        allowed = language.next("".join(PIECES[token] for token in answer))
        if allowed == {EOS}:
            return every - allowed
        forbidden |= every - allowed
        if request.ignore_eos:
            forbidden |= {EOS}
    return forbidden


def decode(law: LogitsOf, request: Request, sample: int = 0, context: int = 256) -> Content:
    """Text, ids, end and log-probabilities of one sample of a request."""
    s = replace(request.sampling, sample=request.sampling.sample + sample)
    draw = Draw(s.temperature, s.seed, s.sample, s.top_k, s.top_p, s.min_p, s.typical_p)
    language = None if request.constraint is None else Language(tuple(request.constraint.text.split("|")))
    answer: list[int] = []
    entries: list[Logprob] = []
    while True:
        known = (*request.prompt, *answer)
        logits = law(known)
        row = adjusted(logits, request, answer, language)
        token = sampling.token(row, draw, len(known))
        if request.logprobs is not None:
            processed = request.logprobs_mode is LogprobsMode.PROCESSED
            entries.append(
                sampling.logprobs(row if processed else logits, token, request.logprobs, draw if processed else None)
            )
        text = "".join(PIECES[token] for token in answer)
        if row[token] == -np.inf:
            return _content(request, text, answer, entries, FinishReason.STUCK)
        if token in request.stop_token_ids or (token == EOS and not request.ignore_eos):
            return _content(request, text, answer, entries, FinishReason.STOP)
        answer.append(token)
        text += PIECES[token]
        cut = _stop(request, answer)
        if cut is not None:
            kept = max(_tokens_before(answer, cut), min(request.min_tokens, len(answer)))
            return _content(request, text[:cut], answer[:kept], entries, FinishReason.STOP)
        if language is not None and language.next(text) == {EOS}:
            return _content(request, text, answer, entries, FinishReason.STOP)
        if len(answer) == min(request.max_tokens, context - len(request.prompt)):
            return _content(request, text, answer, entries, FinishReason.LENGTH)


def prompt_logprobs(law: LogitsOf, request: Request, top: int) -> tuple[Logprob | None, ...]:
    """Log-probabilities of the prompt's tokens."""
    prompt = tuple(request.prompt)
    later = [sampling.logprobs(law(prompt[:at]), prompt[at], top, None) for at in range(1, len(prompt))]
    return (None, *later)


def _stop(request: Request, answer: Sequence[int]) -> int | None:
    """Where the text is cut, if a stop string is complete."""
    if len(answer) <= request.min_tokens:
        return None
    text = "".join(PIECES[token] for token in answer)
    begin = len("".join(PIECES[token] for token in answer[: request.min_tokens]))
    hits = [at for stop in request.stop if (at := text.find(stop, begin)) >= 0]
    return min(hits, default=None)


def _tokens_before(answer: Sequence[int], cut: int) -> int:
    """The tokens whose text starts before the cut."""
    starts = [len("".join(PIECES[token] for token in answer[:count])) for count in range(len(answer))]
    return sum(start < cut for start in starts)


def _content(
    request: Request, text: str, answer: Sequence[int], entries: Sequence[Logprob], finish: FinishReason
) -> Content:
    logprobs = None if request.logprobs is None else tuple(entries[: len(answer)])
    return text, tuple(answer), finish, logprobs
