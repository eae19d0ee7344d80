"""/v1/completions, the older form: texts or ids that are continued as they stand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from outrider.api import Chunk, FinishReason, Logprob, Request, Usage
from outrider.asking import Ask, Form, Telling
from outrider.server.common import MOST_LOGPROBS, MOST_TOKENS, REMEDIES, Common, check_prompt, most_tokens, read
from outrider.server.counting import PredictionCount, usage_json
from outrider.server.house import Face, House, Limits, Settings
from outrider.server.pieces import Splitter, one_by_one
from outrider.server.problems import BAD, Problem
from outrider.server.reading import Reader
from outrider.server.telling import LOWEST_LOGPROB, Envelope, Json, finish, story

KIND = "text_completion"
MOST_PROMPTS = 64
DEFAULT_TOKENS = 16  # OpenAI's


@dataclass(frozen=True, slots=True)
class Completion:
    """A completion request, read; a prompt is a text or ids."""

    common: Common
    prompts: tuple[str | tuple[int, ...], ...]
    max_tokens: int | None
    logprobs: int | None
    echo: bool

    def requests(self, face: Face, limits: Limits, scope: str) -> list[Request]:
        """What the engine is asked, one for each prompt. Raises Problem and UsageError."""
        return [self._request(prompt, face, limits, scope) for prompt in self.prompts]

    def _request(self, given: str | tuple[int, ...], face: Face, limits: Limits, scope: str) -> Request:
        prompt = face.raw(given) if isinstance(given, str) else list(given)
        check_prompt(len(prompt), limits)
        most = most_tokens(self.max_tokens, DEFAULT_TOKENS, len(prompt), face.context, limits)
        common = self.common
        told = Telling(
            n=common.n, logprobs=self.logprobs, prompt_logprobs=self.logprobs if self.echo else None, echo=self.echo
        )
        ending = replace(common.ending, max_tokens=most)
        ask = Ask(True, common.chance, common.nudges, ending, Form(), told, common.guessing)
        return replace(ask.request(prompt, face.plain(common.guessing.text())), scope=scope)


def parse(data: object, house: House, settings: Settings) -> Completion:
    """The request of a JSON body. Raises Problem naming the first field that is wrong or not supported."""
    reader = Reader(data)
    common = read(reader, house, settings)
    prompts = _prompts(reader)
    most = reader.whole("max_tokens", 1, MOST_TOKENS)
    logprobs = reader.whole("logprobs", 0, MOST_LOGPROBS)
    echo = reader.flag("echo", False)
    best = reader.whole("best_of", 1, MOST_TOKENS)
    if best is not None and best != common.n:
        raise reader.wrong("best_of", best, f"only as many as n, {common.n}, are written")
    reader.done(REMEDIES)
    return Completion(common, prompts, most, logprobs, echo)


def _prompts(reader: Reader) -> tuple[str | tuple[int, ...], ...]:
    given = reader.take("prompt")
    if given is None:
        raise Problem(BAD, "prompt is missing; give a text, token ids, or a list of them", "prompt")
    if isinstance(given, str):
        return (given,)
    if isinstance(given, list) and given:
        if all(map(_is_id, given)):
            return (tuple(given),)
        if len(given) > MOST_PROMPTS:
            raise Problem(BAD, f"prompt has {len(given)} prompts; give at most {MOST_PROMPTS}", "prompt")
        if all(isinstance(one, str) for one in given):
            return tuple(given)
        if all(isinstance(one, list) and one and all(map(_is_id, one)) for one in given):
            return tuple(tuple(one) for one in given)
    raise reader.wrong("prompt", given, "give a text, token ids, or a list of them")


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


class _Logprobs:
    """The older form of log-probabilities: parallel lists, with the place of each token in the text."""

    def __init__(self, face: Face) -> None:
        self._face = face
        self._end = 0
        self._lists: Json = {}
        self.clear()

    def clear(self) -> None:
        """Begin the lists of the next event; places go on."""
        self._lists = {"text_offset": [], "token_logprobs": [], "tokens": [], "top_logprobs": []}

    def add(self, ids: Iterable[int], told: Iterable[Logprob | None]) -> None:
        """The next tokens; None for the first of a prompt, of which nothing can be said."""
        for token, logprob in zip(ids, told, strict=True):
            name = self._name(token)
            top = None
            if logprob is not None:
                top = {self._name(one): max(value, LOWEST_LOGPROB) for one, value in logprob.top}
                top.setdefault(name, max(logprob.logprob, LOWEST_LOGPROB))
            row = (self._end, None if logprob is None else max(logprob.logprob, LOWEST_LOGPROB), name, top)
            for column, value in zip(self._lists.values(), row, strict=True):
                if isinstance(column, list):
                    column.append(value)
            self._end += len(self._face.token_text(token))

    def _name(self, token: int) -> str:
        """The token's text, or its bytes spelt out where they are a part of a character: names must differ."""
        spelt = self._face.token_bytes(token)
        try:
            return spelt.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in spelt)

    def lists(self) -> Json:
        """What was added since the last clear."""
        return dict(self._lists)


