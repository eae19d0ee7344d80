"""Medusa heads as torch computes them (2401.10774): one residual block a position, on the last state alone.

Dimensions: N positions of all texts, R chains, H hidden, D draft vocabulary, K heads.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from outrider.train.batch import Batch
from outrider.train.chains import Step, alive


class MedusaHead(nn.Module):
    """Parameters are named and shaped as in the file. `half`: the type that products are computed in."""

    def __init__(self, hidden: int, draft_vocab: int, count: int, half: torch.dtype) -> None:
        super().__init__()
        self.half = half
        self.tap_norm = nn.Parameter(torch.ones(hidden))
        self.heads = nn.ParameterDict({str(k): nn.Parameter(torch.zeros(hidden, hidden)) for k in range(1, count + 1)})
        self.head = nn.Parameter(torch.zeros(draft_vocab, hidden))

    def initialise(self, output_rows: Tensor, output_norm: Tensor, generator: torch.Generator) -> None:
        """Start as the target's own output; the blocks are small, so that they learn apart from the first step on."""
        with torch.no_grad():
            self.head.copy_(output_rows)
            self.tap_norm.copy_(output_norm)
            for matrix in self.heads.values():
                matrix.normal_(0, 0.1 * matrix.shape[1] ** -0.5, generator=generator)

    def walk(self, batch: Batch) -> MedusaWalk:
        """The chains of a batch; see chains."""
        return MedusaWalk(self, batch)


class MedusaWalk:
    """See chains.Walk. Head k reads the same state as head 1; no token that was guessed."""

    def __init__(self, head: MedusaHead, batch: Batch) -> None:
        self._head, self._batch = head, batch
        self._right: Tensor | None = None

    def went_on(self, right: Tensor) -> None:
        """Which chains [R] of the step go on."""
        self._right = right.nonzero()[:, 0]

    def steps(self, depth: int) -> Iterator[Step]:
        """At most `depth` steps and at most K, fewer where no chain is left."""
        head, batch = self._head, self._batch
        u = batch.states[batch.chain_flat].float() * head.tap_norm  # [R, H]
        chains = torch.arange(len(u), device=u.device)
        for step in range(min(depth, len(head.heads))):
            reached, keep = alive(batch, chains, step)
            chains = chains[keep]
            x = u[chains].to(head.half)
            r = x + functional.silu(functional.linear(x, head.heads[str(step + 1)].to(head.half)))
            yield Step(reached, r, batch.goal(chains, step), chains)
            if self._right is None:
                return
            chains = chains[self._right]
