"""Guess with a second, smaller model behind the same Backend protocol.

Cost: a pass of the small model for each drafted token, shared by all sequences. Memory: its weights, and a cache as
long as the texts. Source: speculative decoding of Leviathan et al. 2211.17192 and Chen et al. 2302.01318; drawing with
the target's own noise: docs/rules.md; other vocabularies: drafters/vocabularies.py.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from outrider.backends.base import GREEDY, Backend, Chain, Draw, Drawn, Extend, Want
from outrider.core import tree
from outrider.core.rules import COUPLED, Rule
from outrider.core.sampling import draw_of
from outrider.core.step import Budget, Outcome, View
from outrider.core.types import EMPTY, Draft, Law
from outrider.drafters.chains import draw_chains
from outrider.drafters.trees import Place, Tree, drawn_trees, likely_trees
from outrider.drafters.vocabularies import Bridge, Teller, Unlike

READ_ROWS = 512
# A draft's first pass reads what is left unread; up to so many rows cost little more than one.
_LEFT_ROWS = 16
# Drawing only tokens that both have (TLI) makes sense where most of the draft model's are among them.
_ENOUGH = 0.5


class _Way(Enum):
    """How a draft is made."""

    CHAIN = auto()  # likeliest tokens, or drawn with the target's noise
    TEXT = auto()  # likeliest tokens, translated by their text
    LIKELY = auto()  # the likeliest tree
    DRAWN = auto()  # chain or tree, drawn independently of the target


class ModelDrafter:
    """Drafts chains, and trees where the budget has more nodes than levels, from a model of its own.

    bridge says how the vocabularies go together (vocabularies.match). The rule decides how tokens are drawn. Under
    `coupled` a chain is drawn with the target's noise, temperature and filters, so that it agrees as often as possible,
    and a tree holds the likeliest nodes. Under other rules nodes are drawn with noise of their own and bring their q.
    At temperature 0, or always where `greedy`, the likeliest tokens are taken (law POINT); so they are where the two
    vocabularies can only be compared by text. Trees need a rule and a backend that know trees. Every draft has scores.

    A prompt is read when its sequence is first asked for a draft, READ_ROWS a step; drafting begins when all is read.
    Where it begins like a text that is in the cache, such as that of another sample, that part is not read again.
    Where a text outgrows the model's context, its cache is given back and drafting pauses for good, with one warning;
    `paused` counts the drafts that were not made for that. Raises what the backend raises.
    """

    def __init__(
        self, backend: Backend, bridge: Bridge, rule: Rule = COUPLED, *, greedy: bool = False, name: str = "model"
    ) -> None:
        self.name = name
        self.paused = 0
        self._backend = backend
        self._bridge = bridge
        self._greedy = greedy
        self._independent = rule.uses_q
        self._trees = rule.trees and backend.capabilities.trees
        self._texts: dict[int, _Text] = {}

    def begin(self, seq: int, prompt: Sequence[int]) -> None:
        self._texts[seq] = _Text(self._backend, self._bridge.teller())

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        asked = [
            (place, job)
            for place, (view, budget) in enumerate(zip(views, budgets, strict=True))
            if (job := self._job(view, budget)) is not None
        ]
        self._read([job.text for _, job in asked])
        drafts = [EMPTY] * len(views)
        ready = [(place, job) for place, job in asked if job.text.ready]
        for place, draft in self._drafts(ready):
            drafts[place] = draft
        return drafts

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            self._texts[outcome.seq].hear(outcome.tokens)

    def end(self, seq: int) -> None:
        text = self._texts.pop(seq, None)
        if text is not None:
            text.close()

    def _pause(self, length: int) -> None:
        self.paused += 1
        if self.paused == 1:
            warnings.warn(
                f"a text of {length} tokens does not fit the draft model's context of {self._backend.context}, so that "
                "it drafts no more for it; longer texts to come are treated alike",
                RuntimeWarning,
                stacklevel=2,
            )

    def _job(self, view: View, budget: Budget) -> _Job | None:
        """What is to be drafted for a view; None where nothing is."""
        depth = min(budget.nodes, budget.depth)
        if depth < 1:
            return None
        text = self._texts[view.seq]
        text.catch_up(view.tokens, self._texts.values())
        depth = min(depth, text.room)
        if depth < 1:
            self._pause(len(view.tokens))
            text.give_up()
            return None
        hot = view.sampling.temperature > 0.0 and not self._greedy
        nodes = budget.nodes if self._trees and budget.nodes > budget.depth else depth
        way = self._way(hot, nodes > depth)
        draw = draw_of(view.sampling) if hot and way is not _Way.TEXT else GREEDY
        return _Job(text, view.tokens, way, draw, nodes, depth)

    def _way(self, hot: bool, branches: bool) -> _Way:
        bridge = self._bridge
        if isinstance(bridge, Unlike) and not (hot and bridge.overlap >= _ENOUGH):
            return _Way.TEXT
        if hot and self._independent:
            return _Way.DRAWN
        return _Way.LIKELY if branches else _Way.CHAIN

    def _read(self, texts: Sequence[_Text]) -> None:
        """Read what is too much for a draft's first pass, in passes of at most READ_ROWS."""
        parts = [(text, min(len(text.unread) - 1, READ_ROWS)) for text in texts if len(text.unread) > _LEFT_ROWS]
        while parts:
            count = 1
            while count < len(parts) and sum(rows for _, rows in parts[: count + 1]) <= READ_ROWS:
                count += 1
            batch, parts = parts[:count], parts[count:]
            self._backend.extend(
                [Extend(text.seq, text.unread[:rows], None, [Want.NONE] * rows) for text, rows in batch]
            )
            self._backend.commit([(text.seq, range(rows)) for text, rows in batch])
            for text, rows in batch:
                text.read += rows

    def _drafts(self, asked: Sequence[tuple[int, _Job]]) -> Iterator[tuple[int, Draft]]:
        """The drafts with their places; those drawn alike share their passes."""
        chains = [(place, job) for place, job in asked if job.way in (_Way.CHAIN, _Way.TEXT)]
        items = [job.chain(self._bridge) for _, job in chains]
        for (place, job), drawn in zip(chains, draw_chains(self._backend, items), strict=True):
            yield place, self._chain(job, drawn)
        for way, draw_trees in ((_Way.LIKELY, likely_trees), (_Way.DRAWN, drawn_trees)):
            of_way = [(place, job) for place, job in asked if job.way is way]
            trees = draw_trees(self._backend, [job.place(self._bridge) for _, job in of_way])
            for (place, job), grown in zip(of_way, trees, strict=True):
                job.text.branched(grown)
                yield place, grown.draft

    def _chain(self, job: _Job, drawn: Drawn) -> Draft:
        """The draft of what was drawn; the text notes what the model has read of it."""
        bridge, tokens = self._bridge, drawn.tokens
        scores = tuple(min(math.exp(logprob), 1.0) for logprob in drawn.best)
        if job.way is _Way.TEXT and isinstance(bridge, Unlike):
            job.text.went_on(tokens)
            told = bridge.retell(job.known, tokens, scores)[: job.depth]
            tokens, scores = tuple(token for token, _ in told), tuple(chance for _, chance in told)
        else:
            job.text.went_on(tokens if bridge.ids is None else [int(bridge.ids[token]) for token in tokens])
        law = Law.POINT if job.draw is GREEDY else Law.IID
        return Draft(tokens, tuple(range(-1, len(tokens) - 1)), law, score=scores) if tokens else EMPTY


