"""What a draft and a verdict are.

Dimensions: n draft nodes, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

IntArray: TypeAlias = npt.NDArray[np.int32]
FloatArray: TypeAlias = npt.NDArray[np.float32]
WordArray: TypeAlias = npt.NDArray[np.uint32]


class Law(Enum):
    """How a node was drawn; a rule names the laws that it is proved for."""

    POINT = "point"  # chosen, not drawn: its q is one on the token
    IID = "iid"  # drawn from q, independently of its siblings
    DISTINCT = "distinct"  # drawn from q without the siblings before it


@dataclass(frozen=True, slots=True)
class Draft:
    """A token tree that hangs below the last known token; a chain is a tree.

    tokens[i] is a vocabulary id; parents[i] < i is the node above, -1 the last known token. All nodes of one draft
    share a law until drafters mix them. q[i] [V] is the law that node i was drawn from, before its earlier siblings
    were taken out of it (so all children of a node share one); a POINT draft has none. The first `forced` nodes are a
    chain that the constraint leaves no choice about. score[i] is the drafter's own estimate, made before the node was
    drawn, of the chance that the target keeps node i once it has kept the node above; None: it has no opinion.
    drafters[i] is the name of who guessed node i, where a drafter has several (drafters.base.names); None: the first.
    It is what people are told, so it makes no draft another one.
    """

    tokens: tuple[int, ...]  # [n]
    parents: tuple[int, ...]  # [n]
    law: Law = Law.POINT
    q: tuple[npt.NDArray[Any], ...] | None = None  # [n] of [V]; float32, or fractions in proofs
    forced: int = 0
    score: tuple[float, ...] | None = None  # [n], each in 0..1
    drafters: tuple[str, ...] | None = field(default=None, compare=False)  # [n]

    def __len__(self) -> int:
        return len(self.tokens)

    @staticmethod
    def chain(
        tokens: tuple[int, ...],
        law: Law = Law.POINT,
        q: tuple[npt.NDArray[Any], ...] | None = None,
        forced: int = 0,
    ) -> Draft:
        """A draft whose node i hangs below node i - 1."""
        return Draft(tokens, tuple(range(-1, len(tokens) - 1)), law, q, forced)


EMPTY = Draft((), ())


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a pass decided: the accepted nodes, root side first, and the target's own token after them."""

    path: tuple[int, ...]
    token: int  # recovered (a draft was rejected below the path) or bonus (the path ends at a leaf)
