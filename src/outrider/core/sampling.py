"""From a row of logits to p, and to the target's token: the only place where either is made.

`scaled` is where the sampling parameters act; top-k, top-p, min-p, penalties and bias belong there, as -inf or an
offset on the logits, so that p and the draw can never disagree. `token` is the reference of the draw that a backend
does next to its logits.

Dimensions: V vocabulary.
"""

from __future__ import annotations

import numpy as np

from outrider.core import maths, noise
from outrider.core.types import FloatArray


def scaled(logits: FloatArray, temperature: float) -> FloatArray:
    """Logits as the law sees them [V]: times float32(1 / temperature) above temperature 0, and NaN counts as -inf."""
    if temperature > 0.0:
        # Huge logits may overflow to inf, and inf * 0 is NaN: both have a stated result, so numpy need not warn.
        with np.errstate(over="ignore", invalid="ignore"):
            logits = logits * np.float32(1.0 / temperature)
    return np.where(np.isnan(logits), np.float32(-np.inf), logits).astype(np.float32, copy=False)


def token(logits: FloatArray, temperature: float, seed: int, sample: int, position: int) -> int:
    """The target's token: arg-max of the scaled logits [V] plus Gumbel noise (none at temperature 0).

    The lowest id wins a tie; a row of NaN and -inf alone gives id 0. position is that of the new token.
    """
    scores = scaled(logits, temperature)
    if temperature > 0.0:
        scores = scores + noise.gumbel(len(scores), seed, sample, position)
    return int(np.argmax(scores))


def law(logits: FloatArray, temperature: float) -> FloatArray:
    """p [V], the law of `token` over the seeds: softmax of the scaled logits, or the arg-max alone at temperature 0."""
    scores = scaled(logits, temperature)
    best = int(np.argmax(scores))
    if temperature == 0.0 or not np.isfinite(scores[best]):
        point = np.zeros(len(scores), np.float32)
        point[best] = 1.0
        return point
    weights = maths.exp(scores - scores[best])
    return weights / maths.total(weights)
