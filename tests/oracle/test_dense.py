"""The dense mode computes what transformers computes in float32, for every tensor type and kind of rotation."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.oracle.conftest import Laws
from tests.oracle.reference import Difference, Reference, ours, total

from outrider.backends.native import NativeBackend
from outrider.models import gguf
from outrider.models.spec import TensorType
from outrider.testing.gguf_maker import tiny_llama

RMS, LARGEST = 1e-4, 1e-3
POSITIONS = 300  # more than one chunk of attention

VARIANTS: dict[str, dict[str, Any]] = {
    **{kind.value: {"layer_type": kind, "embedding_type": kind} for kind in TensorType},
    "mixed": {"types": {"blk.0.attn_q.weight": TensorType.Q8_0, "blk.1.ffn_down.weight": TensorType.BF16}},
    "untied": {"tied": False},
    "rope factors": {"rope_factors": True},
    "rope linear factor": {"rope_linear_factor": 4.0},
    "rope base": {"rope_base": 500000.0},
    "one key head": {"kv_heads": 1},
    "groups of four": {"heads": 8, "kv_heads": 2},
    "a head for each": {"heads": 4, "kv_heads": 4},
    "wide heads": {"heads": 4, "kv_heads": 2, "head_dim": 32},
    "one layer": {"layers": 1},
}


def ids(vocab: int) -> list[int]:
    return random.Random(7).choices(range(vocab), k=POSITIONS)


def dense(path: Path) -> NativeBackend:
    return NativeBackend(gguf.read(path), dense=True)


@pytest.mark.parametrize("variant", VARIANTS)
def test_tiny_models(variant: str, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    path = tiny_llama(tmp_path / "tiny.gguf", seed=len(variant), **VARIANTS[variant])
    backend = dense(path)
    difference = Difference.of(Reference(path).log_law(ids(backend.vocab)), ours(backend, ids(backend.vocab)))
    record_property("difference", str(difference))
    assert difference.positions == POSITIONS
    assert difference.rms <= RMS
    assert difference.largest <= LARGEST


@pytest.mark.parametrize("planted", [{"rope_factors": True}, {"rope_linear_factor": 4.0}, {"rope_base": 20000.0}])
def test_a_wrong_rotation_would_be_seen(planted: dict[str, Any], tmp_path: Path) -> None:
    """Same weights, another rotation: the bounds must not be wide enough for that."""
    reference = Reference(tiny_llama(tmp_path / "right.gguf"))
    backend = dense(tiny_llama(tmp_path / "wrong.gguf", **planted))
    difference = Difference.of(reference.log_law(ids(backend.vocab)), ours(backend, ids(backend.vocab)))
    assert difference.rms > 10 * RMS
    assert difference.largest > 10 * LARGEST


@pytest.mark.slow
@pytest.mark.model
def test_the_default_model(
    default_model: Path, default_laws: Laws, record_property: Callable[[str, object], None]
) -> None:
    backend = dense(default_model)
    parts = [Difference.of(law, ours(backend, tokens)) for tokens, law in default_laws.values()]
    difference = total(parts)
    record_property("difference", str(difference))
    print(f"dense: {difference}")
    assert difference.positions > 500
    assert difference.rms <= RMS
    assert difference.largest <= LARGEST
