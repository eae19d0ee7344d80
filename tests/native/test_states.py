"""Tapped states: those of the numpy model in every byte, of every row, and nothing where nobody asked."""

from __future__ import annotations

import numpy as np
import pytest
from tests.native import models
from tests.native.conftest import Maker
from tests.native.reference_model import ReferenceModel

from outrider.backends.base import Extend, StateTaps, Want
from outrider.backends.native import NativeBackend
from outrider.errors import UsageError


@pytest.mark.parametrize("name", ["plain", "mixed", "ones"])
@pytest.mark.parametrize("threads", [1, 2])
def test_states_equal_numpy(model: Maker, isa: str, name: str, threads: int) -> None:
    file = model(name)
    layers = file.spec.layers
    backend = NativeBackend(file, threads=threads, isa=isa)
    assert isinstance(backend, StateTaps)
    tokens = models.ids(21, file.spec.vocab)
    expected = ReferenceModel(file).prefill(tokens).states
    taps = [layers, 0, 1]  # any order
    backend.tap(taps if layers > 1 else taps[:2])
    taps = taps if layers > 1 else taps[:2]
    seq, found = backend.open(), []
    for part in (tokens[:18], tokens[18:20], tokens[20:]):
        scores = backend.extend([Extend(seq, part, None, [Want.NONE] * len(part))])
        found.append(scores.states(0))
        backend.commit([(seq, range(len(part)))])
    wanted = np.concatenate([expected[tap] for tap in taps], axis=1)
    assert np.concatenate(found).tobytes() == wanted.tobytes()


def test_states_of_a_batch_and_of_a_tree(plain: NativeBackend) -> None:
    tokens = models.ids(9, plain.vocab)
    plain.tap([0, 1, 2])
    try:
        first, second = plain.open(), plain.open()
        # nodes 5 and 8 end the same chain: below the second child of the root the same tokens stand
        tree = [*tokens[:3], 7, *tokens[3:6], 7, tokens[3]]
        parents = [-1, 0, 1, 2, 2, 4, 5, 6, 2]
        scores = plain.extend([Extend(first, tokens, None, [0] * 9), Extend(second, tree, parents, [Want.TOKEN] * 9)])
        chain, branched = scores.states(0), scores.states(1)
        assert chain.shape == branched.shape == (9, 3 * 64)
        for row, same in enumerate([0, 1, 2, 4, 5, 6]):
            assert chain[row].tobytes() == branched[same].tobytes()
        assert branched[4].tobytes() == branched[8].tobytes()
        later = plain.extend([Extend(first, tokens[:2], None, [0, 0])])
        again = scores.states(1)  # kept while somebody holds the scores
        assert again.tobytes() == branched.tobytes()
        assert later.states(0).tobytes() == chain[:2].tobytes()
        with pytest.raises(UsageError, match="no item 2"):
            scores.states(2)
        plain.close(first)
        plain.close(second)
    finally:
        plain.tap([])


def test_nothing_is_kept_unless_asked_for(plain: NativeBackend) -> None:
    seq = plain.open()
    scores = plain.extend([Extend(seq, [1, 2], None, [0, 0])])
    with pytest.raises(UsageError, match="kept no states"):
        scores.states(0)
    plain.close(seq)


@pytest.mark.parametrize(("layers", "match"), [([3], "no state 3"), ([-1], "no state -1"), ([1, 1], "twice")])
def test_states_that_there_are_not(plain: NativeBackend, layers: list[int], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        plain.tap(layers)
