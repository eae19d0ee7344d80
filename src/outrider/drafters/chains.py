"""Chains drawn from a model, for backends that do not offer it themselves.

Dimensions: V vocabulary of the model, W that of the tokens drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from outrider.backends.base import Backend, Chain, ChainDrawer, Draw, Drawn, Extend, Want
from outrider.core import sampling
from outrider.core.types import FloatArray


def draw_chains(backend: Backend, items: Sequence[Chain]) -> list[Drawn]:
    """The chains, in one call where the backend offers it, else step by step."""
    if not items:
        return []
    return backend.chain(items) if isinstance(backend, ChainDrawer) else step_by_step(backend, items)


def step_by_step(backend: Backend, items: Sequence[Chain]) -> list[Drawn]:
    """What backends.base.ChainDrawer promises, from Backend's verbs alone."""
    found = [_Growing(item, list(item.tokens)) for item in items]
    growing = found
    while growing:
        scores = backend.extend(
            [Extend(g.item.seq, g.unread, None, [*[Want.NONE] * (len(g.unread) - 1), Want.LOGITS]) for g in growing]
        )
        rows = [scores.logits(place, len(g.unread) - 1) for place, g in enumerate(growing)]
        backend.commit([(g.item.seq, range(len(g.unread))) for g in growing])
        growing = [g for g, row in zip(growing, rows, strict=True) if g.grow(row)]
    return [Drawn(tuple(g.tokens), tuple(g.best)) for g in found]


def softened(draw: Draw) -> Draw:
    """The draw whose law tells how sure the model is: at temperature 0 that of the logits themselves."""
    return draw if draw.temperature > 0.0 else Draw(1.0)


@dataclass(slots=True)
class _Growing:
    """A chain as it grows; unread are the tokens of its next rows."""

    item: Chain
    unread: list[int]
    tokens: list[int] = field(default_factory=list)
    best: list[float] = field(default_factory=list)

    def grow(self, logits: FloatArray) -> bool:
        """Draw the next token after a row of logits [V]; whether another one is to follow."""
        item = self.item
        row = sampling.renamed(logits, item.ids)
        token = sampling.token(row, item.draw, item.position + len(self.tokens))
        own = token if item.ids is None else int(item.ids[token])
        if not 0 <= own < len(logits):
            return False
        self.tokens.append(token)
        self.best.append(sampling.logprobs(row, 0, 1, softened(item.draw)).top[0][1])
        self.unread = [own]
        return len(self.tokens) < item.count
