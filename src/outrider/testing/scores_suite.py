"""What the rows of every backend's passes must answer; backend_suite.CHECKS has these checks too.

Dimensions: V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from outrider.backends.base import GREEDY, Adjust, Backend, Draw, Extend, Scores, Want
from outrider.core import sampling
from outrider.core.types import WordArray
from outrider.errors import UsageError
from outrider.testing.checks import PROMPT, Maker, prompt, refused

# Every filter alone and together; the positions of a prompt times these are enough to see each of them act.
_DRAWS = (
    GREEDY,
    Draw(1.0, 42),
    Draw(0.7, 2**63 + 5, 3),
    Draw(1.3, 43, top_k=3),
    Draw(2.0, 42, top_p=0.6),
    Draw(1.5, 44, min_p=0.3),
    Draw(1.0, 45, typical_p=0.5),
    Draw(0.9, 46, 1, 6, 0.8, 0.1, 0.9),
    Draw(0.0, 47, 0, 2, 0.5, 0.5, 0.5),
)


def _scored(backend: Backend, draws: Sequence[Draw], want: Want) -> Scores:
    """The prompt in one pass, a new sequence for each draw."""
    tokens = prompt(backend)
    return backend.extend([Extend(backend.open(), tokens, None, [want] * PROMPT, draw) for draw in draws])


def draws_are_the_reference(make: Maker) -> None:
    """The token of a row is core.sampling's for its logits and the position after it, greedy and drawn alike."""
    backend = make()
    scores, again = _scored(backend, _DRAWS, Want.LOGITS), _scored(backend, _DRAWS, Want.TOKEN)
    found: list[list[int]] = []
    for item, draw in enumerate(_DRAWS):
        rows = [np.array(scores.logits(item, row)) for row in range(PROMPT)]
        expected = [sampling.token(row, draw, place + 1) for place, row in enumerate(rows)]
        assert [scores.token(item, row) for row in range(PROMPT)] == expected, f"{draw} differs from the reference"
        assert [again.token(item, row) for row in range(PROMPT)] == expected, "asking for the token alone changes it"
        found.append(expected)
    assert len({tuple(row) for row in found}) > 5, "most draws agree, so this check sees nothing"


def adjusted_draws_are_the_reference(make: Maker) -> None:
    """Penalties, bias and masks act as core.sampling says, and leave no trace on the row."""
    backend = make()
    scores, changed = _scored(backend, _DRAWS, Want.LOGITS), 0
    for item, draw in enumerate(_DRAWS):
        for row in range(PROMPT):
            logits = np.array(scores.logits(item, row))
            before = scores.token(item, row)
            for seed in range(2):
                adjust = _adjust(backend.vocab, PROMPT * seed + row)
                expected = sampling.token(logits, draw, row + 1, adjust)
                assert scores.token(item, row, adjust) == expected, f"{draw} with {adjust} differs from the reference"
                changed += before != expected
            assert scores.token(item, row) == before, "an adjusted token is remembered as the row's own"
            assert scores.logits(item, row).tobytes() == logits.tobytes(), "adjusting changes the logits"
    assert changed > PROMPT, "adjusting changes next to nothing, so this check sees nothing"


def laws_are_the_reference(make: Maker) -> None:
    """p and log-probabilities are core.sampling's, bit for bit, with and without adjustments."""
    backend = make()
    scores, vocab = _scored(backend, _DRAWS, Want.LOGITS), backend.vocab
    for item, draw in enumerate(_DRAWS):
        for row in range(0, PROMPT, 5):
            logits, chosen = np.array(scores.logits(item, row)), (7 * row) % vocab
            for adjust in (None, _adjust(vocab, row)):
                law = scores.law(item, row, adjust)
                assert law.dtype == np.float32, f"p is {law.dtype}"
                assert law.tobytes() == sampling.law(logits, draw, adjust).tobytes(), f"p under {draw} differs"
                for top, processed in ((0, True), (5, False), (5, True), (vocab + 1, True)):
                    told = scores.logprobs(item, row, chosen, top, processed, adjust)
                    expected = sampling.logprobs(logits, chosen, top, draw if processed else None, adjust)
                    assert told == expected, f"log-probabilities under {draw} differ: {told} is not {expected}"


