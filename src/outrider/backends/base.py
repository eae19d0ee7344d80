"""What the engine asks of whatever computes the target: sequences, passes, and the rows' results.

Dimensions: n rows of one item, V vocabulary, W the vocabulary that a chain is drawn from, T tapped states, H hidden
size, S steps of a head's chain.

A pass (`extend`) computes rows that hang below what a sequence has committed; `commit` keeps one path of them and
forgets the rest. Every verb takes many sequences; one sequence is a list of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, runtime_checkable

from outrider.api import Logprob
from outrider.core.sampling import GREEDY, Adjust, Draw
from outrider.core.types import FloatArray, IntArray
from outrider.models.headfile import HeadFile

__all__ = [
    "GREEDY",
    "Adjust",
    "Backend",
    "Blocks",
    "Capabilities",
    "Chain",
    "ChainDrawer",
    "Draw",
    "Drawn",
    "Extend",
    "Head",
    "HeadChain",
    "HeadDrawn",
    "HeadHost",
    "PhaseTimer",
    "Phases",
    "Scores",
    "StateTaps",
    "TappedScores",
    "Want",
]


class Want(IntEnum):
    """What the caller wants to know of a row."""

    NONE = 0  # only its keys and values are needed: every prompt row but the last
    TOKEN = 1  # the target's token: arg-max, or the coupled draw
    LOGITS = 2  # the token, the whole row of logits, and what follows from them


@dataclass(frozen=True, slots=True)
class Extend:
    """The rows that one sequence adds to a pass.

    parents[i] < i is the row above row i, -1 the last committed position; None means a chain. A row's position is
    one more than its parent's.
    """

    seq: int
    tokens: Sequence[int]  # [n]
    parents: Sequence[int] | None  # [n]
    want: Sequence[int]  # [n] of Want
    draw: Draw = GREEDY


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend promises."""

    row_alone: bool  # a row's result never depends on the other rows: same ids with speculation on or off
    trees: bool
    isa: str
    threads: int


class Scores(Protocol):
    """The results of one pass. Rows may be drawn lazily, so that only those the walk reaches cost anything.

    core.sampling defines every result to the last bit. Raises UsageError for a row that did not want what is asked.
    """

    def token(self, item: int, row: int, adjust: Adjust | None = None) -> int:
        """The target's token after this row, drawn with the item's Draw (core.sampling.token)."""
        ...

    def logits(self, item: int, row: int) -> FloatArray:
        """The row's logits [V], read-only, not copied."""
        ...

    def law(self, item: int, row: int, adjust: Adjust | None = None) -> FloatArray:
        """p [V] after this row (core.sampling.law); needs its logits."""
        ...

    def logprobs(
        self, item: int, row: int, chosen: int, top: int, processed: bool, adjust: Adjust | None = None
    ) -> Logprob:
        """Log-probabilities in the model's own law or, processed, in that of `token`; needs the row's logits."""
        ...

    def top(self, item: int, row: int, count: int) -> tuple[int, ...]:
        """The ids of the row's largest logits, best first (core.sampling.top); needs its token alone."""
        ...


class Backend(Protocol):
    """The target model as the engine sees it.

    Sequences are small integers; using one that is not open raises BackendError. `extend` raises BackendError when
    a row's position would not fit the context, and UsageError for malformed arguments; after any error what
    is committed has not changed. Rows that are not committed are dropped by the next commit, truncate or extend of
    their sequence.
    """

    @property
    def vocab(self) -> int: ...
    @property
    def context(self) -> int: ...
    @property
    def capabilities(self) -> Capabilities: ...

    def open(self) -> int: ...
    def fork(self, seq: int) -> int: ...
    def truncate(self, seq: int, length: int) -> None: ...
    def close(self, seq: int) -> None: ...
    def length(self, seq: int) -> int:
        """Committed positions."""
        ...

    def extend(self, items: Sequence[Extend]) -> Scores: ...
    def commit(self, items: Sequence[tuple[int, Sequence[int]]]) -> None:
        """Keep, of each (sequence, path), the rows on the path (root side first, connected); drop the others."""
        ...


@runtime_checkable
class Blocks(Protocol):
    """What a backend may offer besides Backend: to count the memory of keys and values, which it holds in blocks.

    A fork shares the blocks of what it forked until one of them writes into one; full blocks are never written again.
    """

    @property
    def block_tokens(self) -> int:
        """Positions of one block."""
        ...

    @property
    def block_bytes(self) -> int: ...
    @property
    def blocks_used(self) -> int:
        """Blocks that open sequences hold, each counted once however many share it; uncommitted rows included."""
        ...


