"""The default model with its first 28 of 30 layers as its draft model, which agree with it about half the time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.model.answers import Sums, World, ids_of
from tests.model.conftest import Prompts

from outrider.api import Request, Sampling
from outrider.backends.native import NativeBackend
from outrider.core import rules
from outrider.drafters.model import ModelDrafter
from outrider.drafters.vocabularies import Bridge, match
from outrider.models.spec import ModelFile

pytestmark = pytest.mark.model
LAYERS = 28
GAMMA = 4
TOKENS = 5 * (GAMMA + 1)  # so that the last pass has room for a whole draft


@pytest.fixture(scope="module")
def shallow(model_file: ModelFile) -> Iterator[NativeBackend]:
    """The model without its last layers; every test gives its sequences back."""
    tensors = {
        name: tensor
        for name, tensor in model_file.tensors.items()
        if not name.startswith("blk.") or int(name.split(".")[1]) < LAYERS
    }
    backend = NativeBackend(replace(model_file, spec=replace(model_file.spec, layers=LAYERS), tensors=tensors))
    yield backend
    assert backend.open_sequences == 0


@pytest.fixture(scope="module")
def bridge(world: World) -> Bridge:
    return match(world.tokenizer, world.tokenizer, world.backend.vocab, world.backend.vocab)


def asked(prompts: Prompts, temperature: float) -> list[Request]:
    return [
        Request(prompts[group][0], TOKENS, Sampling(temperature, seed=seed, top_p=0.95), ignore_eos=True)
        for seed, group in enumerate(("qa", "mt_bench", "translation"))
    ]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_smaller_model_changes_nothing_and_is_often_right(
    world: World, shallow: NativeBackend, bridge: Bridge, prompts: Prompts, temperature: float
) -> None:
    requests = asked(prompts, temperature)
    plain = world.answers(requests)
    found = world.speculative(ModelDrafter(shallow, bridge), GAMMA).answers(requests)
    assert ids_of(found) == ids_of(plain)
    sums = Sums.of(found)
    assert sums.accepted > 0
    assert sums.rejected > 0
    assert sums.passes < 0.9 * sums.tokens


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_model_itself_is_always_right(world: World, bridge: Bridge, prompts: Prompts, temperature: float) -> None:
    """Case 2, with the rules that draw with noise of their own too."""
    requests = asked(prompts, temperature)[:1]
    for rule in (rules.COUPLED, rules.BLOCK):
        drafter = ModelDrafter(world.backend, bridge, rule)
        sums = Sums.of(replace(world.speculative(drafter, GAMMA), rule=rule).answers(requests))
        assert (sums.drafted, sums.rejected, sums.passes) == (5 * GAMMA, 0, 5)
