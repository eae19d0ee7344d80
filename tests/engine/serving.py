"""A service over a table of laws, stepped by hand, and listeners that insist on what Live promises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.engine.naive import LanguageMatcher
from tests.engine.worlds import EOS, PIECES, VOCAB, Answer, join

from outrider.api import Chunk, Failed, FinishReason, Request
from outrider.backends.base import Extend
from outrider.constraints.base import MatcherMaker
from outrider.drafters.base import Drafter
from outrider.engine.engine import Engine
from outrider.engine.outlet import Detokenizer
from outrider.engine.service import Service
from outrider.policy.base import Policy
from outrider.policy.fixed import Fixed
from outrider.testing.table import LogitsOf, TableBackend, TableScores
from outrider.testing.text import PieceDetokenizer

BLOCK = 4  # tokens of a block, and its bytes


@dataclass(slots=True)
class Heard:
    """A listener: what it was told, in order. Nothing may come behind the last."""

    samples: int
    chunks: list[Chunk] = field(default_factory=list)
    failed: Failed | None = None

    def __call__(self, what: Chunk | Failed) -> None:
        assert not self.ended, "something came after the end"
        if isinstance(what, Failed):
            self.failed = what
        else:
            self.chunks.append(what)

    @property
    def ended(self) -> bool:
        ends = sum(chunk.finish_reason is not None for chunk in self.chunks)
        return self.failed is not None or ends == self.samples

    @property
    def answers(self) -> list[Answer]:
        assert self.failed is None, self.failed
        return join(self.chunks, [self.samples])


class Strict(TableBackend):
    """Insists that no pass takes more blocks than there are."""

    most = 0

    def extend(self, items: Sequence[Extend]) -> TableScores:
        scores = super().extend(items)
        assert self.blocks_used <= self.most, f"a pass takes {self.blocks_used} blocks of {self.most}"
        return scores


@dataclass(slots=True)
class Hall:
    """A service and its parts."""

    backend: TableBackend
    engine: Engine
    service: Service
    drafter: Drafter | None

    def submit(self, request: Request) -> tuple[int, Heard]:
        heard = Heard(request.n)
        return self.service.submit(request, heard), heard

    def run(self, most: int = 5000) -> None:
        """Steps until nothing is left to do."""
        for _ in range(most):
            if not self.service.busy:
                return
            self.service.step()
        raise AssertionError(f"still busy after {most} steps")

    def ask(self, *requests: Request) -> list[list[Answer]]:
        heard = [self.submit(request)[1] for request in requests]
        self.run()
        return [one.answers for one in heard]

    def check_nothing_is_left(self) -> None:
        """Once all requests ended, only kept beginnings hold memory; after close nothing does."""
        taken = self.service.snapshot()
        assert (taken.running, taken.waiting, taken.sequences, taken.paused) == (0, 0, 0, 0)
        # Sequences that computed the same text beside each other keep a block twice, so this is no equality.
        assert taken.kv_blocks_cached <= taken.kv_blocks_used == self.backend.blocks_used <= taken.kv_blocks_total
        assert getattr(self.drafter, "sequences", 0) == 0
        self.service.close()
        assert self.backend.sequences == self.backend.blocks_used == 0


def hall(
    law: LogitsOf,
    drafter: Drafter | None = None,
    policy: Policy | None = None,
    *,
    blocks: int = 1000,
    slots: int = 32,
    queue: int = 256,
    chunk_rows: int = 512,
    beside_rows: int = 128,
    context: int = 256,
    matchers: MatcherMaker | None = LanguageMatcher,
    detokenizer: Callable[[], Detokenizer] = lambda: PieceDetokenizer(PIECES),
    backend: TableBackend | None = None,
    clock: Callable[[], float] | None = None,
) -> Hall:
    if backend is None:
        backend = Strict(law, VOCAB, context, block_tokens=BLOCK)
        backend.most = blocks
    engine = Engine(
        backend,
        drafter,
        policy or Fixed(4),
        detokenizer,
        frozenset({EOS}),
        matchers=matchers,
        slots=slots,
        chunk_rows=chunk_rows,
    )
    if clock is None:
        service = Service(engine, blocks * BLOCK, queue=queue, beside_rows=beside_rows)
    else:
        service = Service(engine, blocks * BLOCK, queue=queue, beside_rows=beside_rows, clock=clock)
    return Hall(backend, engine, service, drafter)


def contents(answers: Sequence[Answer]) -> list[tuple[str, tuple[int, ...], FinishReason, object, object]]:
    """What must not depend on anything but the request."""
    return [(a.text, a.ids, a.finish, a.logprobs, a.prompt_logprobs) for a in answers]
