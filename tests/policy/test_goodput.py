"""The goodput policy in worlds whose costs and chances are known: against plain decoding and the best fixed length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from operator import mul
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policy.worlds import Computing, Guess, Stairs, World, changing, forked, lookup, scored, steady

from outrider.api import Sampling
from outrider.core.step import Budget, Load, Outcome, StepTime, Tokens, View
from outrider.core.types import EMPTY, Draft
from outrider.errors import UsageError
from outrider.policy.fixed import Fixed
from outrider.policy.goodput import MOST_NODES, Goodput, paying

GAMMAS = (0, 1, 2, 3, 4, 7, 10, 15)
TOKENS = 600
Make = Callable[[], World]


def best_fixed(make: Make, tokens: int = TOKENS, after: int = 0) -> float:
    return max(make().run(Fixed(gamma), tokens, after).speed for gamma in GAMMAS)


def plain(make: Make, tokens: int = TOKENS, after: int = 0) -> float:
    return make().run(Fixed(0), tokens, after).speed


@pytest.mark.parametrize("most", [-1, 65])
def test_a_largest_budget_outside_its_range_is_refused(most: int) -> None:
    with pytest.raises(UsageError, match=rf"most is {most}; draft between 0 \(off\) and 64 nodes"):
        Goodput(Stairs(), most)


def test_most_is_the_limit_and_nought_switches_off() -> None:
    asked: list[int] = []

    def guess(position: int, budget: Budget) -> Draft:
        asked.append(budget.nodes)
        return steady(0.95)(position, budget)

    World([guess]).run(Goodput(Stairs(), 5), 100)
    assert max(asked) == 5
    assert World([guess]).run(Goodput(Stairs(), 0), 50).asked == 0


@pytest.mark.parametrize(
    "kind",
    [
        *(partial(steady, alpha) for alpha in (0.02, 0.3, 0.6, 0.8, 0.95)),
        *(partial(lookup, copied, run) for copied, run in ((0.1, 8), (0.3, 30), (0.6, 20), (0.9, 60))),
    ],
    ids=lambda kind: f"{kind.func.__name__}{kind.args}",
)
def test_a_cheap_drafter_comes_close_to_the_best_length_in_hindsight(kind: Callable[[int], Guess]) -> None:
    seeds = range(4)
    best = sum(best_fixed(partial(World, [kind(seed)])) for seed in seeds)
    for cost, floor in ((Stairs(), 0.95), (Stairs(2.5), 0.95), (None, 0.9)):
        # A policy that knows nothing for each text: what is lost is the price of learning.
        assert sum(World([kind(seed)]).run(Goodput(cost), TOKENS).speed for seed in seeds) > floor * best


@pytest.mark.parametrize("cuts", [True, False])
@pytest.mark.parametrize(("alpha", "floor"), [(0.02, 0.97), (0.35, 0.9), (0.6, 0.93), (0.9, 0.9)])
def test_a_model_that_costs_a_fifth_of_a_pass_a_node_is_asked_for_what_pays(
    alpha: float, floor: float, cuts: bool
) -> None:
    def make() -> World:
        return World([steady(alpha)], ask_s=1e-4, node_s=8e-4, cuts=cuts)

    run = make().run(Goodput(Stairs()), TOKENS)
    assert run.speed > floor * best_fixed(make)
    if alpha < 0.1:
        assert 0 < run.asked < 0.05 * run.passes
    if alpha > 0.5:
        assert run.asked > 0.9 * run.passes


@pytest.mark.parametrize(
    ("ask_s", "node_s"),
    [(1e-5, 5e-7), (1e-4, 5e-6), (1e-3, 0.0), (4e-3, 0.0), (2e-2, 0.0), (0.0, 1e-3), (0.0, 1e-2)],
)
@pytest.mark.parametrize("cuts", [True, False])
@pytest.mark.parametrize("cost", [Stairs(), None], ids=["profile", "no profile"])
def test_nobody_gets_slower_by_a_drafter_that_guesses_wrong(
    ask_s: float, node_s: float, cuts: bool, cost: Stairs | None
) -> None:
    def make() -> World:
        return World([steady(0.0)], ask_s=ask_s, node_s=node_s, cuts=cuts)

    run = make().run(Goodput(cost), TOKENS, after=32)
    assert run.speed > 0.97 * plain(make, TOKENS, after=32)


def test_a_drafter_that_weighs_its_parts_is_asked_for_all_or_nothing() -> None:
    budgets: list[int] = []

    def run(alpha: float, weighs: bool) -> World:
        guess = steady(alpha)

        def watched(position: int, budget: Budget) -> Draft:
            budgets.append(budget.nodes)
            return guess(position, budget)

        budgets.clear()
        return World([watched], ask_s=1e-5, node_s=3e-5).run(
            paying(SimpleNamespace(weighs=weighs), Stairs()), 300, after=100
        )

    run(0.7, weighs=True)
    assert set(budgets[40:]) == {MOST_NODES}
    run(0.7, weighs=False)
    assert max(budgets[40:]) < MOST_NODES, "where nodes are dear, one that does not weigh them is asked for few"
    never = run(0.0, weighs=True)
    assert never.speed > 0.97 * plain(partial(World, [steady(0.0)]), 300, after=100)


def test_a_slow_drafter_is_asked_where_it_pays() -> None:
    def make() -> World:
        return World([steady(0.9)], ask_s=4e-3)

    run = make().run(Goodput(Stairs()), TOKENS)
    assert run.speed > 0.85 * best_fixed(make) > 1.5 * plain(make)


@pytest.mark.parametrize("bend", [1.0, 3.0, 0.3])
def test_scores_are_calibrated_and_beat_every_fixed_length(bend: float) -> None:
    def make() -> World:
        return World([scored(bend=bend)])

    assert make().run(Goodput(Stairs()), 1500).speed > best_fixed(make, 1500)


@pytest.mark.parametrize(("first", "second"), [(0.5, 0.2), (0.8, 0.1)])
def test_of_trees_the_best_branches_are_admitted(first: float, second: float) -> None:
    def make() -> World:
        return World([forked(first, second)])

    assert make().run(Goodput(Stairs()), TOKENS).speed > 0.97 * best_fixed(make)


def test_sequences_of_one_batch_get_what_each_deserves() -> None:
    alphas = (0.02, 0.3, 0.6, 0.9)

    def make() -> World:
        return World([steady(alpha, seed) for seed, alpha in enumerate(alphas)])

    drafted = [0] * len(alphas)
    policy = Goodput(Stairs())
    watch(policy, lambda outcomes: drafted.__setitem__(slice(None), added(drafted, outcomes)))
    assert make().run(policy, TOKENS).speed > 1.1 * best_fixed(make)
    assert drafted[3] > 4 * drafted[0]


def test_a_batch_may_be_so_large_that_drafting_stops() -> None:
    def make() -> World:
        return World([steady(0.6, seed) for seed in range(12)], Computing())

    run = make().run(Goodput(Computing()), 200)
    assert run.speed > 0.97 * plain(make, 200)
    assert run.verified < 0.3 * run.passes


def test_rows_are_no_cheaper_beside_a_prompt() -> None:
    def make(prompt_rows: int) -> World:
        guesses = [steady(0.6, seed) for seed in range(8)]
        return World(guesses, Computing(), prompt_rows=prompt_rows).run(Goodput(Computing()), 200)

    assert make(256).verified <= 1.2 * make(0).verified + 20


def test_beside_a_prompt_nodes_that_pay_are_still_drafted() -> None:
    def make(prompt_rows: int) -> World:
        return World([steady(0.9)], prompt_rows=prompt_rows).run(Goodput(Stairs()), 300)

    per_pass = [run.verified / run.passes for run in (make(0), make(64))]
    assert per_pass[1] > 0.5 * per_pass[0]


def test_it_learns_that_rows_are_dear_without_a_profile() -> None:
    def make() -> World:
        return World([steady(0.7, seed) for seed in range(4)], Computing())

    assert make().run(Goodput(None), 900, after=300).speed > 0.92 * plain(make, 900, after=300)


@pytest.mark.parametrize(("ask_s", "node_s", "floor"), [(1e-5, 5e-7, 0.93), (1e-4, 4e-4, 0.75)])
def test_it_comes_back_when_the_text_turns(ask_s: float, node_s: float, floor: float) -> None:
    def make() -> World:
        return World([changing((300, steady(0.01)), (1, steady(0.97)))], ask_s=ask_s, node_s=node_s)

    assert make().run(Goodput(Stairs()), 700, after=300).speed > floor * best_fixed(make, 700, after=300)


def test_it_stops_when_the_text_turns() -> None:
    def make() -> World:
        return World([changing((300, steady(0.97)), (1, steady(0.01)))])

    assert make().run(Goodput(Stairs()), 700, after=300).speed > 0.93 * plain(make, 700, after=300)


@pytest.mark.parametrize(("cost", "floor"), [(Stairs(), 0.96), (None, 0.92)], ids=["profile", "no profile"])
def test_outliers_and_noise_do_no_harm(cost: Stairs | None, floor: float) -> None:
    speed = best = 0.0
    for seed in range(4):
        policy = Goodput(cost)
        World([steady(0.6, seed)], noise=0.15).run(policy, TOKENS)
        # What it learned under noise is put to the test without.
        speed += World([steady(0.6, seed)]).run(policy, TOKENS).speed
        best += best_fixed(partial(World, [steady(0.6, seed)]))
    assert speed > floor * best


def test_a_new_sequence_starts_from_what_others_showed() -> None:
    def slow(alpha: float) -> World:
        return World([steady(alpha)], ask_s=4e-4, node_s=8e-4)

    good, bad = Goodput(Stairs()), Goodput(Stairs())
    slow(0.9).run(good, 300)
    slow(0.01).run(bad, 300)
    new = [View(77, Tokens([1, 2, 3]), Sampling())]
    assert good.budgets(new, Load(1, 1))[0].nodes >= 2
    assert bad.budgets(new, Load(1, 1))[0].nodes <= 1  # a probe


def test_a_number_that_names_another_sequence_starts_anew() -> None:
    policy = Goodput(Stairs())
    World([steady(0.01)], ask_s=1e-4, node_s=4e-4).run(policy, 300)
    for seq in range(1, 9):  # others show that drafts are right
        World([steady(0.97, seq)], ask_s=1e-4, node_s=1e-4).run(policy, 100)
    assert policy.budgets([View(0, Tokens([5] * 40), Sampling())], Load(1, 1))[0].nodes > 0


def test_what_was_cut_away_teaches_too() -> None:
    policy, load = Goodput(Computing()), Load(1, 1)
    text = [0]
    view = View(0, Tokens(text), Sampling())
    admitted = []
    for step in range(60):
        (budget,) = policy.budgets([view], load)
        # Right from the 30th step on; a row costs as much as a pass, so only near certainty is admitted.
        good = step >= 30
        draft = Draft((1 if good else 2,), (-1,)) if budget.nodes else EMPTY
        (kept,) = policy.admit([view], [draft], load) if draft.tokens else [EMPTY]
        path = (0,) if kept.tokens and good else ()
        new = (1,) * (1 + len(path))
        text.extend(new)
        seconds = Computing().seconds(1, 1 + len(kept), 0)
        policy.observe([Outcome(0, kept, path, new)], StepTime(seconds, 0.0, seconds))
        admitted.append(len(kept))
    assert sum(admitted[8:30]) == 0
    assert sum(admitted[-10:]) > 0


def test_admit_without_a_step_returns_the_drafts() -> None:
    draft = Draft((1, 2), (-1, 0))
    assert Goodput(Stairs()).admit([View(0, Tokens([1]), Sampling())], [draft], Load(1, 1)) == [draft]


def test_a_forced_chain_is_admitted_whole() -> None:
    policy = Goodput(Stairs())
    World([steady(0.0)]).run(policy, 100)
    view = View(9, Tokens([1]), Sampling())
    (budget,) = policy.budgets([view], Load(1, 1))
    assert (budget.nodes, budget.depth) == (MOST_NODES, MOST_NODES)
    draft = Draft.chain((1, 2, 3, 4), forced=4)
    assert policy.admit([view], [draft], Load(1, 1)) == [draft]


@pytest.mark.parametrize("cost", [Stairs(), Computing()], ids=lambda cost: type(cost).__name__)
@pytest.mark.parametrize(("views", "load"), [(1, 1), (1, 8), (3, 3), (3, 5)])
@given(data=st.data())
@settings(max_examples=40)
def test_nothing_is_admitted_whose_chance_is_believed_to_be_below_its_floor(
    cost: Stairs | Computing, views: int, load: int, data: st.DataObject
) -> None:
    """Whatever the other sequences have, and however many are not drafted for."""
    policy = Goodput(cost)
    if load == 1:  # a load that no pass had yet is first seen without drafts
        World([steady(0.5)], cost).run(policy, 40)
    seen = [View(9 + place, Tokens([1]), Sampling()) for place in range(views)]
    budgets = policy.budgets(seen, Load(load, load))
    assert {len(budget.floors) for budget in budgets} == {budgets[0].nodes}
    assert budgets[0].nodes > 0
    told = [data.draw(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=MOST_NODES)) for _ in seen]
    drafts = [Draft((*range(len(one)),), (*range(-1, len(one) - 1),), score=tuple(one)) for one in told]
    for one, kept, budget in zip(told, policy.admit(seen, drafts, Load(load, load)), budgets, strict=True):
        # Nobody has seen a score yet, so the middle of its sixteenth is believed.
        chance = list(accumulate(((min(int(16 * score), 15) + 0.5) / 16 for score in one), mul))
        assert all(chance[node] >= least for node, least in zip(range(len(kept)), budget.floors, strict=False))


@pytest.mark.parametrize("load", [1, 8])
def test_floors_are_those_of_what_rows_cost(load: int) -> None:
    """Alone, the first three nodes are nearly free, and the fourth costs a fifth of a pass."""
    policy = Goodput(Stairs())
    (budget,) = policy.budgets([View(9, Tokens([1]), Sampling())], Load(load, load))
    assert budget.nodes == 4
    at = [Stairs().seconds(load, rows, 64) for rows in range(load, load + 5)]  # a context of nothing counts as 64
    runs = [
        [(0.995 * (at[to] - at[node]) - 0.005 * at[node]) / at[0] / (to - node) for to in range(node + 1, 5)]
        for node in range(4)
    ]
    assert budget.floors == pytest.approx([max(0.0, 0.75 * min(run)) for run in runs])
    assert (max(budget.floors[:3]) < 0.05 < 0.1 < budget.floors[3]) == (load == 1)


def watch(policy: Goodput, look: Callable[[Sequence[Outcome]], None]) -> None:
    """Let somebody see what the policy observes."""
    observe: Any = policy.observe

    def seen(outcomes: Sequence[Outcome], time: StepTime) -> None:
        look(outcomes)
        observe(outcomes, time)

    vars(policy)["observe"] = seen


def added(counts: Sequence[int], outcomes: Sequence[Outcome]) -> list[int]:
    return [count + len(outcome.draft) for count, outcome in zip(counts, outcomes, strict=True)]
