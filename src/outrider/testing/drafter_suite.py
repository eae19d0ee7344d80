"""What every drafter must do, as checks that take a maker of fresh drafters; a failed check raises AssertionError.

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_conformance(check): check(make_drafter)

The sessions use ids below VOCAB. A check plays the engine: begin, propose and observe in turn, end.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from outrider.api import Sampling
from outrider.core import tree
from outrider.core.step import Budget, Outcome, Tokens, View
from outrider.core.types import Draft
from outrider.drafters.base import Drafter

Maker: TypeAlias = Callable[[], Drafter]
VOCAB = 8
_BUDGETS = (Budget(4, 4), Budget(1, 1), Budget(0, 0), Budget(8, 3), Budget(3, 8), Budget(16, 16))


class Session:
    """One sequence as the engine would drive it: random text with repeats, drafts partly kept."""

    def __init__(self, drafter: Drafter, seq: int, seed: int) -> None:
        self._chance = random.Random(seed)
        self._drafter = drafter
        phrase = [self._chance.randrange(VOCAB) for _ in range(5)]
        self.tokens = [*phrase, *(self._chance.randrange(VOCAB) for _ in range(6)), *phrase]
        self.seq = seq
        self.view = View(seq, Tokens(self.tokens), Sampling())
        drafter.begin(seq, tuple(self.tokens))

    def outcome(self, draft: Draft) -> Outcome:
        """Keep a random path of the draft and one token more, as a pass would."""
        leaf = self._chance.randrange(-1, len(draft)) if draft.tokens else -1
        path = tree.path(draft, leaf)
        new = (*(draft.tokens[node] for node in path), self._chance.randrange(VOCAB))
        self.tokens.extend(new)
        return Outcome(self.seq, draft, path, new)

    def play(self, steps: int) -> list[Draft]:
        """Step alone, with changing budgets; returns the drafts."""
        drafts: list[Draft] = []
        for step in range(steps):
            drafts += self._drafter.propose([self.view], [_BUDGETS[step % len(_BUDGETS)]])
            self._drafter.observe([self.outcome(drafts[-1])])
        return drafts


def budgets_are_respected(make: Maker) -> None:
    """One draft for each view, well-formed, never more nodes or depth than asked for; none for none."""
    drafter = make()
    sessions = [Session(drafter, seq, seed=seq) for seq in range(len(_BUDGETS))]
    for _ in range(20):
        drafts = drafter.propose([session.view for session in sessions], _BUDGETS)
        assert len(drafts) == len(sessions), f"{len(drafts)} drafts for {len(sessions)} views"
        for draft, budget in zip(drafts, _BUDGETS, strict=True):
            tree.validate(draft, VOCAB)
            depth = max(tree.depths(draft), default=-1) + 1
            assert len(draft) <= budget.nodes, f"{len(draft)} nodes, budget {budget}"
            assert depth <= budget.depth, f"depth {depth}, budget {budget}"
        drafter.observe([session.outcome(draft) for session, draft in zip(sessions, drafts, strict=True)])
    assert drafter.propose([], []) == [], "a step without sequences gives drafts"


def sequences_are_independent(make: Maker) -> None:
    """Interleaved sequences get the drafts that each gets alone, in any order and with others ending in between."""
    alone = [Session(make(), 0, seed).play(12) for seed in range(4)]
    drafter = make()
    sessions = [Session(drafter, 10 - seed, seed) for seed in range(4)]
    together: list[list[Draft]] = [[] for _ in sessions]
    for step in range(12):
        order = [0, 2, 3, 1] if step % 2 else [3, 1, 0]
        if step >= 6:
            order.remove(3)
        budgets = [_BUDGETS[len(together[seed]) % len(_BUDGETS)] for seed in order]
        drafts = drafter.propose([sessions[seed].view for seed in order], budgets)
        for seed, draft in zip(order, drafts, strict=True):
            together[seed].append(draft)
        drafter.observe([sessions[seed].outcome(draft) for seed, draft in zip(order, drafts, strict=True)])
        if step == 5:
            drafter.end(sessions[3].seq)
    for seed, drafts in enumerate(together):
        assert drafts == alone[seed][: len(drafts)], f"sequence {seed} is drafted differently in company"


def end_leaves_nothing(make: Maker) -> None:
    """After end, the drafter holds as much as before begin, and a number used again starts afresh."""
    drafter = make()
    before = held(drafter)
    first = Session(drafter, 3, seed=1).play(12)
    assert held(drafter) > before, "a running sequence leaves no trace, so this check sees nothing"
    drafter.end(3)
    assert held(drafter) == before, f"{held(drafter) - before} values stay behind after end"
    assert Session(drafter, 3, seed=2).play(12) == Session(make(), 3, seed=2).play(12), "an old sequence lives on"
    assert first == Session(make(), 3, seed=1).play(12), "the same sequence is drafted differently a second time"
    drafter.end(3)


def end_may_come_at_once(make: Maker) -> None:
    """An answer may be abandoned right after begin, or between propose and observe."""
    drafter = make()
    before = held(drafter)
    Session(drafter, 1, seed=1)
    drafter.end(1)
    session = Session(drafter, 2, seed=2)
    drafter.propose([session.view], [_BUDGETS[0]])
    drafter.end(2)
    assert held(drafter) == before, "an abandoned sequence stays behind"


def held(drafter: object) -> int:
    """How many values a drafter holds, in its attributes and in the containers below them."""
    count = 0
    opened: set[int] = set()
    todo: list[object] = [drafter]
    while todo:
        value = todo.pop()
        count += 1
        if id(value) not in opened:
            inside = _inside(value)
            if inside:
                opened.add(id(value))
            todo.extend(inside)
    return count


CHECKS: tuple[Callable[[Maker], None], ...] = (
    budgets_are_respected,
    sequences_are_independent,
    end_leaves_nothing,
    end_may_come_at_once,
)


def _inside(value: object) -> list[object]:
    if isinstance(value, str | bytes | int | float | type | None) or callable(value):
        return []
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    if isinstance(value, Iterable):
        return list(value)
    slots = [getattr(value, name) for name in getattr(value, "__slots__", ()) if hasattr(value, name)]
    return [*getattr(value, "__dict__", {}).values(), *slots]
