"""What chat and plain completions say alike: the envelope of each object, log-probabilities, the story of a token."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

from outrider.api import Chunk, FinishReason, Logprob, Origin, Pass
from outrider.server.house import Face, House
from outrider.server.pieces import Piece

LOWEST_LOGPROB = -9999.0  # what OpenAI says for an impossible token, which JSON has no number for
Json = dict[str, object]

_REASONS = {FinishReason.STOP: "stop", FinishReason.LENGTH: "length", FinishReason.STUCK: "length"}


@dataclass(frozen=True, slots=True)
class Envelope:
    """What every object of one response has: names, and what repeats the answer."""

    id: str
    created: int
    model: str
    fingerprint: str
    seed: int | None
    streamed: bool
    usage: bool  # a streamed object has a usage, null until the last

    @staticmethod
    def of(house: House, prefix: str, seed: int | None, streamed: bool, usage: bool) -> Envelope:
        """A new one; created is now."""
        name = f"{prefix}-{secrets.token_hex(12)}"
        return Envelope(name, int(time.time()), house.model, house.fingerprint, seed, streamed, usage)

    def wrap(self, kind: str, choices: Sequence[Json], usage: Json | None = None) -> Json:
        """A whole object."""
        found: Json = {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
            "choices": list(choices),
        }
        if self.seed is not None:
            found["seed"] = self.seed
        if usage is not None or (self.streamed and self.usage):
            found["usage"] = usage
        return found


def finish(reason: FinishReason | None) -> str | None:
    """OpenAI's word for the end of an answer. Stuck is an answer that is not whole, and so is one cut by its length."""
    return None if reason is None else _REASONS[reason]


def entry(face: Face, logprob: Logprob) -> Json:
    """A token's log-probability as chat completions tell it."""
    top = [_named(face, token, value) for token, value in logprob.top]
    return {**_named(face, logprob.id, logprob.logprob), "top_logprobs": top}


def _named(face: Face, token: int, value: float) -> Json:
    spelt = face.token_bytes(token)
    return {"token": face.token_text(token), "logprob": max(value, LOWEST_LOGPROB), "bytes": list(spelt)}


def story(chunk: Chunk, pieces: Sequence[Piece]) -> Json:
    """Where each token of a chunk came from, and what the pass drafted and kept; docs/serving.md has the fields."""
    tokens: list[Json] = []
    for place, text in pieces:
        if place is None:
            tokens.append({"id": None, "text": text, "origin": None})
        else:
            told: Json = {"id": chunk.token_ids[place], "text": text, "origin": chunk.origins[place].value}
            if chunk.drafters and chunk.drafters[place] is not None:
                told["drafter"] = chunk.drafters[place]
            tokens.append(told)
    found: Json = {"tokens": tokens}
    if chunk.story is not None:
        found["pass"] = pass_story(chunk.story)
    if chunk.finish_reason is not None:
        found["finish"] = chunk.finish_reason.value
    return found


def pass_story(told: Pass) -> Json:
    """One pass: drafted and kept are counts, seconds its time; own says what the target's own token was.

    by tells the same counts for each drafter.
    """
    whole = len(told.path) == _depth(told)
    return {
        "position": told.position,
        "drafted": len(told.drafted),
        "kept": len(told.path),
        "forced": told.forced,
        "seconds": round(told.seconds, 6),
        "own": (Origin.BONUS if whole else Origin.RECOVERED).value,
        "by": _by(told),
    }


def _by(told: Pass) -> Json:
    who = told.drafters
    kept = [who[node] for node in told.path] if who else []
    return {name: {"drafted": who.count(name), "kept": kept.count(name)} for name in dict.fromkeys(who)}


def _depth(told: Pass) -> int:
    """Nodes from the root to where the kept path could have gone on; more than the path where a guess was rejected."""
    last = told.path[-1] if told.path else -1
    return len(told.path) + (last in told.parents)
