"""Rules over every outcome of chance and of the draft, with fractions: the laws of what they put out, exactly.

A run is a random computation that asks a `Tape` for each choice. `outcomes` runs it again and again, each time along
another branch, until every branch was taken. Draft tokens are drawn when the rule first reads them: a token that nobody
reads changes nothing, so its branches need not be walked.

Dimensions: V vocabulary.
"""

from __future__ import annotations

import inspect
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from types import ModuleType
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from outrider.core.rules import Chance, Judge, Target
from outrider.core.types import Draft, Law, Verdict

Tokens: TypeAlias = tuple[int, ...]
Fractions: TypeAlias = npt.NDArray[Any]  # [V] of Fraction
T = TypeVar("T")


class Tape:
    """The choices of one run: those of an earlier run up to a point, then always the first that is possible."""

    def __init__(self) -> None:
        self._choices: list[tuple[int, list[int]]] = []  # (index into the possible ones, the possible ones)
        self._next = 0
        self.weight = Fraction(1)

    def choose(self, weights: Iterable[Any]) -> int:
        """An index, in proportion to the weights."""
        weights = list(weights)
        if self._next == len(self._choices):
            self._choices.append((0, [index for index, weight in enumerate(weights) if weight]))
        place, possible = self._choices[self._next]
        self._next += 1
        chosen = possible[place]
        if len(possible) > 1:
            self.weight *= Fraction(weights[chosen]) / sum(weights, Fraction(0))
        return chosen

    def rewind(self) -> bool:
        """Set up the next run; False where every branch was taken."""
        while self._choices:
            place, possible = self._choices.pop()
            if place + 1 < len(possible):
                self._choices.append((place + 1, possible))
                self._next, self.weight = 0, Fraction(1)
                return True
        return False


def outcomes(run: Callable[[Tape], T]) -> Iterator[tuple[Fraction, T]]:
    """Every outcome of a run, with its probability; one outcome may come more than once."""
    tape = Tape()
    while True:
        found = run(tape)
        yield tape.weight, found
        if not tape.rewind():
            return


@dataclass(frozen=True)
class World:
    """A target and a drafter as tables of laws on V tokens, drawn anew for each context; `holes` allows zeros."""

    vocab: int
    seed: int = 0
    holes: bool = False
    _laws: dict[tuple[str, Tokens], Fractions] = field(default_factory=dict)

    def p(self, context: Tokens) -> Fractions:
        return self._law("p", context)

    def q(self, context: Tokens) -> Fractions:
        return self._law("q", context)

    def _law(self, name: str, context: Tokens) -> Fractions:
        if (name, context) not in self._laws:
            chance = random.Random(f"{name} {self.vocab} {self.seed} {context}")
            weights = [0]
            while not any(weights):
                weights = [chance.choice((0, 0, 1, 2) if self.holes else (1, 1, 2, 3)) for _ in range(self.vocab)]
            self._laws[name, context] = fractions(*weights)
        return self._laws[name, context]


class Flat(World):
    """The same p and q after every context."""

    def __init__(self, p: Fractions, q: Fractions) -> None:
        super().__init__(len(p))
        object.__setattr__(self, "_flat", {"p": p, "q": q})

    def _law(self, name: str, context: Tokens) -> Fractions:
        return self._flat[name]  # type: ignore[attr-defined, no-any-return]


def fractions(*weights: int) -> Fractions:
    """The law in proportion to these weights."""
    total = sum(weights)
    return np.array([Fraction(weight, total) for weight in weights], dtype=object)


def shape(*branching: int) -> Tokens:
    """Parents of a tree in which a node of depth i - 1 has branching[i] children, level by level."""
    parents: list[int] = []
    level = [-1]
    for count in branching:
        start = len(parents)
        parents += [node for node in level for _ in range(count)]
        level = list(range(start, len(parents)))
    return tuple(parents)


CHAIN = {length: shape(*(1,) * length) for length in range(5)}


class _Nodes:
    """What the drafter drew in one run, node by node as it is asked for."""

    def __init__(self, world: World, parents: Tokens, law: Law, tape: Tape, hint: int) -> None:
        self._world, self._parents, self._law, self._tape, self._hint = world, parents, law, tape, hint
        self._tokens: dict[int, int] = {}

    def context(self, node: int) -> Tokens:
        return (*self.context(self._parents[node]), self.token(node)) if node >= 0 else ()

    def q(self, node: int) -> Fractions:
        return self._world.q(self.context(self._parents[node]))

    def token(self, node: int) -> int:
        if node not in self._tokens:
            self._tokens[node] = self._draw(node)
        return self._tokens[node]

    def _draw(self, node: int) -> int:
        if self._law is Law.POINT:
            chosen = random.Random(f"{self._hint} {node} {self.context(self._parents[node])}")
            return chosen.randrange(self._world.vocab)
        q = self.q(node)
        if self._law is Law.DISTINCT:
            before = [self.token(other) for other in range(node) if self._parents[other] == self._parents[node]]
            q = q.copy()
            q[before] = 0
            if not any(q):  # the support has run out: a drafter may still fill its tree with any token
                return next((token for token in range(self._world.vocab) if token not in before), 0)
        return self._tape.choose(q)


