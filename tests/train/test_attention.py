"""Attention by parts against one row at a time, and its gradient against autograd's."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch", reason="no torch here; 'python3 dev.py setup --oracle' brings it")

from torch import Tensor  # noqa: E402

from outrider.train import attention  # noqa: E402
from outrider.train.attention import Places, attended  # noqa: E402

HEADS, GROUPS, SIZE = 6, 2, 8


def plain(
    query: Tensor, keys: Tensor, values: Tensor, own_keys: Tensor, own_values: Tensor, text: list[int], start: list[int]
) -> Tensor:
    """One row after the other, one head after the other."""
    rows = []
    for row, (of, last) in enumerate(zip(text, start, strict=True)):
        heads = []
        for head in range(HEADS):
            group = head // (HEADS // GROUPS)
            k = torch.cat([keys[of, group, : last + 1], own_keys[row, :, group]])
            v = torch.cat([values[of, group, : last + 1], own_values[row, :, group]])
            heads.append(torch.softmax(k @ query[row, head] * SIZE**-0.5, 0) @ v)
        rows.append(torch.stack(heads))
    return torch.stack(rows)


@pytest.mark.parametrize(("own", "part"), [*itertools.product((0, 1, 3), (1, 4, 96))])
def test_parts_change_nothing(own: int, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "_PART", part)
    chance = torch.Generator().manual_seed(own)
    # Text 1 has no row, as where all its chains are over; text 2 begins with its first key.
    text, start = [0, 0, 0, 2, 2, 2, 2, 2, 3], [4, 5, 9, 0, 1, 2, 6, 11, 3]
    sizes = [(len(text), HEADS, SIZE), (4, GROUPS, 12, SIZE), (4, GROUPS, 12, SIZE)]
    sizes += [(len(text), own, GROUPS, SIZE)] * 2
    given = [torch.randn(size, generator=chance, dtype=torch.float64, requires_grad=True) for size in sizes]
    weigh = torch.randn(sizes[0], generator=chance, dtype=torch.float64)
    query, keys, values, own_keys, own_values = given
    found = attended(query, keys, values, own_keys, own_values, Places([3, 0, 5, 1], torch.tensor(start)))
    should = plain(query, keys, values, own_keys, own_values, text, start)
    torch.testing.assert_close(found, should, rtol=1e-6, atol=1e-6)  # scores are float32
    for name, mine, theirs in zip(
        ("query", "keys", "values", "own keys", "own values"),
        torch.autograd.grad((found * weigh).sum(), given),
        torch.autograd.grad((should * weigh).sum(), given, allow_unused=True),
        strict=True,
    ):
        torch.testing.assert_close(
            mine, theirs if theirs is not None else torch.zeros_like(mine), rtol=1e-5, atol=1e-6, msg=name
        )
