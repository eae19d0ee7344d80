"""The suffix drafter against a plain search, its memory, and the drafter suite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.drafters.test_automaton import counted, longest_known

from outrider.api import Sampling
from outrider.core import tree
from outrider.core.step import Budget, Outcome, Tokens, View
from outrider.core.types import EMPTY, Draft, Law
from outrider.drafters.suffix import DOUBT, LEAST_BYTES, SPREAD, SuffixDrafter
from outrider.errors import UsageError
from outrider.testing import drafter_suite

PROMPT, ANSWER = [20, 21, 22], [1, 2, 3, 4, 5, 6, 7, 8]


def ask(
    drafter: SuffixDrafter, tokens: Sequence[int], nodes: int, depth: int | None = None, seq: int = 1, scope: str = ""
) -> Draft:
    view = View(seq, Tokens(list(tokens)), Sampling(), scope=scope)
    (draft,) = drafter.propose([view], [Budget(nodes, nodes if depth is None else depth)])
    return draft


def draft_after(tokens: Sequence[int], nodes: int, depth: int | None = None, **settings: float) -> Draft:
    drafter = SuffixDrafter(0, **settings)
    drafter.begin(1, tokens)
    return ask(drafter, tokens, nodes, depth)


def run(drafter: SuffixDrafter, answer: Sequence[int], scope: str = "", prompt: Sequence[int] = PROMPT) -> list[Draft]:
    """Answer token by token; the drafts."""
    drafter.begin(7, prompt)
    drafts = []
    for end in range(len(answer)):
        drafts.append(ask(drafter, [*prompt, *answer[:end]], 4, seq=7, scope=scope))
        drafter.observe([Outcome(7, EMPTY, (), (answer[end],))])
    drafter.end(7)
    return drafts


def search(tokens: list[int], budget: int, least: float) -> tuple[list[int], list[float]]:
    """The definition of a chain: longest known suffix, most frequent continuation, the latest of equals."""
    text, product = list(tokens), 1.0
    chain: list[int] = []
    scores: list[float] = []
    depth = min(budget, longest_known(tokens, tokens) + 2) if longest_known(tokens, tokens) else 0
    while len(chain) < depth:
        matched = longest_known(tokens, text)
        found = counted(tokens, text[len(text) - matched :])
        if not matched or not found:
            break
        count, _, token = max(found)
        total, different = sum(times for times, _, _ in found), len(found)
        score = count / (total + DOUBT * different**SPREAD / matched)
        product *= score
        if product < least:
            break
        chain.append(token)
        scores.append(score)
        text.append(token)
    return chain, scores


@given(
    st.lists(st.integers(0, 3), max_size=60), st.integers(0, 9), st.integers(0, 60), st.sampled_from([0.01, 0.1, 0.4])
)
def test_chains_equal_a_plain_search_however_the_tokens_came(
    tokens: list[int], budget: int, known: int, least: float
) -> None:
    drafter = SuffixDrafter(0, least=least)
    drafter.begin(1, tokens[:known])
    for start in range(known, len(tokens), 3):
        drafter.observe([Outcome(1, EMPTY, (), tuple(tokens[start : start + 3]))])
    draft = ask(drafter, tokens, budget)
    chain, scores = search(tokens, budget, least)
    assert draft.tokens == tuple(chain)
    assert tree.is_chain(draft)
    assert (draft.score or ()) == pytest.approx(tuple(scores))
    assert (draft.law, draft.q) == (Law.POINT, None)


@given(st.lists(st.integers(0, 3), min_size=8, max_size=60))
def test_trees_hold_the_best_guess_and_only_what_was_seen(tokens: list[int]) -> None:
    whole = draft_after(tokens, 24, 6, least=0.01)
    tree.validate(whole, 4)
    pairs = set(pairwise(tokens))
    sums: dict[int, float] = {}
    for token, parent, score in zip(whole.tokens, whole.parents, whole.score or (), strict=True):
        assert (tokens[-1] if parent < 0 else whole.tokens[parent], token) in pairs
        sums[parent] = sums.get(parent, 0.0) + score
    assert all(total <= 1.0 + 1e-9 for total in sums.values())
    assert whole.tokens[:1] == draft_after(tokens, 1, 1, least=0.01).tokens


def test_the_most_frequent_continuation_wins_and_the_latest_of_equals() -> None:
    assert draft_after([5, 1, 5, 1, 5, 2, 5], 1, least=0.01).tokens == (1,)
    assert draft_after([5, 1, 5, 2, 5], 1, least=0.01).tokens == (2,)


def test_the_longest_match_wins_over_a_more_frequent_shorter_one() -> None:
    assert draft_after([3, 8, 3, 8, 1, 2, 3, 7, 9, 1, 2, 3], 1).tokens == (7,)


def test_the_length_follows_the_match() -> None:
    text = [*range(30), 99]
    copied = [*text, *text[:4]]
    assert draft_after(copied, 16).tokens == tuple(range(4, 10))
    assert draft_after(copied, 16, factor=2.0, offset=1.0, least=0.01).tokens == tuple(range(4, 13))
    assert draft_after(copied, 16, factor=0.3, offset=0.0).tokens == (4,)
    assert draft_after(copied, 16, factor=0.2, offset=0.0) == EMPTY


def test_scores_rise_along_a_match_and_a_doubtful_draft_is_cut() -> None:
    text = [*range(30), 99]
    draft = draft_after([*text, *text[:9]], 8)
    assert draft.score is not None
    assert list(draft.score) == sorted(draft.score)
    assert 0.75 < draft.score[0] < 0.85
    assert draft_after([7, 1, 7, 2, 7, 3, 7], 8, least=0.3) == EMPTY


def test_a_loop_is_drafted_past_the_present() -> None:
    assert draft_after([9, 1, 2, 1, 2, 1, 2], 5).tokens == (1, 2, 1, 2, 1)


def test_a_tree_holds_both_continuations() -> None:
    text = [1, 2, 3, 4, 8, 1, 2, 3, 5, 9, 1, 2, 3]
    branches = draft_after(text, 6, 2, least=0.01)
    roots = [token for token, parent in zip(branches.tokens, branches.parents, strict=True) if parent == -1]
    assert roots[:2] == [5, 4]
    assert max(tree.depths(branches)) == 1


def test_siblings_come_from_shorter_suffixes_which_share_what_is_left() -> None:
    text = [1, 2, 3, 7, 3, 8, 3, 8, 1, 2, 3]
    draft = draft_after(text, 4, 1, least=0.01)
    first = 1 / (1 + DOUBT / 3)
    # Behind 3 alone came 7 once and 8 twice; 7 is named already.
    second = (1 - first) * 2 / (2 + DOUBT * 2**SPREAD)
    assert (draft.tokens, draft.parents) == ((7, 8), (-1, -1))
    assert draft.score == pytest.approx((first, second))


def test_an_earlier_answer_is_drafted_from_its_first_token_on() -> None:
    drafter = SuffixDrafter()
    assert [draft.tokens for draft in run(drafter, ANSWER)] == [()] * 8
    again = run(drafter, ANSWER, prompt=[30, 31])
    assert [draft.tokens[:1] for draft in again] == [(token,) for token in ANSWER]
    assert [len(draft) for draft in again] == [2, 4, 4, 4, 4, 3, 2, 1]


@pytest.mark.parametrize(("nodes", "depth"), [(4, 4), (8, 4)])
def test_the_end_of_an_answer_counts_but_is_no_token(nodes: int, depth: int) -> None:
    drafter = SuffixDrafter(least=0.01)
    for _ in range(3):
        run(drafter, ANSWER)
    run(drafter, [*ANSWER, 9])
    drafter.begin(1, PROMPT)
    drafter.observe([Outcome(1, EMPTY, (), tuple(ANSWER))])
    draft = ask(drafter, [*PROMPT, *ANSWER], nodes, depth)
    tree.validate(draft, 100)
    assert draft.tokens == (9,)
    # The match begins with the edge before the answer; an answer ended here three times in four.
    assert draft.score == pytest.approx((1 / (4 + DOUBT * 2**SPREAD / 9),))


def test_siblings_of_two_sources_are_together_no_likelier_than_certain() -> None:
    drafter = SuffixDrafter()
    run(drafter, ANSWER)
    prompt = [*ANSWER[:6], 77]
    drafter.begin(1, prompt)
    drafter.observe([Outcome(1, EMPTY, (), tuple(ANSWER[:6]))])
    draft = ask(drafter, [*prompt, *ANSWER[:6]], 2, 1)
    assert draft.tokens == (7, 77)
    assert draft.score is not None
    assert sum(draft.score) == pytest.approx(1.0)


def test_the_memory_holds_answers_not_prompts() -> None:
    drafter = SuffixDrafter()
    run(drafter, [90, 91], prompt=ANSWER)
    assert [draft.tokens for draft in run(drafter, ANSWER)] == [(90, 91), *[()] * 7]


def test_the_memory_of_a_scope_is_its_own() -> None:
    drafter = SuffixDrafter()
    run(drafter, ANSWER, "one")
    assert all(draft == EMPTY for draft in run(drafter, ANSWER, "other"))
    assert all(draft == EMPTY for draft in run(drafter, [*ANSWER]))
    assert all(draft.tokens for draft in run(drafter, ANSWER, "one"))


def test_an_answer_that_no_view_was_shown_of_stays_out() -> None:
    """Nobody said whose it is."""
    drafter = SuffixDrafter()
    drafter.begin(1, PROMPT)
    drafter.observe([Outcome(1, EMPTY, (), tuple(ANSWER))])
    drafter.end(1)
    assert drafter.memory_bytes == 0


def test_without_memory_nothing_is_kept() -> None:
    drafter = SuffixDrafter(0)
    run(drafter, ANSWER)
    assert drafter.memory_bytes == 0
    assert all(draft == EMPTY for draft in run(drafter, ANSWER))


def test_the_memory_stays_below_its_limit() -> None:
    drafter = SuffixDrafter(LEAST_BYTES)
    sizes = []
    for number in range(100):
        run(drafter, range(50 * number, 50 * number + 50))
        sizes.append(drafter.memory_bytes)
    assert max(sizes) <= LEAST_BYTES < 2 * sizes[-1]
    assert run(drafter, range(50 * 99, 50 * 100))[10].tokens
    assert run(drafter, range(50))[10] == EMPTY


def test_an_answer_of_the_same_batch_helps_as_soon_as_it_ends() -> None:
    drafter = SuffixDrafter()
    drafter.begin(1, PROMPT)
    drafter.begin(2, PROMPT)
    ask(drafter, PROMPT, 4)
    drafter.observe([Outcome(1, EMPTY, (), tuple(ANSWER)), Outcome(2, EMPTY, (), tuple(ANSWER[:3]))])
    assert ask(drafter, [*PROMPT, *ANSWER[:3]], 4, seq=2) == EMPTY
    drafter.end(1)
    assert ask(drafter, [*PROMPT, *ANSWER[:3]], 4, seq=2).tokens == tuple(ANSWER[3:7])


def test_the_better_of_text_and_memory_guesses() -> None:
    drafter = SuffixDrafter()
    run(drafter, ANSWER)
    # The text knows 4 after one token; the memory knows more of what stands here.
    drafter.begin(1, [4, 77, 88])
    drafter.observe([Outcome(1, EMPTY, (), (1, 2, 3, 4))])
    assert ask(drafter, [4, 77, 88, 1, 2, 3, 4], 2).tokens == (5, 6)
    # Here the text does.
    drafter.begin(2, [50, 51, 52, 4, 77, 88])
    drafter.observe([Outcome(2, EMPTY, (), (50, 51, 52, 4))])
    assert ask(drafter, [50, 51, 52, 4, 77, 88, 50, 51, 52, 4], 2, seq=2).tokens == (77, 88)


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: SuffixDrafter(5), "memory_bytes is 5"),
        (lambda: SuffixDrafter(0, factor=-1.0), "factor is -1.0"),
        (lambda: SuffixDrafter(0, offset=float("nan")), "offset is nan"),
        (lambda: SuffixDrafter(0, least=0.0), "least is 0.0"),
        (lambda: SuffixDrafter(0, least=1.5), "least is 1.5"),
    ],
)
def test_values_out_of_range_are_refused(make: Callable[[], SuffixDrafter], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        make()


@pytest.mark.parametrize("check", drafter_suite.CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Callable[[drafter_suite.Maker], None]) -> None:
    check(lambda: SuffixDrafter(0))


@pytest.mark.parametrize("check", [drafter_suite.budgets_are_respected, drafter_suite.end_may_come_at_once])
def test_conformance_with_a_memory(check: Callable[[drafter_suite.Maker], None]) -> None:
    """The other checks compare with a drafter that has met nothing yet."""
    check(SuffixDrafter)


def test_with_a_memory_end_leaves_the_memory_alone() -> None:
    drafter = SuffixDrafter(LEAST_BYTES)
    for number in range(30):
        run(drafter, range(50 * number, 50 * number + 50))
    known, held = drafter.memory_bytes, drafter_suite.held(drafter)
    drafter.begin(1, list(range(5000)))
    ask(drafter, [], 4)
    assert drafter_suite.held(drafter) > held
    drafter.end(1)
    assert (drafter.memory_bytes, drafter_suite.held(drafter)) == (known, held)


def test_what_a_step_adds_does_not_grow_with_the_context() -> None:
    """Counted, not timed: a step that rebuilt or copied its index would add more after 20,000 tokens than after 200."""
    added: list[int] = []
    for length in (200, 20_000):
        tokens = [index * 7919 % 997 for index in range(length)]
        drafter = SuffixDrafter(0)
        drafter.begin(1, tokens)
        before = drafter.text_bytes
        draft = ask(drafter, tokens, 8)
        drafter.observe([Outcome(1, draft, (), (1, 2, 3))])
        added.append(drafter.text_bytes - before)
    assert 0 < added[1] <= added[0] + 4000