@dataclass(frozen=True, slots=True)
class Phases:
    """Seconds of one pass by what they went into; together they are the pass.

    Waiting for other threads belongs to the work that the wait ends. attention: scores and sums over keys and values;
    linear: all matrices but the head; other: norms, rotations, activations, quantised inputs, embedding.
    """

    linear_s: float
    attention_s: float
    head_s: float
    other_s: float


@runtime_checkable
class PhaseTimer(Protocol):
    """What a backend may offer besides Backend: to say where the time of a pass goes."""

    def time_phases(self, items: Sequence[Extend]) -> Phases:
        """A pass like `extend`, with nothing to read of its rows."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """Tokens that a model draws one after the other, each read before the next is drawn.

    First the sequence reads `tokens`, at least one. Then count >= 1 tokens are drawn, the first with the noise of
    `position`, the next with that of position + 1. ids: they are drawn from core.sampling.renamed(logits, ids), so that
    noise and result are in terms of W, and the model reads ids[token]; None: from its own vocabulary.
    """

    seq: int
    tokens: Sequence[int]  # [n]
    count: int
    draw: Draw
    position: int
    ids: IntArray | None = None  # [W]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A drawn chain; shorter than asked for only where every token that the model has an id for is impossible.

    best: before each token, the log-probability of the likeliest, in the law that it was drawn from (at temperature 0
    the softmax of the logits).
    """

    tokens: tuple[int, ...]
    best: tuple[float, ...]


@runtime_checkable
class ChainDrawer(Protocol):
    """What a backend may offer besides Backend: a whole chain in one call."""

    def chain(self, items: Sequence[Chain]) -> list[Drawn]:
        """Draw all chains in as many passes as the longest has tokens, one row each but for the first.

        What was read is committed: the item's tokens, and the drawn ones but for the last. Raises what extend raises;
        what is committed has not changed then.
        """
        ...


class TappedScores(Scores, Protocol):
    """The results of a pass that kept states."""

    def states(self, item: int) -> FloatArray:
        """The states of the item's rows [n, T * H], those of a row one behind the other in the order of the taps."""
        ...


@runtime_checkable
class StateTaps(Protocol):
    """What a backend may offer besides Backend: the states of its rows, as a drafting head is trained on them."""

    def tap(self, layers: Sequence[int]) -> None:
        """Passes from now on keep these states of every row; none: they keep nothing, and cost nothing.

        State l is what enters block l (before its first norm), or what leaves the last block where l is the number of
        blocks (before the output norm). Raises UsageError for a state that there is not, or that is named twice.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class HeadChain:
    """What a head is to guess for a sequence: what comes behind `last`, the token behind all that is committed.

    position is that of the first guess, len(tokens) where tokens are all known ones. steps >= 1 guesses follow one
    another, each with at most width >= 1 candidates. draw says how the chain's own tokens are chosen: the likeliest at
    temperature 0, else with the target's noise and filters. A chain stops early behind the step where the product of
    its largest chances falls below `least`.
    """

    seq: int
    last: int
    steps: int
    draw: Draw
    position: int
    width: int
    least: float = 0.0


@dataclass(frozen=True, slots=True)
class HeadDrawn:
    """Of each step [S] the chain's own token, and the likeliest candidates (id, chance), best first.

    A chance is that of the head's calibrated law, before filters: at temperature 1, or at the draw's where that is
    higher. Nothing [0] where the sequence is not one that the head can draft for, or where `position` does not follow
    what is committed. A head of independent steps stops at its depth.
    """

    tokens: tuple[int, ...]
    likely: tuple[tuple[tuple[int, float], ...], ...]


class Head(Protocol):
    """A drafting head that runs next to the target. Sequences are the backend's; a fork of a followed one is followed.

    What a draft gives depends on the committed tokens and its arguments alone (a row is alone here, too).
    """

    @property
    def independent(self) -> bool:
        """Whether a step's candidates do not depend on the tokens of the steps before."""
        ...

    @property
    def share(self) -> float:
        """Its weights over those that a pass of the target reads, in bytes."""
        ...

    def begin(self, seq: int) -> bool:
        """Follow a sequence from now on. False, and no draft ever: states of its committed rows were not kept."""
        ...

    def end(self, seq: int) -> None:
        """Follow it no more; nothing of it is left. Closing a sequence does the same."""
        ...

    def draft(self, items: Sequence[HeadChain]) -> list[HeadDrawn]:
        """The guesses for all items, in one call. Raises what extend raises."""
        ...


@runtime_checkable
class HeadHost(Protocol):
    """What a backend may offer besides Backend: to run a drafting head on its own states."""

    @property
    def fingerprint(self) -> bytes:
        """Which model it is (models.fingerprint)."""
        ...

    def attach(self, head: HeadFile) -> Head:
        """Load a head. Raises UsageError where it was trained for another model, or does not fit this one."""
        ...
