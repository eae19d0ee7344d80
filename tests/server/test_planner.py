"""/planner.json gives the planner's own figures."""

from __future__ import annotations

import pytest

from outrider.core import expect
from outrider.server.planner import MOST_GAMMA, plan
from outrider.server.problems import Problem


def test_the_break_even_of_the_guide() -> None:
    found = plan({"gamma": "4", "c": "0.1"})
    assert round(float(str(found["break_even"])), 2) == 0.29
    assert found["break_even"] == expect.break_even(4, 0.1)


def test_figures_are_those_of_the_formulas() -> None:
    found = plan({"alpha": "0.8", "gamma": "4", "c": "0.1", "verify": "1.2"})
    assert found["speedup"] == expect.speedup(0.8, 4, 0.1, 1.2)
    assert found["tokens_per_pass"] == expect.tokens_per_pass(0.8, 4)
    by_alpha, by_gamma = found["by_alpha"], found["by_gamma"]
    assert isinstance(by_alpha, list)
    assert isinstance(by_gamma, list)
    assert by_alpha[40] == [0.8, found["speedup"]]
    assert by_gamma[4][1] == pytest.approx(found["speedup"])
    assert by_gamma[0] == [0, 1.0]
    assert len(by_gamma) == MOST_GAMMA + 1
    best = max(by_gamma, key=lambda point: point[1])
    assert found["best_gamma"] == best[0]


def test_batches_on_a_machine() -> None:
    found = plan({"target": "qwen3-8b", "draft": "ngram", "machine": "l40s", "batch": "8", "gamma": "3"})["batch"]
    assert isinstance(found, dict)
    assert found["here"]["batch"] == 8
    assert found["here"]["draft_cost"] == 0
    assert found["points"][0][0] == 1
    assert all(best >= fixed - 1e-9 for _, fixed, best in found["points"])


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"alpha": "2"}, "alpha"),
        ({"gamma": "x"}, "gamma"),
        ({"gamma": "nan"}, "gamma"),
        ({"c": "-1"}, "c"),
        ({"other": "1"}, "other"),
        ({"machine": "abacus"}, None),
        ({"target": "abacus"}, None),
    ],
)
def test_nonsense_is_refused(query: dict[str, str], param: str | None) -> None:
    with pytest.raises(Problem) as caught:
        plan(query)
    assert (caught.value.status, caught.value.param) == (400, param)
