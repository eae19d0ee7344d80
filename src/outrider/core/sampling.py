"""From a row of logits to p, and to the target's token: the only place where either is made.

One pipeline, the same for plain and speculative decoding, in this order (docs/sampling.md):

1. `adjusted`: penalties and bias move single logits, masks make tokens impossible;
2. `scores`: times 1 / temperature, then top-k, top-p, min-p and typical-p, each acting on the law that the one before
   it left; a dropped token's score is -inf;
3. `law` is the softmax of the scores, and `token` their arg-max after Gumbel noise is added, so that p and the draw can
   never disagree.

These functions are the reference; a backend computes the very same bits next to its logits. Every sum has a stated
order: `maths.total` over the whole vocabulary in the order of ids, or one after the other in float64.

Dimensions: V vocabulary, W another one, m adjusted ids, n candidates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from outrider.api import Logprob, Sampling
from outrider.core import maths, noise
from outrider.core.types import FloatArray, IntArray, WordArray
from outrider.errors import UsageError

_DROPPED = np.float32(-np.inf)
_LEAST_FACTOR, _LARGEST_FACTOR = 2.0**-126, float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True)
class Draw:
    """How the target's token follows from a row of adjusted logits: temperature 0 is the arg-max (lowest id on ties).

    Above 0 it is the Gumbel-max of the scores with the noise of (seed, sample, position of the new token).
    """

    temperature: float = 0.0
    seed: int = 0  # 0 <= seed < 2**64
    sample: int = 0  # 0 <= sample < 2**32
    top_k: int = 0  # 0: off
    top_p: float = 1.0  # 1: off
    min_p: float = 0.0  # 0: off
    typical_p: float = 1.0  # 1: off


GREEDY = Draw()


def draw_of(sampling: Sampling) -> Draw:
    """What of a request's sampling decides how a row of adjusted logits is drawn."""
    return Draw(
        sampling.temperature,
        sampling.seed,
        sampling.sample,
        sampling.top_k,
        sampling.top_p,
        sampling.min_p,
        sampling.typical_p,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Adjust:
    """What the text so far does to one row: single logits are moved, then tokens masked.

    ids are distinct. A logit l > 0 becomes l / divisor + offset, another l * divisor + offset. Bit i % 32 of
    mask[i // 32] says whether id i may be chosen; None allows all.
    """

    ids: IntArray  # [m]
    divisors: FloatArray  # [m]
    offsets: FloatArray  # [m]
    mask: WordArray | None  # [ceil(V / 32)]


def inverse_temperature(temperature: float) -> np.float32:
    """float32(1 / temperature) for a temperature above 0, kept normal and finite: 0 * inf would be no score."""
    return np.float32(min(max(1.0 / temperature, _LEAST_FACTOR), _LARGEST_FACTOR))


def adjusted(logits: FloatArray, adjust: Adjust | None) -> FloatArray:
    """The logits [V] after penalties, bias and masks; NaN, and what is masked, is -inf.

    Raises UsageError where an id is not in the vocabulary or the arrays do not go together.
    """
    row = np.where(np.isnan(logits), _DROPPED, logits).astype(np.float32, copy=False)
    if adjust is None:
        return row
    _check(adjust, len(row))
    # Huge logits may overflow to inf, and inf - inf is NaN: both have a stated result, so numpy need not warn.
    with np.errstate(over="ignore", invalid="ignore"):
        old = row[adjust.ids]
        new = np.where(old > 0, old / adjust.divisors, old * adjust.divisors) + adjust.offsets
    row[adjust.ids] = np.where(np.isnan(new), _DROPPED, new)
    if adjust.mask is not None:
        allowed = np.unpackbits(adjust.mask.view(np.uint8), bitorder="little")[: len(row)]
        row[allowed == 0] = _DROPPED
    return row


def renamed(logits: FloatArray, ids: IntArray | None) -> FloatArray:
    """The logits as another vocabulary of W ids knows them [W]: entry w is that of ids[w], -inf where that is no id.

    None leaves them as they are.
    """
    if ids is None:
        return logits
    known = (ids >= 0) & (ids < len(logits))
    return np.where(known, logits[np.where(known, ids, 0)], _DROPPED).astype(np.float32, copy=False)


def scores(logits: FloatArray, draw: Draw) -> FloatArray:
    """Scores [V] of adjusted logits: times `inverse_temperature`, -inf where a filter drops a token.

    At temperature 0 the logits themselves. A row whose largest score is not finite is not filtered.
    """
    if draw.temperature == 0.0:
        return logits
    with np.errstate(over="ignore"):
        row = (logits * inverse_temperature(draw.temperature)).astype(np.float32, copy=False)
    best = row.max()
    if not np.isfinite(best):
        return row
    if draw.top_k:
        row = _keep(row, _order(row)[: draw.top_k])
    if draw.top_p < 1.0:
        order = _order(row)
        row = _keep(row, order[: _reaching(_weights(row, best), order, draw.top_p)])
    if draw.min_p > 0.0:
        row = np.where(_weights(row, best) >= np.float32(draw.min_p), row, _DROPPED)
    if draw.typical_p < 1.0:
        row = _typical(row, best, draw.typical_p)
    return row


def token(logits: FloatArray, draw: Draw, position: int, adjust: Adjust | None = None) -> int:
    """The target's token: arg-max of the scores [V] plus Gumbel noise (none at temperature 0).

    The lowest id wins a tie; a row of NaN and -inf alone gives id 0. position is that of the new token.
    """
    row = scores(adjusted(logits, adjust), draw)
    if draw.temperature > 0.0:
        row = row + noise.gumbel(len(row), draw.seed, draw.sample, position)
    return int(np.argmax(row))


def law(logits: FloatArray, draw: Draw, adjust: Adjust | None = None) -> FloatArray:
    """p [V], the law of `token` over the seeds: softmax of the scores, or the arg-max alone at temperature 0."""
    row = scores(adjusted(logits, adjust), draw)
    best = int(np.argmax(row))
    if draw.temperature == 0.0 or not np.isfinite(row[best]):
        point = np.zeros(len(row), np.float32)
        point[best] = 1.0
        return point
    weights = _weights(row, row[best])
    return weights / maths.total(weights)


def logprobs(logits: FloatArray, chosen: int, top: int, draw: Draw | None, adjust: Adjust | None = None) -> Logprob:
    """Log-probability of one id and of the `top` likeliest, in the model's own law (draw None) or in that of `token`.

    A score minus the largest, minus the logarithm of the sum of their exponentials, in float32. Raises UsageError
    where `chosen` is not an id or `top` is negative.
    """
    if not 0 <= chosen < len(logits) or top < 0:
        raise UsageError(
            f"log-probabilities of id {chosen} and the top {top}: ids are 0 to {len(logits) - 1}, top >= 0"
        )
    row = adjusted(logits, None) if draw is None else scores(adjusted(logits, adjust), draw)
    best = int(np.argmax(row))
    if not np.isfinite(row[best]) or (draw is not None and draw.temperature == 0.0):
        row = np.full(len(row), _DROPPED)
        row[best] = 0.0
    with np.errstate(over="ignore"):
        values = (row - row[best]) - maths.log(np.array([maths.total(_weights(row, row[best]))]))[0]
    return Logprob(chosen, float(values[chosen]), tuple((int(i), float(values[i])) for i in _order(row)[:top]))


def top(logits: FloatArray, count: int) -> tuple[int, ...]:
    """The ids of the `count` largest logits [V], best first, or all V where there are fewer.

    The lowest id wins a tie; NaN counts as -inf. Raises UsageError where `count` is negative.
    """
    if count < 0:
        raise UsageError(f"count is {count}; the likeliest ids are at least 0")
    return tuple(_order(adjusted(logits, None))[:count].tolist())


def _check(adjust: Adjust, vocab: int) -> None:
    """Raises UsageError unless the arrays have one shape, the ids are ids, and the mask covers the vocabulary."""
    ids, mask = adjust.ids, adjust.mask
    if not ids.shape == adjust.divisors.shape == adjust.offsets.shape == (len(ids),):
        raise UsageError(f"{len(ids)} ids need as many divisors and offsets, in arrays of one dimension")
    outside = ids[(ids < 0) | (ids >= vocab)]
    if len(outside):
        raise UsageError(f"adjusted id {outside[0]} is outside the vocabulary of {vocab}")
    if mask is not None and mask.shape != (-(-vocab // 32),):
        raise UsageError(f"a mask of shape {mask.shape} does not cover a vocabulary of {vocab}: ceil(V / 32) words do")


def _weights(row: FloatArray, best: np.float32) -> FloatArray:
    """exp(score - best) [V]; 0 for dropped tokens."""
    with np.errstate(over="ignore"):
        return maths.exp(row - best)


def _order(row: FloatArray) -> npt.NDArray[np.intp]:
    """Ids by falling score, equal ones by rising id [V]."""
    return np.argsort(-row, kind="stable")


def _keep(row: FloatArray, ids: npt.NDArray[np.intp]) -> FloatArray:
    """The row with everything but these ids dropped."""
    kept = np.full(len(row), _DROPPED)
    kept[ids] = row[ids]
    return kept


def _reaching(weights: FloatArray, order: npt.NDArray[np.intp], share: float) -> int:
    """How many ids, in this order, it takes for their weights to reach a share of the total; at least one."""
    reached = np.cumsum(weights[order], dtype=np.float64)
    enough = np.flatnonzero(reached >= share * float(maths.total(weights)))
    return int(enough[0]) + 1 if len(enough) else len(order)


def _typical(row: FloatArray, best: np.float32, share: float) -> FloatArray:
    """Locally typical sampling (Meister et al. 2202.00666): the ids whose surprise is nearest the entropy.

    With d = score - best and weights w = exp(d), |surprise - entropy| is |d - mean of d under w|: no logarithms.
    Equal ones by falling score, then by rising id.
    """
    weights = _weights(row, best)
    with np.errstate(over="ignore"):
        distance = np.where(weights > 0, row - best, np.float32(0.0))
    mean = maths.total(weights * distance) / maths.total(weights)
    away = np.where(weights > 0, np.abs(distance - mean), np.float32(np.inf))
    order = _order(row)
    order = order[np.argsort(away[order], kind="stable")]
    return _keep(row, order[: _reaching(weights, order, share)])
