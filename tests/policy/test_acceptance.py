"""What drafted nodes are worth: keys, survival, and what tokens teach."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from outrider import _native
from outrider._native import Counts, reach
from outrider.core.types import EMPTY, Draft
from outrider.policy.goodput import MOST_DEPTH

# As in native/include/outrider/policy.h.
OWN_KEEP, SHARED_KEEP = 0.92, 0.995


def seen(draft: Draft) -> _native.Seen:
    return _native.Seen(draft.tokens, draft.parents, draft.score or (), draft.forced)


def keys(draft: Draft, asked: int) -> list[int]:
    return seen(draft).keys(asked)


def survival(draft: Draft, node_keys: Sequence[int], own: Counts, shared: Counts, least: float) -> list[float]:
    return _native.survival(seen(draft), node_keys, own, shared, least)


def trace(draft: Draft, asked: int) -> _native.Trace:
    return _native.Trace(seen(draft), asked)


CHAIN = Draft.chain((1, 2, 3, 4))
FORK = Draft((1, 2, 3, 4, 5), (-1, -1, 0, 0, 2))


def fresh() -> tuple[Counts, Counts]:
    return Counts(OWN_KEEP), Counts(SHARED_KEEP)


def taught(draft: Draft, alpha: float, tries: int, asked: int = 16) -> tuple[Counts, Counts]:
    """Counts after so many tries of a chain whose nodes come true with chance alpha."""
    own, shared = fresh()
    chance = random.Random(1)
    for _ in range(tries):
        good = 0
        while good < len(draft) and chance.random() < alpha:
            good += 1
        trace(draft, asked).follow((*draft.tokens[:good], 99), own, shared)
    return own, shared


@pytest.mark.parametrize("draft", [EMPTY, CHAIN, FORK, Draft((1, 2), (-1, -1)), Draft.chain((1,) * 70)])
def test_every_node_has_a_key_and_tries_of_its_own(draft: Draft) -> None:
    own, shared = fresh()
    assert len(keys(draft, 16)) == len(draft)
    assert all(0 <= key < len(own.tries) for key in keys(draft, 16))
    assert len(survival(draft, keys(draft, 16), own, shared, 0.0)) == len(draft)


def test_what_is_no_draft_is_refused() -> None:
    own, shared = fresh()
    for wrong in (((1, 2), (-1,), (), 0), ((1,), (0,), (), 0), ((1,), (-2,), (), 0), ((1, 2), (-1, 0), (0.5,), 0)):
        with pytest.raises(ValueError, match=r"give each node|comes before"):
            _native.Seen(*wrong)
    for bad in ([1], [1, 2, 3, 10_000], [1, 2, 3, -1]):
        with pytest.raises(ValueError, match="key"):
            survival(CHAIN, bad, own, shared, 0.0)


def test_keys_tell_depths_lengths_scores_ranks_and_force() -> None:
    assert len(set(keys(CHAIN, 16))) == 4
    assert set(keys(CHAIN, 16)).isdisjoint(keys(CHAIN, 4))  # a draft that fills its budget is of another class
    assert set(keys(CHAIN, 16)).isdisjoint(keys(Draft.chain((1, 2)), 16))
    scored = keys(replace(CHAIN, score=(0.0, 0.5, 0.51, 1.0)), 16)
    assert scored[1] == scored[2]
    assert len(set(scored)) == 3
    first, second, below, beside, deeper = keys(FORK, 16)
    assert len({first, second, below, beside, deeper}) == 5
    forced = keys(replace(CHAIN, forced=2), 16)
    assert forced[0] == forced[1] != forced[2] == keys(CHAIN, 16)[2]


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
def test_survival_finds_the_chance_of_a_chain(alpha: float) -> None:
    own, shared = taught(CHAIN, alpha, 400)
    first, second, *_ = survival(CHAIN, keys(CHAIN, 16), own, shared, 0.0)
    assert first == pytest.approx(alpha, abs=0.2)
    assert second / first == pytest.approx(alpha, abs=0.25)


@pytest.mark.parametrize("true", [0.1, 0.6])
def test_a_score_means_what_it_turned_out_to_mean(true: float) -> None:
    draft = replace(Draft.chain((1,)), score=(0.9,))
    own, shared = fresh()
    (before,) = survival(draft, keys(draft, 16), own, shared, 0.0)
    assert before == pytest.approx(0.9, abs=0.05)
    (after,) = survival(draft, keys(draft, 16), *taught(draft, true, 400), 0.0)
    assert after == pytest.approx(true, abs=0.2)


def test_survival_of_a_tree_never_rises_and_siblings_exclude_each_other() -> None:
    own, shared = fresh()
    draft = replace(FORK, score=(0.9, 0.9, 0.9, 0.9, 0.9))
    kept = survival(draft, keys(draft, 16), own, shared, 0.0)
    assert all(kept[node] <= (1.0 if above < 0 else kept[above]) for node, above in enumerate(draft.parents))
    assert kept[0] + kept[1] == pytest.approx(1.0)
    assert kept[2] + kept[3] == pytest.approx(kept[0])


def test_a_chain_and_the_same_tree_survive_alike() -> None:
    own, shared = taught(CHAIN, 0.7, 50)
    chain = survival(CHAIN, keys(CHAIN, 16), own, shared, 0.0)
    # A second child that comes last changes nothing for the others.
    bush = Draft((*CHAIN.tokens, 9), (*CHAIN.parents, -1))
    assert survival(bush, [*keys(CHAIN, 16), keys(bush, 16)[-1]], own, shared, 0.0)[:4] == pytest.approx(chain)
    assert survival(CHAIN, keys(CHAIN, 16), own, shared, chain[1]) == chain[:2]


def test_a_trace_counts_what_tokens_decide_and_waits_for_the_rest() -> None:
    own, shared = fresh()
    way = trace(CHAIN, 5)
    assert way.follow((1, 2), own, shared)
    assert way.depth == 2
    assert way.follow((3,), own, shared)
    assert not way.follow((7, 8), own, shared)
    assert way.depth == 3
    assert [own.tries[key] for key in keys(CHAIN, 5)] == [1.0] * 4
    assert [own.hits[key] for key in keys(CHAIN, 5)] == [1.0, 1.0, 1.0, 0.0]
    assert own.tries == shared.tries


def test_a_trace_follows_the_branch_that_came_true() -> None:
    own, shared = fresh()
    way = trace(FORK, 3)
    assert way.follow((1, 3), own, shared)
    assert [own.hits[key] for key in keys(FORK, 3)] == [1.0, 0.0, 1.0, 0.0, 0.0]
    assert [own.tries[key] for key in keys(FORK, 3)] == [1.0, 1.0, 1.0, 1.0, 0.0]
    assert not way.follow((5, 6), own, shared)


def test_a_missing_guess_is_a_miss_by_depth() -> None:
    own, shared = fresh()
    before = reach(4, own, shared, 0.0)
    assert not trace(EMPTY, 4).follow((1,), own, shared)
    after = reach(4, own, shared, 0.0)
    assert len(before) == len(after) == 4
    assert after[0] < before[0]
    assert reach(MOST_DEPTH, own, shared, 0.5) == [chance for chance in after if chance >= 0.5]


def test_what_is_known_by_depth_fades() -> None:
    own, shared = fresh()
    for _ in range(30):
        trace(EMPTY, 4).follow((1,), own, shared)
    # Others do well, so that forgetting moves towards them.
    other = Counts(SHARED_KEEP)
    for _ in range(30):
        trace(CHAIN, 4).follow((1, 2, 3, 4), Counts(OWN_KEEP), other)
    before = reach(1, own, other, 0.0)
    own.fade_reach(0.1)
    assert reach(1, own, other, 0.0) > before
