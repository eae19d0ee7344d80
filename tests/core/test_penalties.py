"""Penalties along a text that grows and shrinks are those of the text as it stands."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from outrider.api import Sampling
from outrider.core.penalties import Penalties, wanted

VOCAB = 300
IDS = st.integers(0, VOCAB - 1)


def rows(penalties: Penalties) -> dict[int, tuple[float, float]]:
    """What moves, by id; ids that stay as they are do not count."""
    ids, divisors, offsets = penalties.moved()
    assert len(set(ids.tolist())) == len(ids)
    found = zip(ids.tolist(), divisors.tolist(), offsets.tolist(), strict=True)
    return {token: (divisor, offset) for token, divisor, offset in found if (divisor, offset) != (1.0, 0.0)}


def written_down(sampling: Sampling, prompt: list[int], answer: list[int]) -> dict[int, tuple[float, float]]:
    counts, bias = Counter(answer), dict(sampling.logit_bias)
    found = {}
    for token in range(VOCAB):
        divisor = float(np.float32(sampling.repetition_penalty)) if token in counts or token in prompt else 1.0
        offset = bias.get(token, 0.0) - sampling.frequency_penalty * counts[token]
        offset = float(np.float32(offset - (sampling.presence_penalty if counts[token] else 0.0)))
        if (divisor, offset) != (1.0, 0.0):
            found[token] = (divisor, offset)
    return found


@given(
    st.builds(
        Sampling,
        repetition_penalty=st.sampled_from([1.0, 1.3, 0.5]),
        frequency_penalty=st.sampled_from([0.0, 0.7, -2.0]),
        presence_penalty=st.sampled_from([0.0, 1.1, -0.1]),
        logit_bias=st.dictionaries(IDS, st.floats(-100, 100), max_size=5).map(lambda found: tuple(found.items())),
    ),
    st.lists(IDS, max_size=100),
    st.lists(st.none() | IDS, max_size=200),
)
def test_any_walk(sampling: Sampling, prompt: list[int], walk: list[int | None]) -> None:
    """None takes the last token back."""
    penalties, answer = Penalties(sampling, prompt), list[int]()
    for step in walk:
        if step is not None:
            answer.append(step)
            penalties.push(step)
        elif answer:
            penalties.pop(answer.pop())
    assert rows(penalties) == written_down(sampling, prompt, answer)


def test_what_is_wanted() -> None:
    assert not wanted(Sampling(1.0, top_k=5, top_p=0.5))
    assert wanted(Sampling(repetition_penalty=1.1))
    assert wanted(Sampling(frequency_penalty=-0.1))
    assert wanted(Sampling(presence_penalty=0.1))
    assert wanted(Sampling(logit_bias=((1, 0.0),)))
