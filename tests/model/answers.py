"""Answers of the real model, for comparing runs that must not differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from outrider.api import FinishReason, Request, Usage
from outrider.backends.base import Backend
from outrider.drafters.base import Drafter
from outrider.engine.engine import Engine
from outrider.models.tokenizer import Detokenizer, Tokenizer
from outrider.policy.fixed import Fixed


@dataclass(frozen=True, slots=True)
class Answer:
    """What one request got."""

    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    usage: Usage


@dataclass(frozen=True, slots=True)
class World:
    """A loaded model, and how its engine is set up: drafter None is plain decoding."""

    backend: Backend
    tokenizer: Tokenizer
    drafter: Drafter | None = None
    gamma: int = 0
    slots: int = 32
    chunk_rows: int = 512

    def speculative(self, drafter: Drafter, gamma: int) -> World:
        """The same with a drafter."""
        return replace(self, drafter=drafter, gamma=gamma)

    def answers(self, requests: Sequence[Request]) -> list[Answer]:
        """Answer all requests in one batch."""
        engine = Engine(
            self.backend,
            self.drafter,
            Fixed(self.gamma),
            lambda: Detokenizer(self.tokenizer, skip_special=True),
            self.tokenizer.eos_ids,
            slots=self.slots,
            chunk_rows=self.chunk_rows,
        )
        ids: list[list[int]] = [[] for _ in requests]
        found: dict[int, Answer] = {}
        for chunk in engine.generate(requests):
            ids[chunk.request].extend(chunk.token_ids)
            if chunk.finish_reason is not None and chunk.usage is not None:
                found[chunk.request] = Answer(tuple(ids[chunk.request]), chunk.finish_reason, chunk.usage)
        return [found[index] for index in range(len(requests))]


def ids_of(answers: Iterable[Answer]) -> list[tuple[int, ...]]:
    return [answer.token_ids for answer in answers]


@dataclass(frozen=True, slots=True)
class Sums:
    """What a batch of answers cost."""

    tokens: int
    passes: int
    drafted: int
    accepted: int
    rejected: int

    @staticmethod
    def of(answers: Iterable[Answer]) -> Sums:
        usages = [answer.usage for answer in answers]
        drafted, accepted = sum(usage.drafted for usage in usages), sum(usage.accepted for usage in usages)
        tokens, passes = sum(usage.completion_tokens for usage in usages), sum(usage.passes for usage in usages)
        return Sums(tokens, passes, drafted, accepted, drafted - accepted)