class _Text:
    """What the draft model knows of one sequence: own is the text in its ids, of which the first `read` are cached.

    Behind them lies what it drafted: committed (ahead), or as the rows of its last pass. Of that, what the target keeps
    need not be read again.
    """

    __slots__ = ("_ahead", "_backend", "_heard", "_outgrown", "_rows", "_teller", "own", "read", "seq")

    def __init__(self, backend: Backend, teller: Teller) -> None:
        self.seq = -1  # in the backend; -1: not open
        self.own: list[int] = []
        self.read = 0
        self._backend = backend
        self._teller = teller
        self._heard = 0  # tokens of the target
        self._ahead: tuple[int, ...] = ()
        self._rows = EMPTY
        self._outgrown = False

    @property
    def unread(self) -> list[int]:
        return self.own[self.read :]

    @property
    def room(self) -> int:
        """Tokens that can be drawn: the last of them is not read."""
        return 0 if self._outgrown else self._backend.context - len(self.own) + 1

    @property
    def ready(self) -> bool:
        """Whether a draft may begin: little is unread, and the text does not end within a character."""
        return 0 < len(self.own) - self.read <= _LEFT_ROWS and self._teller.whole

    def catch_up(self, tokens: Sequence[int], others: Iterable[_Text]) -> None:
        """Know all tokens of a view; the first view opens the sequence, with what another one has read of its text."""
        if self._outgrown:
            return
        if self.seq < 0:
            self._open(tokens, others)
        self._hear(tokens[self._heard :])

    def _open(self, tokens: Sequence[int], others: Iterable[_Text]) -> None:
        self.own, self._heard = self._teller.tell([], tokens)[1], len(tokens)
        start = self.own[: _LEFT_ROWS + 1]
        alike = [other for other in others if other.seq >= 0 and other.own[: len(start)] == start]
        known = [_common(self.own[:-1], other.own[: other.read]) for other in alike]
        self.read = max(known, default=0)
        if self.read > _LEFT_ROWS:
            # The samples of one prompt, and prompts that begin alike: what was read once is not read again.
            self.seq = self._backend.fork(alike[known.index(self.read)].seq)
            self._backend.truncate(self.seq, self.read)
        else:
            self.seq, self.read = self._backend.open(), 0

    def hear(self, tokens: Sequence[int]) -> None:
        """New tokens of the target. Before the first view nothing is noted: it will show them all."""
        if self.seq >= 0:
            self._hear(tokens)

    def went_on(self, drawn: Sequence[int]) -> None:
        """The unread part and then these ids were drawn and read, in so far as the backend now has them."""
        self.read = len(self.own)
        self._ahead = tuple(drawn[: self._backend.length(self.seq) - self.read])

    def branched(self, grown: Tree) -> None:
        """The unread part was read, and the tree's rows wait to be committed."""
        self.read = len(self.own)
        self._rows = grown.rows

    def give_up(self) -> None:
        """The text does not fit any more: keep nothing of it."""
        self._outgrown = True
        self.own, self.read = [], 0
        self.close()

    def close(self) -> None:
        if self.seq >= 0:
            seq, self.seq = self.seq, -1
            self._backend.close(seq)

    def _hear(self, tokens: Sequence[int]) -> None:
        cut, told = self._teller.tell(self.own, tokens)
        self._heard += len(tokens)
        held = (*self.own[cut : self.read], *self._ahead)
        start = min(cut, self.read)
        self.own[cut:] = told
        # The last token is always left to be read: what the model thinks of comes with its row.
        most = max(len(self.own) - 1, 0)
        self.read = min(start + _common(held, self.own[start : start + len(held)]), most)
        if self.read < self._backend.length(self.seq):
            self._backend.truncate(self.seq, self.read)
        elif self._rows.tokens:
            path = tree.follow(self._rows, self.own[self.read : most])
            self._backend.commit([(self.seq, path)])
            self.read += len(path)
        self._ahead, self._rows = (), EMPTY


@dataclass(frozen=True, slots=True)
class _Job:
    """One draft to be made: of at most `nodes` nodes, `depth` of them on a path, behind the known tokens."""

    text: _Text
    known: Sequence[int]
    way: _Way
    draw: Draw
    nodes: int
    depth: int

    def chain(self, bridge: Bridge) -> Chain:
        ids = None if self.way is _Way.TEXT else bridge.ids
        return Chain(self.text.seq, self.text.unread, self.depth, self.draw, len(self.known), ids)

    def place(self, bridge: Bridge) -> Place:
        text = self.text
        return Place(text.seq, text.unread, self.draw, len(self.known), bridge.ids, self.nodes, self.depth)


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many of the first tokens are the same."""
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count
