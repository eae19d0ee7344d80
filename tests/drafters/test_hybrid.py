"""Drafters made of drafters: who is asked, whose guess counts, and what each member hears about its own drafts."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.api import Sampling
from outrider.core import tree
from outrider.core.step import Budget, Outcome, Tokens, View
from outrider.core.types import EMPTY, Draft, Law
from outrider.drafters.base import Drafter
from outrider.drafters.grammar import GrammarDrafter
from outrider.drafters.hybrid import Best, First, Merged, auto
from outrider.drafters.ngram import NgramDrafter
from outrider.errors import UsageError
from outrider.testing import drafter_suite
from outrider.testing.drafters import FunctionDrafter, Guess, constant

WIDE = Budget(8, 8)
VOCAB = drafter_suite.VOCAB


class Forgetful(FunctionDrafter):
    """Keeps nothing of what it was told, as the suite demands."""

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        super().observe(outcomes)
        self.outcomes.clear()


def repeating() -> FunctionDrafter:
    """A chain of the last token but one, with scores; holds nothing of its own."""

    def guess(view: View, budget: Budget) -> Draft:
        count = min(budget.nodes, budget.depth, 3)
        return Draft((view.tokens[-2],) * count, tuple(range(-1, count - 1)), score=(0.75, 0.5, 0.25)[:count])

    return Forgetful("repeating", guess)


def forking() -> FunctionDrafter:
    """A tree without scores: two children of the root, a grandchild."""

    def guess(view: View, budget: Budget) -> Draft:
        whole = Draft((view.tokens[0], view.tokens[1], view.tokens[2]), (-1, -1, 0))
        kept = [node for node, depth in enumerate(tree.depths(whole)) if depth < budget.depth]
        return tree.keep(whole, kept[: budget.nodes])

    return Forgetful("forking", guess)


def members() -> list[Drafter]:
    return [NgramDrafter(3), repeating(), forking()]


HYBRIDS: dict[str, Callable[[], Drafter]] = {
    "first": lambda: First(members()),
    "best": lambda: Best(members()),
    "best, dear": lambda: Best([NgramDrafter()], [repeating(), forking()]),
    "merged": lambda: Merged(members()),
    "merged, dear": lambda: Merged([NgramDrafter()], [repeating(), forking()]),
    "merged of hybrids": lambda: Merged([First([NgramDrafter(), repeating()]), Merged(members())]),
    "auto": lambda: auto(members(), repeating()),
    "auto of chains": lambda: auto([NgramDrafter()], repeating(), trees=False),
    "under a grammar": lambda: GrammarDrafter(Merged(members())),
}


@pytest.mark.parametrize("make", HYBRIDS.values(), ids=HYBRIDS)
@pytest.mark.parametrize("check", drafter_suite.CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Callable[[drafter_suite.Maker], None], make: drafter_suite.Maker) -> None:
    check(make)


def says(draft: Draft, name: str = "inner") -> FunctionDrafter:
    return FunctionDrafter(name, lambda view, budget: draft)


def ask(drafter: Drafter, budget: Budget = WIDE) -> Draft:
    """What is drafted first of all."""
    drafter.begin(1, [0])
    (draft,) = drafter.propose([View(1, Tokens([0]), Sampling())], [budget])
    return draft


def unasked() -> FunctionDrafter:
    def guess(view: View, budget: Budget) -> Draft:
        raise AssertionError("this one should not be asked")

    return FunctionDrafter("unasked", guess)


def test_first_takes_the_first_guess() -> None:
    assert ask(First([says(EMPTY), says(Draft.chain((3,))), unasked()])) == Draft.chain((3,))
    assert ask(First([says(EMPTY), says(EMPTY)])) == EMPTY


def test_a_hybrid_names_who_guessed() -> None:
    def pair() -> tuple[Drafter, Drafter]:
        return says(Draft.chain((1, 2)), "one"), says(Draft.chain((1, 3)), "two")

    assert ask(First(pair())).drafters == ("one", "one")
    one, two = pair()
    hybrid = Merged([First([one]), two])
    assert hybrid.names == ("one", "two")
    merged = ask(hybrid)
    assert dict(zip(merged.tokens, merged.drafters or (), strict=True))[3] == "two"


@pytest.mark.parametrize("kind", [First, Best, Merged])
def test_only_the_members_that_are_wanted_are_asked(kind: Callable[[Sequence[Drafter]], Drafter]) -> None:
    hybrid = kind([unasked(), says(Draft.chain((3,)), "wanted")])
    hybrid.begin(1, [0])
    view = View(1, Tokens([0]), Sampling(), drafters=frozenset({"wanted"}))
    (draft,) = hybrid.propose([view], [WIDE])
    assert (draft.tokens, draft.drafters) == ((3,), ("wanted",))


def test_first_asks_each_member_only_about_sequences_without_a_guess() -> None:
    odd = FunctionDrafter("odd", lambda view, budget: Draft.chain((1,)) if view.seq % 2 else EMPTY)
    asked: list[int] = []

    def note(view: View, budget: Budget) -> Draft:
        asked.append(view.seq)
        return Draft.chain((2,))

    drafter = First([odd, FunctionDrafter("note", note)])
    views = [View(seq, Tokens([0]), Sampling()) for seq in range(4)]
    for view in views:
        drafter.begin(view.seq, view.tokens)
    drafts = drafter.propose(views, [WIDE, WIDE, Budget(0, 0), WIDE])
    assert [draft.tokens for draft in drafts] == [(2,), (1,), (), (1,)]
    assert asked == [0], "no budget, no question"


def test_best_takes_the_greatest_promise() -> None:
    long = Draft((1, 1, 1), (-1, 0, 1), score=(0.5, 0.5, 0.5))
    sure = Draft((2,), (-1,), score=(0.95,))
    assert ask(Best([says(long), says(sure)])) == sure
    assert ask(Best([says(long), says(Draft((2,), (-1,), score=(0.8,)))])) == long


def test_dear_members_are_asked_while_the_promise_is_small() -> None:
    sure = Draft((1, 1, 1), (-1, 0, 1), score=(0.9, 0.9, 0.9))
    weak = Draft((1, 1, 1), (-1, 0, 1), score=(0.5, 0.5, 0.5))
    dear = Draft((2, 2), (-1, 0), score=(0.9, 0.9))
    assert ask(Best([says(sure)], [unasked()])) == sure
    assert ask(Best([says(weak)], [says(dear), says(weak)])) == dear
    assert ask(Best([says(weak)], [unasked()], enough=0.8)) == weak
    assert ask(Best([says(Draft((1,), (-1,), score=(0.9,)))], [unasked()]), Budget(1, 1)).tokens == (1,), "enough for 1"
    merged = ask(Merged([says(weak)], [says(dear)]))
    assert set(merged.tokens) == {1, 2}


def test_merged_is_one_tree() -> None:
    first = Draft((1, 2), (-1, 0), score=(0.6, 0.5))
    second = Draft((1, 3), (-1, 0), score=(0.6, 0.2))
    assert ask(Merged([says(first), says(second)])).tokens == (1, 2, 3)
    assert ask(Merged([says(first), says(EMPTY)])) == first
    assert ask(Merged([says(first), says(Draft((4,), (-1,), score=(0.2,)))]), Budget(2, 2)).tokens == (1, 2)


@pytest.mark.parametrize(
    ("budget", "cheap"), [(WIDE, Budget(8, 7)), (Budget(8, 3), Budget(8, 3)), (Budget(4, 4), Budget(4, 4))]
)
def test_merged_lets_cheap_members_branch(budget: Budget, cheap: Budget) -> None:
    asked: list[Budget] = []

    def guess(view: View, budget: Budget) -> Draft:
        asked.append(budget)
        return EMPTY

    ask(Merged([FunctionDrafter("cheap", guess)], [FunctionDrafter("dear", guess)]), budget)
    ask(Best([FunctionDrafter("cheap", guess)]), budget)
    assert asked == [cheap, budget, budget]


def test_drawn_drafts_are_never_merged() -> None:
    q = (np.ones(VOCAB, np.float32) / VOCAB,)
    drawn = Draft((1,), (-1,), Law.IID, q)
    weak, strong = Draft((2,), (-1,), score=(0.1,)), Draft((2,), (-1,), score=(0.95,))
    assert ask(Merged([says(weak), says(drawn)]), Budget(1, 1)).q is q
    assert ask(Merged([says(strong), says(drawn)]), Budget(1, 1)) == strong
    assert ask(Merged([says(drawn), says(drawn)])).q is q
    assert ask(Best([says(weak), says(drawn)])).q is q


def test_scores_are_told_in_chances_and_absent_ones_are_filled_in() -> None:
    for drafter in (Best([says(Draft.chain((1, 2)))]), Merged([says(Draft.chain((1, 2)))])):
        draft = ask(drafter)
        assert draft.tokens == (1, 2)
        assert draft.score is not None
        assert all(0 < score < 1 for score in draft.score)


def test_auto() -> None:
    only = NgramDrafter()
    assert auto([only]) is only
    assert auto([], only) is only
    assert auto([only, constant(1)]).name == "merged(ngram, constant)"
    assert auto([only], constant(1), trees=False).name == "best(ngram, constant)"
    with pytest.raises(UsageError, match="a hybrid of no drafters cannot draft"):
        auto([])


@pytest.mark.parametrize("make", [First, Best, Merged])
def test_no_members(make: Callable[[Sequence[Drafter]], Drafter]) -> None:
    with pytest.raises(UsageError, match="give it at least one"):
        make([])


class Wanting(FunctionDrafter):
    """Asks for likeliest tokens."""

    def __init__(self, followers: int) -> None:
        super().__init__("wanting", lambda view, budget: EMPTY)
        self.followers = followers


def test_each_member_gets_as_many_followers_as_it_asked_for() -> None:
    inner: list[FunctionDrafter] = [Wanting(3), constant(1), Wanting(1)]
    drafter = Merged(inner)
    assert drafter.followers == 3
    assert Best([constant(1)]).followers == 0
    drafter.begin(1, [0])
    drafter.observe([Outcome(1, EMPTY, (), (4,), ((0, (4, 5, 6)),))])
    told = [member.outcomes[0].followers for member in inner]
    assert told == [((0, (4, 5, 6)),), (), ((0, (4,)),)]


# Members of every temper, for the tests below: (name, guess).
def trees(seed: int) -> Guess:
    chance = random.Random(seed)

    def guess(view: View, budget: Budget) -> Draft:
        count = chance.randrange(budget.nodes + 1)
        tokens: list[int] = []
        parents: list[int] = []
        depths: list[int] = []
        for node in range(count):
            parent = chance.choice([-1, *(above for above in range(node) if depths[above] + 1 < budget.depth)])
            parents.append(parent)
            depths.append(0 if parent < 0 else depths[parent] + 1)
            tokens.append(chance.randrange(3))
        score = tuple(chance.random() for _ in tokens) if chance.random() < 0.5 else None
        return Draft(tuple(tokens), tuple(parents), score=score)

    return guess


@given(st.sampled_from([First, Best, Merged]), st.integers(0, 2**16), st.integers(1, 3), st.booleans())
def test_members_are_told_the_truth_about_their_own_drafts(
    make: Callable[[Sequence[Drafter]], Drafter], seed: int, count: int, cut: bool
) -> None:
    """Whatever part of the draft the pass computed, and whatever it kept."""
    chance = random.Random(seed)
    said: list[dict[int, Draft]] = [{} for _ in range(count)]

    def noting(number: int) -> Guess:
        own = trees(seed + number)

        def guess(view: View, budget: Budget) -> Draft:
            said[number][view.seq] = own(view, budget)
            return said[number][view.seq]

        return guess

    inner = [FunctionDrafter(f"m{number}", noting(number)) for number in range(count)]
    drafter = make(inner)
    texts = {seq: [0, 1, 2] for seq in range(2)}
    views = [View(seq, Tokens(texts[seq]), Sampling()) for seq in texts]
    for view in views:
        drafter.begin(view.seq, tuple(view.tokens))
    for _ in range(4):
        for drafts in said:
            drafts.clear()
        outcomes = []
        for view, draft in zip(views, drafter.propose(views, [Budget(6, 4)] * 2), strict=True):
            part = _part(draft, chance) if cut else draft
            path = tree.path(part, chance.randrange(-1, len(part)))
            new = (*(part.tokens[node] for node in path), 3)
            texts[view.seq] += new
            outcomes.append(Outcome(view.seq, part, path, new))
        drafter.observe(outcomes)
        for number, member in enumerate(inner):
            for told, whole in zip(member.outcomes[-2:], outcomes, strict=True):
                _check_told(told, whole, said[number].get(told.seq, EMPTY))
    for seq in texts:
        drafter.end(seq)
    assert [member.sequences for member in inner] == [0] * count


def _part(draft: Draft, chance: random.Random) -> Draft:
    kept: list[int] = []
    for node, parent in enumerate(draft.parents):
        if parent in (-1, *kept) and chance.random() < 0.7:
            kept.append(node)
    return tree.keep(draft, kept)


def _check_told(told: Outcome, whole: Outcome, own: Draft) -> None:
    assert (told.seq, told.tokens) == (whole.seq, whole.tokens)
    tree.validate(told.draft, VOCAB)
    paths = _texts(told.draft)
    assert set(paths) <= set(_texts(own)), "it hears of nodes that it did not draft"
    assert set(paths) == set(_texts(own)) & set(_texts(whole.draft)), "it does not hear of its nodes in the pass"
    kept = tuple(told.draft.tokens[node] for node in told.path)
    assert list(told.path) == sorted(told.path)
    assert kept == told.tokens[: len(kept)]
    assert told.path in ((), tree.path(told.draft, told.path[-1] if told.path else -1))
    # The kept path of the pass, as far as this member had drafted it.
    ways = [whole.tokens[: depth + 1] for depth in range(len(whole.path))]
    assert len(kept) == sum(way in set(paths) for way in ways)


def _texts(draft: Draft) -> list[tuple[int, ...]]:
    return [tuple(draft.tokens[above] for above in tree.path(draft, node)) for node in range(len(draft))]
