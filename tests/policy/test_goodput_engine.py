"""The goodput policy inside the engine: same ids, fewer passes, and no passes spent on nonsense."""

from __future__ import annotations

import itertools

import pytest
from tests.engine.worlds import EOS, PIECES, VOCAB, Answer, join, world

from outrider.api import Request, Sampling
from outrider.drafters.base import Drafter
from outrider.engine.engine import Engine
from outrider.policy.goodput import Goodput
from outrider.testing import drafters
from outrider.testing.table import RandomLaw, TableBackend
from outrider.testing.text import PieceDetokenizer

LAW = RandomLaw(VOCAB, 2, 3)
REQUESTS = [
    Request((seed, 1, 2), 120, Sampling(temperature=0.7, seed=seed), ignore_eos=True, speculate=seed != 3)
    for seed in range(4)
]


def run(drafter: Drafter) -> list[Answer]:
    """The answers, on a clock that ticks at every look: every step takes as long, whatever it computes."""
    ticks = itertools.count()
    engine = Engine(
        TableBackend(LAW, VOCAB, 512),
        drafter,
        Goodput(None),
        lambda: PieceDetokenizer(PIECES),
        frozenset({EOS}),
        clock=lambda: 1e-3 * next(ticks),
    )
    return join(list(engine.generate(REQUESTS)), [1] * len(REQUESTS))


@pytest.mark.parametrize("kind", ["oracle", "trees", "constant"])
def test_ids_are_those_of_plain_decoding(kind: str) -> None:
    plain = world(LAW, context=512).answer(*REQUESTS)
    known = {tuple(request.prompt): answer.ids for request, answer in zip(REQUESTS, plain, strict=True)}
    makers = {
        "oracle": drafters.oracle(known, EOS),
        "trees": drafters.trees(known, EOS, VOCAB, 1),
        "constant": drafters.constant(1),
    }
    answers = run(makers[kind])
    assert [answer.ids for answer in answers] == [answer.ids for answer in plain]
    assert answers[3].usage.drafted == 0
    for answer in answers[:3]:
        assert answer.usage.drafted > 0
        if kind == "oracle":
            assert answer.usage.accepted > 0
            assert answer.usage.passes < 0.7 * len(answer.ids)
