"""Draft models out of tables, and how a test drives a drafter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tests.drafters.tokenizers import TinyTokenizer

from outrider.api import Sampling
from outrider.backends.base import Chain, Drawn, Extend
from outrider.core.step import Budget, Outcome, Tokens, View
from outrider.core.types import EMPTY, Draft, FloatArray, IntArray
from outrider.drafters.base import Drafter
from outrider.testing.table import LogitsOf, TableBackend, TableScores

COLD = Sampling()


class RenamedLaw:
    """A law over other ids: a model that has ids[w] where the law says w; what else it has, it likes best."""

    def __init__(self, law: LogitsOf, ids: IntArray, vocab: int) -> None:
        self._law = law
        self._ids = ids
        self._vocab = vocab
        self._back = {int(own): token for token, own in enumerate(ids) if own >= 0}

    def __call__(self, tokens: tuple[int, ...]) -> FloatArray:
        row = np.full(self._vocab, 99.0, np.float32)
        logits = self._law(tuple(self._back[own] for own in tokens))
        for token, own in enumerate(self._ids):
            if own >= 0:
                row[own] = logits[token]
        return row


class SpellingLaw:
    """A law of characters, seen through a tokenizer: a piece is as likely as its characters, one after the other."""

    def __init__(self, tokenizer: TinyTokenizer, spread: float = 6.0) -> None:
        self._tokenizer = tokenizer
        chance = np.random.default_rng(5)
        scores = chance.uniform(-spread / 2, spread / 2, (128, 128))
        self._logs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))

    def __call__(self, tokens: tuple[int, ...]) -> FloatArray:
        last = self._tokenizer.pieces[tokens[-1]][-1]
        row = [self._log(last, piece) for piece in self._tokenizer.pieces]
        return np.array(row, np.float32)

    def _log(self, last: int, piece: bytes) -> float:
        total = 0.0
        for byte in piece:
            total += self._logs[last % 128, byte % 128]
            last = byte
        return total


class HeartLaw:
    """Knows a text by heart: the longest piece that goes on with it, however the text so far is cut up."""

    def __init__(self, tokenizer: TinyTokenizer, text: str) -> None:
        self._tokenizer = tokenizer
        self._text = text

    def __call__(self, tokens: tuple[int, ...]) -> FloatArray:
        rest = self._text.removeprefix(self._tokenizer.text(tokens))
        row = np.zeros(self._tokenizer.vocab, np.float32)
        row[self._tokenizer.encode(rest, special=False)[:1]] = 50.0
        return row


class Forgetful(TableBackend):
    """Does not list its passes, so that what it holds does not grow."""

    def extend(self, items: Sequence[Extend]) -> TableScores:
        scores = super().extend(items)
        self.passes.clear()
        return scores

    def chain(self, items: Sequence[Chain]) -> list[Drawn]:
        drawn = super().chain(items)
        self.passes.clear()
        return drawn


class Text:
    """One sequence of a drafter."""

    def __init__(self, drafter: Drafter, prompt: Sequence[int], sampling: Sampling = COLD, seq: int = 0) -> None:
        self._drafter = drafter
        self.tokens = list(prompt)
        self.view = View(seq, Tokens(self.tokens), sampling)
        drafter.begin(seq, tuple(prompt))

    def ask(self, nodes: int, depth: int | None = None) -> Draft:
        (draft,) = self._drafter.propose([self.view], [Budget(nodes, nodes if depth is None else depth)])
        return draft

    def tell(self, *tokens: int, draft: Draft = EMPTY, path: tuple[int, ...] = ()) -> None:
        self.tokens.extend(tokens)
        self._drafter.observe([Outcome(self.view.seq, draft, path, tokens)])
