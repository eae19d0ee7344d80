"""What a request must be, checked before anything runs: nothing may fail in the middle of an answer.

Every refusal is one UsageError that names the parameter, its value and what is allowed. Dimensions: V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from outrider.api import Constraint, ConstraintKind, LogprobsMode, Request, Sampling
from outrider.engine.sequence import World
from outrider.errors import UsageError

LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 1e-6, 100.0
LOWEST_REPETITION, HIGHEST_REPETITION = 0.01, 10.0
MOST_STOPS = 16
MOST_SAMPLES = 128
MOST_LOGPROBS = 100


def check(request: Request, world: World) -> None:
    """Raise UsageError for a request that cannot be answered; prompt and answer together must fit the context."""
    prompt, context = request.prompt, world.context
    if not prompt:
        raise UsageError("the prompt has no tokens; give at least one")
    if len(prompt) >= context:
        raise UsageError(
            f"the prompt has {len(prompt)} tokens and leaves no room for an answer in the context of {context}; "
            f"shorten it to at most {context - 1} tokens"
        )
    for index, token in enumerate(prompt):
        if not _is_id(token, world.vocab):
            raise UsageError(f"prompt token {index} is {token!r}; ids of this model lie in 0..{world.vocab - 1}")
    _check_whole("max_tokens", request.max_tokens, 1, 2**63 - 1)
    _check_whole("min_tokens", request.min_tokens, 0, request.max_tokens)
    _check_whole("n", request.n, 1, MOST_SAMPLES)
    for name, count in (("logprobs", request.logprobs), ("prompt_logprobs", request.prompt_logprobs)):
        if count is not None:
            _check_whole(name, count, 0, MOST_LOGPROBS)
    if request.max_draft is not None:
        _check_whole("max_draft", request.max_draft, 0, 2**31 - 1)
    if request.logprobs_mode not in tuple(LogprobsMode):
        raise UsageError(f"logprobs_mode is {request.logprobs_mode!r}; it may be 'raw' or 'processed'")
    _check_stops(request.stop)
    _check_ids("stop_token_ids", request.stop_token_ids, world.vocab)
    _check_ids("prediction", request.prediction, world.vocab)
    _check_drafters(request.drafters, world)
    if request.prediction and not world.drafters:
        raise UsageError(
            "there is a prediction but no drafter to use it; leave it out, or load the model with a drafter"
        )
    if not isinstance(request.scope, str):
        raise UsageError(f"scope is {request.scope!r:.80}; give the name of the tenant, a text")
    _check_sampling(request.sampling, request.n, world.vocab)
    _check_choice(request, world)
    if request.constraint is not None:
        _check_constraint(request.constraint)


def _check_sampling(sampling: Sampling, samples: int, vocab: int) -> None:
    # Below the lowest, 1 / temperature times a logit leaves float32; NaN fails every comparison and so lands here too.
    temperature = sampling.temperature
    if not _is_number(temperature) or not (
        temperature == 0.0 or LOWEST_TEMPERATURE <= temperature <= HIGHEST_TEMPERATURE
    ):
        raise UsageError(
            f"temperature is {temperature!r}; it may be 0 (the arg-max) or {LOWEST_TEMPERATURE:g} to "
            f"{HIGHEST_TEMPERATURE:g}"
        )
    _check_whole("top_k", sampling.top_k, 0, 2**31 - 1)
    _check_real("top_p", sampling.top_p, 0.0, 1.0, above=True)
    _check_real("min_p", sampling.min_p, 0.0, 1.0)
    _check_real("typical_p", sampling.typical_p, 0.0, 1.0, above=True)
    _check_real("frequency_penalty", sampling.frequency_penalty, -2.0, 2.0)
    _check_real("presence_penalty", sampling.presence_penalty, -2.0, 2.0)
    _check_real("repetition_penalty", sampling.repetition_penalty, LOWEST_REPETITION, HIGHEST_REPETITION)
    _check_whole("seed", sampling.seed, 0, 2**64 - 1)
    _check_whole("sample", sampling.sample, 0, 2**32 - samples)
    biased = [token for token, _ in sampling.logit_bias]
    _check_ids("logit_bias", biased, vocab)
    if len(set(biased)) != len(biased):
        raise UsageError(f"logit_bias names {max(biased, key=biased.count)} twice; give each id one bias")
    for token, bias in sampling.logit_bias:
        _check_real(f"logit_bias of {token}", bias, -100.0, 100.0)


def _check_drafters(chosen: Sequence[str] | None, world: World) -> None:
    if chosen is None:
        return
    known = ", ".join(map(repr, world.drafters))
    if not known:
        raise UsageError(f"drafters is {chosen!r:.80}, but nothing drafts here; leave it out, or load a drafter")
    if isinstance(chosen, str) or not chosen:
        raise UsageError(f"drafters is {chosen!r:.80}; name some of {known}, or set speculate to false for none")
    for name in chosen:
        if name not in world.drafters:
            raise UsageError(f"drafters names {name!r:.80}; it may name {known}")


def _check_choice(request: Request, world: World) -> None:
    """The allowed and banned ids must leave one that may be chosen, also before min_tokens."""
    sampling = request.sampling
    _check_ids("banned_token_ids", sampling.banned_token_ids, world.vocab)
    if sampling.allowed_token_ids is not None:
        _check_ids("allowed_token_ids", sampling.allowed_token_ids, world.vocab)
        if not sampling.allowed_token_ids:
            raise UsageError("allowed_token_ids is empty; name at least one id, or leave it out")
    elif not sampling.banned_token_ids and not request.min_tokens:
        return
    allowed = range(world.vocab) if sampling.allowed_token_ids is None else sampling.allowed_token_ids
    left = set(allowed) - set(sampling.banned_token_ids)
    if not left:
        raise UsageError("banned_token_ids bans every allowed id; leave at least one")
    ends = {*request.stop_token_ids, *(() if request.ignore_eos else world.eos)}
    if request.min_tokens and left <= ends:
        raise UsageError(
            f"min_tokens is {request.min_tokens}, but every id that may be chosen ends the answer; allow another"
        )


def _check_constraint(constraint: Constraint) -> None:
    if constraint.kind not in tuple(ConstraintKind):
        kinds = ", ".join(ConstraintKind)
        raise UsageError(f"the constraint's kind is {constraint.kind!r}; it may be {kinds}")
    if not isinstance(constraint.text, str):
        raise UsageError(f"the constraint is a {type(constraint.text).__name__}; give its text")


def _check_stops(stops: Sequence[str]) -> None:
    if len(stops) > MOST_STOPS:
        raise UsageError(f"stop has {len(stops)} strings; give at most {MOST_STOPS}")
    for stop in stops:
        if not isinstance(stop, str) or not stop:
            raise UsageError(f"stop contains {stop!r}; a stop string has at least one character")


def _check_ids(name: str, ids: Sequence[int], vocab: int) -> None:
    for token in ids:
        if not _is_id(token, vocab):
            raise UsageError(f"{name} contains {token!r}; ids of this model lie in 0..{vocab - 1}")


def _check_whole(name: str, value: int, lowest: int, highest: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
        end = f"2**{highest.bit_length()} - 1" if highest >= 2**31 - 1 and highest & (highest + 1) == 0 else highest
        raise UsageError(f"{name} is {value!r}; it may be a whole number from {lowest} to {end}")


def _check_real(name: str, value: float, lowest: float, highest: float, above: bool = False) -> None:
    if not _is_number(value) or not lowest <= value <= highest or (above and value == lowest):
        start = f"above {lowest:g} and at most" if above else f"from {lowest:g} to"
        raise UsageError(f"{name} is {value!r}; it may be {start} {highest:g}")


def _is_number(value: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_id(token: int, vocab: int) -> bool:
    return isinstance(token, int) and not isinstance(token, bool) and 0 <= token < vocab
