"""The target writes its own data: questions are drawn and answered, and every answer is a line of the file.

Seeds are looked at in their order and answers are written in it, so that the file depends on the recipe alone: neither
on how many are asked together nor on where a run was interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Generator as Iterates
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from outrider.api import FinishReason, Generator, Request, Sampling
from outrider.errors import UsageError
from outrider.train import questions, tasks
from outrider.train.data import Line, Log, key
from outrider.train.tasks import BARE_LEAD, Lead

TOGETHER = 512  # questions that are drawn at once
_LEAST_TOGETHER = 32
_MEAN_TOKENS = 128  # of an answer; only how much is asked at once depends on it
_MOST_USELESS = 4096  # questions in a row of which none can be used: then there will be none

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """How far it is: questions drawn in this run, answers and their tokens in the file."""

    drawn: int
    answers: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Words:
    """Text and ids of the target, and how long a prompt may be."""

    encode: Callable[[str], Sequence[int]]  # plain text
    begin: Callable[[str], Sequence[int]]  # the same at the beginning of a text, with the token that stands there
    decode: Callable[[Sequence[int]], str]  # without special tokens
    context: int


@dataclass(frozen=True, slots=True)
class _Asked:
    """A prompt that waits for its answer; seed None: a user's."""

    seed: int | None
    prompt: Ids  # as it stands in the file
    whole: Ids


def write(
    generator: Generator,
    log: Log,
    prompts: Sequence[Ids],
    tokens: int,
    watch: Callable[[Written], None],
    together: int = TOGETHER,
    *,
    words: Words | None = None,
) -> None:
    """Goes on with a file until its answers have so many tokens, the last of them whole.

    prompts: the user's, whole, that the recipe names; they are answered first. Then, where the recipe says so, come
    the target's own questions; words are needed where the recipe has them led. Raises UsageError where the target
    writes no questions, and for a full disk.
    """
    todo = [_Asked(None, prompt, prompt) for prompt in prompts[log.prompts :]]
    draws = _Draws(log, together if log.recipe.own else 0, words if log.recipe.leads else None)
    while log.tokens < tokens:
        answering, todo = todo[:together], todo[together:]
        openings = _openings(generator, log, answering)
        drawing = [] if todo else draws.requests(tokens - log.tokens)
        if not answering and not draws.busy:
            return
        requests = [
            questions.answer((*one.whole, *opening), log.recipe.answer_tokens - len(opening))
            for one, opening in zip(answering, openings, strict=True)
        ]
        # One list: while the last answers are written, the next questions fill the places that fall free.
        with closing(_in_order(generator, requests + drawing)) as answers:
            for index, ids, reason in answers:
                if index >= len(answering):
                    draws.take(ids, reason)
                else:
                    one, opening = answering[index], openings[index]
                    log.add(Line(one.seed, one.prompt, opening + ids, reason is FinishReason.STOP, len(opening)))
                watch(Written(draws.drawn, log.answers, log.tokens))
                if log.tokens >= tokens:
                    return
        todo += draws.found()


def _openings(generator: Generator, log: Log, answering: Sequence[_Asked]) -> list[Ids]:
    """How each of the next answers begins, if the recipe has that drawn. One that ends there goes on nevertheless."""
    recipe = log.recipe
    if not recipe.opening_tokens or not answering:
        return [() for _ in answering]
    # One more than is kept: where the context cuts it, the answer still has room for a token of its own.
    requests = [
        questions.drawn(one.whole, recipe.opening_tokens + 1, recipe.seed + log.answers + place)
        for place, one in enumerate(answering)
    ]
    with closing(_in_order(generator, requests)) as drawn:
        kept = ((ids, len(ids) - (reason is FinishReason.LENGTH)) for _, ids, reason in drawn)
        return [ids[: min(recipe.opening_tokens, most)] for ids, most in kept]


@dataclass(slots=True)
class _Draw:
    """The question of a seed on its way; texts None: of no use."""

    seed: int
    lead: Lead
    texts: list[str] | None
    began: Ids = ()
    question: Ids | None = None


