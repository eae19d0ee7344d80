"""The matrices of a head as its file holds them: blocks of a GGUF tensor type, or float32."""

from __future__ import annotations

import gguf as ggml
import numpy as np

from outrider.models.safetensors import Array
from outrider.models.spec import TensorType
from outrider.train.target import Floats


def pack(values: Floats, kind: TensorType) -> Array:
    """A matrix as it is stored."""
    if kind is TensorType.F32:
        return values.copy()
    stored: Array = ggml.quants.quantize(values, ggml.GGMLQuantizationType[kind.value])
    return stored


def unpacked(stored: Array, kind: str) -> Floats:
    """The values that a stored matrix or norm has."""
    if kind == TensorType.F32.value:
        return np.array(stored, np.float32)  # torch wants arrays that it may write to
    return np.asarray(ggml.quants.dequantize(stored, ggml.GGMLQuantizationType[kind]), np.float32)
