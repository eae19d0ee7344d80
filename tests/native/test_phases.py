"""Where the time of a pass goes: the four parts are a pass's, and asking changes nothing else."""

from __future__ import annotations

import time

import pytest
from tests.native import models
from tests.native.conftest import Maker

from outrider.backends.base import Extend, PhaseTimer, Want
from outrider.backends.native import NativeBackend
from outrider.errors import BackendError, UsageError


def item(seq: int, rows: int) -> Extend:
    return Extend(seq, models.ids(rows, 200, seed=rows), None, [Want.TOKEN] * rows)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("rows", [1, 8, 9, 40])
def test_the_parts_make_up_the_pass(model: Maker, threads: int, rows: int) -> None:
    backend = NativeBackend(model("plain"), threads=threads)
    assert isinstance(backend, PhaseTimer)
    seq = backend.open()
    start = time.perf_counter()
    phases = backend.time_phases([item(seq, rows)])
    spent = time.perf_counter() - start
    parts = (phases.linear_s, phases.attention_s, phases.head_s, phases.other_s)
    assert min(parts) > 0.0
    assert sum(parts) <= spent


def test_rows_that_were_timed_can_be_committed_and_are_the_same(plain: NativeBackend) -> None:
    timed, usual = plain.open(), plain.open()
    plain.time_phases([item(timed, 6)])
    plain.commit([(timed, range(6))])
    plain.extend([item(usual, 6)])
    plain.commit([(usual, range(6))])
    assert plain.export_cache(timed) == plain.export_cache(usual)
    assert models.read(plain, timed, [1, 2]) == models.read(plain, usual, [1, 2])
    plain.close(timed)
    plain.close(usual)


def test_nonsense_is_refused_as_extend_refuses_it(plain: NativeBackend) -> None:
    with pytest.raises(UsageError, match="at least one item"):
        plain.time_phases([])
    with pytest.raises(BackendError, match="is not open"):
        plain.time_phases([item(10_000, 1)])
