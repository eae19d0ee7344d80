"""A model that says what it is told to, pass by pass, so that the command line is tested without weights.

As a program: scripted.py SCENARIO ARGUMENTS... runs the command line with a scenario's model.
"""

from __future__ import annotations

import codecs
import itertools
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from outrider.api import Chunk, FinishReason, Logprob, Origin, Pass, Usage
from outrider.asking import Ask
from outrider.cli.main import main
from outrider.cli.tools import Entry, Field, Load, Serve, Served, Site, Target, Tools, Trainer, Words
from outrider.models.cache import Cached

VOCAB = [b"The", b" sky", b" is", b" blue", b".", b" red", b" very", b"\xc3", b"\xa9", b"\x1b[2J", b"\n", b"<|im_end|>"]
IDS = {piece: index for index, piece in enumerate(VOCAB)}
SPECIAL = IDS[b"<|im_end|>"]


def ids(*pieces: bytes) -> tuple[int, ...]:
    """The ids of some pieces of the vocabulary."""
    return tuple(IDS[piece] for piece in pieces)


class ScriptedDetokenizer:
    """Incremental UTF-8; the special token has no text."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        return "" if token == SPECIAL else self._decoder.decode(VOCAB[token])

    def flush(self) -> str:
        return self._decoder.decode(b"", final=True)


@dataclass(frozen=True, slots=True)
class Step:
    """One pass: what is drafted, how much of it is accepted, and the target's own token."""

    drafted: tuple[int, ...]
    accepted: int
    own: int
    forced: int = 0

    def tokens(self) -> tuple[int, ...]:
        return (*self.drafted[: self.accepted], self.own)


SKY = (
    Step((), 0, IDS[b"The"]),
    Step(ids(b" sky", b" is", b" red"), 2, IDS[b" very"]),
    Step(ids(b" blue"), 1, IDS[b"."]),
    Step(ids(b"\n"), 0, SPECIAL),
)
SKY_TEXT = "The sky is very blue."
HERO = (
    Step(ids(b"The", b" sky", b" is"), 3, IDS[b" blue"], forced=2),
    Step(ids(b" very"), 0, IDS[b"."], forced=1),
    Step((), 0, SPECIAL),
)
ESCAPES = (Step((), 0, IDS[b"The"]), Step(ids(b"\x1b[2J", b"\xc3"), 2, IDS[b"\xa9"]), Step((), 0, SPECIAL))


class ScriptedModel:
    """Plays the steps, calling `between` after each; ends with the special token, at max_tokens, or with the steps.

    Sample i plays i steps less; chunks of several samples interleave.
    """

    def __init__(self, steps: Sequence[Step], between: Callable[[], None] = lambda: None) -> None:
        self._steps = steps
        self._between = between
        self.asked: list[tuple[str, Ask]] = []

    def answer(self, prompt: str, ask: Ask) -> Iterator[Chunk]:
        self.asked.append((prompt, ask))
        samples = [self._sample(prompt, ask, sample) for sample in range(ask.telling.n)]
        # The last sample first, so that the order in which they are shown is the command line's own doing.
        for chunks in itertools.zip_longest(*reversed(samples)):
            yield from (chunk for chunk in chunks if chunk is not None)

    def _sample(self, prompt: str, ask: Ask, sample: int) -> Iterator[Chunk]:
        telling, most = ask.telling, ask.ending.max_tokens
        if telling.echo:
            yield Chunk(0, prompt, (), (), sample=sample)
        detokenizer = ScriptedDetokenizer()
        done: list[int] = []
        accepted = forced = 0
        steps = self._steps[: len(self._steps) - sample]
        for number, step in enumerate(steps, 1):
            tokens = step.tokens()[: most - len(done)]
            reason = FinishReason.LENGTH if len(done) + len(tokens) == most or number == len(steps) else None
            if SPECIAL in tokens:
                tokens, reason = tokens[: tokens.index(SPECIAL)], FinishReason.STOP
            own = Origin.RECOVERED if step.accepted < len(step.drafted) else Origin.BONUS
            kept = min(step.forced, step.accepted)
            origins = (Origin.FORCED,) * kept + (Origin.ACCEPTED,) * (step.accepted - kept) + (own,)
            origins = origins[: len(tokens)]
            accepted += len(origins) - origins.count(own)
            forced += origins.count(Origin.FORCED)
            chain = tuple(range(-1, len(step.drafted) - 1))
            path = tuple(range(step.accepted))
            story = Pass(20 + len(done), step.drafted, chain, path, step.own, 0.002, step.forced)
            done += tokens
            yield Chunk(
                request=0,
                text="".join(map(detokenizer.push, tokens)),
                token_ids=tokens,
                origins=origins,
                story=story,
                finish_reason=reason,
                usage=usage_of(len(done), number, accepted, forced) if reason else None,
                sample=sample,
                logprobs=None if telling.logprobs is None else tuple(map(logprob, tokens)),
                prompt_logprobs=(None, logprob(7)) if telling.prompt_logprobs is not None and number == 1 else None,
            )
            if reason:
                return
            self._between()

    def detokenizer(self) -> ScriptedDetokenizer:
        return ScriptedDetokenizer()

    def token_text(self, token: int) -> str:
        return VOCAB[token].decode("utf-8", "replace")


