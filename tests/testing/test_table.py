"""The table backend passes the suite that it is there to prove, and the suite catches planted faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from outrider.backends.base import Adjust, Backend, Draw, Extend, Want
from outrider.core import sampling
from outrider.core.types import FloatArray
from outrider.errors import UsageError
from outrider.testing import backend_suite, scores_suite
from outrider.testing.table import RandomLaw, ScriptedLaw, TableBackend, TableScores

LAW = RandomLaw(16, 64, seed=3)  # depends on the whole context, so that any mix-up shows


def make() -> TableBackend:
    return TableBackend(LAW, 16, context=64)


@pytest.mark.parametrize("check", backend_suite.CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Callable[[backend_suite.Maker], None]) -> None:
    check(make)


@pytest.mark.parametrize("size", [1, 4, 61, 62])
def test_blocks_of_any_size_are_counted(size: int) -> None:
    backend_suite.blocks_are_counted_once(lambda: TableBackend(LAW, 16, context=64, block_tokens=size))


class SeesSiblings(TableBackend):
    """Rows attend to every row before them instead of their ancestors."""

    def extend(self, items: Sequence[Extend]) -> TableScores:
        return super().extend([Extend(item.seq, item.tokens, None, item.want, item.draw) for item in items])


class KeepsEverything(TableBackend):
    """Commits all rows up to the last of the path."""

    def commit(self, items: Sequence[tuple[int, Sequence[int]]]) -> None:
        for seq, path in items:
            self._open[seq].parents = list(range(-1, len(self._open[seq].rows) - 1))
            super().commit([(seq, range(max(path, default=-1) + 1))])


class SharesForks(TableBackend):
    """A fork is the same cache."""

    def fork(self, seq: int) -> int:
        new = self.open()
        self._open[new] = self._cache(seq)
        return new


class TruncatesTooLittle(TableBackend):
    def truncate(self, seq: int, length: int) -> None:
        super().truncate(seq, length)
        self._open[seq].tokens.extend([0] * (length % 2))


class MovesHalfway(TableBackend):
    """Commits what came before a bad item."""

    def extend(self, items: Sequence[Extend]) -> TableScores:
        if len(items) == 2 and items[0].seq != items[1].seq and len(items[0].tokens) == 1:
            self._open[items[0].seq].tokens.append(1)
        return super().extend(items)


class Forgets(TableBackend):
    """Never closes."""

    def close(self, seq: int) -> None:
        self._cache(seq)


class DrawsBesides(TableBackend):
    """Keys the noise with the row's own position."""

    def extend(self, items: Sequence[Extend]) -> TableScores:
        return _Besides(super().extend(items))


class ForgetsFilters(TableBackend):
    """Draws with the temperature alone."""

    def extend(self, items: Sequence[Extend]) -> TableScores:
        plain = [Draw(item.draw.temperature, item.draw.seed, item.draw.sample) for item in items]
        return super().extend([replace(item, draw=draw) for item, draw in zip(items, plain, strict=True)])


class ForgetsAdjust(TableBackend):
    """Draws from the model's own law whatever was asked."""

    def extend(self, items: Sequence[Extend]) -> TableScores:
        return _Deaf(super().extend(items))


class RemembersAdjusted(TableBackend):
    """Gives the first token that was ever drawn from a row, adjusted or not."""

    def extend(self, items: Sequence[Extend]) -> TableScores:
        return _Sticky(super().extend(items))


class TellsDouble(TableBackend):
    """Computes p in float64, and log-probabilities from it."""

    def extend(self, items: Sequence[Extend]) -> TableScores:
        return _Double(super().extend(items))


class TopsWhatIsDrawn(TableBackend):
    """Takes the likeliest ids of the law that tokens are drawn from."""

    def extend(self, items: Sequence[Extend]) -> TableScores:
        return _Filtered(super().extend(items))


class LetsTokensTell(TableBackend):
    """Gives laws of rows that only wanted their token."""

    def extend(self, items: Sequence[Extend]) -> TableScores:
        return _Generous(super().extend(items))


class _Wrapped(TableScores):
    """The scores of a table backend, to be spoilt."""

    def __init__(self, scores: TableScores) -> None:
        super().__init__(scores._law, scores._rows, scores._want, scores._draws)


class _Besides(_Wrapped):
    def token(self, item: int, row: int, adjust: Adjust | None = None) -> int:
        tokens = self._asked(item, row, Want.TOKEN)
        return sampling.token(self._law(tokens), self._draws[item], len(tokens) - 1, adjust)


