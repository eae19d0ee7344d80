"""One answer in the making: what is known, what is in the cache, and how it ends.

Dimensions: n rows of one item: the sequence's known tokens that are not yet in the cache, then the draft's nodes.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace

from outrider.api import Chunk, FinishReason, Logprob, Origin, Pass, Request
from outrider.backends.base import Extend, Want
from outrider.constraints.base import Matcher
from outrider.core import tree
from outrider.core.sampling import draw_of
from outrider.core.step import Tokens, View
from outrider.core.types import EMPTY, Draft, Verdict
from outrider.engine import shaping
from outrider.engine.outlet import Detokenizer, Outlet
from outrider.engine.prefixes import Node
from outrider.engine.shaping import Shaper
from outrider.engine.stats import Meter
from outrider.errors import OutriderError

_NONE, _TOKEN, _LOGITS = int(Want.NONE), int(Want.TOKEN), int(Want.LOGITS)
# Rows of a prompt whose log-probabilities are asked for keep their logits: 64 of 49,152 take 12 MiB.
_READ_ROWS = 64
_ANY_DEPTH = 1 << 30


@dataclass(frozen=True, slots=True)
class World:
    """What the sequences of one engine have in common."""

    vocab: int
    context: int
    eos: frozenset[int]
    uses_p: bool  # the rule asks for p where something is drawn
    drafters: tuple[str, ...] = ()  # who may draft; nobody in plain decoding


class Family:
    """The samples of one request: the first reads the prompt, the others fork what it has read.

    stem is the backend's sequence that holds the prompt without its last token, kept while samples wait to fork it
    (-1: none). The last token is each sample's own first row. Where memory was short the stem is gone, and they read
    the prompt again. stand: the kept beginning that the stem shares its blocks with.
    """

    __slots__ = ("prompt_logprobs", "read", "stand", "stem", "ticket", "waiting")

    def __init__(self, samples: int) -> None:
        self.ticket = 0  # by which a service knows the request
        self.stem = -1
        self.stand: Node | None = None
        self.read = False  # whether the first sample has read the prompt
        self.waiting = samples - 1  # samples that have not begun, the first not counted
        self.prompt_logprobs: list[Logprob | None] = [None]


class Sequence:
    """The mutable state of one answer. committed counts the tokens in the cache; seq is -1 while it is not open.

    A paused one is closed, and later opened again; everything but the cache stays as it is.
    """

    __slots__ = (
        "_draw",
        "_ends",
        "_forced",
        "_logits",
        "_prompt_shown",
        "_sample",
        "committed",
        "family",
        "finish",
        "first",
        "index",
        "limit",
        "meter",
        "number",
        "outlet",
        "request",
        "seq",
        "shaper",
        "shares_block",
        "speculates",
        "stand",
        "started",
        "tokens",
        "view",
    )

    def __init__(
        self,
        index: int,
        request: Request,
        sample: int,
        family: Family,
        world: World,
        detokenizer: Detokenizer,
        matcher: Matcher | None,
    ) -> None:
        sampling = replace(request.sampling, sample=request.sampling.sample + sample)
        self.index = index
        self.number = -1  # in the order in which the scheduler got to know them
        self.request = request
        self.family = family
        self.first = sample == 0
        self.seq = -1
        self.started = False  # whether it was ever open
        self.stand: Node | None = None  # the kept beginning that it shares blocks with
        self.shares_block = False  # whether the block that it writes next may be another's too
        self.speculates = request.speculate and request.max_draft != 0
        self.tokens = list(request.prompt)
        self.committed = 0
        self.finish: FinishReason | None = None
        # Prompt and answer fit the context together, so no row of a draft cut to the limit can leave it.
        self.limit = min(request.max_tokens, world.context - len(self.tokens))
        self.outlet = Outlet(detokenizer, request.stop, request.min_tokens)
        self.meter = Meter(len(self.tokens))
        self.shaper: Shaper | None = None
        if matcher is not None or shaping.wanted(request):
            self.shaper = Shaper(request, world.vocab, world.eos, matcher)
        self._forced = None if matcher is None else matcher.forced
        forced = None if matcher is None else self._next_forced
        chosen = None if request.drafters is None else frozenset(request.drafters)
        self.view = View(-1, Tokens(self.tokens), sampling, forced, request.prediction, request.scope, chosen)
        self._sample = sample
        self._ends = frozenset(request.stop_token_ids) | (frozenset() if request.ignore_eos else world.eos)
        self._draw = draw_of(sampling)
        self._logits = request.logprobs is not None or (world.uses_p and sampling.temperature > 0.0)
        self._prompt_shown = request.prompt_logprobs is None

    def opened(self, seq: int, committed: int) -> None:
        """The backend knows the sequence as `seq` from now on, with so many of its tokens in the cache."""
        self.seq = seq
        self.committed = committed
        if self.first and not self.started:
            self.meter.cached = committed  # later samples share what the first one read, and a pause saves nothing
        self.started = True
        self.view = replace(self.view, seq=seq)
        if self.reads_prompt:
            del self.family.prompt_logprobs[1:]  # of a reading that was given up

    def closed(self) -> None:
        """The backend knows the sequence no more; if it goes on, all its tokens are pending."""
        self.seq, self.committed = -1, 0

    @property
    def ready(self) -> bool:
        """Whether it can be opened: a sample other than the first waits until that one has read the prompt."""
        return self.first or self.family.read

    @property
    def pending(self) -> int:
        """Known tokens that are not in the cache: one in plain decoding, the prompt at first."""
        return len(self.tokens) - self.committed

    @property
    def room(self) -> int:
        """Tokens that the answer may still get."""
        return self.limit - self.outlet.count

    @property
    def reads_prompt(self) -> bool:
        """Whether the next rows are prompt rows whose log-probabilities are asked for."""
        return self.request.prompt_logprobs is not None and self.first and self.outlet.count == 0

    @property
    def most_rows(self) -> int | None:
        """The most pending tokens that a pass should take; None: any number."""
        return _READ_ROWS if self.reads_prompt else None

    def _next_forced(self, most: int) -> tuple[int, ...]:
        """A constraint that fails here fails this answer when it is next asked, not the drafts of all others."""
        assert self._forced is not None
        try:
            return self._forced(most)
        except OutriderError:
            return ()

    def take(self, draft: Draft, verdict: Verdict, logprobs: Seq[Logprob]) -> tuple[int, ...]:
        """Add a verdict's tokens one by one until the answer ends; returns those that were kept.

        The only place where an answer is trimmed: end of text, stop strings, max_tokens and the context.
        """
        before = self.outlet.count
        tokens = (*(draft.tokens[node] for node in verdict.path), verdict.token)
        for place, token in enumerate(tokens):
            origin, drafter = _origin(draft, verdict, place)
            self._take(token, origin, drafter, logprobs[place] if logprobs else None)
            if self.finish is not None:
                break
        if self.finish is not None and self.outlet.finish():
            self.finish = FinishReason.STOP
        # Below 0 where a stop string began in an earlier pass: closing the sequence drops those tokens.
        kept = self.outlet.count - before
        new = tokens[: max(kept, 0)]
        self.tokens.extend(new)
        self.meter.record(before, draft, verdict.path, trimmed=kept < len(tokens))
        return new

    def _take(self, token: int, origin: Origin, drafter: str | None, logprob: Logprob | None) -> None:
        """Add one token, or end the answer in its place."""
        self.meter.looked_at += 1
        shaper = self.shaper
        if shaper is not None and not shaper.permits(token):
            self.finish = FinishReason.STUCK
        elif token in self._ends:
            self.finish = FinishReason.STOP
        else:
            if shaper is not None:
                shaper.take(token)
            if self.outlet.push(token, origin, logprob, drafter) or (shaper is not None and shaper.ended):
                self.finish = FinishReason.STOP
            elif self.outlet.count == self.limit:
                self.finish = FinishReason.LENGTH

    def chunk(self, story: Pass) -> Chunk:
        """What this step let out, with the bill if it was the last."""
        ended = self.finish is not None
        text, pieces = self.outlet.release(last=ended)
        usage = self.meter.usage(self.outlet.count) if ended else None
        logprobs = None
        if self.request.logprobs is not None:
            logprobs = tuple(piece.logprob for piece in pieces if piece.logprob is not None)
        prompt_logprobs = None
        if not self._prompt_shown:
            self._prompt_shown = True
            prompt_logprobs = tuple(self.family.prompt_logprobs)
        return Chunk(
            self.index,
            text,
            tuple(piece.token for piece in pieces),
            tuple(piece.origin for piece in pieces),
            story,
            self.finish,
            usage,
            self._sample,
            logprobs,
            prompt_logprobs,
            tuple(piece.drafter for piece in pieces),
        )


def _origin(draft: Draft, verdict: Verdict, place: int) -> tuple[Origin, str | None]:
    """Where the verdict's token number `place` came from, and who guessed it."""
    if place < len(verdict.path):
        node = verdict.path[place]
        drafter = None if draft.drafters is None else draft.drafters[node]
        return Origin.FORCED if node < draft.forced else Origin.ACCEPTED, drafter
    last = verdict.path[-1] if verdict.path else -1
    return Origin.RECOVERED if last in draft.parents else Origin.BONUS, None


