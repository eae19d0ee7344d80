"""Every rule through the engine, with drafters that draw: the joint law of the answer's tokens is the target's.

Case 15: a tiny vocabulary, a poor drafter, temperatures and filters. Chi-square with a false-alarm rate of 1e-9.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from tests.engine.worlds import Answer, world

from outrider.api import Request, Sampling
from outrider.core import chance, rules, sampling
from outrider.core.sampling import Draw
from outrider.core.step import Budget, View
from outrider.core.types import Draft, FloatArray, Law
from outrider.testing.drafters import FunctionDrafter
from outrider.testing.table import RandomLaw
from outrider.testing.text import PieceDetokenizer

VOCAB, DRAWS, PROMPT = 6, 2_048, (0, 1, 2, 3)
TARGET, POOR = RandomLaw(VOCAB, 2, seed=1, spread=4.0), RandomLaw(VOCAB, 2, seed=2, spread=4.0)
FILTERS = {
    "none": Sampling(),
    "top-k 5": Sampling(top_k=5),
    "top-p 0.8": Sampling(top_p=0.8),
    "min-p 0.1": Sampling(min_p=0.1),
}
TEMPERATURES = (0.7, 1.0, 1.5)


def q(tokens: tuple[int, ...]) -> FloatArray:
    """What the poor drafter thinks [V]."""
    return sampling.law(POOR(tokens), Draw(1.0))


def chain(view: View, budget: Budget) -> Draft:
    tokens, s, start = tuple(view.tokens), view.sampling, len(view.tokens)
    drawn: list[int] = []
    laws: list[FloatArray] = []
    for node in range(min(budget.nodes, budget.depth)):
        laws.append(q((*tokens, *drawn)))
        drawn.append(chance.draw_node(laws[-1], s.seed, s.sample, start, node))
    return Draft.chain(tuple(drawn), Law.IID, tuple(laws))


def tree(view: View, budget: Budget) -> Draft:
    """Two children of the root, and one below each."""
    if budget.nodes < 4 or budget.depth < 2:
        return chain(view, budget)
    tokens, s, start = tuple(view.tokens), view.sampling, len(view.tokens)
    top = q(tokens)
    first = chance.draw_children(top, 2, s.seed, s.sample, start, -1)
    below = [q((*tokens, token)) for token in first]
    second = [chance.draw_children(law, 1, s.seed, s.sample, start, node)[0] for node, law in enumerate(below)]
    return Draft((*first, *second), (-1, -1, 0, 1), Law.DISTINCT, (top, top, *below))


@cache
def answers(rule: str, settings: Sampling, seed: int) -> list[Answer]:
    made = world(
        TARGET,
        FunctionDrafter("poor", tree if rules.RULES[rule].trees else chain),
        4,
        vocab=VOCAB,
        rule=rules.RULES[rule],
        eos=frozenset(),
        detokenizer=lambda: PieceDetokenizer("abcdef"),
    )
    asked = [
        Request(PROMPT, 3, replace(settings, seed=seed, sample=128 * batch), n=128) for batch in range(DRAWS // 128)
    ]
    return made.answer(*asked)


def p(settings: Sampling, tokens: tuple[int, ...]) -> FloatArray:
    draw = Draw(settings.temperature, 0, 0, settings.top_k, settings.top_p, settings.min_p)
    return sampling.law(TARGET(tokens), draw)


def joint(settings: Sampling, count: int) -> dict[tuple[int, ...], float]:
    """The exact law of the first `count` tokens."""
    found: dict[tuple[int, ...], float] = {}
    for tokens in product(range(VOCAB), repeat=count):
        chances = [p(settings, (*PROMPT, *tokens[:place]))[token] for place, token in enumerate(tokens)]
        found[tokens] = math.prod(map(float, chances))
    return found


def excess(counts: Counter[tuple[int, ...]], law: dict[tuple[int, ...], float]) -> float:
    """Chi-square over its critical value at 1e-9; cells that expect under 10 are one cell."""
    total = sum(counts.values())
    large = [cell for cell, share in law.items() if total * share >= 10]
    seen = [counts[cell] for cell in large]
    expected = [total * law[cell] for cell in large]
    rest = total - sum(expected)
    if rest > 1e-3 * total:
        seen.append(total - sum(seen))
        expected.append(rest)
    assert all(law[cell] > 0 for cell in counts), "an impossible token came out"
    chi = sum((got - wanted) ** 2 / wanted for got, wanted in zip(seen, expected, strict=True))
    free = len(expected) - 1
    # Wilson and Hilferty's cube; 5.9978 is the normal variable's quantile at 1 - 1e-9.
    return chi / (free * (1 - 2 / (9 * free) + 5.9978 * math.sqrt(2 / (9 * free))) ** 3)


# Every temperature, filter and rule, and every pair of them; all triples would take minutes.
CASES = [
    (temperature, name, sorted(rules.RULES)[(row + column) % 4])
    for row, temperature in enumerate(TEMPERATURES)
    for column, name in enumerate(FILTERS)
]


@pytest.mark.slow
@pytest.mark.parametrize(("temperature", "name", "rule"), [*CASES, (1.0, "none", "coupled")])
def test_the_answers_law_is_the_targets(temperature: float, name: str, rule: str) -> None:
    settings = replace(FILTERS[name], temperature=temperature)
    found = answers(rule, settings, seed=5)
    for count in (1, 2, 3):
        counts = Counter(answer.ids[:count] for answer in found)
        assert excess(counts, joint(settings, count)) < 1, f"the law of the first {count} tokens"
    # The token after a rejection of the first: its law given that token, all first tokens together.
    rejected = [answer for answer in found if not answer.stories[0].path]
    firsts = Counter(answer.ids[0] for answer in rejected)
    after: dict[tuple[int, ...], float] = {
        (first, second): firsts[first] / len(rejected) * float(share)
        for first in firsts
        for second, share in enumerate(p(settings, (*PROMPT, first)))
    }
    assert len(rejected) > 100
    assert excess(Counter(answer.ids[:2] for answer in rejected), after) < 1
    assert sum(answer.usage.accepted for answer in found) > 500


def test_the_comparison_can_fail() -> None:
    """Answers of the drafter's own law, and of another temperature, are told apart."""
    settings = Sampling(1.0)
    found = answers("coupled", settings, seed=5)
    counts = Counter(answer.ids[:2] for answer in found)
    assert excess(counts, joint(settings, 2)) < 1
    assert excess(counts, joint(Sampling(0.75), 2)) > 1


