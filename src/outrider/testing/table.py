"""A tiny exact target: the next-token law is a function of the tokens before it, so every result can be known.

Dimensions: n rows of one item, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from outrider.api import Logprob
from outrider.backends.base import Adjust, Capabilities, Chain, Draw, Drawn, Extend, Want
from outrider.core import noise, sampling
from outrider.core.types import FloatArray
from outrider.errors import BackendError, UsageError

LogitsOf: TypeAlias = Callable[[tuple[int, ...]], FloatArray]  # all tokens up to a row's own -> its logits [V]


class RandomLaw:
    """Logits that depend on the last `order` tokens alone, uniform in +-spread / 2, different for each seed."""

    def __init__(self, vocab: int, order: int, seed: int, spread: float = 8.0) -> None:
        self._vocab = vocab
        self._order = order
        self._seed = seed
        self._spread = np.float32(spread)
        self._known: dict[tuple[int, ...], FloatArray] = {}

    def __call__(self, tokens: tuple[int, ...]) -> FloatArray:
        last = tokens[-self._order :]
        if last not in self._known:
            code = 1
            for token in last:
                code = (code * 0x9E3779B97F4A7C15 + token + 1) % (2**61 - 1)
            uniforms = noise.uniform(noise.words(self._vocab, self._seed, code >> 32, code & 0xFFFFFFFF))
            self._known[last] = (uniforms - np.float32(0.5)) * self._spread
        return self._known[last]


class ScriptedLaw:
    """Wants script[i] as the i-th token after `start` tokens, whatever stands before, and script[-1] ever after."""

    def __init__(self, vocab: int, start: int, script: Sequence[int], margin: float = 50.0) -> None:
        self._rows = np.eye(vocab, dtype=np.float32) * np.float32(margin)
        self._start = start
        self._script = tuple(script)

    def __call__(self, tokens: tuple[int, ...]) -> FloatArray:
        index = min(max(len(tokens) - self._start, 0), len(self._script) - 1)
        row: FloatArray = self._rows[self._script[index]]
        return row


@dataclass(slots=True)
class _Cache:
    """One open sequence: committed tokens, the uncommitted rows of its last pass, and the blocks that hold both."""

    tokens: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)  # numbers; shared ones stand in several sequences

    def above(self, row: int) -> tuple[int, ...]:
        """All tokens up to an uncommitted row's own."""
        found: list[int] = []
        while row >= 0:
            found.append(self.rows[row])
            row = self.parents[row]
        return (*self.tokens, *reversed(found))

    def depth(self) -> int:
        """Rows on the longest path."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent < 0 else depths[parent] + 1)
        return max(depths, default=0)

    def forget_rows(self) -> None:
        self.rows, self.parents = [], []


class TableBackend:
    """The Backend protocol over a law; `passes` lists the rows of each pass and `sequences` counts the open ones.

    Also base.Blocks: keys and values, if there were any, would lie in blocks of block_tokens positions of one byte.
    """

    def __init__(
        self, law: LogitsOf, vocab: int, context: int = 256, trees: bool = True, block_tokens: int = 64
    ) -> None:
        self._law = law
        self._vocab = vocab
        self._context = context
        self._capabilities = Capabilities(row_alone=True, trees=trees, isa="table", threads=1)
        self._open: dict[int, _Cache] = {}
        self._next = 0
        self.block_tokens = block_tokens
        self._next_block = 0
        self.passes: list[int] = []

    @property
    def vocab(self) -> int:
        return self._vocab

    @property
    def context(self) -> int:
        return self._context

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def sequences(self) -> int:
        """Open sequences."""
        return len(self._open)

    @property
    def block_bytes(self) -> int:
        """Bytes of one block."""
        return self.block_tokens

    @property
    def blocks_used(self) -> int:
        """Blocks that open sequences hold, each counted once."""
        return len({block for cache in self._open.values() for block in cache.blocks})

    def cached(self, seq: int) -> tuple[int, ...]:
        """The committed tokens of a sequence."""
        return tuple(self._cache(seq).tokens)

    def open(self) -> int:
        self._next += 1
        self._open[self._next] = _Cache()
        return self._next

    def fork(self, seq: int) -> int:
        cache = self._cache(seq)
        tokens = list(cache.tokens)
        blocks = cache.blocks[: -(-len(tokens) // self.block_tokens)]
        new = self.open()
        self._open[new].tokens, self._open[new].blocks = tokens, blocks
        return new

    def truncate(self, seq: int, length: int) -> None:
        cache = self._cache(seq)
        if not 0 <= length <= len(cache.tokens):
            raise UsageError(f"sequence {seq} has {len(cache.tokens)} positions; cannot truncate it to {length}")
        del cache.tokens[length:]
        self._forget_rows(cache)

    def close(self, seq: int) -> None:
        self._cache(seq)
        del self._open[seq]

    def length(self, seq: int) -> int:
        return len(self._cache(seq).tokens)

    def extend(self, items: Sequence[Extend]) -> TableScores:
        self._check_distinct([item.seq for item in items])
        accepted = [(self._cache(item.seq), item, self._parents(item)) for item in items]
        for cache, item, parents in accepted:
            self._forget_rows(cache)
            cache.rows, cache.parents = list(item.tokens), parents
            begin = len(cache.tokens)
            self._own(cache, begin, begin + cache.depth())
        self.passes.append(sum(len(item.tokens) for item in items))
        rows = [
            [cache.above(row) if want != Want.NONE else () for row, want in enumerate(item.want)]
            for cache, item, _ in accepted
        ]
        return TableScores(self._law, rows, [tuple(item.want) for item in items], [item.draw for item in items])

    def commit(self, items: Sequence[tuple[int, Sequence[int]]]) -> None:
        self._check_distinct([seq for seq, _ in items])
        for seq, path in items:
            cache = self._cache(seq)
            above = -1
            for row in path:
                if not 0 <= row < len(cache.rows) or cache.parents[row] != above:
                    raise UsageError(f"path {tuple(path)} of sequence {seq} is not connected at row {row}")
                above = row
        for seq, path in items:
            cache = self._open[seq]
            cache.tokens.extend(cache.rows[row] for row in path)
            self._forget_rows(cache)

    def chain(self, items: Sequence[Chain]) -> list[Drawn]:
        self._check_distinct([item.seq for item in items])
        for item in items:
            self._check_chain(item)
        reads = [0] * max((item.count for item in items), default=0)
        drawn: list[Drawn] = []
        for item in items:
            cache = self._cache(item.seq)
            begin = len(cache.tokens)
            self._forget_rows(cache)
            drawn.append(self._draw(cache, item))
            self._own(cache, begin, len(cache.tokens))
            reads[0] += len(item.tokens)
            for step in range(1, min(item.count, len(drawn[-1].tokens) + 1)):
                reads[step] += 1
        self.passes += [rows for rows in reads if rows]
        return drawn

    def _draw(self, cache: _Cache, item: Chain) -> Drawn:
        """One chain; leaves what it read in the cache."""
        law = item.draw if item.draw.temperature > 0.0 else Draw(1.0)
        tokens: list[int] = []
        best: list[float] = []
        unread = list(item.tokens)
        while len(tokens) < item.count:
            cache.tokens += unread
            row = sampling.renamed(self._law(tuple(cache.tokens)), item.ids)
            token = sampling.token(row, item.draw, item.position + len(tokens))
            own = token if item.ids is None else int(item.ids[token])
            if not 0 <= own < self._vocab:
                break
            tokens.append(token)
            best.append(sampling.logprobs(row, 0, 1, law).top[0][1])
            unread = [own]
        return Drawn(tuple(tokens), tuple(best))

    def _own(self, cache: _Cache, begin: int, end: int) -> None:
        """Give a sequence blocks of its own for the positions from begin to end."""
        for index in range(begin // self.block_tokens, -(-end // self.block_tokens)):
            others = (other for other in self._open.values() if other is not cache)
            if index < len(cache.blocks) and not any(cache.blocks[index] in other.blocks for other in others):
                continue
            cache.blocks[index : index + 1] = [self._next_block]
            self._next_block += 1

    def _forget_rows(self, cache: _Cache) -> None:
        cache.forget_rows()
        del cache.blocks[-(-len(cache.tokens) // self.block_tokens) :]

    def _check_chain(self, item: Chain) -> None:
        if item.count < 1:
            raise UsageError(f"a chain of {item.count} tokens is asked for; draw at least 1")
        count = len(item.tokens) + item.count - 1
        tokens = [*item.tokens, *([0] * (item.count - 1))]
        self._parents(Extend(item.seq, tokens if item.tokens else [], None, [Want.NONE] * count))

    def _cache(self, seq: int) -> _Cache:
        if seq not in self._open:
            raise BackendError(f"sequence {seq} is not open")
        return self._open[seq]

    def _check_distinct(self, seqs: Sequence[int]) -> None:
        if len(set(seqs)) != len(seqs):
            raise UsageError(f"sequences {list(seqs)} of one call are not distinct")

    def _parents(self, item: Extend) -> list[int]:
        """The checked parents of an item's rows [n]."""
        count = len(item.tokens)
        parents = list(range(-1, count - 1) if item.parents is None else item.parents)
        if count == 0 or len(parents) != count or len(item.want) != count:
            raise UsageError(f"an item has {count} tokens, {len(parents)} parents and {len(item.want)} wants")
        depths: list[int] = []
        for row, (token, parent, want) in enumerate(zip(item.tokens, parents, item.want, strict=True)):
            if not 0 <= token < self._vocab or not -1 <= parent < row or want not in tuple(Want):
                raise UsageError(f"row {row} has token {token}, parent {parent} and want {want}")
            depths.append(0 if parent < 0 else depths[parent] + 1)
        if len(self._cache(item.seq).tokens) + max(depths) >= self._context:
            raise BackendError(f"a row at depth {max(depths)} leaves the context of {self._context}")
        return parents


