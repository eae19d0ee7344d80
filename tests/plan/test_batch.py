"""Speculation under load, on invented machines with round numbers and on the named ones."""

from __future__ import annotations

import pytest

from outrider.core import expect
from outrider.cost import hardware
from outrider.cost.hardware import Machine, Roofline, Shape, Weights
from outrider.errors import UsageError
from outrider.plan import batch
from outrider.plan.batch import Pairing, Range

FP16 = Weights("fp16", 2, "fp16")
# A plain pass takes 1 s up to 10 rows, then a tenth of a second for each row; a draft step a tenth of that.
TOY = Machine("toy", "Toy", 1000, {"fp16": 10_000}, 2000, "invented")
TARGET = Roofline(TOY, Shape("target", "Target", 500, 500, 1, 10, 5), FP16)
DRAFT = Roofline(TOY, Shape("draft", "Draft", 50, 50, 1, 10, 5), FP16)
PAIR = Pairing(TARGET, DRAFT, 0, 0.8)


def named(target: str, draft: str | None, machine: str, alpha: float, context: int = 0) -> Pairing:
    def roofline(model: str) -> Roofline:
        return Roofline(hardware.machine(machine), hardware.shape(model), hardware.weights("fp16"))

    return Pairing(roofline(target), None if draft is None else roofline(draft), context, alpha)


def test_one_batch_by_hand() -> None:
    found = batch.point(PAIR, 5, 3)
    assert (found.batch, found.gamma) == (5, 3)
    assert found.draft_cost == pytest.approx(0.1)
    assert found.plain_tokens_per_s == pytest.approx(5.0)
    assert found.tokens_per_pass == pytest.approx(2.952)
    # 20 rows take 2 s, three draft steps 0.3 s.
    assert found.speedup == pytest.approx(2.952 / 2.3)
    assert found.tokens_per_s == pytest.approx(5 * 2.952 / 2.3)


def test_the_best_length_shrinks_with_the_batch_until_nothing_is_drafted() -> None:
    gammas = [batch.point(PAIR, size, None).gamma for size in (1, 2, 5, 10, 20)]
    assert gammas == sorted(gammas, reverse=True)
    assert gammas[0] > gammas[2] > 0
    assert gammas[-1] == 0
    assert batch.point(PAIR, 20, None).speedup == 1
    assert batch.point(PAIR, 20, 2).speedup < 1


@pytest.mark.parametrize("size", [1, 3, 7, 12])
def test_the_best_length_is_the_best(size: int) -> None:
    best = batch.point(PAIR, size, None)
    assert best.speedup == max(batch.point(PAIR, size, gamma).speedup for gamma in range(batch.MOST_GAMMA + 1))


@pytest.mark.parametrize("gamma", [None, 1, 4])
def test_where_it_stops_paying(gamma: int | None) -> None:
    found = batch.pays(PAIR, gamma, 50)
    assert found.first == 1
    assert found.stops is not None
    assert 2 < found.stops <= 10
    assert batch.point(PAIR, found.stops - 1, gamma).speedup > 1
    assert all(batch.point(PAIR, size, gamma).speedup <= 1 for size in range(found.stops, 51))


def test_where_it_still_or_never_pays() -> None:
    assert batch.pays(PAIR, None, 3) == Range(1, None)
    assert batch.pays(Pairing(TARGET, DRAFT, 0, 0.05), None, 20) == Range(None, 1)
    assert batch.pays(Pairing(TARGET, DRAFT, 0, (0.9, 0.9)), None, 3) == Range(1, None)


def test_free_guesses_cost_nothing() -> None:
    free = batch.point(Pairing(TARGET, None, 0, 0.8), 1, 4)
    assert free.draft_cost == 0
    assert free.speedup == pytest.approx(3.3616)


def test_long_contexts_keep_it_paying() -> None:
    short, long = (named("llama-70b", "llama-1b", "h100", 0.8, context) for context in (0, 32_768))
    assert batch.point(short, 512, None).gamma == 0
    assert batch.point(long, 512, None).speedup > 1.05


def test_experts_make_it_pay_later() -> None:
    mixed = named("mixtral-8x7b", None, "h200", 0.5)
    found = batch.pays(mixed, 3, 512)
    assert found.first is not None
    assert found.first > 1
    assert batch.point(mixed, 1, 3).speedup < 1 < batch.point(mixed, found.first, 3).speedup


def test_a_70b_on_an_h100() -> None:
    pair = named("llama-70b", "llama-1b", "h100", 0.8)
    one = batch.point(pair, 1, 4)
    assert one.plain_tokens_per_s == pytest.approx(24, abs=0.5)
    assert one.speedup == pytest.approx(expect.speedup(0.8, 4, one.draft_cost), rel=1e-9)  # the pass is still free
    assert not one.fits
    stops = batch.pays(pair, None, 1024).stops
    assert stops is not None
    assert stops < pair.target.critical_rows()


def test_memory() -> None:
    pair = Pairing(TARGET, DRAFT, 10, 0.8)
    # Weights 1000 and 100 bytes; ten tokens of both models 400 bytes.
    assert pair.needed_bytes(2) == 1900
    assert batch.largest_that_fits(pair) == 2
    assert [batch.point(pair, size, 1).fits for size in (2, 3)] == [True, False]
    assert batch.largest_that_fits(PAIR) is None
    assert batch.largest_that_fits(named("llama-70b", None, "h100", 0.8)) == 0


def test_sizes() -> None:
    assert list(batch.sizes(1)) == [1]
    assert list(batch.sizes(8)) == [1, 2, 4, 8]
    assert list(batch.sizes(9)) == [1, 2, 4, 8, 9]


def test_nonsense() -> None:
    with pytest.raises(UsageError, match="a batch of 0"):
        batch.point(PAIR, 0, None)
    with pytest.raises(UsageError, match="gamma is 3, but alpha gives the acceptance of 2"):
        batch.point(Pairing(TARGET, DRAFT, 0, (0.9, 0.8)), 1, 3)
