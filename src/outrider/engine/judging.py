"""From the rows of one turn to its verdict, and to the log-probabilities of the tokens that it decided."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from outrider.api import Logprob, LogprobsMode
from outrider.backends.base import Adjust, Scores
from outrider.core.chance import KeyedChance
from outrider.core.rules import Rule, rule_for
from outrider.engine.sequence import Turn


class Below:
    """The target below one turn's known tokens: rules.Target over the rows of its item."""

    __slots__ = ("_item", "_scores", "_turn")

    def __init__(self, scores: Scores, item: int, turn: Turn) -> None:
        self._scores = scores
        self._item = item
        self._turn = turn

    def token(self, node: int) -> int:
        """The target's token after a node."""
        return self._scores.token(self._item, self._turn.rows + node, self._adjust(node))

    def law(self, node: int) -> npt.NDArray[np.float64]:
        """p [V] after a node."""
        p = self._scores.law(self._item, self._turn.rows + node, self._adjust(node))
        return p.astype(np.float64)

    def logprob(self, node: int, chosen: int, top: int, processed: bool) -> Logprob:
        """The log-probability of a token after a node."""
        adjust = self._adjust(node) if processed else None
        return self._scores.logprobs(self._item, self._turn.rows + node, chosen, top, processed, adjust)

    def _adjust(self, node: int) -> Adjust | None:
        shaper = self._turn.sequence.shaper
        return None if shaper is None else shaper.at(self._turn.draft, node)


def judge(rule: Rule, scores: Scores, item: int, turn: Turn) -> None:
    """Give the turn its verdict and, if asked for, its log-probabilities."""
    below = Below(scores, item, turn)
    sampling = turn.sequence.view.sampling
    chance = KeyedChance(sampling.seed, sampling.sample, turn.position)
    turn.verdict = rule_for(rule, sampling).judge(turn.draft, below, chance)
    asked = turn.sequence.request.logprobs
    if asked is None:
        return
    processed = turn.sequence.request.logprobs_mode is LogprobsMode.PROCESSED
    nodes = (-1, *turn.verdict.path)
    tokens = (*(turn.draft.tokens[node] for node in turn.verdict.path), turn.verdict.token)
    turn.logprobs = [below.logprob(node, token, asked, processed) for node, token in zip(nodes, tokens, strict=True)]


def read_prompt(scores: Scores, item: int, turn: Turn) -> None:
    """Add the log-probabilities of the prompt's tokens that this turn's rows foretell."""
    sequence = turn.sequence
    asked = sequence.request.prompt_logprobs
    if asked is None:
        return
    for row in range(turn.foretells):
        token = sequence.tokens[sequence.committed + row + 1]
        sequence.family.prompt_logprobs.append(scores.logprobs(item, row, token, asked, processed=False))


def read_followers(scores: Scores, item: int, turn: Turn, count: int) -> None:
    """Note the likeliest tokens behind each row that wanted its token, rejected nodes included."""
    draft, rows = turn.draft, turn.rows
    tokens = (turn.sequence.tokens[-1], *draft.tokens)
    turn.followers = tuple((token, scores.top(item, rows - 1 + place, count)) for place, token in enumerate(tokens))
