"""Measuring T(n) on a backend with a clock of its own."""

from __future__ import annotations

import pytest
from tests.cli.scripted import ScriptedBackend

from outrider.cost.profile import measure
from outrider.errors import UsageError


def test_seconds_are_those_of_the_pass() -> None:
    backend = ScriptedBackend()
    costs = measure(backend, 0, backend.clock, rows=(1, 4), rounds=3)
    assert [cost.n for cost in costs] == [1, 4]
    assert [cost.seconds for cost in costs] == pytest.approx([1.1, 1.4])


def test_rounds_are_interleaved_behind_one_warm_up_and_keep_nothing() -> None:
    backend = ScriptedBackend()
    measure(backend, 600, backend.clock, rows=(1, 4), rounds=2)
    assert backend.rows == [512, 88, 1, 4, 1, 4, 1, 4]
    assert backend.committed == 600
    assert not backend.is_open


def test_the_median_forgives_a_slow_round() -> None:
    backend = ScriptedBackend()

    def clock() -> float:
        if len(backend.rows) == 2:  # in the first counted round
            backend.now += 100
        return backend.now

    (cost,) = measure(backend, 0, clock, rows=(1,), rounds=3)
    assert cost.seconds == pytest.approx(1.1)


@pytest.mark.parametrize("context", [-1, 4096 - 63])
def test_what_does_not_fit_is_refused(context: int) -> None:
    backend = ScriptedBackend()
    with pytest.raises(UsageError, match=f"a context of {context} tokens"):
        measure(backend, context, backend.clock)
    assert not backend.rows
