"""Each filter is what its name says, stated again in plain Python with float64, and filters act one after the other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.core import sampling
from outrider.core.sampling import Draw
from outrider.core.types import FloatArray

INF = float("inf")
CLOSE = 1e-5  # what float32 exponentials and sums may be off by
# halves make ties likely, -inf is what a mask leaves
VALUE = st.integers(-12, 12).map(lambda n: n / 2) | st.floats(-20, 20, width=32) | st.just(-INF) | st.just(-0.0)
ROWS = st.lists(VALUE, min_size=1, max_size=70).filter(lambda values: max(values) > -INF)
SHARE = st.sampled_from([1e-9, 0.1, 0.5, 0.9, 0.99, 1 - 1e-9]) | st.floats(0.01, 0.999)


def kept(values: list[float], draw: Draw) -> list[int]:
    scores = sampling.scores(np.array(values, np.float32), draw)
    found = [i for i, score in enumerate(scores.tolist()) if score > -INF]
    assert [scores[i] for i in found] == [np.float32(values[i]) for i in found], "a score has changed"
    return found


def softmax(values: list[float]) -> list[float]:
    best = max(values)
    weights = [math.exp(value - best) for value in values]
    return [weight / sum(weights) for weight in weights]


def by_score(values: list[float]) -> list[int]:
    return sorted(range(len(values)), key=lambda i: (-values[i], i))


def is_shortest_prefix(order: list[int], found: list[int], p: list[float], share: float) -> bool:
    """The first ids of the order whose probabilities reach a share, and no more than needed."""
    possible = [i for i in order if p[i] > 0]
    prefix = possible[: len(found)]
    mass = math.fsum(p[i] for i in prefix)
    return (
        sorted(prefix) == found
        and (mass >= share - CLOSE or len(found) == len(possible))
        and (len(found) == 1 or mass - p[prefix[-1]] < share + CLOSE)
    )


@settings(deadline=None)
@given(ROWS, st.integers(1, 80))
def test_top_k_keeps_the_k_best(values: list[float], k: int) -> None:
    expected = sorted(i for i in by_score(values)[:k] if values[i] > -INF)
    assert kept(values, Draw(1.0, top_k=k)) == expected


@settings(deadline=None)
@given(ROWS, SHARE)
def test_top_p_keeps_the_likeliest_that_reach_p(values: list[float], share: float) -> None:
    found = kept(values, Draw(1.0, top_p=share))
    assert is_shortest_prefix(by_score(values), found, softmax(values), share)


@settings(deadline=None)
@given(ROWS, SHARE)
def test_min_p_keeps_what_is_likely_next_to_the_best(values: list[float], share: float) -> None:
    p = softmax(values)
    ratio = [x / max(p) for x in p]
    found = kept(values, Draw(1.0, min_p=share))
    assert by_score(values)[0] in found
    for i, value in enumerate(ratio):
        assert (value > share - CLOSE) if i in found else (value < share + CLOSE)


@settings(deadline=None)
@given(ROWS, SHARE)
def test_typical_p_keeps_what_surprises_as_expected(values: list[float], share: float) -> None:
    p = softmax(values)
    entropy = -math.fsum(x * math.log(x) for x in p if x > 0)
    away = {i: abs(-math.log(x) - entropy) for i, x in enumerate(p) if x > 0}
    found = kept(values, Draw(1.0, typical_p=share))
    dropped = [i for i in away if i not in found]
    assert all(away[i] < away[j] + CLOSE for i in found for j in dropped)
    mass = math.fsum(p[i] for i in found)
    assert mass >= share - CLOSE or not dropped
    farthest = max(found, key=lambda i: away[i])
    assert len(found) == 1 or mass - max(p[i] for i in found if away[i] > away[farthest] - CLOSE) < share + CLOSE


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8])
def test_ties_go_to_the_lowest_id(share: float) -> None:
    flat = [0.0] * 20
    wanted = list(range(math.ceil(20 * share)))
    assert kept(flat, Draw(1.0, top_p=share)) == kept(flat, Draw(1.0, typical_p=share)) == wanted
    assert kept(flat, Draw(1.0, top_k=len(wanted))) == wanted
    signed = [0.0, -0.0] * 10
    assert kept(signed, Draw(1.0, top_p=share)) == kept(signed, Draw(1.0, typical_p=share)) == wanted


def test_typical_ties_go_to_the_higher_score() -> None:
    # three equal pairs around their mean: the surprise of 0 and of -2 is equally far from the entropy of two ids
    values = [-40.0, 0.0, 0.0]
    assert kept(values, Draw(1.0, typical_p=0.4)) == [1]
    # d = (0, -1) and weights (1, e^-1): whoever is nearer the mean comes first
    assert kept([-1.0, 0.0], Draw(1.0, typical_p=0.2)) == [1]
    # the likeliest is the most surprising one of all
    assert kept([4.0, *[0.0] * 200], Draw(1.0, typical_p=0.2))[0] == 1


@pytest.mark.parametrize("draw", [Draw(1.0, top_k=10**9), Draw(1.0, top_p=1.0), Draw(1.0, min_p=1e-60)])
def test_filters_that_filter_nothing(draw: Draw) -> None:
    values = [1.0, -INF, 3.0, -50.0, -200.0]
    assert kept(values, draw) == [0, 2, 3, 4]


@pytest.mark.parametrize("draw", [Draw(1.0, top_k=1), Draw(1.0, top_p=1e-300), Draw(1.0, min_p=1.0)])
def test_filters_that_leave_the_best(draw: Draw) -> None:
    assert kept([1.0, 3.0, -INF, 2.5], draw) == [1]


def test_one_id_survives_everything() -> None:
    for values in ([7.0], [-INF, -3e38, -INF]):
        assert len(kept(values, Draw(1.0, 0, 0, 1, 1e-9, 1.0, 1e-9))) == 1


def test_weights_that_vanish_are_only_dropped_by_a_share_that_is_reached() -> None:
    """Below e**-87.3 a weight is 0: top_p of nearly all leaves it out, min_p too, and top_k does not."""
    values = [0.0, -90.0]
    assert kept(values, Draw(1.0, top_p=1 - 1e-16)) == kept(values, Draw(1.0, min_p=1e-37)) == [0]
    assert kept(values, Draw(1.0, typical_p=1 - 1e-16)) == [0]
    assert kept(values, Draw(1.0, top_k=2)) == [0, 1]


def test_nothing_is_filtered_where_the_best_is_infinite() -> None:
    draw = Draw(1.0, 0, 0, 1, 0.1, 0.9, 0.1)
    for values in ([INF, 1.0, INF], [-INF, -INF]):
        logits = np.array(values, np.float32)
        assert sampling.scores(logits, draw).tolist() == values


def test_temperature_comes_before_the_filters() -> None:
    values = [2.0, 1.0, 0.0]
    hot, cold = (sampling.scores(np.array(values, np.float32), Draw(t, top_p=0.8)) for t in (4.0, 0.25))
    assert hot.tolist() == [0.5, 0.25, 0.0]
    assert cold.tolist() == [8.0, -INF, -INF]


@settings(deadline=None)
@given(ROWS, st.sampled_from([0.5, 1.0, 3.0]), st.integers(0, 9), *[st.sampled_from([1.0, 0.95, 0.7, 0.3])] * 3)
def test_filters_act_one_after_the_other(
    values: list[float], temperature: float, k: int, top_p: float, least: float, typical: float
) -> None:
    """The law that one filter left is the whole world of the next."""
    min_p = 0.0 if least == 1.0 else 1.0 - least
    together = sampling.scores(np.array(values, np.float32), Draw(temperature, 0, 0, k, top_p, min_p, typical))
    one: FloatArray = sampling.scores(np.array(values, np.float32), Draw(temperature))
    for step in (Draw(1.0, top_k=k), Draw(1.0, top_p=top_p), Draw(1.0, min_p=min_p), Draw(1.0, typical_p=typical)):
        one = sampling.scores(one, step)
    assert together.tolist() == one.tolist()
