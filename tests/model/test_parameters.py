"""Every parameter on the real model: with speculation the same ids and log-probabilities, bit for bit, as without."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain

import pytest
from tests.model.answers import Answer, Sums, World, ids_of

from outrider.api import Constraint, ConstraintKind, FinishReason, LogprobsMode, Request, Sampling
from outrider.drafters.base import Drafter
from outrider.drafters.ngram import NgramDrafter
from outrider.testing.drafters import constant, oracle, trees, uniform

pytestmark = [pytest.mark.slow, pytest.mark.model]

TOKENS = 40
GAMMA = 5
TOPICS = (
    "the sea",
    "a red kite",
    "two old friends",
    "winter",
    "a long road",
    "bread",
    "the moon",
    "a lost key",
    "music",
    "the last train",
    "a garden",
    "seven bridges",
    "an island",
    "the clock",
    "a small town",
)
REGEX = Constraint(ConstraintKind.REGEX, r"[A-Z][a-z]{2,9}( [a-z]{2,9}){4,9}\.")
LARK = Constraint(
    ConstraintKind.GRAMMAR,
    'start: line+ "end"\nline: WORD " = " VALUE "\\n"\nWORD: /[a-z]{2,6}/\nVALUE: /[0-9]{1,3}/ | "true" | "false"',
)
AFTER = Constraint(ConstraintKind.REGEX, r" (Yes|No), (indeed|of course|never)!", after=".")


def requests(world: World) -> dict[str, Request]:
    """By name; each with a prompt of its own, so that an oracle can tell them apart."""
    encode = world.tokenizer.encode
    the, comma, newline = (encode(text, special=False)[0] for text in (" the", ",", "\n"))
    some = tuple(sorted({*encode("the a of and to in sea sky wind wave , .", special=False), *range(1000, 1400)}))
    drawn = Sampling(temperature=1.0)
    plain = Request((), TOKENS, ignore_eos=True)
    wanted = {
        "nothing": plain,
        "frequency and presence": replace(plain, sampling=Sampling(frequency_penalty=0.8, presence_penalty=0.5)),
        "rewarded repeats": replace(plain, sampling=Sampling(temperature=0.7, frequency_penalty=-0.6, top_k=50)),
        "repetition": replace(plain, sampling=replace(drawn, repetition_penalty=1.3, top_p=0.9)),
        "bias and bans": replace(
            plain,
            sampling=replace(drawn, logit_bias=((the, -4.0), (comma, 1.5)), banned_token_ids=(newline,), top_k=40),
        ),
        "all filters": replace(
            plain, sampling=Sampling(temperature=1.3, top_k=60, top_p=0.95, min_p=0.02, typical_p=0.9), logprobs=3
        ),
        "typical": replace(plain, sampling=replace(drawn, typical_p=0.7), logprobs=2),
        "allowed ids": replace(plain, sampling=replace(drawn, allowed_token_ids=some)),
        "late stop": replace(plain, sampling=Sampling(temperature=0.8), stop_token_ids=(the, comma), min_tokens=20),
        "stop strings": replace(plain, sampling=Sampling(temperature=0.9), stop=(", and", "ing "), logprobs=1),
        "what it was drawn from": replace(
            plain,
            sampling=Sampling(temperature=0.8, top_p=0.8, presence_penalty=0.7),
            logprobs=5,
            logprobs_mode=LogprobsMode.PROCESSED,
        ),
        "three samples": replace(plain, sampling=drawn, n=3, logprobs=1, prompt_logprobs=2),
        "a regular expression": replace(plain, sampling=replace(drawn, presence_penalty=1.0), constraint=REGEX),
        "a grammar": replace(plain, sampling=Sampling(temperature=0.9, min_p=0.01), constraint=LARK, logprobs=2),
        "after a marker": replace(plain, sampling=Sampling(temperature=0.5), constraint=AFTER),
    }
    return {
        name: replace(
            request,
            prompt=encode(f"A story about {topic}, {topic} and {topic}: once upon a time,", special=False),
            sampling=replace(request.sampling, seed=100 + index),
        )
        for index, ((name, request), topic) in enumerate(zip(wanted.items(), TOPICS, strict=True))
    }


@pytest.fixture(scope="module")
def asked(world: World) -> dict[str, Request]:
    return requests(world)


@pytest.fixture(scope="module")
def plain(world: World, asked: dict[str, Request]) -> list[Answer]:
    return world.answers(list(asked.values()))


def by_name(asked: dict[str, Request], answers: list[Answer]) -> dict[str, list[Answer]]:
    rest = iter(answers)
    return {name: [next(rest) for _ in range(request.n)] for name, request in asked.items()}


def test_what_is_compared(world: World, asked: dict[str, Request], plain: list[Answer]) -> None:
    """Every parameter does something: without it, the same seed gives other ids."""
    answers = by_name(asked, plain)
    bare = [replace(request, constraint=None, stop=(), n=1) for request in asked.values()]
    defaults = [
        replace(
            request,
            sampling=Sampling(temperature=request.sampling.temperature, seed=request.sampling.seed),
            stop_token_ids=(),
            min_tokens=0,
        )
        for request in bare
    ]
    for name, other in zip(asked, world.answers(defaults), strict=True):
        same = other.token_ids == answers[name][0].token_ids
        assert same == (name in ("nothing", "three samples")), name
    assert len({answer.token_ids for answer in answers["three samples"]}) == 3
    assert all(answer.prompt_logprobs is not None for answer in answers["three samples"])
    (late,) = answers["late stop"]
    assert late.finish_reason is FinishReason.STOP
    assert 20 <= len(late.token_ids) < TOKENS
    (stopped,) = answers["stop strings"]
    assert stopped.finish_reason is FinishReason.STOP
    (marked,) = answers["after a marker"]
    assert marked.finish_reason is FinishReason.STOP
    assert marked.text.partition(".")[2].startswith((" Yes, ", " No, "))
    for name in ("a regular expression", "a grammar"):
        assert answers[name][0].text


def drafters(world: World, asked: dict[str, Request], plain: list[Answer]) -> dict[str, Drafter]:
    """Useful, hostile, and one that knows the answers, also one whose draft goes on behind their end."""
    known = {
        tuple(request.prompt): answers[0].token_ids
        for request, answers in zip(asked.values(), by_name(asked, plain).values(), strict=True)
    }
    common, _ = Counter(chain.from_iterable(ids_of(plain))).most_common(1)[0]
    vocab, eos = world.backend.vocab, min(world.tokenizer.eos_ids)
    return {
        "n-gram": NgramDrafter(),
        "random": uniform(vocab, seed=3),
        "constant": constant(common),
        "oracle": oracle(known, past=common),
        "oracle past the end": oracle(known, past=eos),
        "trees": trees(known, common, vocab, seed=4),
    }


@pytest.mark.parametrize("name", ["n-gram", "random", "constant", "oracle", "oracle past the end", "trees"])
def test_speculation_does_not_show(name: str, world: World, asked: dict[str, Request], plain: list[Answer]) -> None:
    drafter = drafters(world, asked, plain)[name]
    answers = world.speculative(drafter, GAMMA).answers(list(asked.values()))
    for key, own, expected in zip(asked, by_name(asked, answers).values(), by_name(asked, plain).values(), strict=True):
        assert ids_of(own) == ids_of(expected), key
        for one, other in zip(own, expected, strict=True):
            assert (one.text, one.finish_reason) == (other.text, other.finish_reason), key
            assert (one.logprobs, one.prompt_logprobs) == (other.logprobs, other.prompt_logprobs), key
    sums = Sums.of(answers)
    print(sums)
    assert sums.drafted > 0
    assert sums.rejected > 0
    if name != "random":
        assert sums.accepted > 0
        assert sums.passes < sums.tokens
    if name.startswith("oracle"):
        assert sums.passes < 0.5 * sums.tokens


def test_chunks_of_the_prompt_and_few_slots(world: World, asked: dict[str, Request], plain: list[Answer]) -> None:
    """The same in a batch in which some sequences wait and some still read."""
    small = replace(world, slots=3, chunk_rows=7).speculative(NgramDrafter(), 3)
    answers = small.answers(list(asked.values()))
    assert ids_of(answers) == ids_of(plain)
    assert [a.logprobs for a in answers] == [a.logprobs for a in plain]
    assert [a.prompt_logprobs for a in answers] == [a.prompt_logprobs for a in plain]
    assert min(Sums.of(answers).accepted, Sums.of(answers).rejected) > 0
