"""Small worlds for engine tests: a law, an engine over it, and what plain decoding says."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from outrider.api import Chunk, FinishReason, Logprob, Origin, Pass, Request, Usage
from outrider.constraints.base import MatcherMaker
from outrider.core.rules import COUPLED, Rule
from outrider.drafters.base import Drafter
from outrider.engine.engine import Engine
from outrider.engine.outlet import Detokenizer
from outrider.policy.fixed import Fixed
from outrider.testing.table import LogitsOf, TableBackend
from outrider.testing.text import PieceDetokenizer

VOCAB = 12
EOS = 11
PIECES = ("a", "b", "c", "ab", "bc", "ca", " ", "x", "yz", "", "\n", "<eos>")


@dataclass(frozen=True, slots=True)
class Answer:
    """All chunks of one answer, joined."""

    text: str
    ids: tuple[int, ...]
    origins: tuple[Origin, ...]
    finish: FinishReason
    usage: Usage
    stories: tuple[Pass, ...]
    chunks: tuple[Chunk, ...]
    logprobs: tuple[Logprob, ...] | None
    prompt_logprobs: tuple[Logprob | None, ...] | None


@dataclass(slots=True)
class World:
    """An engine and its parts; ids outside 0..VOCAB-1 never occur."""

    backend: TableBackend
    engine: Engine

    def answer(self, *requests: Request) -> list[Answer]:
        """All answers, those of one request's samples next to each other."""
        return join(list(self.engine.generate(requests)), [request.n for request in requests])


def world(
    law: LogitsOf,
    drafter: Drafter | None = None,
    gamma: int = 4,
    *,
    vocab: int = VOCAB,
    context: int = 256,
    detokenizer: Callable[[], Detokenizer] = lambda: PieceDetokenizer(PIECES),
    eos: frozenset[int] = frozenset({EOS}),
    slots: int = 32,
    chunk_rows: int = 512,
    rule: Rule = COUPLED,
    matchers: MatcherMaker | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> World:
    backend = TableBackend(law, vocab, context)
    engine = Engine(
        backend,
        drafter,
        Fixed(gamma),
        detokenizer,
        eos,
        rule=rule,
        matchers=matchers,
        slots=slots,
        chunk_rows=chunk_rows,
        clock=clock,
    )
    return World(backend, engine)


def join(chunks: Sequence[Chunk], samples: Sequence[int]) -> list[Answer]:
    """Chunks by answer, given the number of samples of each request; also checks what every stream must hold."""
    found: dict[tuple[int, int], list[Chunk]] = {
        (index, sample): [] for index, count in enumerate(samples) for sample in range(count)
    }
    for chunk in chunks:
        found[chunk.request, chunk.sample].append(chunk)
    return [_join(tuple(own)) for own in found.values()]


def _join(own: tuple[Chunk, ...]) -> Answer:
    assert [chunk.finish_reason is not None for chunk in own] == [False] * (len(own) - 1) + [True]
    assert [chunk.usage is not None for chunk in own] == [False] * (len(own) - 1) + [True]
    last = own[-1]
    assert last.usage is not None
    assert last.finish_reason is not None
    ids = tuple(token for chunk in own for token in chunk.token_ids)
    origins = tuple(origin for chunk in own for origin in chunk.origins)
    for chunk in own:
        guessed = [origin in (Origin.ACCEPTED, Origin.FORCED) for origin in chunk.origins]
        assert [name is not None for name in chunk.drafters] == guessed, "every kept guess has a name, nothing else has"
        assert chunk.story is None or len(chunk.story.drafters) == len(chunk.story.drafted)
    usage = last.usage
    assert len(ids) == len(origins) == usage.completion_tokens
    assert usage.accepted == sum(usage.accepted_per_position)
    assert usage.accepted == origins.count(Origin.ACCEPTED) + origins.count(Origin.FORCED)
    assert usage.forced == origins.count(Origin.FORCED)
    assert len(usage.drafted_per_position) == len(usage.accepted_per_position)
    assert all(kept <= n for kept, n in zip(usage.accepted_per_position, usage.drafted_per_position, strict=True))
    assert usage.accepted <= usage.drafted
    logprobs = None
    if own[0].logprobs is not None:
        logprobs = tuple(entry for chunk in own for entry in chunk.logprobs or ())
        assert tuple(entry.id for entry in logprobs) == ids
        assert all(chunk.logprobs is not None and len(chunk.logprobs) == len(chunk.token_ids) for chunk in own)
    assert all(chunk.prompt_logprobs is None for chunk in own[1:])
    return Answer(
        "".join(chunk.text for chunk in own),
        ids,
        origins,
        last.finish_reason,
        usage,
        tuple(chunk.story for chunk in own if chunk.story is not None),
        own,
        logprobs,
        own[0].prompt_logprobs,
    )
