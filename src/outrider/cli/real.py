"""The real doors of the commands: outrider.load and the model cache, imported when somebody goes through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from outrider.cli.tools import Load, Model, Tools

if TYPE_CHECKING:
    from outrider.backends.base import Backend
    from outrider.models.cache import Cached


def _load(how: Load) -> Model:
    from outrider.loading import load

    return load(how.model, how.drafter, how.gamma, how.threads, rule=how.rule)


def _backend(model: str | None, threads: int | None) -> tuple[str, Backend]:
    from outrider.loading import load

    llm = load(model, "none", None, threads)
    return llm.name, llm.backend


def _cached() -> Sequence[Cached]:
    from outrider.models.sources import cached

    return cached()


TOOLS = Tools(_load, _backend, _cached)
