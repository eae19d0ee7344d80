"""What a head takes from its target's file: embedding, output rows, rotation. Dequantised, float32.

Dimensions: V vocabulary, H hidden, d size of an attention head, D draft vocabulary.
"""

from __future__ import annotations

from pathlib import Path

import gguf as ggml
import numpy as np
import numpy.typing as npt

from outrider.errors import ModelFileError
from outrider.models import gguf
from outrider.models.spec import ModelFile, ModelSpec, RopeKind, TensorType

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

_PLAIN = {TensorType.F32: np.float32, TensorType.F16: np.float16}


class Target:
    """A model file, opened to read single tensors. Raises ModelFileError where it cannot be read."""

    def __init__(self, path: Path) -> None:
        self.file: ModelFile = gguf.read(path)
        if self.spec.rope.kind is not RopeKind.INTERLEAVED:
            raise ModelFileError(f"{path}: rotation {self.spec.rope.kind.value!r}; heads are trained for 'interleaved'")
        try:
            self._bytes = np.memmap(path, np.uint8, "r")
        except OSError as error:
            raise ModelFileError(f"{path}: cannot be read: {error}") from None

    @property
    def spec(self) -> ModelSpec:
        """The architecture."""
        return self.file.spec

    def matrix(self, name: str, rows: Ints | None = None) -> Floats:
        """A tensor [outputs, inputs] or [n], or those of its rows."""
        tensor = self.file.tensors[name]
        raw = self._bytes[tensor.offset : tensor.offset + tensor.nbytes].reshape(tensor.shape[0], -1)
        chosen = raw if rows is None else raw[rows]
        if tensor.type in _PLAIN:
            return (
                np.ascontiguousarray(chosen).view(_PLAIN[tensor.type]).astype(np.float32).reshape(-1, *tensor.shape[1:])
            )
        kind = ggml.GGMLQuantizationType[tensor.type.value]
        values: Floats = ggml.quants.dequantize(np.ascontiguousarray(chosen), kind).astype(np.float32)
        return values

    def embedding(self) -> npt.NDArray[np.float16]:
        """Every row of the embedding divided by its root mean square [V, H]; it is only ever read like this."""
        rows = np.arange(self.spec.vocab)
        parts = [self.matrix("token_embd.weight", part) for part in np.array_split(rows, max(1, len(rows) // 4096))]
        return np.concatenate([normalised(part, self.spec.norm_eps).astype(np.float16) for part in parts])

    def output_rows(self, ids: Ints) -> Floats:
        """Rows of the output matrix [D, H]."""
        return self.matrix("token_embd.weight" if self.spec.tied_head else "output.weight", ids)

    def output_norm(self) -> Floats:
        """Weight of the last norm [H]."""
        return self.matrix("output_norm.weight").reshape(-1)

    def frequencies(self) -> Floats:
        """Radians a position of each pair [d / 2]."""
        rope = self.spec.rope
        pair = np.arange(rope.dims // 2, dtype=np.float64)
        factors = 1.0 if rope.factors is None else self.matrix(rope.factors).reshape(-1).astype(np.float64)
        return (rope.base ** (-2 * pair / rope.dims) / (rope.linear_factor * factors)).astype(np.float32)


def normalised(rows: Floats, eps: float) -> Floats:
    """x / sqrt(mean(x^2) + eps) of every row [n, H]."""
    scale = 1 / np.sqrt(np.mean(np.square(rows), axis=-1, keepdims=True) + eps)
    return np.asarray(rows * scale, np.float32)
