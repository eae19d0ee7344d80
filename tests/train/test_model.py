"""The batched chains of training are the chains of the contract, one after the other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from tests.train.naive import Naive

from outrider.train.corpus import Text
from outrider.train.features import KEPT, Features

torch = pytest.importorskip("torch", reason="no torch here; 'python3 dev.py setup --oracle' brings it")

from outrider.train.batch import Batch, Batcher  # noqa: E402
from outrider.train.evaluate import measure  # noqa: E402
from outrider.train.medusa import MedusaHead  # noqa: E402
from outrider.train.model import EagleHead, Shape  # noqa: E402

VOCAB, HIDDEN, TAPS, DEPTH = 50, 32, 3, 4
SHAPE = Shape(HIDDEN, TAPS, heads=4, kv_heads=2, head_dim=8, feed_forward=64, draft_vocab=40, eps=1e-5)
IDS = np.arange(5, 45, dtype=np.int32)


def texts(seed: int) -> list[Text]:
    """Of several lengths; the third answer ends after two tokens, and a few ids are in no draft vocabulary."""
    chance = np.random.default_rng(seed)
    shapes = ((9, 4), (14, 1), (5, 3), (11, 6))
    return [Text(chance.integers(0, VOCAB, size).astype(np.int32), prompt) for size, prompt in shapes]


def features(text: Text, seed: int) -> Features:
    chance = np.random.default_rng(seed)
    states = chance.standard_normal((len(text.ids) - 1, TAPS * HIDDEN)).astype(np.float16)
    law = np.zeros((text.starts, KEPT), np.int32)
    law[:, 0] = text.ids[text.prompt + 1 :]
    return Features(states, law, np.full((text.starts, KEPT), 1 / KEPT, np.float16))


def head(seed: int = 1) -> EagleHead:
    generator = torch.Generator().manual_seed(seed)
    made = EagleHead(SHAPE, torch.randn(VOCAB, HIDDEN, generator=generator), torch.linspace(0.1, 1.0, 4), torch.float32)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * parameter.shape[-1] ** -0.5)
    return made


def batch(given: list[Text]) -> tuple[Batch, list[Features]]:
    found = [features(text, number) for number, text in enumerate(given)]
    return Batcher(IDS, VOCAB, torch.device("cpu")).batch(given, found), found


def naive(made: EagleHead) -> Naive:
    weights = {name: value.detach().double().numpy() for name, value in made.named_parameters()}
    embedding, frequencies = made.embedding.double().numpy(), made.frequencies.double().numpy()
    return Naive(weights, embedding, frequencies, SHAPE.heads, SHAPE.kv_heads, SHAPE.eps)


def entry(token: int) -> int:
    found = np.flatnonzero(np.equal(IDS, token))
    return int(found[0]) if len(found) else -1


def chains(given: list[Text]) -> list[tuple[int, int]]:
    """(text, start) of all, in order."""
    return [(number, start) for number, text in enumerate(given) for start in range(text.prompt - 1, len(text.ids) - 2)]


def test_every_step_of_every_chain() -> None:
    """No chain is stopped but by the end of its text and by tokens that the draft vocabulary lacks."""
    given, made = texts(0), head()
    together, found = batch(given)
    alone = naive(made)
    expected: list[list[tuple[npt.NDArray[np.float64], int]]] = [[] for _ in range(DEPTH)]
    for number, start in chains(given):
        ids = given[number].ids.tolist()
        count = min(DEPTH, len(ids) - 2 - start)
        for step, logits in enumerate(alone.chain(found[number].states.astype(np.float64), ids, start, count)):
            label = entry(ids[start + step + 2])
            if label < 0:
                break
            expected[step].append((logits, label))
    walk = made.walk(together)
    counts = []
    for step, (got, wanted) in enumerate(zip(walk.steps(DEPTH), expected, strict=True)):
        logits = (got.a @ made.head.T).detach().numpy()
        assert got.goal.label.tolist() == [label for _, label in wanted]
        np.testing.assert_allclose(logits, np.array([row for row, _ in wanted]), rtol=2e-4, atol=2e-4)
        np.testing.assert_array_equal(got.goal.law[:, 0], got.goal.label)  # the law of the token that is guessed
        walk.went_on(torch.ones(len(got.a), dtype=torch.bool))
        counts.append((step, got.reached, len(got.a)))
    assert len(counts) == DEPTH
    assert counts[0][1] == len(chains(given)) > counts[0][2] > counts[1][2] > counts[3][2] > 0


def test_only_right_chains_go_on() -> None:
    given, made = texts(1), head()
    together, _ = batch(given)
    walk = made.walk(together)
    steps = walk.steps(DEPTH)
    first = next(steps)
    keep = torch.zeros(len(first.a), dtype=torch.bool)
    keep[4] = True
    walk.went_on(keep)
    second = next(steps)
    assert len(first.a) > second.reached == len(second.a) == 1
    walk.went_on(torch.zeros(1, dtype=torch.bool))
    last = next(steps)
    assert last.reached == len(last.a) == 0
    with pytest.raises(StopIteration):
        next(steps)


def test_what_is_measured_is_what_greedy_chains_get_right() -> None:
    given, made = texts(2), head(3)
    together, found = batch(given)
    with torch.no_grad():  # a bias to a few ids, so that some guesses are right
        made.head[entry(int(given[0].ids[6]))] *= 4
        made.head[entry(int(given[1].ids[5]))] *= 4
    alone = naive(made)
    reached, right = np.zeros(DEPTH, int), np.zeros(DEPTH, int)
    for number, start in chains(given):
        ids = given[number].ids.tolist()
        count = min(DEPTH, len(ids) - 2 - start)
        for step, logits in enumerate(alone.chain(found[number].states.astype(np.float64), ids, start, count)):
            reached[step] += 1
            if int(IDS[logits.argmax()]) != ids[start + step + 2]:
                break
            right[step] += 1
    tally = measure(made, [together], DEPTH)
    assert tally.reached == reached.tolist()
    assert tally.right == right.tolist()
    assert 0 < tally.right[0] < tally.reached[0]


def test_the_chance_of_a_guess_is_calibrated() -> None:
    """Logits that are three times too sure want the highest temperature, those that are too flat the lowest."""
    given, made = texts(3), head()
    together, _ = batch(given)
    with torch.no_grad():
        made.head *= 8
    sure = measure(made, [together], 1, calibrate=True).temperature()
    with torch.no_grad():
        made.head *= 0
        for label in together.label[together.label >= 0].tolist():
            made.head[label] += 0.01
    assert sure == 2.0


def test_medusa_blocks_read_the_last_state_alone() -> None:
    given = texts(4)
    together, found = batch(given)
    made = MedusaHead(TAPS * HIDDEN, len(IDS), 3, torch.float32)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * parameter.shape[-1] ** -0.5)
    walk = made.walk(together)
    steps = 0
    for step, got in enumerate(walk.steps(DEPTH)):
        block = made.heads[str(step + 1)].detach().numpy()
        rows = []
        for number, start in chains(given):
            ids = given[number].ids.tolist()
            labels = [entry(token) for token in ids[start + 2 : start + 3 + step]]
            if len(labels) == step + 1 and min(labels) >= 0:
                u = found[number].states[start].astype(np.float32) * made.tap_norm.detach().numpy()
                inner = block @ u
                rows.append(u + inner / (1 + np.exp(-inner)))
        np.testing.assert_allclose(got.a.detach().numpy(), np.array(rows), rtol=1e-4, atol=1e-5)
        walk.went_on(torch.ones(len(got.a), dtype=torch.bool))
        steps += 1
    assert steps == 3