class Turn:
    """What one sequence does in one pass: `rows` of its pending tokens and, if that is all of them, a draft below."""

    __slots__ = (
        "decides",
        "depth",
        "draft",
        "error",
        "followers",
        "foretells",
        "kept",
        "logprobs",
        "position",
        "rows",
        "sequence",
        "verdict",
    )

    def __init__(self, sequence: Sequence, rows: int) -> None:
        self.sequence = sequence
        self.rows = rows
        self.decides = rows == sequence.pending
        self.position = sequence.committed + rows  # of the first token after these rows
        # Rows, the first ones, whose next token is known and whose log-probabilities are asked for.
        self.foretells = 0
        if sequence.reads_prompt:
            self.foretells = rows - 1 if self.decides else rows
        self.depth = _ANY_DEPTH  # to which memory lets a draft go
        self.draft = EMPTY
        self.error: Exception | None = None  # what went wrong with this answer alone
        self.verdict = Verdict((), -1)
        self.logprobs: list[Logprob] = []
        self.followers: tuple[tuple[int, tuple[int, ...]], ...] = ()
        self.kept: tuple[int, ...] = ()

    def extend(self) -> Extend:
        """The rows of this turn; only the last pending one and the draft's want a token."""
        sequence, draft, rows = self.sequence, self.draft, self.rows
        tokens = sequence.tokens[sequence.committed : sequence.committed + rows]
        wanted = _LOGITS if sequence._logits else _TOKEN
        want = [_NONE] * rows
        if self.decides:
            want[-1] = wanted
        if self.foretells:
            want[: self.foretells] = [_LOGITS] * self.foretells
        if not draft.tokens:
            return Extend(sequence.seq, tokens, None, want, sequence._draw)
        tokens.extend(draft.tokens)
        want.extend([wanted] * len(draft))
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
