"""The service in its own thread: askers in threads of theirs, iterators that are left, stops from anywhere."""

from __future__ import annotations

import threading

import pytest
from tests.engine.serving import contents, hall
from tests.engine.test_service import LAW, alone, mixed
from tests.engine.worlds import join

from outrider.api import Chunk, Failed, Request
from outrider.drafters.ngram import NgramDrafter
from outrider.errors import UsageError


def test_it_serves_from_a_thread() -> None:
    """Eight threads ask at once; a slow reader and a drain do not hold anybody up."""
    made = hall(LAW, NgramDrafter(), blocks=60, slots=4, beside_rows=8, chunk_rows=16)
    made.service.start()
    with pytest.raises(UsageError, match="started already"):
        made.service.start()
    requests = mixed(16, seed=3)
    expected = [contents(alone(request)) for request in requests]
    found: dict[int, object] = {}

    def ask(places: range) -> None:
        for place in places:
            chunks = list(made.service.generate([requests[place]]))
            found[place] = contents(join(chunks, [requests[place].n]))

    threads = [threading.Thread(target=ask, args=(range(start, 16, 8),)) for start in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [found[place] for place in range(16)] == expected
    assert made.service.drain(10)
    made.check_nothing_is_left()


def test_as_a_generator_it_numbers_its_requests_and_can_be_left() -> None:
    made = hall(LAW, blocks=300_000, context=1_000_000)
    made.service.start()
    chunks = list(made.service.generate([Request((1,), 3, ignore_eos=True), Request((2,), 4, ignore_eos=True)]))
    assert {chunk.request for chunk in chunks} == {0, 1}
    with pytest.raises(UsageError, match="max_tokens is 0"):
        made.service.generate([Request((1,), 3), Request((2,), 0)])
    stream = made.service.generate([Request((1,), 900_000, ignore_eos=True)])
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert made.service.drain(10)
    made.check_nothing_is_left()


def test_close_from_a_listener_and_while_it_runs() -> None:
    made = hall(LAW)
    made.service.start()
    closed = threading.Event()

    def stop(what: Chunk | Failed) -> None:
        if isinstance(what, Failed):
            closed.set()
        else:
            made.service.close()

    made.service.submit(Request((1,), 200, ignore_eos=True), stop)
    assert closed.wait(10)
    made.service.close()
    assert made.backend.sequences == 0
