"""Drafters for tests: helpful, useless, hostile. All of them insist on the lifecycle that drafters/base.py states."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from outrider.core.step import Budget, Outcome, View
from outrider.core.types import EMPTY, Draft

Guess: TypeAlias = Callable[[View, Budget], Draft]
Answers: TypeAlias = Mapping[tuple[int, ...], Sequence[int]]  # prompt -> ids of its answer


class FunctionDrafter:
    """Drafts what a function of view and budget says.

    Raises AssertionError where a sequence is begun twice, used without begin, or observed with other tokens than its
    view shows. `sequences` counts those that are begun and not ended.
    """

    def __init__(self, name: str, guess: Guess) -> None:
        self.name = name
        self._guess = guess
        self._known: dict[int, list[int]] = {}
        self.outcomes: list[Outcome] = []

    @property
    def sequences(self) -> int:
        return len(self._known)

    def begin(self, seq: int, prompt: Sequence[int]) -> None:
        assert seq not in self._known, f"sequence {seq} begins twice"
        self._known[seq] = list(prompt)

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        for view in views:
            assert list(view.tokens) == self._known[view.seq], f"sequence {view.seq} was observed with other tokens"
        return [self._guess(view, budget) for view, budget in zip(views, budgets, strict=True)]

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        self.outcomes.extend(outcomes)
        for outcome in outcomes:
            self._known[outcome.seq].extend(outcome.tokens)

    def end(self, seq: int) -> None:
        assert seq in self._known, f"sequence {seq} ends without a begin"
        del self._known[seq]


def constant(token: int) -> FunctionDrafter:
    """Always the same id, as often as the budget allows."""
    return FunctionDrafter("constant", lambda _, budget: Draft.chain((token,) * _length(budget)))


def uniform(vocab: int, seed: int) -> FunctionDrafter:
    """Random ids."""
    chance = random.Random(seed)
    return FunctionDrafter(
        "random", lambda _, budget: Draft.chain(tuple(chance.randrange(vocab) for _ in range(_length(budget))))
    )


def oracle(answers: Answers, past: int) -> FunctionDrafter:
    """The answer's own ids, and the id `past` after its end: an end of text inside a draft does not stop it."""
    return FunctionDrafter("oracle", lambda view, budget: Draft.chain(_next(answers, past, view, _length(budget))))


def trees(answers: Answers, past: int, vocab: int, seed: int) -> FunctionDrafter:
    """Random trees whose nodes carry the answer's own id for their depth two times in three, else a random one."""
    chance = random.Random(seed)

    def guess(view: View, budget: Budget) -> Draft:
        if not _length(budget):
            return EMPTY
        own = _next(answers, past, view, budget.depth)
        tokens: list[int] = []
        parents: list[int] = []
        depths: list[int] = []
        for node in range(budget.nodes):
            open_nodes = [above for above in range(node) if depths[above] < budget.depth - 1]
            parent = chance.choice([-1, *open_nodes[-3:]])
            depths.append(0 if parent < 0 else depths[parent] + 1)
            tokens.append(own[depths[-1]] if chance.random() < 2 / 3 else chance.randrange(vocab))
            parents.append(parent)
        return Draft(tuple(tokens), tuple(parents))

    return FunctionDrafter("trees", guess)


def raising(after: int) -> FunctionDrafter:
    """Drafts nothing `after` times, then raises RuntimeError."""
    calls = iter(range(after))

    def guess(view: View, budget: Budget) -> Draft:
        if next(calls, None) is None:
            raise RuntimeError("this drafter is broken on purpose")
        return EMPTY

    return FunctionDrafter("raising", guess)


def _length(budget: Budget) -> int:
    return min(budget.nodes, budget.depth)


def _next(answers: Answers, past: int, view: View, count: int) -> tuple[int, ...]:
    """The `count` ids that follow the view, by the answer to the prompt with which it starts."""
    tokens = tuple(view.tokens)
    for prompt, answer in answers.items():
        if tokens[: len(prompt)] == prompt and tuple(answer)[: len(tokens) - len(prompt)] == tokens[len(prompt) :]:
            follow = tuple(answer)[len(tokens) - len(prompt) :][:count]
            return follow + (past,) * (count - len(follow))
    return (past,) * count
