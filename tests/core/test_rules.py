"""The coupled rule, proved by exact enumeration: every noise, every draft, all laws, with fractions.

A position's noise is one of D equally likely values; the target's token after a context is a function of context and
noise whose law is p, as in production. Planted faults are mutations of the production source, and each must be caught.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import permutations, product
from typing import Any, TypeAlias

import numpy as np
import pytest

from outrider.api import Sampling
from outrider.core import rules, tree
from outrider.core.rules import Judge
from outrider.core.types import EMPTY, Draft, Law, Verdict
from outrider.errors import UsageError

Tokens: TypeAlias = tuple[int, ...]
Noise: TypeAlias = tuple[int, ...]
Drafts: TypeAlias = Callable[[Noise], Iterator[tuple[Fraction, Draft]]]  # may look at the noise: the hostile case
VOCAB, LEVELS, LENGTH = 3, 4, 3
SHAPES = {"chain": (-1, 0), "siblings": (-1, -1), "tree": (-1, -1, 0), "late": (-1, 0, -1, 2)}


class Answers:
    """rules.Target of which coupled may use the token alone."""

    def __init__(self, token: Callable[[int], int]) -> None:
        self.token = token

    def law(self, node: int) -> Any:
        raise AssertionError("the coupled rule asks for p")


class NoChance:
    """rules.Chance that coupled must not need."""

    def accept(self, node: int, probability: Any) -> bool:
        raise AssertionError("the coupled rule asks for luck")

    def draw(self, node: int, weights: Any) -> int:
        raise AssertionError("the coupled rule draws")


def target(context: Tokens, noise: int) -> int:
    """A law on 3 tokens in quarters, different after each context."""
    weights = [(2, 1, 1), (1, 3, 0), (0, 1, 3), (1, 1, 2)][(1 + sum((i + 2) * t for i, t in enumerate(context))) % 4]
    return next(token for token in range(VOCAB) if noise < sum(weights[: token + 1]))


def q(token: int) -> Fraction:
    """The draft law: (1/2, 1/3, 1/6)."""
    return Fraction((3, 2, 1)[token], 6)


def iid(shape: str) -> Drafts:
    parents = SHAPES[shape]

    def drafts(_: Noise) -> Iterator[tuple[Fraction, Draft]]:
        for tokens in product(range(VOCAB), repeat=len(parents)):
            weight = Fraction(1)
            for token in tokens:
                weight *= q(token)
            yield weight, Draft(tokens, parents, Law.IID)

    return drafts


def distinct(_: Noise) -> Iterator[tuple[Fraction, Draft]]:
    for first, second in permutations(range(VOCAB), 2):
        yield q(first) * q(second) / (1 - q(first)), Draft((first, second), (-1, -1), Law.DISTINCT)


def point(tokens: Tokens, shape: str) -> Drafts:
    return lambda _: iter([(Fraction(1), Draft(tokens, SHAPES[shape], Law.POINT))])


def coupled_drafter(shift: int) -> Drafts:
    """Draws with the target's own noise: shift 0 is always right, others are always wrong at the first token."""

    def drafts(noise: Noise) -> Iterator[tuple[Fraction, Draft]]:
        first = (target((), noise[0]) + shift) % VOCAB
        yield Fraction(1), Draft.chain((first, target((first,), noise[1])), Law.IID)

    return drafts


CASES: dict[str, Drafts] = {
    "no draft": lambda _: iter([(Fraction(1), EMPTY)]),
    **{f"iid {shape}": iid(shape) for shape in SHAPES},
    "distinct siblings": distinct,
    "point chain": point((0, 1), "chain"),
    "same token twice": point((0, 0), "siblings"),
    "point tree": point((1, 0, 2), "tree"),
    "knows the noise": coupled_drafter(0),
    "avoids the target": coupled_drafter(1),
}


def decode(noise: Noise, tokens: Tokens = ()) -> Tokens:
    """Plain decoding from `tokens` on."""
    while len(tokens) < LENGTH:
        tokens = (*tokens, target(tokens, noise[len(tokens)]))
    return tokens


def outputs(judge: Judge, drafts: Drafts) -> Iterator[tuple[Fraction, Noise, Draft, Verdict, Tokens]]:
    """One pass with every noise and every draft, then plain decoding to LENGTH tokens."""
    for noise in product(range(LEVELS), repeat=LENGTH):
        for weight, draft in drafts(noise):
            texts = {node: tuple(draft.tokens[n] for n in tree.path(draft, node)) for node in range(-1, len(draft))}
            answers = {node: target(text, noise[len(text)]) for node, text in texts.items()}
            verdict = judge(draft, Answers(answers.__getitem__), NoChance())
            tokens = (*(draft.tokens[node] for node in verdict.path), verdict.token)[:LENGTH]
            yield weight / LEVELS**LENGTH, noise, draft, verdict, decode(noise, tokens)


def law(judge: Judge, drafts: Drafts) -> Counter[Tokens]:
    found: Counter[Tokens] = Counter()
    for weight, _, _, _, tokens in outputs(judge, drafts):
        found[tokens] += weight  # type: ignore[assignment]
    return found


def target_law() -> Counter[Tokens]:
    return law(rules.coupled, CASES["no draft"])


@pytest.mark.parametrize("case", CASES)
def test_the_output_has_the_targets_law_and_is_plain_decodings(case: str) -> None:
    assert sum(target_law().values()) == 1
    assert law(rules.coupled, CASES[case]) == target_law()
    for _, noise, draft, verdict, tokens in outputs(rules.coupled, CASES[case]):
        assert tokens == decode(noise)
        assert verdict.path == (tree.path(draft, verdict.path[-1]) if verdict.path else ())