class _Draws:
    """The target's own questions, seed by seed: in one round the texts that they are about, in the next they are drawn.

    words None: nothing leads them.
    """

    def __init__(self, log: Log, most: int, words: Words | None) -> None:
        recipe = log.recipe
        self.drawn = 0
        self._frame = recipe.frame
        self._most = most
        self._words = words
        self._seen = set(log.seen)
        self._next = recipe.seed if log.last_seed is None else log.last_seed + 1
        self._useless = 0
        self._asking: list[_Draw] = []
        self._reading: list[_Draw] = []
        self._due: Iterator[Callable[[Ids, FinishReason], None]] = iter(())

    @property
    def busy(self) -> bool:
        return bool(self._asking or self._reading)

    def requests(self, tokens: int) -> list[Request]:
        """What to draw next, where answers of so many tokens are missing."""
        count = min(self._most, max(_LEAST_TOGETHER, -(-tokens // _MEAN_TOKENS)))
        if self._words is None:
            self._asking = self._started(count)
        else:
            self._asking, self._reading = self._reading, self._started(count)
        found: list[Request] = []
        due: list[Callable[[Ids, FinishReason], None]] = []
        for draw in self._asking:
            request = self._question(draw)
            if request is not None:
                found.append(request)
                due.append(partial(_asked, draw))
        for draw in self._reading:
            for place, (start, most) in enumerate(draw.lead.texts):
                found.append(self._text(start, most, draw.seed * tasks.MOST_TEXTS + place))
                due.append(partial(self._read, draw, start))
        self._due = iter(due)
        return found

    def take(self, ids: Ids, reason: FinishReason) -> None:
        """What came of the next of these requests."""
        next(self._due)(ids, reason)

    def found(self) -> list[_Asked]:
        """The questions of the last round that can be used and are new. Raises UsageError where there are none left."""
        found = []
        for draw in self._asking:
            self.drawn += 1
            ids = draw.question
            if ids is not None and self._fits(ids) and key(ids) not in self._seen:
                self._seen.add(key(ids))
                found.append(_Asked(draw.seed, ids, self._frame.around(ids)))
                self._useless = 0
                continue
            self._useless += 1
            if self._useless == _MOST_USELESS:
                raise UsageError(
                    f"of the last {_MOST_USELESS} questions that the target wrote none ended by itself and was new, so "
                    "it cannot write its own data: give it prompts (--prompts), or another --seed"
                )
        self._asking = []
        return found

    def _started(self, count: int) -> list[_Draw]:
        first, self._next = self._next, self._next + count
        leads = [BARE_LEAD if self._words is None else tasks.lead(seed) for seed in range(first, first + count)]
        return [_Draw(first + place, lead, []) for place, lead in enumerate(leads)]

    def _question(self, draw: _Draw) -> Request | None:
        """What asks the target for the rest of a question; None where it has none, or is of no use."""
        if draw.texts is None:
            return None
        if self._words is not None and draw.lead.form:
            draw.began = tuple(self._words.encode(draw.lead.filled(tuple(draw.texts))))
        if not draw.lead.drawn:
            draw.question = draw.began
            return None
        return questions.question(self._frame, draw.seed, draw.began) if self._fits(draw.began) else None

    def _fits(self, question: Ids) -> bool:
        """Whether a question leaves half of the context to its answer."""
        return self._words is None or 2 * len(self._frame.around(question)) <= self._words.context

    def _text(self, start: str, most: int, seed: int) -> Request:
        assert self._words is not None  # without words no lead has texts
        sampling = Sampling(temperature=tasks.TEXT_TEMPERATURE, top_p=tasks.TEXT_TOP_P, seed=seed)
        return Request(tuple(self._words.begin(start)), most, sampling)

    def _read(self, draw: _Draw, start: str, ids: Ids, reason: FinishReason) -> None:
        assert self._words is not None
        text = tasks.whole(start, self._words.decode(ids), reason)
        if text is None:
            draw.texts = None
        elif draw.texts is not None:
            draw.texts.append(text)


def _asked(draw: _Draw, ids: Ids, reason: FinishReason) -> None:
    if questions.usable(ids, reason):
        draw.question = (*draw.began, *ids)


def _in_order(generator: Generator, requests: Sequence[Request]) -> Iterates[tuple[int, Ids, FinishReason], None, None]:
    """The answers by the number of their request, each as soon as all before it are complete."""
    ids: dict[int, list[int]] = {}
    ended: dict[int, FinishReason] = {}
    due = 0
    chunks = generator.generate(requests)
    try:
        for chunk in chunks:
            ids.setdefault(chunk.request, []).extend(chunk.token_ids)
            if chunk.finish_reason is None:
                continue
            ended[chunk.request] = chunk.finish_reason
            while due in ended:
                yield due, tuple(ids.pop(due)), ended.pop(due)
                due += 1
    finally:
        if isinstance(chunks, Iterates):
            chunks.close()  # what still runs is of no use, and holds memory
