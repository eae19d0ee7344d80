"""The loss over the draft vocabulary, with its gradient computed while the logits are at hand.

Dimensions: R rows, H hidden, D draft vocabulary, K kept ids of a law.

Half of the work of training is this matrix. Keeping R x D float32 logits for a backward pass costs more time in memory
traffic than the products; here a few rows at a time go through, and what stays is one gradient in half precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_CHUNK = 256  # rows: fewer, and the products get slower; more, and the rest does (measured, 2 % either way)


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """What the rows should have guessed, in draft entries."""

    label: Tensor  # [R] the target's arg-max
    law: Tensor  # [R, K] entries of the target's likeliest ids, -1 where the draft vocabulary lacks one
    chance: Tensor  # [R, K] their probabilities, over the whole vocabulary

    def chosen(self, keep: Tensor) -> Goal:
        """Those with these indices."""
        return Goal(self.label[keep], self.law[keep], self.chance[keep])


class _Fused(torch.autograd.Function):
    """sum over rows of -sum_j w_j log softmax(x W^T)_j, w = (1 - soft) arg-max + soft law within the vocabulary."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx, x: Tensor, weight: Tensor, goal: Goal, soft: float
    ) -> tuple[Tensor, Tensor]:
        loss = x.new_zeros((), dtype=torch.float32)
        gradient = x.new_empty(len(x), len(weight))
        hits = torch.empty(len(x), dtype=torch.bool, device=x.device)
        for start in range(0, len(x), _CHUNK):
            part = slice(start, start + _CHUNK)
            logits = x[part] @ weight.T
            label = goal.label[part, None]
            q = torch.softmax(logits, -1, dtype=torch.float32)
            # Not argmax: in half precision torch's takes as long as a product. A tie counts as right here.
            hits[part] = q.gather(1, label)[:, 0] >= q.amax(-1)
            known = goal.law[part] >= 0
            entries = torch.where(known, goal.law[part], 0)
            p = goal.chance[part] * known
            p = soft * p / p.sum(-1, keepdim=True).clamp_min(1e-6)
            loss -= (1 - soft) * q.gather(1, label).clamp_min(1e-30).log().sum()
            loss -= (p * q.gather(1, entries).clamp_min(1e-30).log()).sum()
            # Where no id of the law is in the vocabulary the row only follows its label.
            q *= (1 - soft) + p.sum(-1, keepdim=True)
            q.scatter_add_(1, entries, -p)
            q.scatter_add_(1, label, torch.full_like(label, -(1 - soft), dtype=torch.float32))
            gradient[part] = q
        ctx.save_for_backward(gradient @ weight, gradient.T @ x)
        ctx.mark_non_differentiable(hits)
        return loss, hits

    @staticmethod
    def backward(
        ctx: torch.autograd.function.FunctionCtx, loss: Tensor, _hits: Tensor
    ) -> tuple[Tensor, Tensor, None, None]:
        to_x, to_weight = ctx.saved_tensors
        return to_x * loss.to(to_x.dtype), to_weight * loss.to(to_weight.dtype), None, None


def guess_loss(x: Tensor, weight: Tensor, goal: Goal, soft: float) -> tuple[Tensor, Tensor]:
    """The loss summed over rows, and which rows' best guess is the label [R].

    x [R, H] and weight [D, H] are of one type, that of the products.
    """
    loss, hits = _Fused.apply(x, weight, goal, soft)
    return loss, hits