class Choice:
    """One answer on its way out."""

    def __init__(self, index: int, face: Face, asked: Completion, request: Request) -> None:
        self.index = index
        self.count = PredictionCount(request.prediction)
        self.usage: Usage | None = None
        self._reason: FinishReason | None = None
        self._text: list[str] = []
        self._stories: list[Json] = []
        self._manner = asked.common.manner
        self._prompt = request.prompt
        self._logprobs = None if asked.logprobs is None else _Logprobs(face)
        split = self._manner.token_chunks or self._manner.story
        self._splitter = Splitter(face.detokenizer()) if split else None

    def begin(self, text: str) -> Json:
        """The prompt's own text, where it was asked for."""
        self._text.append(text)
        return self._choice(text, None, None)

    def events(self, chunk: Chunk) -> list[Json]:
        """What a chunk adds, as choices of a stream."""
        self.count.see(chunk.story)
        if self._logprobs is not None and chunk.prompt_logprobs is not None:
            self._logprobs.add(self._prompt, chunk.prompt_logprobs)
        pieces = self._splitter.split(chunk) if self._splitter else []
        told = story(chunk, pieces) if self._manner.story else None
        parts = list(one_by_one(chunk, pieces)) if self._manner.token_chunks else [chunk]
        return [self._event(part, told if number == 0 else None) for number, part in enumerate(parts)]

    def _event(self, chunk: Chunk, told: Json | None) -> Json:
        self._text.append(chunk.text)
        if chunk.finish_reason is not None:
            self._reason, self.usage = chunk.finish_reason, chunk.usage
        if self._logprobs is not None:
            self._logprobs.add(chunk.token_ids, chunk.logprobs or ())
        if told is not None:
            self._stories.append(told)
        found = self._choice(chunk.text, chunk.finish_reason, told)
        if self._logprobs is not None and self._manner.stream:
            self._logprobs.clear()
        return found

    def whole(self) -> Json:
        """The choice of a response that is no stream."""
        found = self._choice("".join(self._text), self._reason, None)
        return {**found, "outrider": self._stories} if self._stories else found

    def _choice(self, text: str, reason: FinishReason | None, told: Json | None) -> Json:
        lists = None if self._logprobs is None else self._logprobs.lists()
        found: Json = {"index": self.index, "text": text, "logprobs": lists, "finish_reason": finish(reason)}
        if told is not None:
            found["outrider"] = told
        elif reason is FinishReason.STUCK:
            found["outrider"] = {"finish": reason.value}
        return found


class CompletionTeller:
    """Tells the answers to all prompts of one request, as events or as one object."""

    def __init__(self, house: House, asked: Completion, requests: Sequence[Request]) -> None:
        manner = asked.common.manner
        self.envelope = Envelope.of(house, "cmpl", asked.common.seed, manner.stream, manner.usage)
        self._asked = asked
        self._requests = requests
        self._face = house.face
        n = asked.common.n
        self._choices = [
            [Choice(n * number + sample, house.face, asked, request) for sample in range(n)]
            for number, request in enumerate(requests)
        ]

    def first(self) -> list[Json]:
        """The events before any answer: the prompts, where they are wanted."""
        if not self._asked.echo:
            return []
        found = []
        for request, given, choices in zip(self._requests, self._asked.prompts, self._choices, strict=True):
            text = given if isinstance(given, str) else self._face.text(request.prompt)
            found += [self.envelope.wrap(KIND, [choice.begin(text)]) for choice in choices]
        return found

    def events(self, number: int, chunk: Chunk) -> list[Json]:
        """The events of a chunk of the answer to prompt `number`."""
        return [self.envelope.wrap(KIND, [one]) for one in self._choices[number][chunk.sample].events(chunk)]

    def last(self) -> list[Json]:
        """The events after every answer's end."""
        return [self.envelope.wrap(KIND, [], self.usage())] if self.envelope.usage else []

    def whole(self) -> Json:
        """The one object of a response that is no stream."""
        return self.envelope.wrap(KIND, [one.whole() for choices in self._choices for one in choices], self.usage())

    def usage(self) -> Json:
        """What all of it cost."""
        every = [choice for choices in self._choices for choice in choices]
        prompt_tok = sum(len(request.prompt) for request in self._requests)
        usages = [choice.usage for choice in every if choice.usage is not None]
        return usage_json(prompt_tok, usages, [choice.count for choice in every])