class TableScores:
    """The results of one pass, computed when asked for."""

    def __init__(
        self, law: LogitsOf, rows: list[list[tuple[int, ...]]], want: list[tuple[int, ...]], draws: list[Draw]
    ) -> None:
        self._law = law
        self._rows = rows
        self._want = want
        self._draws = draws

    def token(self, item: int, row: int, adjust: Adjust | None = None) -> int:
        tokens = self._asked(item, row, Want.TOKEN)
        return sampling.token(self._law(tokens), self._draws[item], len(tokens), adjust)

    def logits(self, item: int, row: int) -> FloatArray:
        logits = self._law(self._asked(item, row, Want.LOGITS)).view()
        logits.flags.writeable = False
        return logits

    def law(self, item: int, row: int, adjust: Adjust | None = None) -> FloatArray:
        return sampling.law(self.logits(item, row), self._draws[item], adjust)

    def logprobs(
        self, item: int, row: int, chosen: int, top: int, processed: bool, adjust: Adjust | None = None
    ) -> Logprob:
        logits = self.logits(item, row)
        return sampling.logprobs(logits, chosen, top, self._draws[item] if processed else None, adjust)

    def top(self, item: int, row: int, count: int) -> tuple[int, ...]:
        return sampling.top(self._law(self._asked(item, row, Want.TOKEN)), count)

    def _asked(self, item: int, row: int, least: Want) -> tuple[int, ...]:
        if not 0 <= item < len(self._want) or not 0 <= row < len(self._want[item]) or self._want[item][row] < least:
            raise UsageError(f"row {row} of item {item} did not want its {least.name.lower()}")
        return self._rows[item][row]
