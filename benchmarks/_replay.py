"""Known answers of the model, and drafters that walk along them: nothing here depends on how busy the machine is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import _prompts

from outrider.api import Sampling
from outrider.backends.base import Backend, Extend, Want
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
