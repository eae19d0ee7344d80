"""Answers of the real model, for comparing runs that must not differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tests.engine.worlds import join

from outrider.api import FinishReason, Logprob, Origin, Request, Usage
from outrider.backends.base import Backend
from outrider.constraints.base import MatcherMaker
from outrider.core.rules import COUPLED, Rule
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
    text: str
    origins: tuple[Origin, ...]
    logprobs: tuple[Logprob, ...] | None
    prompt_logprobs: tuple[Logprob | None, ...] | None


@dataclass(frozen=True, slots=True)
class World:
    """A loaded model, and how its engine is set up: drafter None is plain decoding."""

    backend: Backend
    tokenizer: Tokenizer
    drafter: Drafter | None = None
    gamma: int = 0
    rule: Rule = COUPLED
    matchers: MatcherMaker | None = None
    slots: int = 32
    chunk_rows: int = 512

    def speculative(self, drafter: Drafter, gamma: int) -> World:
        """The same with a drafter."""
        return replace(self, drafter=drafter, gamma=gamma)

    def answers(self, requests: Sequence[Request]) -> list[Answer]:
        """Answer all requests in one batch; the samples of one request stand next to each other."""
        engine = Engine(
            self.backend,
            self.drafter,
            Fixed(self.gamma),
            lambda: Detokenizer(self.tokenizer, skip_special=True),
            self.tokenizer.eos_ids,
            rule=self.rule,
            matchers=self.matchers,
            slots=self.slots,
            chunk_rows=self.chunk_rows,
        )
        return [
            Answer(own.ids, own.finish, own.usage, own.text, own.origins, own.logprobs, own.prompt_logprobs)
            for own in join(list(engine.generate(requests)), [request.n for request in requests])
        ]


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
