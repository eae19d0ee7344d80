"""Models made once, and the instruction sets of this machine."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.native import models

from outrider import _native
from outrider.backends.native import NativeBackend
from outrider.models.spec import ModelFile

Maker = Callable[[str], ModelFile]


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    """The named model of models.MAKERS, written once."""
    folder = tmp_path_factory.mktemp("models")
    made: dict[str, ModelFile] = {}

    def get(name: str) -> ModelFile:
        if name not in made:
            made[name] = models.make(name, folder)
        return made[name]

    return get


@pytest.fixture(scope="session")
def plain(model: Maker) -> NativeBackend:
    """The plain model on the best instruction set with two threads."""
    return NativeBackend(model("plain"), threads=2)


@pytest.fixture(params=_native.isas())
def isa(request: pytest.FixtureRequest) -> str:
    """Each instruction set that this machine has."""
    return str(request.param)
