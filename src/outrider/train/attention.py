"""Attention of chains over what they share and over their own steps, a few rows at a time, with its gradient.

Dimensions: B texts, R rows, L longest text, s own steps, A query heads, G key heads, x query heads of a key head,
d size of a head, n rows of a part, l keys that one of them sees.

In float32 the scores of all rows of a long text are larger than the caches, and autograd would walk over them a dozen
times; those of a part stay in the caches. Kept for the backward pass are the weights, in the type of the products.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

_PART = 96  # rows: their scores over 1,000 keys are 3.5 MB


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where rows stand, ordered by text and start."""

    counts: list[int]  # [B] rows of each text
    start: Tensor  # [R] the last shared key that a row sees

    def parts(self) -> Iterator[tuple[int, slice, int, int]]:
        """(text, rows, the least keys that one of them sees, the most)."""
        starts = self.start.tolist()
        at = 0
        for text, count in enumerate(self.counts):
            for first in range(at, at + count, _PART):
                rows = slice(first, min(first + _PART, at + count))
                yield text, rows, starts[rows.start] + 1, starts[rows.stop - 1] + 1
            at += count


def _by_group(x: Tensor, groups: int) -> Tensor:
    """[n, A, d] as [G, x * n, d]."""
    n, heads, size = x.shape
    return x.view(n, groups, heads // groups, size).permute(1, 2, 0, 3).reshape(groups, -1, size)


def _by_row(x: Tensor, n: int) -> Tensor:
    """[G, x * n, d] as [n, A, d]."""
    groups, _, size = x.shape
    return x.view(groups, -1, n, size).permute(2, 0, 1, 3).reshape(n, -1, size)


def _own_by_group(x: Tensor) -> Tensor:
    """[n, s, G, d] as [G, 1, n, s, d]."""
    return x.permute(2, 0, 1, 3)[:, None]


class _Attended(torch.autograd.Function):
    """softmax(q k / sqrt(d)) v over both."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        own_keys: Tensor,
        own_values: Tensor,
        places: Places,
    ) -> Tensor:
        groups, size, own = keys.shape[1], keys.shape[3], own_keys.shape[1]
        out = torch.empty_like(query)
        kept: list[Tensor] = []
        for text, rows, least, most in places.parts():
            q = _by_group(query[rows], groups)
            n = rows.stop - rows.start
            scores = q.new_empty(groups, q.shape[1] // n, n, most + own, dtype=torch.float32)
            scores[..., :most] = (q @ keys[text, :, :most].transpose(1, 2)).view(groups, -1, n, most)
            later = torch.arange(least, most, device=q.device) > places.start[rows, None]
            scores[..., least:most].masked_fill_(later, float("-inf"))
            if own:
                mine = q.view(groups, -1, n, 1, size) * _own_by_group(own_keys[rows])
                scores[..., most:] = mine.sum(-1, dtype=torch.float32)
            weights = torch.softmax(scores.mul_(size**-0.5), -1).to(query.dtype)
            found = weights[..., :most].flatten(1, 2) @ values[text, :, :most]
            if own:
                found += (weights[..., most:, None] * _own_by_group(own_values[rows])).sum(-2).flatten(1, 2)
            out[rows] = _by_row(found, n)
            kept.append(weights)
        ctx.save_for_backward(query, keys, values, own_keys, own_values, *kept)
        ctx.places = places
        return out

    @staticmethod
    def backward(
        ctx: torch.autograd.function.FunctionCtx, to_out: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, None]:
        query, keys, values, own_keys, own_values, *kept = ctx.saved_tensors
        groups, size, own = keys.shape[1], keys.shape[3], own_keys.shape[1]
        to_query, to_own_keys, to_own_values = (torch.empty_like(x) for x in (query, own_keys, own_values))
        to_keys, to_values = torch.zeros_like(keys), torch.zeros_like(values)
        for (text, rows, _, most), weights in zip(ctx.places.parts(), kept, strict=True):
            q, to = _by_group(query[rows], groups), _by_group(to_out[rows], groups)
            n = rows.stop - rows.start
            to_weights = weights.new_empty(weights.shape, dtype=torch.float32)
            to_weights[..., :most] = (to @ values[text, :, :most].transpose(1, 2)).view(groups, -1, n, most)
            if own:
                each = to.view(groups, -1, n, 1, size)
                to_weights[..., most:] = (each * _own_by_group(own_values[rows])).sum(-1, dtype=torch.float32)
                mine = (weights[..., most:, None] * each).sum(1)  # [G, n, s, d]
                to_own_values[rows] = mine.permute(1, 2, 0, 3)
            to_values[text, :, :most] += weights[..., :most].flatten(1, 2).transpose(1, 2) @ to
            by = to_weights.mul_(weights)
            by -= weights * by.sum(-1, keepdim=True)
            to_scores = by.mul_(size**-0.5).to(query.dtype)
            shared = to_scores[..., :most].flatten(1, 2)
            to_q = shared @ keys[text, :, :most]
            to_keys[text, :, :most] += shared.transpose(1, 2) @ q
            if own:
                per = to_scores[..., most:, None]
                to_q += (per * _own_by_group(own_keys[rows])).sum(-2).flatten(1, 2)
                to_own_keys[rows] = (per * q.view(groups, -1, n, 1, size)).sum(1).permute(1, 2, 0, 3)
            to_query[rows] = _by_row(to_q, n)
        return to_query, to_keys, to_values, to_own_keys, to_own_values, None


def attended(
    query: Tensor, keys: Tensor, values: Tensor, own_keys: Tensor, own_values: Tensor, places: Places
) -> Tensor:
    """What rows [R, A, d] find [R, A, d] among the keys and values of their texts [B, G, L, d], as far as each sees
    them, and of their own steps [R, s, G, d].
    """
    found: Tensor = _Attended.apply(query, keys, values, own_keys, own_values, places)
    return found
