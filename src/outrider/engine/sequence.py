"""One answer in the making: what is known, what is in the cache, and how it ends.

Dimensions: n rows of one item: the sequence's known tokens that are not yet in the cache, then the draft's nodes.
"""

from __future__ import annotations

from outrider.api import Chunk, FinishReason, Origin, Pass, Request
from outrider.backends.base import Draw, Extend, Want
from outrider.core import tree
from outrider.core.step import Tokens, View
from outrider.core.types import EMPTY, Draft, Verdict
from outrider.engine.outlet import Detokenizer, Outlet
from outrider.engine.stats import Meter

_NONE, _TOKEN = int(Want.NONE), int(Want.TOKEN)


class Sequence:
    """The mutable state of one answer. committed counts the tokens in the cache; seq is -1 while it is not open."""

    __slots__ = ("_draw", "_eos", "committed", "finish", "index", "limit", "meter", "outlet", "seq", "tokens", "view")

    def __init__(
        self, index: int, request: Request, context: int, eos: frozenset[int], detokenizer: Detokenizer
    ) -> None:
        sampling = request.sampling
        self.index = index
        self.seq = -1
        self.tokens = list(request.prompt)
        self.committed = 0
        self.finish: FinishReason | None = None
        # Prompt and answer fit the context together, so no row of a draft cut to the limit can leave it.
        self.limit = min(request.max_tokens, context - len(self.tokens))
        self.outlet = Outlet(detokenizer, request.stop)
        self.meter = Meter(len(self.tokens))
        self.view = View(-1, Tokens(self.tokens), sampling)
        self._eos: frozenset[int] = frozenset() if request.ignore_eos else eos
        self._draw = Draw(sampling.temperature, sampling.seed, sampling.sample)

    def opened(self, seq: int) -> None:
        """The backend and the drafter know the sequence as `seq` from now on."""
        self.seq = seq
        self.view = View(seq, self.view.tokens, self.view.sampling)

    @property
    def pending(self) -> int:
        """Known tokens that are not in the cache: one in plain decoding, the prompt at first."""
        return len(self.tokens) - self.committed

    @property
    def room(self) -> int:
        """Tokens that the answer may still get."""
        return self.limit - self.outlet.count

    def take(self, draft: Draft, verdict: Verdict) -> tuple[int, ...]:
        """Add a verdict's tokens one by one until the answer ends; returns those that were kept.

        The only place where an answer is trimmed: end of text, stop strings, max_tokens and the context.
        """
        before = self.outlet.count
        tokens = [draft.tokens[node] for node in verdict.path]
        origins = [Origin.ACCEPTED] * len(tokens)
        last = verdict.path[-1] if verdict.path else -1
        tokens.append(verdict.token)
        origins.append(Origin.RECOVERED if last in draft.parents else Origin.BONUS)
        for token, origin in zip(tokens, origins, strict=True):
            if token in self._eos or self.outlet.push(token, origin):
                self.finish = FinishReason.STOP
            elif self.outlet.count == self.limit:
                self.finish = FinishReason.LENGTH
            if self.finish is not None:
                break
        if self.finish is not None and self.outlet.finish():
            self.finish = FinishReason.STOP
        # Below 0 where a stop string began in an earlier pass: closing the sequence drops those tokens.
        kept = self.outlet.count - before
        new = tuple(tokens[: max(kept, 0)])
        self.tokens.extend(new)
        self.meter.record(before, draft, len(verdict.path), trimmed=kept < len(tokens))
        return new

    def chunk(self, story: Pass) -> Chunk:
        """What this step let out, with the bill if it was the last."""
        ended = self.finish is not None
        text, ids, origins = self.outlet.release(last=ended)
        usage = self.meter.usage(self.outlet.count) if ended else None
        return Chunk(self.index, text, ids, origins, story, self.finish, usage)


class Turn:
    """What one sequence does in one pass: `rows` of its pending tokens and, if that is all of them, a draft below."""

    __slots__ = ("decides", "draft", "kept", "position", "rows", "sequence", "verdict")

    def __init__(self, sequence: Sequence, rows: int) -> None:
        self.sequence = sequence
        self.rows = rows
        self.decides = rows == sequence.pending
        self.position = sequence.committed + rows  # of the first token after these rows
        self.draft = EMPTY
        self.verdict = Verdict((), -1)
        self.kept: tuple[int, ...] = ()

    def extend(self) -> Extend:
        """The rows of this turn; only the last pending one and the draft's want a token."""
        sequence, draft, rows = self.sequence, self.draft, self.rows
        tokens = sequence.tokens[sequence.committed : sequence.committed + rows]
        want = [_NONE] * rows
        if self.decides:
            want[-1] = _TOKEN
        if not draft.tokens:
            return Extend(sequence.seq, tokens, None, want, sequence._draw)
        tokens.extend(draft.tokens)
        want.extend([_TOKEN] * len(draft))
        parents = None
        if not tree.is_chain(draft):
            parents = [*range(-1, rows - 1), *(rows + parent if parent >= 0 else rows - 1 for parent in draft.parents)]
        return Extend(sequence.seq, tokens, parents, want, sequence._draw)

    def commit(self) -> tuple[int, tuple[int, ...]]:
        """The rows to keep: the pending ones, and the draft's that were accepted and not trimmed."""
        rows, kept = self.rows, self.verdict.path[: len(self.kept)]
        path = (*range(rows), *(rows + node for node in kept))
        self.sequence.committed += len(path)
        return self.sequence.seq, path