def logprob(token: int) -> Logprob:
    """Minus a quarter for the token, and an impossible one beside it."""
    return Logprob(token, -0.25, ((token, -0.25), (11, -math.inf)))


def usage_of(tokens: int, passes: int, accepted: int, forced: int = 0) -> Usage:
    """A bill with round numbers."""
    return Usage(
        prompt_tokens=20,
        completion_tokens=tokens,
        passes=passes,
        plain_passes=passes + accepted,
        drafted=5,
        accepted=accepted,
        forced=forced,
        drafted_per_position=(3, 1, 1),
        accepted_per_position=(2, 1, 0),
        tokens_per_pass=tokens / passes,
        prefill_s=0.25,
        draft_s=0.125,
        target_s=0.5,
        decode_s=0.75,
        tokens_per_s=8.0,
    )


CACHED = (Cached("pypi:tiny==1.0", Path("/cache/tiny.gguf"), 98_000_000, "0" * 64),)


def tools(model: ScriptedModel, loads: list[Load] | None = None, cached: Sequence[Cached] = CACHED) -> Tools:
    """Doors that lead to the scripted model; loads takes down how it was asked for."""

    def load(how: Load) -> ScriptedModel:
        if loads is not None:
            loads.append(how)
        return model

    def site(model: str | None, threads: int | None) -> Site:
        raise NotImplementedError  # tests/cli/sites.py brings one

    def field(entry: Entry) -> Field:
        raise NotImplementedError  # tests/cli/test_bench.py brings its own

    def words(model: str | None) -> Words:
        raise NotImplementedError  # tests/cli/test_store.py brings its own

    def target(model: str | None, threads: int | None) -> Target:
        raise NotImplementedError  # tests/cli/test_train.py brings its own

    def trainer() -> Trainer:
        raise NotImplementedError  # as does the trainer

    def serve(how: Serve) -> Served:
        raise NotImplementedError  # tests/cli/test_serve.py brings its own

    return Tools(load, site, lambda: cached, field, words, target, trainer, serve)


def wait() -> None:
    """Waits for a signal, and says so."""
    print("(waiting)", file=sys.stderr, flush=True)
    time.sleep(60)


def scenario(name: str) -> ScriptedModel:
    """The models for whole processes."""
    if name == "sky":
        return ScriptedModel(SKY)
    if name == "hero":
        return ScriptedModel(HERO)
    if name == "escapes":
        return ScriptedModel(ESCAPES)
    if name == "endless":
        return ScriptedModel([Step(ids(b" sky"), 1, IDS[b" is"])] * 1_000_000)
    if name == "waits":
        return ScriptedModel(SKY[1:], wait)
    raise ValueError(name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], tools(scenario(sys.argv[1]))))
