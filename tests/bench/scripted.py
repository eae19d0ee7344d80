"""Generators that say what they are told to, at a speed they are told, so that every figure can be known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from outrider.api import Chunk, FinishReason, Origin, Pass, Request, Usage
from outrider.bench.contenders import Answer, Cost, Messages
from outrider.bench.questions import Question
from outrider.bench.trials import Prompt, Trial


def encode(messages: Messages) -> list[int]:
    """Bytes of what was said, with a mark of who said it before each."""
    return list("".join(f"{message['role'][0]}:{message['content']}\n" for message in messages).encode())


class Scripted:
    """Answers every prompt with ids made of its length, `at_once` tokens a pass; a pass takes `pass_s` seconds."""

    def __init__(self, at_once: int = 1, pass_s: float = 0.5, lie: Callable[[Request], bool] | None = None) -> None:
        self._at_once = at_once
        self._pass_s = pass_s
        self._lie = lie
        self.asked: list[Request] = []

    def generate(self, requests: Sequence[Request]) -> Iterator[Chunk]:
        (request,) = requests
        self.asked.append(request)
        ids = [(len(request.prompt) + place) % 50 + 60 for place in range(request.max_tokens)]
        if self._lie is not None and self._lie(request):
            ids[2] += 1
        at, passes = 0, 0
        while at < len(ids):
            piece = tuple(ids[at : at + self._at_once])
            passes += 1
            drafted = piece[:-1] + (0,) * (self._at_once - len(piece))
            story = Pass(
                len(request.prompt) + at,
                drafted,
                tuple(range(-1, len(drafted) - 1)),
                tuple(range(len(piece) - 1)),
                piece[-1],
                self._pass_s,
            )
            at += len(piece)
            ended = at == len(ids)
            usage = usage_of(len(request.prompt), len(ids), passes, self._at_once, self._pass_s) if ended else None
            origins = (Origin.ACCEPTED,) * (len(piece) - 1) + (Origin.BONUS,)
            reason = FinishReason.LENGTH if ended else None
            yield Chunk(0, bytes(piece).decode(), piece, origins, story, reason, usage)


def usage_of(prompt_tokens: int, tokens: int, passes: int, at_once: int, pass_s: float) -> Usage:
    """The bill of a scripted answer."""
    decode_s = (passes - 1) * pass_s
    kept = tokens - passes
    return Usage(
        prompt_tokens=prompt_tokens,
        completion_tokens=tokens,
        passes=passes,
        plain_passes=tokens,
        drafted=kept,
        accepted=kept,
        forced=0,
        drafted_per_position=(passes,) * (at_once - 1),
        accepted_per_position=(passes,) * (at_once - 1),
        tokens_per_pass=tokens / passes,
        prefill_s=pass_s,
        draft_s=decode_s / 8,
        target_s=decode_s / 2,
        decode_s=decode_s,
        tokens_per_s=(tokens - at_once) / decode_s if decode_s else 0.0,
    )


def trial(
    task: str,
    drafter: str,
    round_: int,
    ids: Sequence[int] | None,
    seconds: float = 1.0,
    *,
    number: int = 1,
    cost: Cost | None = None,
    failure: str | None = None,
) -> Trial:
    """A trial as it would be found; ids None: it failed, for the reason given."""
    prompt = Prompt(Question(f"{task}-{number}", task, ("?",)), 1)
    if ids is None:
        return Trial(prompt, drafter, round_, None, failure or "it broke")
    cost = cost or Cost(len(ids), 0.0, seconds, (), (), ())
    return Trial(prompt, drafter, round_, Answer(str(ids), tuple(ids), len(ids), len(ids) - 1, seconds, cost))
