"""What a request must be, checked before anything runs: nothing may fail in the middle of an answer.

Dimensions: V vocabulary.
"""

from __future__ import annotations

from outrider.api import Request, Sampling
from outrider.errors import UsageError

LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 1e-6, 100.0
MOST_STOPS = 16


def check(request: Request, vocab: int, context: int) -> None:
    """Raise UsageError, with the parameter, its value and what is allowed, for a request that cannot be answered.

    context is the most positions a sequence can have; prompt and answer together must fit.
    """
    prompt = request.prompt
    if not prompt:
        raise UsageError("the prompt has no tokens; give at least one")
    if len(prompt) >= context:
        raise UsageError(
            f"the prompt has {len(prompt)} tokens and leaves no room for an answer in the context of {context}; "
            f"shorten it to at most {context - 1} tokens"
        )
    for index, token in enumerate(prompt):
        if not isinstance(token, int) or not 0 <= token < vocab:
            raise UsageError(f"prompt token {index} is {token!r}; ids of this model lie in 0..{vocab - 1}")
    _check_whole("max_tokens", request.max_tokens, 1, 2**63)
    _check_sampling(request.sampling)
    _check_stops(request.stop)


def _check_sampling(sampling: Sampling) -> None:
    temperature = sampling.temperature
    # Below the lowest, 1 / temperature times a logit leaves float32; NaN fails every comparison and so lands here too.
    if not isinstance(temperature, int | float) or not (
        temperature == 0.0 or LOWEST_TEMPERATURE <= temperature <= HIGHEST_TEMPERATURE
    ):
        raise UsageError(
            f"temperature is {temperature!r}; it may be 0 (the arg-max) or {LOWEST_TEMPERATURE:g} to "
            f"{HIGHEST_TEMPERATURE:g}"
        )
    _check_whole("seed", sampling.seed, 0, 2**64)
    _check_whole("sample", sampling.sample, 0, 2**32)


def _check_whole(name: str, value: int, lowest: int, end: int) -> None:
    if not isinstance(value, int) or not lowest <= value < end:
        raise UsageError(
            f"{name} is {value!r}; it may be a whole number from {lowest} to 2**{end.bit_length() - 1} - 1"
        )


def _check_stops(stops: tuple[str, ...]) -> None:
    if len(stops) > MOST_STOPS:
        raise UsageError(f"stop has {len(stops)} strings; give at most {MOST_STOPS}")
    for stop in stops:
        if not isinstance(stop, str) or not stop:
            raise UsageError(f"stop contains {stop!r}; a stop string has at least one character")
