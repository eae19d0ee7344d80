"""Worlds without a clock for policies: a known cost of steps and known ways in which drafts come true.

The true token of a position is twice the position, so a drafted token is right or wrong whenever it is looked at.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from outrider.api import Sampling
from outrider.core import tree
from outrider.core.step import Budget, Load, Outcome, StepTime, Tokens, View
from outrider.core.types import EMPTY, Draft
from outrider.policy.base import Policy

WRONG = 1
PASS_MS = (4.07, 4.15, 4.3, 4.44, 5.23, 5.5, 5.8, 6.11)  # 1 to 8 rows of the default model, docs/benchmarks.md
ROW_MS = 0.75  # each row more


class Stairs:
    """The cost of passes as measured on one machine, in seconds; other machines are `scale` times as slow."""

    def __init__(self, scale: float = 1.0) -> None:
        self._scale = scale

    def seconds(self, sequences: int, rows: int, context: float) -> float:
        ms = PASS_MS[rows - 1] if rows <= len(PASS_MS) else PASS_MS[-1] + ROW_MS * (rows - len(PASS_MS))
        return 1e-3 * self._scale * (ms + 0.05 * (sequences - 1) + 1e-4 * sequences * context)


class Computing:
    """A machine that computes one row after the other, so that drafting never pays unless rows are sure."""

    def seconds(self, sequences: int, rows: int, context: float) -> float:
        return 1e-3 * (0.2 + rows)


Guess = Callable[[int, Budget], Draft]  # from the number of tokens so far


def right(position: int) -> int:
    return 2 * position


def chain(position: int, good: int, length: int, score: tuple[float, ...] | None = None) -> Draft:
    """A chain whose first `good` nodes are right."""
    tokens = tuple(right(position + depth) if depth < good else WRONG for depth in range(length))
    return Draft(tokens, tuple(range(-1, length - 1)), score=score)


def dice(*key: int) -> random.Random:
    return random.Random(hash(key))


def steady(alpha: float, seed: int = 0) -> Guess:
    """Always a full draft; each node is right with chance alpha, where the one above it is."""

    def guess(position: int, budget: Budget) -> Draft:
        chance, length = dice(seed, position), min(budget.nodes, budget.depth)
        good = 0
        while good < length and chance.random() < alpha:
            good += 1
        return chain(position, good, length)

    return guess


def lookup(copied: float, run: float, seed: int = 0) -> Guess:
    """Like n-gram look-up: a share `copied` of the text is copied, in runs of `run` tokens; a match grows along a run.

    The draft is one token longer than the match. Between runs, one time in three, a short and mostly wrong match.
    """
    places: list[tuple[int, int]] = []  # of each position: tokens since its run began, and until it ends; 0, 0 between
    chance = random.Random(seed)

    def extend() -> None:
        length = 1 + int(chance.expovariate(1 / run))
        places.extend((place, length - place) for place in range(length))
        places.extend([(0, 0)] * round(length * (1 - copied) / copied))

    def guess(position: int, budget: Budget) -> Draft:
        most = min(budget.nodes, budget.depth)
        while len(places) <= position:
            extend()
        since, until = places[position]
        if until:
            return chain(position, until, min(most, since + 1)) if since else EMPTY
        short = dice(seed, position)
        length = min(most, short.choice((0, 0, 2, 3)))
        return chain(position, int(short.random() < 0.1), length)

    return guess


def scored(seed: int = 0, bend: float = 1.0) -> Guess:
    """Full drafts whose nodes have chances of their own, told as the chance to the power of `bend`."""

    def guess(position: int, budget: Budget) -> Draft:
        chance, length = dice(seed, position), min(budget.nodes, budget.depth)
        good, alive, told = 0, True, []
        for _ in range(length):
            true = chance.betavariate(0.6, 0.6)
            told.append(true**bend)
            alive = alive and chance.random() < true
            good += alive
        return chain(position, good, length, tuple(told))

    return guess


def forked(first: float, second: float, seed: int = 0) -> Guess:
    """Trees: a first chain, and beside each of its nodes a second guess with a chain of its own below."""

    def guess(position: int, budget: Budget) -> Draft:
        chance = dice(seed, position)
        tokens: list[int] = []
        parents: list[int] = []
        level = [(-1, True)]
        for depth in range(budget.depth):
            below: list[tuple[int, bool]] = []
            for parent, alive in level[:2]:
                roll = chance.random()
                for good in (roll < first, first <= roll < first + second):
                    if len(tokens) < budget.nodes:
                        hit = alive and good
                        tokens.append(right(position + depth) if hit else WRONG + 2 * len(tokens))
                        parents.append(parent)
                        below.append((len(tokens) - 1, hit))
            level = below
        return Draft(tuple(tokens), tuple(parents))

    return guess


def changing(*parts: tuple[int, Guess]) -> Guess:
    """One guess after the other, each for so many tokens; the last for ever."""

    def guess(position: int, budget: Budget) -> Draft:
        start = 0
        for length, part in parts[:-1]:
            start += length
            if position < start:
                return part(position, budget)
        return parts[-1][1](position, budget)

    return guess


@dataclass(slots=True)
class World:
    """A machine with a drafter of known cost, and sequences. Counts tokens and seconds."""

    guesses: Sequence[Guess]
    cost: Stairs | Computing = field(default_factory=Stairs)
    ask_s: float = 1e-5
    node_s: float = 5e-7
    other_s: float = 1e-4
    cuts: bool = True
    prompt_rows: int = 0  # of another sequence, that every second pass reads too
    noise: float = 0.0  # of passes, as the standard deviation of the logarithm; one in 50 takes ten times as long
    tokens: int = 0
    seconds: float = 0.0
    passes: int = 0
    asked: int = 0
    verified: int = 0

    def run(self, policy: Policy, tokens: int, after: int = 0) -> World:
        """Until every sequence has so many tokens; counted from when each has `after`. All take part in every step."""
        texts = [[0] for _ in self.guesses]
        views = [View(seq, Tokens(text), Sampling()) for seq, text in enumerate(texts)]
        counting = False
        while (least := min(len(text) for text in texts)) <= tokens:
            if not counting and least > after:
                self.tokens, self.seconds, self.passes, self.asked, self.verified = 0, 0.0, 0, 0, 0
                counting = True
            self._step(policy, views, texts)
        return self

    @property
    def speed(self) -> float:
        return self.tokens / self.seconds

    def _step(self, policy: Policy, views: Sequence[View], texts: Sequence[list[int]]) -> None:
        load = Load(len(views), len(views))
        if self.prompt_rows and self.passes % 2:
            load = Load(len(views) + 1, len(views) + self.prompt_rows)
        context = sum(len(text) for text in texts) / len(texts)
        budgets = policy.budgets(views, load)
        drafts = [
            guess(len(text), budget) if budget.nodes else EMPTY
            for guess, text, budget in zip(self.guesses, texts, budgets, strict=True)
        ]
        drafted = sum(map(len, drafts))
        draft_s = self.ask_s + self.node_s * drafted if any(budget.nodes for budget in budgets) else 0.0
        if self.cuts:
            drafts = policy.admit(views, drafts, load)
        rows = load.rows + sum(map(len, drafts))
        target_s = self.cost.seconds(load.sequences, rows, context)
        if self.noise:
            chance = dice(self.passes, rows)
            target_s *= 10.0 if chance.random() < 0.02 else chance.lognormvariate(0.0, self.noise)
        outcomes = []
        for seq, (text, draft) in enumerate(zip(texts, drafts, strict=True)):
            path = tree.follow(draft, [right(len(text) + depth) for depth in range(len(draft) + 1)])
            new = tuple(right(len(text) + depth) for depth in range(len(path) + 1))
            text.extend(new)
            outcomes.append(Outcome(seq, draft, path, new))
            self.tokens += len(new)
        total_s = draft_s + target_s + self.other_s
        policy.observe(outcomes, StepTime(total_s, draft_s, target_s))
        self.seconds += total_s
        self.passes += 1
        self.asked += draft_s > 0.0
        self.verified += rows - load.rows
