"""The quantised mode, the one that answers, stays close to the same weights in float32 on real text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.oracle.conftest import Laws
from tests.oracle.reference import Difference, log_softmax, ours, total

from outrider.backends.native import NativeBackend
from outrider.models import gguf

KL, TOP1 = 0.01, 0.97


@pytest.mark.slow
@pytest.mark.model
def test_the_default_model(
    default_model: Path, default_laws: Laws, record_property: Callable[[str, object], None]
) -> None:
    backend = NativeBackend(gguf.read(default_model))
    parts = {name: Difference.of(law, ours(backend, tokens)) for name, (tokens, law) in default_laws.items()}
    for name, part in parts.items():
        print(f"{name}: {part}")
    difference = total(list(parts.values()))
    print(f"all: {difference}")
    record_property("difference", str(difference))
    assert difference.positions > 500
    assert difference.kl <= KL
    assert difference.top1 >= TOP1


def test_what_is_measured() -> None:
    """KL of (1/4, 3/4) against (1/2, 1/2), by hand; and the likeliest token."""
    reference = log_softmax(np.log(np.array([[0.25, 0.75], [0.5, 0.5]], np.float32)))
    own = log_softmax(np.log(np.array([[0.5, 0.5], [0.5, 0.5]], np.float32)))
    difference = Difference.of(reference, own)
    assert difference.kl == pytest.approx((0.25 * np.log(0.5) + 0.75 * np.log(1.5)) / 2)
    assert difference.top1 == 0.5
    assert difference.largest == pytest.approx(np.log(2))
    assert total([difference, difference]).kl == pytest.approx(difference.kl)
