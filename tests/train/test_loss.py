"""The fused loss and its gradient are those of the formulas, as torch differentiates them."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="no torch here; 'python3 dev.py setup --oracle' brings it")

from outrider.train import loss  # noqa: E402
from outrider.train.loss import Goal, Recipe, guess_loss  # noqa: E402

ROWS, HIDDEN, VOCAB, KEPT = 300, 16, 40, 4  # more rows than go through at a time


def goal(seed: int) -> Goal:
    """Laws of distinct entries; some are unknown, and of the first ten rows all are."""
    generator = torch.Generator().manual_seed(seed)
    law = torch.stack([torch.randperm(VOCAB, generator=generator)[:KEPT] for _ in range(ROWS)])
    law[torch.rand(ROWS, KEPT, generator=generator) < 0.3] = -1
    law[:10] = -1
    chance = torch.softmax(torch.randn(ROWS, KEPT, generator=generator), -1) * 0.9
    return Goal(torch.randint(0, VOCAB, (ROWS,), generator=generator), law, chance)


def plain(x: Any, weight: Any, wanted: Goal, recipe: Recipe) -> Any:
    """The same in the open."""
    q = torch.softmax(x @ weight.T, -1)
    hard = torch.nn.functional.one_hot(wanted.label, VOCAB).double()
    soft = torch.zeros(ROWS, VOCAB, dtype=torch.float64)
    for row in range(ROWS):
        for entry, chance in zip(wanted.law[row].tolist(), wanted.chance[row].tolist(), strict=True):
            if entry >= 0:
                soft[row, entry] = chance
    soft = soft / soft.sum(-1, keepdim=True).clamp_min(1e-6)
    total = x.new_zeros(())
    for share, p in ((1 - recipe.soft, hard), (recipe.soft, soft)):
        overlap = torch.minimum(p, q).sum(-1)
        mix = torch.exp(-recipe.lk * overlap).detach()
        there = (p.sum(-1) > 0).double()  # no law at all: nothing to gain, and nothing to pull at
        total = total + (share * (mix * -(p * q.log()).sum(-1) + (1 - mix) * (1 - overlap) * there)).sum()
    return total


@pytest.mark.parametrize("recipe", [Recipe(0.0), Recipe(1.0), Recipe(0.5), Recipe(0.3, 3.0), Recipe(0.0, 50.0)])
def test_loss_and_gradient(recipe: Recipe) -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(ROWS, HIDDEN, generator=generator, dtype=torch.float64).requires_grad_()
    weight = torch.randn(VOCAB, HIDDEN, generator=generator, dtype=torch.float64).requires_grad_()
    wanted = goal(2)
    expected = plain(x, weight, wanted, recipe)
    expected.backward()
    mine_x, mine_weight = (value.detach().float().requires_grad_() for value in (x, weight))
    got, hits = guess_loss(mine_x, mine_weight, wanted, recipe)
    (got * 2).backward()
    assert got.item() == pytest.approx(expected.item(), rel=1e-5)
    torch.testing.assert_close(mine_x.grad, 2 * x.grad.float(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(mine_weight.grad, 2 * weight.grad.float(), rtol=1e-4, atol=1e-4)
    assert hits.tolist() == ((x @ weight.T).argmax(-1) == wanted.label).tolist()
    assert 0 < int(hits.sum()) < ROWS


def test_rows_go_through_a_few_at_a_time_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(1)
    x, weight = torch.randn(ROWS, HIDDEN, generator=generator), torch.randn(VOCAB, HIDDEN, generator=generator)
    whole, hits = guess_loss(x, weight, goal(2), Recipe(0.5, 1.0))
    monkeypatch.setattr(loss, "_CHUNK", 7)
    parts, other = guess_loss(x, weight, goal(2), Recipe(0.5, 1.0))
    assert parts.item() == pytest.approx(whole.item(), rel=1e-6)
    assert other.tolist() == hits.tolist()
    assert guess_loss(x[:0], weight, goal(2).chosen(torch.arange(0)), Recipe(0.5))[0].item() == 0.0