class _Deaf(_Wrapped):
    def token(self, item: int, row: int, adjust: Adjust | None = None) -> int:
        if adjust is not None:
            sampling.adjusted(self._law(self._asked(item, row, Want.TOKEN)), adjust)
        return super().token(item, row)


class _Sticky(_Wrapped):
    def __init__(self, scores: TableScores) -> None:
        super().__init__(scores)
        self._known: dict[tuple[int, int], int] = {}

    def token(self, item: int, row: int, adjust: Adjust | None = None) -> int:
        return self._known.setdefault((item, row), super().token(item, row, adjust))


class _Double(_Wrapped):
    def law(self, item: int, row: int, adjust: Adjust | None = None) -> FloatArray:
        scores = sampling.scores(sampling.adjusted(self.logits(item, row), adjust), self._draws[item])
        weights = np.exp(scores.astype(np.float64) - scores.max())
        law: FloatArray = (weights / weights.sum()).astype(np.float32)
        return law


class _Filtered(_Wrapped):
    def top(self, item: int, row: int, count: int) -> tuple[int, ...]:
        logits = self._law(self._asked(item, row, Want.TOKEN))
        return sampling.top(sampling.scores(logits, self._draws[item]), count)


class _Generous(_Wrapped):
    def logits(self, item: int, row: int) -> FloatArray:
        logits = self._law(self._asked(item, row, Want.TOKEN)).view()
        logits.flags.writeable = False
        return logits


class Unbounded(TableBackend):
    """Lets one position too many in."""

    def __init__(self, law: Callable[[tuple[int, ...]], FloatArray], vocab: int, context: int) -> None:
        super().__init__(law, vocab, context + 1)

    @property
    def context(self) -> int:
        return self._context - 1


class SeesTheBatch(TableBackend):
    """Logits depend on the number of rows in the pass."""

    def extend(self, items: Sequence[Extend]) -> TableScores:
        scores = super().extend(items)
        scores._law = lambda tokens: self._law(tokens) + np.float32(self.passes[-1] % 2)
        return scores


class NeverShares(TableBackend):
    """A fork copies every block at once."""

    def fork(self, seq: int) -> int:
        new = super().fork(seq)
        self._open[new].blocks = []
        self._own(self._open[new], 0, self.length(new))
        return new


class KeepsDroppedBlocks(TableBackend):
    """Rows that nobody commits keep their blocks."""

    def _forget_rows(self, cache: Any) -> None:
        cache.forget_rows()


FAULTS: dict[type[TableBackend], Callable[[backend_suite.Maker], None]] = {
    SeesSiblings: backend_suite.tree_row_equals_chain_row,
    KeepsEverything: backend_suite.commit_equals_prefill,
    SharesForks: backend_suite.forks_are_independent,
    TruncatesTooLittle: backend_suite.truncate_forgets,
    MovesHalfway: backend_suite.errors_change_nothing,
    Forgets: backend_suite.close_leaves_nothing,
    DrawsBesides: scores_suite.draws_are_the_reference,
    ForgetsFilters: scores_suite.draws_are_the_reference,
    ForgetsAdjust: scores_suite.adjusted_draws_are_the_reference,
    RemembersAdjusted: scores_suite.adjusted_draws_are_the_reference,
    TellsDouble: scores_suite.laws_are_the_reference,
    TopsWhatIsDrawn: scores_suite.tops_are_the_reference,
    LetsTokensTell: scores_suite.scores_give_what_was_asked,
    Unbounded: backend_suite.context_is_the_limit,
    SeesTheBatch: backend_suite.chunked_equals_one_by_one,
    NeverShares: backend_suite.blocks_are_counted_once,
    KeepsDroppedBlocks: backend_suite.blocks_are_counted_once,
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_the_suite_catches_planted_faults(fault: type[TableBackend]) -> None:
    def faulty() -> Backend:
        return fault(LAW, 16, 64)

    with pytest.raises(AssertionError):
        FAULTS[fault](faulty)


def test_a_scripted_law_wants_its_script() -> None:
    law = ScriptedLaw(8, 2, [5, 6])
    assert [int(np.argmax(law((1,) * length))) for length in (1, 2, 3, 4, 9)] == [5, 5, 6, 6, 6]


def test_different_seeds_give_different_laws() -> None:
    assert not np.array_equal(RandomLaw(8, 1, 1)((3,)), RandomLaw(8, 1, 2)((3,)))
    assert np.array_equal(RandomLaw(8, 1, 1)((3,)), RandomLaw(8, 1, 1)((5, 3)))


def test_what_is_not_distinct_is_refused() -> None:
    backend = make()
    seq = backend.open()
    with pytest.raises(UsageError, match="not distinct"):
        backend.commit([(seq, ()), (seq, ())])
