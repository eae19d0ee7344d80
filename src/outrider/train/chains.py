"""Chains of guesses over a batch, as a native chain makes them: the loss of all steps, or what was accepted.

Dimensions: R chains, H hidden, D draft vocabulary.

Each step goes on only with the chains whose guesses were right so far. That is what a chain meets at work, where a
wrong guess ends it: step s weighs as much as it is reached, the sum over steps follows the expected number of accepted
tokens, and five steps cost about two (EAGLE-3's training-time test computes all chains in all steps).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from outrider.train.batch import Batch
from outrider.train.loss import Goal, Recipe, guess_loss


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One step of the chains that reached it and can be right."""

    reached: int  # chains that had something to guess, also where the draft vocabulary lacks it
    a: Tensor  # [R, H] what the matrix `head` reads, in the type of the products
    goal: Goal  # [R]
    chains: Tensor  # [R] which of the batch's they are


class Walk(Protocol):
    """The chains of a batch, step by step. After each step it is told which of them were right."""

    def steps(self, depth: int) -> Iterator[Step]:
        """At most `depth` steps, fewer where no chain is left."""
        ...

    def went_on(self, right: Tensor) -> None:
        """Which chains [R] of the step go on."""
        ...


class Drafter(Protocol):
    """A head of either kind."""

    head: nn.Parameter  # [D, H]
    half: torch.dtype

    def walk(self, batch: Batch) -> Walk:
        """The chains of a batch."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Loss:
    """Of a batch."""

    value: Tensor  # of a chain, its steps added
    reached: tuple[int, ...]  # chains that had something to guess in each step
    right: tuple[int, ...]


def alive(batch: Batch, chains: Tensor, step: int) -> tuple[int, Tensor]:
    """How many of these chains have something to guess in a step; indices of those that the vocabulary has it for."""
    can = batch.alive(chains, step)
    label = batch.label[torch.where(can, chains + step, 0)]
    return int(can.sum()), (can & (label >= 0)).nonzero()[:, 0]


def loss(head: Drafter, batch: Batch, depth: int, recipe: Recipe) -> Loss:
    """The mean loss of a chain, summed over its steps; see loss.guess_loss."""
    walk = head.walk(batch)
    total = torch.zeros((), device=batch.states.device)
    weight = head.head.to(head.half)
    reached: list[int] = []
    right: list[int] = []
    for step in walk.steps(depth):
        part, hits = guess_loss(step.a, weight, step.goal, recipe)
        walk.went_on(hits)
        total = total + part
        reached.append(step.reached)
        right.append(int(hits.sum()))
    return Loss(total / max(1, len(batch.chain_text)), tuple(reached), tuple(right))
