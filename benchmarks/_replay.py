"""Known answers of the model, and drafters that walk along them: nothing here depends on how busy the machine is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import _prompts

from outrider.api import Sampling
from outrider.backends.base import GREEDY, Backend, Extend, Head, HeadChain, HeadDrawn, Want
from outrider.core.step import Budget, Outcome, Tokens, View
from outrider.core.types import EMPTY, Draft
from outrider.drafters.base import Drafter
from outrider.drafters.recycle import FOLLOWERS
from outrider.llm import LLM

Followers: TypeAlias = tuple[tuple[int, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Written:
    """A plain answer. behind[i]: the token before answer[i] and the likeliest tokens there."""

    group: str
    prompt: list[int]
    answer: list[int]
    behind: Followers


def write(llm: LLM, prompt: _prompts.Prompt, tokens: int) -> Written:
    """The plain answer and the runner-up tokens of its rows."""
    backend, eos = llm.backend, llm.tokenizer.eos_ids
    seq, rows = backend.open(), list(prompt.ids)
    answer: list[int] = []
    behind: list[tuple[int, tuple[int, ...]]] = []
    while len(answer) < tokens and not (answer and answer[-1] in eos):
        want = [Want.NONE] * (len(rows) - 1) + [Want.TOKEN]
        scores = backend.extend([Extend(seq, rows, None, want)])
        answer.append(scores.token(0, len(rows) - 1))
        behind.append((rows[-1], tuple(scores.top(0, len(rows) - 1, FOLLOWERS))))
        backend.commit([(seq, range(len(rows)))])
        rows = [answer[-1]]
    backend.close(seq)
    return Written(prompt.group, prompt.ids, answer, tuple(behind))


class Walk:
    """A drafter beside known answers: what it drafts at a place, and the steps on from there.

    backend: reads along where a head needs its states; else None, and much faster.
    """

    def __init__(self, drafter: Drafter, backend: Backend | None = None) -> None:
        self._drafter, self._backend = drafter, backend

    def begin(self, written: Written) -> View:
        """The answer's first token comes with the prompt."""
        self._seq = 0 if self._backend is None else self._backend.open()
        self._tokens = list(written.prompt)
        self._view = View(self._seq, Tokens(self._tokens), Sampling())
        self._drafter.begin(self._seq, written.prompt)
        self._read(written.prompt)
        self.draft(Budget(0, 0))
        self.step(written, 0, 1)
        return self._view

    def draft(self, budget: Budget) -> Draft:
        (draft,) = self._drafter.propose([self._view], [budget])
        return draft

    def step(self, written: Written, start: int, end: int) -> None:
        """The answer goes on to `end`; its last token is never read, as at work."""
        new = tuple(written.answer[start:end])
        if start:
            self._read([self._tokens[-1], *new[:-1]])
        self._tokens += new
        self._drafter.observe([Outcome(self._seq, EMPTY, (), new, written.behind[start:end])])

    def end(self) -> None:
        self._drafter.end(self._seq)
        if self._backend is not None:
            self._backend.close(self._seq)

    def _read(self, tokens: Sequence[int]) -> None:
        if self._backend is None:
            return
        self._backend.extend([Extend(self._seq, tokens, None, [Want.NONE] * len(tokens))])
        self._backend.commit([(self._seq, range(len(tokens)))])


class _Recorder:
    """Notes what a head drafts at every place; drafts nothing."""

    name = "recorder"

    def __init__(self, head: Head, steps: int, width: int, least: float) -> None:
        self._head, self._steps, self._width, self._least = head, steps, width, least
        self.said: list[dict[int, HeadDrawn]] = []

    def begin(self, seq: int, prompt: Sequence[int]) -> None:
        self._head.begin(seq)
        self.said.append({})

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        for view in views:
            at = len(view.tokens)
            item = HeadChain(view.seq, view.tokens[-1], self._steps, GREEDY, at, self._width, self._least)
            (self.said[-1][at],) = self._head.draft([item])
        return [EMPTY] * len(views)

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """The head hears from the backend."""

    def end(self, seq: int) -> None:
        self._head.end(seq)


def chains(
    written: Sequence[Written], backend: Backend, head: Head, steps: int, width: int, least: float
) -> list[dict[int, HeadDrawn]]:
    """The greedy chain that a head drafts before each token of each answer but the first, by that token's position."""
    recorder = _Recorder(head, steps, width, least)
    walk = Walk(recorder, backend)
    for one in written:
        walk.begin(one)
        for at in range(1, len(one.answer)):
            walk.draft(Budget(1, 1))
            walk.step(one, at, at + 1)
        walk.end()
    return recorder.said
