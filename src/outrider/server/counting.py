"""What an answer cost, in OpenAI's words and in ours."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from outrider.api import Pass, Usage


class PredictionCount:
    """How much of what was drafted was text of the prediction, and how much of that was kept.

    A drafted node counts where the path from the draft's root down to it stands in the prediction. That is what the
    drafter of predictions drafts; an n-gram that says the same counts as well.
    """

    def __init__(self, prediction: Sequence[int]) -> None:
        self._places: dict[int, set[int]] = defaultdict(set)
        for place, token in enumerate(prediction):
            self._places[token].add(place)
        self.accepted = 0
        self.rejected = 0

    def see(self, story: Pass | None) -> None:
        """Count one pass."""
        if story is None or not self._places:
            return
        ends: list[set[int]] = []  # for each node, where in the prediction the path down to it may end
        kept = set(story.path)
        for node, (token, parent) in enumerate(zip(story.drafted, story.parents, strict=True)):
            here = self._places.get(token, set())
            ends.append(here if parent < 0 else {place for place in here if place - 1 in ends[parent]})
            if ends[node]:
                if node in kept:
                    self.accepted += 1
                else:
                    self.rejected += 1


def usage_json(prompt_tok: int, usages: Sequence[Usage], counts: Sequence[PredictionCount]) -> dict[str, object]:
    """The usage of all answers to a request together.

    The fields from `drafted` on are ours: what speculation did, and how fast the tokens came while decoding.
    """
    completion = sum(usage.completion_tokens for usage in usages)
    passes = sum(usage.passes for usage in usages)
    return {
        "prompt_tokens": prompt_tok,
        "completion_tokens": completion,
        "total_tokens": prompt_tok + completion,
        "prompt_tokens_details": {"cached_tokens": sum(usage.cached_tokens for usage in usages)},
        "completion_tokens_details": {
            "accepted_prediction_tokens": sum(count.accepted for count in counts),
            "rejected_prediction_tokens": sum(count.rejected for count in counts),
        },
        "drafted": sum(usage.drafted for usage in usages),
        "accepted": sum(usage.accepted for usage in usages),
        "forced": sum(usage.forced for usage in usages),
        "passes": passes,
        "plain_passes": sum(usage.plain_passes for usage in usages),
        "tokens_per_pass": round(completion / passes, 4) if passes else 0.0,
        "prefill_s": round(max((usage.prefill_s for usage in usages), default=0.0), 6),
        "decode_s": round(max((usage.decode_s for usage in usages), default=0.0), 6),
        "tokens_per_s": round(sum(usage.tokens_per_s for usage in usages), 2),
    }
