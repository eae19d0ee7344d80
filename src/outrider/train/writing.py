"""The target writes its own data: questions are drawn and answered, and every answer is a line of the file.

Seeds are looked at in their order and answers are written in it, so that the file depends on the recipe alone: neither
on how many are asked together nor on where a run was interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Generator as Iterates
from contextlib import closing
from dataclasses import dataclass

from outrider.api import FinishReason, Generator, Request
from outrider.errors import UsageError
from outrider.train import questions
from outrider.train.data import Line, Log, key

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
) -> None:
    """Goes on with a file until its answers have so many tokens, the last of them whole.

    prompts: the user's, whole, that the recipe names; they are answered first. Then, where the recipe says so, come
    the target's own questions. Raises UsageError where the target writes none, and for a full disk.
    """
    todo = [_Asked(None, prompt, prompt) for prompt in prompts[log.prompts :]]
    draws = _Draws(log, together if log.recipe.own else 0)
    while log.tokens < tokens:
        answering, todo = todo[:together], todo[together:]
        drawing = [] if todo else draws.requests(tokens - log.tokens)
        if not answering and not drawing:
            return
        requests = [questions.answer(one.whole) for one in answering] + drawing
        # One list: while the last answers are written, the next questions fill the places that fall free.
        with closing(_in_order(generator, requests)) as answers:
            for index, ids, reason in answers:
                if index >= len(answering):
                    draws.take(ids, reason)
                else:
                    one = answering[index]
                    log.add(Line(one.seed, one.prompt, ids, reason is FinishReason.STOP))
                watch(Written(draws.drawn, log.answers, log.tokens))
                if log.tokens >= tokens:
                    return
        todo += draws.found()


class _Draws:
    """The target's own questions, seed by seed."""

    def __init__(self, log: Log, most: int) -> None:
        recipe = log.recipe
        self.drawn = 0
        self._frame = recipe.frame
        self._most = most
        self._seen = set(log.seen)
        self._next = recipe.seed if log.last_seed is None else log.last_seed + 1
        self._first = self._next
        self._useless = 0
        self._found: list[_Asked] = []

    def requests(self, tokens: int) -> list[Request]:
        """The next questions to draw, where answers of so many tokens are missing."""
        count = min(self._most, max(_LEAST_TOGETHER, -(-tokens // _MEAN_TOKENS)))
        self._first = self._next
        return [questions.question(self._frame, self._first + index) for index in range(count)]

    def take(self, ids: Ids, reason: FinishReason) -> None:
        """The question of the next seed; it is kept where it is one, and new."""
        seed = self._next
        self._next += 1
        self.drawn += 1
        if questions.usable(ids, reason) and key(ids) not in self._seen:
            self._seen.add(key(ids))
            self._found.append(_Asked(seed, ids, self._frame.around(ids)))
            self._useless = 0
            return
        self._useless += 1
        if self._useless == _MOST_USELESS:
            raise UsageError(
                f"of the last {_MOST_USELESS} questions that the target wrote none ended by itself and was new, so it "
                "cannot write its own data: give it prompts (--prompts), or another --seed"
            )

    def found(self) -> list[_Asked]:
        """The questions that were kept since the last call."""
        found, self._found = self._found, []
        return found


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
