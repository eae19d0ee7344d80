"""The real doors of the commands: outrider.load and the model cache, imported when somebody goes through."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from outrider.cli.tools import Field, Load, Model, Site, Tools
from outrider.errors import UsageError

if TYPE_CHECKING:
    from outrider.models.cache import Cached


def _load(how: Load) -> Model:
    from outrider.loading import load

    return load(how.model, how.drafter, how.gamma, how.threads, rule=how.rule)


def _site(model: str | None, threads: int | None) -> Site:
    from outrider.loading import generator, load, make_drafter
    from outrider.models import sources

    file = sources.resolve(model)
    llm = load(file, "none", None, threads)

    def encode(text: str) -> list[int]:
        try:
            return llm.encode(text)
        except UsageError:  # no chat template
            return llm.encode(text, raw=True)

    return Site(llm.name, file, llm.backend, encode, make_drafter, partial(generator, llm))


def _cached() -> Sequence[Cached]:
    from outrider.models.sources import cached

    return cached()


def _field(model: str | None, threads: int | None, drafters: Sequence[str]) -> Field:
    from outrider.loading import generator, load

    llm = load(model, "none", None, threads)
    try:
        llm.encode([{"role": "user", "content": "Hello"}])
    except UsageError:
        raise UsageError(f"--model {llm.name} has no usable chat template, which the questions need") from None
    able = llm.backend.capabilities
    return Field(llm.name, able.isa, able.threads, llm.encode, {name: generator(llm, name) for name in drafters})


TOOLS = Tools(_load, _site, _cached, _field)