def test_rules_that_compare_accept_more_of_what_was_drawn() -> None:
    settings = Sampling(1.0)
    accepted = {rule: sum(answer.usage.accepted for answer in answers(rule, settings, 5)) for rule in rules.RULES}
    assert accepted["coupled"] < accepted["rejection"] < 1.05 * accepted["traversal"]
    assert accepted["block"] > 0


def test_at_temperature_0_every_rule_is_the_arg_max() -> None:
    expected = answers("coupled", Sampling(), 1)[0]
    for rule in rules.RULES:
        found = answers(rule, Sampling(), 2)
        assert {answer.ids for answer in found} == {expected.ids}
        assert found[0].usage.drafted > 0


def test_without_drafts_every_rule_draws_what_coupled_draws() -> None:
    expected = answers("coupled", Sampling(1.0), 3)
    for rule in rules.RULES:
        made = world(TARGET, None, vocab=VOCAB, rule=rules.RULES[rule], eos=frozenset())
        (answer,) = made.answer(Request(PROMPT, 3, Sampling(1.0, 3)))
        assert answer.ids == expected[0].ids


def test_a_draft_that_the_rule_is_not_proved_for_is_dropped_with_a_warning() -> None:
    for draft, rule, why in (
        (Draft((1, 2), (-1, -1)), "block", "branches"),
        (Draft.chain((1, 2), Law.IID), "rejection", "needs the q of every node"),
        (Draft.chain((1,), Law.IID, (np.ones(5, np.float32),)), "rejection", "needs an array of 6"),
    ):
        made = world(
            TARGET,
            FunctionDrafter("odd", lambda view, budget: draft if budget.nodes > 1 else Draft((), ())),  # noqa: B023
            vocab=VOCAB,
            rule=rules.RULES[rule],
            eos=frozenset(),
        )
        with pytest.warns(RuntimeWarning, match=f"malformed draft .*{why}"):
            (answer,) = made.answer(Request(PROMPT, 5, Sampling(1.0, 3)))
        assert len(answer.ids) == 5