def tops_are_the_reference(make: Maker) -> None:
    """The likeliest ids are core.sampling's for the raw logits, whatever is drawn; wanting the token is enough."""
    backend = make()
    scores, again = _scored(backend, _DRAWS, Want.LOGITS), _scored(backend, _DRAWS, Want.TOKEN)
    for item in range(len(_DRAWS)):
        for row in range(0, PROMPT, 5):
            logits = np.array(scores.logits(item, row))
            for count in (0, 1, 3, backend.vocab, backend.vocab + 1):
                expected = sampling.top(logits, count)
                assert scores.top(item, row, count) == expected, f"the top {count} differ from the reference"
                assert again.top(item, row, count) == expected, "asking for the token alone changes the top"


def scores_give_what_was_asked(make: Maker) -> None:
    """Rows give logits [V] in float32, read-only; a row that did not want something refuses it."""
    backend = make()
    scores: Scores = backend.extend([Extend(backend.open(), [1, 2, 3], None, [Want.NONE, Want.TOKEN, Want.LOGITS])])
    logits, vocab = scores.logits(0, 2), backend.vocab
    assert logits.shape == (vocab,), f"logits have shape {logits.shape}"
    assert logits.dtype == np.float32, f"logits are {logits.dtype}"
    assert not logits.flags.writeable, "logits can be written to"
    good = _adjust(vocab, 1)
    for adjust in (None, good):
        assert 0 <= scores.token(0, 1, adjust) < vocab, "a token is not an id"
    asks: dict[str, Callable[[int, int], object]] = {
        "token": scores.token,
        "adjusted token": partial(scores.token, adjust=good),
        "top of the token": partial(scores.top, count=2),
        "logits": scores.logits,
        "law": scores.law,
        "log-probabilities": partial(scores.logprobs, chosen=0, top=1, processed=False),
    }
    for name, ask in asks.items():
        refused(UsageError, partial(ask, 0, 0), f"the {name} of a row that wanted nothing")
        if "token" not in name:
            refused(UsageError, partial(ask, 0, 1), f"the {name} of a row that wanted its token")
        for item, row in ((0, 3), (0, -1), (1, 0), (-1, 0)):
            refused(UsageError, partial(ask, item, row), f"the {name} of row {row} of item {item}")
    refused(UsageError, partial(scores.top, 0, 1, -1), "a count of -1")
    for chosen, top in ((-1, 1), (vocab, 1), (0, -1)):
        refused(UsageError, partial(scores.logprobs, 0, 2, chosen, top, False), f"id {chosen} and top {top}")
    for adjust, what in _bad_adjusts(vocab):
        for call in (
            partial(scores.token, 0, 1),
            partial(scores.law, 0, 2),
            partial(scores.logprobs, 0, 2, 0, 1, True),
        ):
            refused(UsageError, partial(call, adjust=adjust), what)


CHECKS: tuple[Callable[[Maker], None], ...] = (
    draws_are_the_reference,
    adjusted_draws_are_the_reference,
    laws_are_the_reference,
    tops_are_the_reference,
    scores_give_what_was_asked,
)


def _adjust(vocab: int, seed: int) -> Adjust:
    """Some ids moved, ties and impossible ids among them; of every four, one masks half the ids and one all but one."""
    chance = np.random.default_rng(seed)
    ids = chance.choice(vocab, min(vocab, 12) // 2, replace=False).astype(np.int32)
    divisors = chance.choice(np.array([1.0, 1.3, 0.5], np.float32), len(ids))
    offsets = chance.choice(np.array([0.0, 3.0, -3.0, -np.inf], np.float32), len(ids))
    mask: WordArray | None = None
    if seed % 4 == 0:
        mask = chance.integers(0, 2**32, -(-vocab // 32), dtype=np.uint32)
    elif seed % 4 == 1:
        mask, only = np.zeros(-(-vocab // 32), np.uint32), int(chance.integers(vocab))
        mask[only // 32] = 1 << only % 32
    return Adjust(ids, divisors, offsets, mask)


def _bad_adjusts(vocab: int) -> list[tuple[Adjust, str]]:
    one, words = np.ones(1, np.float32), np.ones(-(-vocab // 32) + 1, np.uint32)

    def moved(token: int) -> Adjust:
        return Adjust(np.array([token], np.int32), one, one, None)

    return [
        (moved(vocab), "an adjusted id over the vocabulary"),
        (moved(-1), "a negative adjusted id"),
        (replace(moved(1), divisors=one[:0]), "fewer divisors than ids"),
        (replace(moved(1), offsets=one[:0]), "fewer offsets than ids"),
        (replace(moved(1), mask=words[:-2]), "a mask that is too short"),
        (replace(moved(1), mask=words), "a mask that is too long"),
    ]