def test_the_enumeration_is_not_empty() -> None:
    """Acceptance and rejection both happen, at depth 0 and 1; the extremes are always and never right."""
    kept = Counter(len(verdict.path) for _, _, _, verdict, _ in outputs(rules.coupled, iid("chain")))
    assert set(kept) == {0, 1, 2}
    assert {len(v.path) for _, _, _, v, _ in outputs(rules.coupled, CASES["knows the noise"])} == {2}
    assert {len(v.path) for _, _, _, v, _ in outputs(rules.coupled, CASES["avoids the target"])} == {0}
    second = [v for _, _, _, v, _ in outputs(rules.coupled, iid("siblings")) if v.path == (1,)]
    assert second, "a later sibling is never followed"


def test_acceptance_of_a_chain_is_the_sum_of_p_times_q() -> None:
    expected = sum(Fraction(1, LEVELS) * q(target((), noise)) for noise in range(LEVELS))
    assert sum(w for w, _, _, v, _ in outputs(rules.coupled, iid("chain")) if v.path) == expected


def test_only_the_path_is_asked_for() -> None:
    asked: list[int] = []

    def draw(node: int) -> int:
        asked.append(node)
        return (5, 6, 9)[len(asked) - 1]

    verdict = rules.coupled(Draft((4, 5, 7, 6), (-1, -1, 0, 1)), Answers(draw), NoChance())
    assert verdict == Verdict((1, 3), 9)
    assert asked == [-1, 1, 3]


FAULTS = {
    "accepts anything": ("draft.tokens[child] == token", "True"),
    "accepts the opposite": ("draft.tokens[child] == token", "draft.tokens[child] != token"),
    "forgets who the parent is": ("parent == node and ", ""),
    "asks the row above": ("child, target.token(child)", "child, target.token(node)"),
    "keeps the old token": ("node, token = child, target.token(child)", "node = child"),
    "starts one row late": ("-1, target.token(-1)", "-1, target.token(len(draft.parents) - 1)"),
    "emits the guess": ("tuple(path), token)", "tuple(path), draft.tokens[0] if draft.tokens else token)"),
    "loses the path": ("path.append(child)", "path[:] = [child]"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_caught(fault: str) -> None:
    before, after = FAULTS[fault]
    source = inspect.getsource(rules.coupled)
    assert source.count(before) == 1
    space: dict[str, Judge] = {}
    exec(source.replace(before, after), vars(rules) | {}, space)
    assert any(law(space["coupled"], drafts) != target_law() for drafts in CASES.values())


@pytest.mark.parametrize("name", rules.RULES)
def test_every_rule_is_short_and_known_by_its_name(name: str) -> None:
    rule = rules.find(name)
    assert rule.name == name == rule.judge.__name__
    assert len(inspect.getsource(rule.judge).splitlines()) <= 30


@pytest.mark.parametrize("name", ["", "strict", "Block", None, 3])
def test_an_unknown_rule_is_refused_with_the_names_there_are(name: Any) -> None:
    with pytest.raises(UsageError, match="must be one of: coupled, rejection, block, traversal"):
        rules.find(name)


HALVES = np.full(2, 0.5)
BAD_DRAFTS = {
    "block, branching": ("block", Draft((0, 1), (-1, -1)), "rule block judges chains, and this draft of law point"),
    "rejection, no q": (
        "rejection",
        Draft.chain((0, 1), Law.IID),
        "rule rejection needs the q .* law iid: 2 .* have 0",
    ),
    "block, no q": (
        "block",
        Draft.chain((0,), Law.DISTINCT),
        "rule block needs the q of every node of .* law distinct",
    ),
    "traversal, one q": ("traversal", Draft.chain((0, 1), Law.IID, (HALVES,)), "rule traversal .* 2 nodes have 1"),
}


@pytest.mark.parametrize("case", BAD_DRAFTS)
def test_what_a_rule_is_not_proved_for_is_refused(case: str) -> None:
    name, draft, words = BAD_DRAFTS[case]
    rule = rules.find(name)
    with pytest.raises(UsageError, match=words):
        rule.judge(draft, Answers(lambda _: 0), NoChance())
    with pytest.raises(UsageError, match=words):
        rule.check(draft, 2)


def test_a_rule_for_other_laws_says_which() -> None:
    rule = rules.Rule("narrow", rules.coupled, frozenset({Law.POINT, Law.IID}), trees=True, uses_p=False, uses_q=False)
    with pytest.raises(UsageError, match="rule narrow is not proved for drafts of law distinct, only for: iid, point"):
        rule.admit(Draft((0,), (-1,), Law.DISTINCT))


@pytest.mark.parametrize(
    ("q", "words"),
    [
        (np.full(3, 1 / 3), r"q of draft node 0 is \(3,\); rule block needs an array of 2"),
        ([0.5, 0.5], "q of draft node 0 is list"),
        (np.array([0.5, np.nan], np.float32), "finite and at least 0"),
        (np.array([0.5, np.inf], np.float32), "finite and at least 0"),
        (np.array([1.5, -0.5], np.float32), "lies in -0.5..1.5"),
    ],
)
def test_a_q_that_is_none_is_refused(q: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        rules.BLOCK.check(Draft.chain((0,), Law.IID, (q,)), 2)
    rules.COUPLED.check(Draft.chain((0,), Law.IID, (q,)), 2)
    rules.BLOCK.check(Draft.chain((0,), Law.IID, (HALVES,)), 2)
    rules.BLOCK.check(Draft.chain((0,), Law.POINT), 2)


def test_at_temperature_0_every_rule_is_the_coupled_one() -> None:
    assert rules.rule_for(rules.BLOCK, Sampling(temperature=0.0)) is rules.COUPLED
    assert rules.rule_for(rules.BLOCK, Sampling(temperature=0.1)) is rules.BLOCK
