"""Outrider: speculative decoding that never changes a token.

    import outrider

    llm = outrider.load()
    print(llm.generate("Why is the sky blue?").text)

The public names below are imported when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outrider.api import (
        Chunk,
        Constraint,
        ConstraintKind,
        FinishReason,
        Generator,
        Logprob,
        LogprobsMode,
        Origin,
        Pass,
        Request,
        Sampling,
        Usage,
    )
    from outrider.errors import BackendError, ModelFileError, OutriderError, SourceError, UsageError
    from outrider.llm import LLM, Result
    from outrider.loading import load

__all__ = [
    "LLM",
    "BackendError",
    "Chunk",
    "Constraint",
    "ConstraintKind",
    "FinishReason",
    "Generator",
    "Logprob",
    "LogprobsMode",
    "ModelFileError",
    "Origin",
    "OutriderError",
    "Pass",
    "Request",
    "Result",
    "Sampling",
    "SourceError",
    "Usage",
    "UsageError",
    "load",
]

_MODULES = {
    **dict.fromkeys(("LLM", "Result"), "llm"),
    **dict.fromkeys(("BackendError", "ModelFileError", "OutriderError", "SourceError", "UsageError"), "errors"),
    "load": "loading",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'api')}"), name)


def __dir__() -> list[str]:
    return __all__