class _Lazy(Sequence[Any]):
    def __init__(self, length: int, item: Callable[[int], Any]) -> None:
        self._length, self._item = length, item

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < self._length:
            raise IndexError(index)
        return self._item(index)


@dataclass(frozen=True)
class Drafter:
    """How drafts are made: their shape, how their nodes are drawn, and what the rule is told about it.

    hint: which POINT draft. said, told: what the draft says its law and its q are, where that is a lie.
    """

    parents: Tokens
    law: Law
    hint: int = 0
    said: Law | None = None

    def draft(self, world: World, tape: Tape) -> tuple[Draft, Callable[[int], Tokens]]:
        """A draft, and the text [tokens] that ends with a node."""
        nodes = _Nodes(world, self.parents, self.law, tape, self.hint)
        count = len(self.parents)
        said = self.said or self.law
        q: Any = None if said is Law.POINT else _Lazy(count, nodes.q)
        tokens: Any = _Lazy(count, nodes.token)
        return Draft(tokens, self.parents, said, q), nodes.context


@dataclass
class Branching:
    """rules.Chance and rules.Target in one, along a tape. A question that is asked twice fails the proof."""

    world: World
    tape: Tape
    context: Callable[[int], Tokens]
    asked: set[tuple[str, int]] = field(default_factory=set)

    def accept(self, node: int, probability: Any) -> bool:
        self._ask("accept", node)
        assert 0 <= probability <= 1, f"accept asks for probability {probability}"
        return self.tape.choose((1 - probability, probability)) == 1

    def draw(self, node: int, weights: Fractions) -> int:
        self._ask("place", node)
        return self.tape.choose(weights)

    def token(self, node: int) -> int:
        self._ask("place", node)
        return self.tape.choose(self.law(node))

    def law(self, node: int) -> Fractions:
        return self.world.p(self.context(node))

    def _ask(self, what: str, node: int) -> None:
        assert (what, node) not in self.asked, f"{what} is asked twice about node {node}"
        self.asked.add((what, node))


Pass: TypeAlias = tuple[Tokens, int]  # the tokens that one pass put out, and how many of them were drafted
Drafts: TypeAlias = Callable[[World, Tape], tuple[Draft, Callable[[int], Tokens]]]


def passes(judge: Judge, drafts: Drafts, world: World) -> Counter[Pass]:
    """The law of what one pass puts out."""

    def run(tape: Tape) -> Pass:
        draft, context = drafts(world, tape)
        chance = Branching(world, tape, context)
        target: Target = chance
        luck: Chance = chance
        verdict: Verdict = judge(draft, target, luck)
        assert all(draft.parents[b] == a for a, b in zip((-1, *verdict.path), verdict.path, strict=False))
        return (*(draft.tokens[node] for node in verdict.path), verdict.token), len(verdict.path)

    found: Counter[Pass] = Counter()
    for weight, result in outcomes(run):
        found[result] += weight  # type: ignore[assignment]
    return found


def completed(found: Counter[Pass], world: World, length: int) -> dict[Tokens, Fraction]:
    """The joint law of `length` tokens: what a pass put out, then plain decoding."""
    law: Counter[Tokens] = Counter()
    for (tokens, _), weight in found.items():
        law[tokens[:length]] += weight
    for end in range(length):
        for tokens in [tokens for tokens in law if len(tokens) == end]:
            weight = law.pop(tokens)
            for token, share in enumerate(world.p(tokens)):
                if share:
                    law[(*tokens, token)] += weight * share
    return {tokens: Fraction(weight) for tokens, weight in law.items() if weight}


def plain(world: World, length: int) -> dict[Tokens, Fraction]:
    """The target's own joint law of `length` tokens."""
    law: dict[Tokens, Fraction] = {}
    for tokens in product(range(world.vocab), repeat=length):
        weight = Fraction(1)
        for end in range(length):
            weight *= world.p(tokens[:end])[tokens[end]]
        if weight:
            law[tokens] = weight
    return law


def accepted(found: Counter[Pass]) -> Fraction:
    """Expected number of accepted tokens."""
    return sum((Fraction(weight) * count for (_, count), weight in found.items()), Fraction(0))


def mutated(module: ModuleType, *changes: tuple[str, str]) -> dict[str, Any]:
    """The module's names after its source was changed: each text, which stands there once, became the other."""
    source = inspect.getsource(module)
    for before, after in changes:
        assert source.count(before) == 1, f"{before!r} stands {source.count(before)} times in {module.__name__}"
        source = source.replace(before, after)
    space: dict[str, Any] = {"__name__": module.__name__}
    exec(compile(source, f"{module.__name__}, mutated", "exec"), space)
    return space
