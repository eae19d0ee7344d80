"""What a drafter costs a step: seconds for being asked and told, and for each node that it drafts."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import numpy as np

from outrider.api import Sampling
from outrider.core.step import Budget, Outcome, Tokens, View
from outrider.cost.types import DraftCost
from outrider.drafters.base import Drafter

NODES = (1, 2, 4, 8, 16)
MOST_ROUNDS = 400
PROMPT_TOKENS = 480
PERIOD = 96  # the text repeats itself, so that a drafter that looks back finds something to draft
_SEQ = 2**30  # far from the numbers of any engine's sequences


def measure_drafter(drafter: Drafter, vocab: int, clock: Callable[[], float], seconds: float = 0.5) -> DraftCost:
    """Times steps of several draft lengths, interleaved, on a text that repeats itself; takes about `seconds`.

    A step is one propose and the observe after it, which adds one token. What a drafter raises goes through.
    """
    text = [index % PERIOD * 7919 % vocab for index in range(PROMPT_TOKENS)]
    tokens = list(text)
    view = View(_SEQ, Tokens(tokens), Sampling())
    spent: dict[int, list[float]] = {}
    drafter.begin(_SEQ, tuple(text))
    try:
        deadline = clock() + seconds
        for nodes in (nodes for _ in range(MOST_ROUNDS) for nodes in NODES):
            if spent and clock() > deadline:
                break
            following = len(tokens) % PERIOD * 7919 % vocab
            start = clock()
            (draft,) = drafter.propose([view], [Budget(nodes, nodes)])
            asked = clock()
            tokens.append(following)
            told = clock()
            drafter.observe([Outcome(_SEQ, draft, (), (following,))])
            spent.setdefault(len(draft), []).append(asked - start + clock() - told)
    finally:
        drafter.end(_SEQ)
    return _line({nodes: median(times) for nodes, times in spent.items()})


def _line(seconds: dict[int, float]) -> DraftCost:
    """The least-squares line through seconds by nodes, neither of its two numbers below zero."""
    nodes = np.array(list(seconds), np.float64)
    times = np.array(list(seconds.values()), np.float64)
    spread = nodes - nodes.mean()
    slope = float(spread @ times / (spread @ spread)) if spread.any() else 0.0
    slope = min(max(slope, 0.0), float(times.mean() / nodes.mean()) if nodes.any() else 0.0)
    return DraftCost(max(0.0, float(times.mean() - slope * nodes.mean())), slope)
