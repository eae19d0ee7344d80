"""Keyed noise: the published vectors, the open interval, and independence of what else is computed."""

from __future__ import annotations

import numpy as np
import pytest

from outrider.core import noise

ONES = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_published_vectors(
    counter: tuple[int, ...], key: tuple[int, int], expected: tuple[int, ...]
) -> None:
    found = noise.philox(np.array(counter, np.uint32)[:, None], key)
    assert tuple(int(word) for word in found[:, 0]) == expected


def test_words_follow_the_stated_counter_and_key() -> None:
    seed, sample, position = (0xA4093822 << 32) | 0x299F31D0, 7, 11
    found = noise.words(10, seed, sample, position)
    for token in range(10):
        counter = np.array([[token // 4], [position], [sample], [0]], np.uint32)
        assert found[token] == noise.philox(counter, (0x299F31D0, 0xA4093822))[token % 4, 0]


def test_uniforms_lie_strictly_inside_the_unit_interval() -> None:
    edges = noise.uniform(np.array([0, 1, ONES - 128, ONES - 1, ONES], np.uint32))
    assert edges.dtype == np.float32
    assert edges[0] == np.float32(2.0**-33)
    assert edges[-1] == np.float32(1.0 - 2.0**-24)
    assert np.all((edges > 0.0) & (edges < 1.0))


def test_gumbels_of_the_edges_are_finite() -> None:
    from outrider.core import maths

    exponential = -maths.log_one_minus(noise.uniform(np.array([0, ONES], np.uint32)))
    gumbels = -maths.log(exponential)
    np.testing.assert_allclose(gumbels, [33 * np.log(2.0), -np.log(24 * np.log(2.0))], rtol=1e-6)


def test_every_part_of_the_key_matters_and_the_vocabulary_does_not() -> None:
    base = noise.gumbel(64, 1, 2, 3)
    others = [noise.gumbel(64, 2, 2, 3), noise.gumbel(64, 1, 3, 3), noise.gumbel(64, 1, 2, 4)]
    others.append(noise.gumbel(64, 1 + 2**32, 2, 3))
    assert all(not np.array_equal(base, other) for other in others)
    np.testing.assert_array_equal(noise.gumbel(61, 1, 2, 3), base[:61])


def test_gumbels_have_the_moments_of_their_law() -> None:
    # Mean 0.5772 and variance pi**2 / 6; the bounds are 6 standard errors of 200,000 values.
    values = noise.gumbel(200_000, 5, 0, 9).astype(np.float64)
    assert abs(values.mean() - 0.5772157) < 6 * np.sqrt(np.pi**2 / 6 / len(values))
    assert abs(values.var() - np.pi**2 / 6) < 6 * np.sqrt((5.4 - 1) * (np.pi**2 / 6) ** 2 / len(values))
