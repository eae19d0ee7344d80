"""The target as its own drafter: what it drafts is always right, or the engine is wrong."""

from __future__ import annotations

from collections.abc import Sequence

from tests.model.prefixed import read

from outrider.backends.base import Backend, Draw, Extend, Want
from outrider.core.chance import draw_node
from outrider.core.step import Budget, Outcome, View
from outrider.core.types import Draft, FloatArray, Law


class SelfDrafter:
    """Drafts with sequences of its own: the target's very draws (POINT), or others from the same law (IID)."""

    name = "self"

    def __init__(self, backend: Backend, law: Law) -> None:
        self._backend = backend
        self._law = law
        self._own: dict[int, int] = {}

    def begin(self, seq: int, prompt: Sequence[int]) -> None:
        self._own[seq] = self._backend.open()

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        return [self._draft(view, budget.depth) for view, budget in zip(views, budgets, strict=True)]

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """The next view shows what was kept."""

    def end(self, seq: int) -> None:
        self._backend.close(self._own.pop(seq))

    def _draft(self, view: View, count: int) -> Draft:
        seq, known, sampling = self._own[view.seq], len(view.tokens), view.sampling
        draw = Draw(sampling.temperature, sampling.seed, sampling.sample)
        read(self._backend, seq, list(view.tokens[self._backend.length(seq) : known - 1]))
        last = view.tokens[known - 1]
        tokens: list[int] = []
        laws: list[FloatArray] = []
        for node in range(count):
            scores = self._backend.extend([Extend(seq, [last], None, [Want.LOGITS], draw)])
            if self._law is Law.POINT:
                last = scores.token(0, 0)
            else:
                laws.append(scores.law(0, 0))
                last = draw_node(laws[-1], sampling.seed, sampling.sample, known, node)
            self._backend.commit([(seq, (0,))])
            tokens.append(last)
        self._backend.truncate(seq, known - 1)
        return Draft.chain(tuple(tokens), self._law, tuple(laws) or None)
