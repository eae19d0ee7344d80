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


@dataclass(frozen=True, slots=True)
class Recipe:
    """What the loss of a row weighs.

    soft: the part that follows the target's law; the rest follows its arg-max. lk: 0 is cross-entropy; above 0 a part
    is lambda cross-entropy + (1 - lambda) (1 - overlap) with lambda = exp(-lk overlap), overlap = sum_j min(p_j, q_j):
    where guess and target agree already, what counts is how often a guess is accepted (2602.23881).
    """

    soft: float
    lk: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """One part of the loss of some rows, and its gradient: q times `whole`, less `at` at some entries."""

    loss: Tensor  # [R, 1]
    whole: Tensor  # [R, 1]
    at: Tensor  # [R, K]


def _part(p: Tensor, q: Tensor, lk: float) -> _Part:
    """Of rows whose goal is p at the entries where q is q [R, K], and 0 elsewhere."""
    overlap = torch.minimum(p, q).sum(-1, keepdim=True)
    mix = torch.exp(-lk * overlap)  # lambda; a constant for the gradient
    below = q * (q < p)
    likelihood = -(p * q.clamp_min(1e-30).log()).sum(-1, keepdim=True)
    return _Part(
        loss=mix * likelihood + (1 - mix) * (1 - overlap),
        whole=mix * p.sum(-1, keepdim=True) + (1 - mix) * below.sum(-1, keepdim=True),
        at=mix * p + (1 - mix) * below,
    )


class _Fused(torch.autograd.Function):
    """The loss summed over rows, with q = softmax(x W^T)."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx, x: Tensor, weight: Tensor, goal: Goal, recipe: Recipe
    ) -> tuple[Tensor, Tensor]:
        loss = x.new_zeros((), dtype=torch.float32)
        gradient = x.new_empty(len(x), len(weight))
        hits = torch.empty(len(x), dtype=torch.bool, device=x.device)
        for start in range(0, len(x), _CHUNK):
            part = slice(start, start + _CHUNK)
            q = torch.softmax(x[part] @ weight.T, -1, dtype=torch.float32)
            label = goal.label[part, None]
            best = q.gather(1, label)
            # Not argmax: in half precision torch's takes as long as a product. A tie counts as right here.
            hits[part] = best[:, 0] >= q.amax(-1)
            known = goal.law[part] >= 0
            entries = torch.where(known, goal.law[part], 0)
            p = goal.chance[part] * known
            p = p / p.sum(-1, keepdim=True).clamp_min(1e-6)
            hard = _part(torch.ones_like(best), best, recipe.lk)
            soft = _part(p, q.gather(1, entries) * known, recipe.lk)
            loss += ((1 - recipe.soft) * hard.loss + recipe.soft * soft.loss).sum()
            # Where no id of the law is in the vocabulary, p is nothing, and the row only follows its label.
            q *= (1 - recipe.soft) * hard.whole + recipe.soft * soft.whole
            q.scatter_add_(1, entries, -recipe.soft * soft.at)
            q.scatter_add_(1, label, -(1 - recipe.soft) * hard.at)
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


def guess_loss(x: Tensor, weight: Tensor, goal: Goal, recipe: Recipe) -> tuple[Tensor, Tensor]:
    """The loss summed over rows, and which rows' best guess is the label [R].

    x [R, H] and weight [D, H] are of one type, that of the products.
    """
    loss, hits = _Fused.apply(x, weight, goal, recipe)
    return loss, hits
