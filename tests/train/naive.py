"""A head of kind eagle3 as docs/training.md words it, one position at a time, in float64: no batches, no padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]


def norm(x: Doubles, weight: Doubles, eps: float) -> Doubles:
    return np.asarray(x / np.sqrt(np.mean(x * x) + eps) * weight)


@dataclass(frozen=True)
class Naive:
    """Weights by name, and the sizes that they do not show."""

    weights: Mapping[str, Doubles]
    embedding: Doubles  # [V, H], normalised
    frequencies: Doubles  # [d / 2]
    heads: int
    kv_heads: int
    eps: float

    def rotated(self, x: Doubles, position: int) -> Doubles:
        angle = position * self.frequencies
        turned = np.empty_like(x)
        turned[..., 0::2] = x[..., 0::2] * np.cos(angle) - x[..., 1::2] * np.sin(angle)
        turned[..., 1::2] = x[..., 0::2] * np.sin(angle) + x[..., 1::2] * np.cos(angle)
        return turned

    def chain(self, states: Doubles, tokens: Sequence[int], start: int, steps: int) -> list[Doubles]:
        """Logits of each step of a chain that starts at `start`, fed the text's own tokens; states are normalised."""
        w = self.weights
        cache: list[tuple[Doubles, Doubles]] = []
        found: list[Doubles] = []
        a = np.zeros(0)
        for position in range(start + steps):
            g = w["fc"] @ (states[position] * w["tap_norm"]) if position <= start else a
            embedded = self.embedding[tokens[position + 1]] * w["embed_norm"]
            z = np.concatenate([embedded, norm(g, w["state_norm"], self.eps)])
            q = self.rotated((w["q_proj"] @ z).reshape(self.heads, -1), position)
            k = self.rotated((w["k_proj"] @ z).reshape(self.kv_heads, -1), position)
            cache.append((k, (w["v_proj"] @ z).reshape(self.kv_heads, -1)))
            if position < start:
                continue
            h = g + w["o_proj"] @ self._attention(q, cache)
            n = norm(h, w["ffn_norm"], self.eps)
            gate = w["gate"] @ n
            a = h + w["down"] @ (gate / (1 + np.exp(-gate)) * (w["up"] @ n))
            found.append(w["head"] @ norm(a, w["out_norm"], self.eps))
        return found

    def _attention(self, q: Doubles, cache: Sequence[tuple[Doubles, Doubles]]) -> Doubles:
        out = []
        for head, query in enumerate(q):
            group = head * self.kv_heads // self.heads
            scores = np.array([query @ k[group] for k, _ in cache]) / len(query) ** 0.5
            weights = np.exp(scores - scores.max())
            out.append((weights / weights.sum()) @ np.array([v[group] for _, v in cache]))
        return np.concatenate(out)
