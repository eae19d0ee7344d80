"""What an answer cost, counted by the engine itself.

Times are wall-clock seconds of the steps that the answer took part in; a step shared with other answers counts in full
for each of them.
"""

from __future__ import annotations

from outrider.api import Usage
from outrider.core import tree
from outrider.core.step import StepTime
from outrider.core.types import Draft


class Meter:
    """Counts one answer. Counting per position waits until the end, when it is known what was trimmed."""

    __slots__ = (
        "_decode_s",
        "_draft_s",
        "_first",
        "_passes",
        "_prefill_s",
        "_prompt_tokens",
        "_target_s",
        "_trimmed",
        "cached",
        "looked_at",
        "passes_s",
    )

    def __init__(self, prompt_tokens: int) -> None:
        self._prompt_tokens = prompt_tokens
        self.looked_at = 0  # tokens of the target, one a pass in plain decoding; the one that ends the answer included
        self.cached = 0  # prompt tokens that were in the cache before
        self._passes: list[tuple[int, Draft, tuple[int, ...]]] = []
        self._trimmed = False
        self._first = 0  # tokens of the first pass, which prefill_s has paid for
        self._prefill_s = self._draft_s = self._target_s = self._decode_s = 0.0
        self.passes_s = 0.0  # seconds that the target took, the prompt's passes included

    def record(self, before: int, draft: Draft, path: tuple[int, ...], trimmed: bool) -> None:
        """A pass that decided tokens, when the answer had `before` of them; trimmed: the answer ended inside it."""
        self._passes.append((before, draft, path))
        self._trimmed = trimmed
        if len(self._passes) == 1:
            self._first = len(path) + 1

    def time(self, step: StepTime) -> None:
        """Add a step, after its record: to prefill_s up to the pass that decided the first token, then to decode_s."""
        self.passes_s += step.target_s
        if len(self._passes) <= 1:
            self._prefill_s += step.total_s
            return
        self._decode_s += step.total_s
        self._draft_s += step.draft_s
        self._target_s += step.target_s

    def usage(self, completion_tokens: int) -> Usage:
        """The bill of an answer that ended with `completion_tokens` tokens."""
        drafted, accepted, forced = self._positions(completion_tokens)
        decoded = max(completion_tokens - self._first, 0)
        return Usage(
            prompt_tokens=self._prompt_tokens,
            completion_tokens=completion_tokens,
            passes=len(self._passes),
            plain_passes=self.looked_at,
            drafted=sum(nodes for _, nodes in drafted),
            accepted=sum(accepted),
            forced=forced,
            drafted_per_position=tuple(passes for passes, _ in drafted),
            accepted_per_position=tuple(accepted),
            tokens_per_pass=completion_tokens / len(self._passes) if self._passes else 0.0,
            prefill_s=self._prefill_s,
            draft_s=self._draft_s,
            target_s=self._target_s,
            decode_s=self._decode_s,
            tokens_per_s=decoded / self._decode_s if self._decode_s > 0.0 else 0.0,
            cached_tokens=self.cached,
        )

    def _positions(self, completion_tokens: int) -> tuple[list[tuple[int, int]], list[int], int]:
        """By depth: (passes that verified a node there, nodes there), and passes that kept one; kept forced nodes."""
        drafted: list[tuple[int, int]] = []
        kept: list[int] = []
        forced = 0
        for before, draft, path in self._passes:
            # Guesses from the first trimmed token on are counted nowhere.
            end = max(completion_tokens - before, 0) if self._trimmed else len(draft)
            depths = tree.depths(draft)
            for depth in range(min(max(depths, default=-1) + 1, end)):
                if depth == len(drafted):
                    drafted.append((0, 0))
                    kept.append(0)
                passes, nodes = drafted[depth]
                drafted[depth] = passes + 1, nodes + depths.count(depth)
                kept[depth] += depth < len(path)
            forced += sum(node < draft.forced for node in path[:end])
        return drafted, kept, forced
