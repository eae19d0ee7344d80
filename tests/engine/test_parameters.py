"""Every parameter of a request, alone and together: the engine gives what plain decoding, written down naively, gives.

With speculation on as with it off, for helpful, useless and hostile drafters, in batches, with samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine import naive
from tests.engine.naive import Content, LanguageMatcher
from tests.engine.test_invisible import DRAFTERS
from tests.engine.worlds import EOS, VOCAB, Answer, world

from outrider.api import Constraint, ConstraintKind, FinishReason, LogprobsMode, Origin, Request, Sampling
from outrider.core.types import Draft
from outrider.drafters.base import Drafter
from outrider.drafters.grammar import GrammarDrafter
from outrider.drafters.ngram import NgramDrafter
from outrider.engine.shaping import Shaper
from outrider.testing import drafters
from outrider.testing.table import RandomLaw

IDS = st.integers(0, VOCAB - 1)
LANGUAGES = ("abc", "abcab|abx| yz", "ccc|ccca|cccab\n", "a|ab|abc|abca|abcab", "yzyzyzyzab|yzyzxxxxc", "x" * 30)
GAMMAS = (1, 2, 3, 5, 8, 16)


def content(answer: Answer) -> Content:
    return answer.text, answer.ids, answer.finish, answer.logprobs


samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 1.0, 2.5]),
    seed=st.integers(0, 2**64 - 1),
    sample=st.integers(0, 3),
    repetition_penalty=st.sampled_from([1.0, 1.0, 1.3, 0.7]),
    frequency_penalty=st.sampled_from([0.0, 0.0, 2.0, -2.0, 0.1]),
    presence_penalty=st.sampled_from([0.0, 0.0, 1.0, -0.3]),
    logit_bias=st.dictionaries(IDS, st.sampled_from([-100.0, -1.5, 2.0, 100.0]), max_size=3).map(
        lambda found: tuple(found.items())
    ),
    allowed_token_ids=st.none() | st.none() | st.sets(IDS, min_size=3).map(tuple),
    banned_token_ids=st.just(()) | st.sets(st.integers(0, 3), max_size=2).map(tuple),
    top_k=st.sampled_from([0, 0, 1, 3, 100]),
    top_p=st.sampled_from([1.0, 1.0, 0.9, 0.4, 1e-9]),
    min_p=st.sampled_from([0.0, 0.0, 0.05, 1.0]),
    typical_p=st.sampled_from([1.0, 1.0, 0.8, 0.2]),
)
requests = st.builds(
    Request,
    prompt=st.lists(IDS, min_size=1, max_size=30).map(tuple),
    max_tokens=st.integers(10, 40),
    sampling=samplings,
    stop=st.sampled_from([(), (), ("ab",), ("bca", "x"), ("\n", "cab", "zz")]),
    ignore_eos=st.booleans(),
    stop_token_ids=st.just(()) | st.sets(IDS, max_size=2).map(tuple),
    min_tokens=st.sampled_from([0, 0, 1, 7, 10]),
    n=st.sampled_from([1, 1, 1, 2, 4]),
    logprobs=st.none() | st.integers(0, 14),
    logprobs_mode=st.sampled_from(LogprobsMode),
    prompt_logprobs=st.none() | st.integers(0, 3),
    constraint=st.none() | st.sampled_from(LANGUAGES).map(lambda text: Constraint(ConstraintKind.REGEX, text)),
)


def possible(request: Request) -> bool:
    """Whether an id may be chosen at all (admission refuses the others)."""
    allowed = set(range(VOCAB) if request.sampling.allowed_token_ids is None else request.sampling.allowed_token_ids)
    left = allowed - set(request.sampling.banned_token_ids)
    ends = set(request.stop_token_ids) | (set() if request.ignore_eos else {EOS})
    return bool(left - ends if request.min_tokens else left)


def wrapped(drafter: Drafter, batch: Sequence[Request]) -> Drafter:
    return GrammarDrafter(drafter) if any(request.constraint for request in batch) else drafter


@settings(max_examples=250, deadline=None)
@given(
    st.lists(requests.filter(possible), min_size=1, max_size=3),
    st.integers(0, 2**32),
    st.sampled_from(["none", *sorted(DRAFTERS)]),
    st.sampled_from(GAMMAS),
    st.integers(1, 40),
    st.integers(1, 4),
)
def test_any_batch_equals_naive_decoding(
    batch: list[Request], seed: int, name: str, gamma: int, chunk_rows: int, slots: int
) -> None:
    law = RandomLaw(VOCAB, 2, seed)
    expected = [naive.decode(law, request, sample) for request in batch for sample in range(request.n)]
    known = {tuple(request.prompt): naive.decode(law, request)[1] for request in batch}
    drafter = None if name == "none" else wrapped(DRAFTERS[name](known, seed), batch)
    made = world(law, drafter, gamma, chunk_rows=chunk_rows, slots=slots, matchers=LanguageMatcher)
    found = made.answer(*batch)
    assert [content(answer) for answer in found] == expected
    asked = [request for request in batch for _ in range(request.n)]
    for answer, request in zip(found, asked, strict=True):
        top = request.prompt_logprobs
        assert answer.prompt_logprobs == (None if top is None else naive.prompt_logprobs(law, request, top))
    assert made.backend.sequences == 0


BASE = Request((1, 2, 3, 1, 2), 60, Sampling(1.0, 11), ignore_eos=True)
ALONE: dict[str, Request] = {
    "frequency_penalty": replace(BASE, sampling=replace(BASE.sampling, frequency_penalty=2.0)),
    "negative frequency_penalty": replace(BASE, sampling=replace(BASE.sampling, frequency_penalty=-2.0)),
    "presence_penalty": replace(BASE, sampling=replace(BASE.sampling, presence_penalty=2.0)),
    "repetition_penalty": replace(BASE, sampling=replace(BASE.sampling, repetition_penalty=3.0)),
    "logit_bias": replace(BASE, sampling=replace(BASE.sampling, logit_bias=((5, 3.0), (6, -3.0)))),
    "allowed_token_ids": replace(BASE, sampling=replace(BASE.sampling, allowed_token_ids=(0, 2, 5))),
    "banned_token_ids": replace(BASE, sampling=replace(BASE.sampling, banned_token_ids=(0, 1, 2))),
    "top_k": replace(BASE, sampling=replace(BASE.sampling, top_k=2)),
    "top_p": replace(BASE, sampling=replace(BASE.sampling, top_p=0.5)),
    "min_p": replace(BASE, sampling=replace(BASE.sampling, min_p=0.5)),
    "typical_p": replace(BASE, sampling=replace(BASE.sampling, typical_p=0.3)),
    "greedy with penalties": replace(BASE, sampling=Sampling(frequency_penalty=1.0, repetition_penalty=1.3)),
}


@pytest.mark.parametrize("name", ALONE)
def test_each_parameter_does_something_and_its_equality_is_not_empty(name: str) -> None:
    """Case 16: no parameter is ignored, and drafts are accepted and rejected under each."""
    law, request = RandomLaw(VOCAB, 2, seed=21), ALONE[name]
    expected = naive.decode(law, request)
    unchanged = replace(request, sampling=Sampling(request.sampling.temperature, request.sampling.seed))
    assert expected[1] != naive.decode(law, unchanged)[1]
    for gamma in GAMMAS:
        # The oracle knows half the answer, and is wrong from there on.
        drafter = drafters.oracle({BASE.prompt: expected[1][:30]}, 9)  # type: ignore[dict-item]
        (answer,) = world(law, drafter, gamma).answer(request)
        assert content(answer) == expected
        assert answer.usage.accepted > 0
        assert answer.usage.drafted > answer.usage.accepted
        assert answer.usage.passes < answer.usage.completion_tokens


def test_the_two_signs_of_a_penalty_differ() -> None:
    law = RandomLaw(VOCAB, 2, seed=21)
    plus, minus = (naive.decode(law, ALONE[name])[1] for name in ("frequency_penalty", "negative frequency_penalty"))
    assert len(set(plus)) > len(set(minus))


def test_a_draft_longer_than_min_tokens_does_not_end_early() -> None:
    law = RandomLaw(VOCAB, 1, seed=3)
    request = Request((4,), 40, Sampling(1.0, 5, logit_bias=((EOS, 100.0),)), min_tokens=12)
    for gamma in (0, 1, 5, 16):
        made = world(law, drafters.oracle({(4,): naive.decode(law, request)[1]}, EOS), gamma)
        (answer,) = made.answer(request)
        assert len(answer.ids) == 12
        assert answer.finish is FinishReason.STOP
        assert EOS not in answer.ids


def constrained(text: str, **changes: object) -> Request:
    base = Request((1, 2), 40, constraint=Constraint(ConstraintKind.REGEX, text))
    return replace(base, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("gamma", [0, 1, 2, 5, 16])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_answer_ends_where_the_constraint_ends(gamma: int, temperature: float) -> None:
    law = RandomLaw(VOCAB, 2, seed=8)
    for text in LANGUAGES:
        request = constrained(text, sampling=Sampling(temperature, 2))
        made = world(law, GrammarDrafter(NgramDrafter()), gamma, matchers=LanguageMatcher)
        (answer,) = made.answer(request)
        assert answer.text in text.split("|")
        assert answer.finish is FinishReason.STOP
        assert content(answer) == naive.decode(law, request)


def test_forced_text_is_drafted_and_has_its_own_origin() -> None:
    law = RandomLaw(VOCAB, 2, seed=8)
    made = world(law, GrammarDrafter(NgramDrafter()), 8, matchers=LanguageMatcher)
    (answer,) = made.answer(constrained("x" * 30))
    assert answer.text == "x" * 30
    assert answer.origins.count(Origin.FORCED) == answer.usage.forced == answer.usage.accepted > 20
    assert answer.usage.passes < 6
    (free,) = made.answer(replace(constrained(""), constraint=None))
    assert free.usage.forced == 0


def test_ignore_eos_goes_on_while_the_constraint_can() -> None:
    """Where the text may end but need not, ignoring the end of text means going on."""
    law = RandomLaw(VOCAB, 2, seed=8)
    request = constrained("a|ab|abc|abca|abcab", ignore_eos=True)
    (answer,) = world(law, NgramDrafter(), 4, matchers=LanguageMatcher).answer(request)
    assert answer.text == "abcab"


def test_a_constraint_and_a_ban_that_leave_nothing() -> None:
    law = RandomLaw(VOCAB, 2, seed=8)
    request = constrained("abx", sampling=Sampling(banned_token_ids=(7,)))
    for gamma in (0, 4):
        drafter = GrammarDrafter(NgramDrafter()) if gamma else None
        (answer,) = world(law, drafter, gamma, matchers=LanguageMatcher).answer(request)
        assert (answer.text, answer.finish) == ("ab", FinishReason.STUCK)


def test_drafts_that_the_constraint_rules_out_cost_no_rows() -> None:
    law = RandomLaw(VOCAB, 2, seed=8)
    made = world(law, drafters.constant(7), 8, matchers=LanguageMatcher)
    (answer,) = made.answer(constrained("abcabc"))
    assert answer.usage.drafted == 0
    assert sum(made.backend.passes) == 2 + len(answer.ids) - 1


def test_what_is_left_of_a_draft_keeps_its_scores_and_what_was_forced() -> None:
    """The policy reads them after the constraint has cut the draft."""
    matcher = LanguageMatcher(Constraint(ConstraintKind.REGEX, "abcabc"))
    shaper = Shaper(constrained("abcabc"), VOCAB, frozenset({EOS}), matcher)
    draft = replace(Draft.chain((0, 1, 7, 2), forced=1), score=(0.9, 0.8, 0.7, 0.6))
    assert shaper.possible(draft) == replace(Draft.chain((0, 1), forced=1), score=(0.9, 0.8))
    branching = replace(Draft((0, 7, 1), (-1, 0, 0)), score=(0.9, 0.8, 0.7))
    assert shaper.possible(branching) == replace(Draft.chain((0, 1)), score=(0.9, 0.7))
