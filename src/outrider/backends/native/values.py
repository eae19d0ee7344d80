"""How values and errors go between Python and the C++ engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeAlias, TypeVar

import numpy as np

from outrider.core import sampling
from outrider.core.sampling import Draw
from outrider.errors import BackendError, UsageError

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
DrawArguments: TypeAlias = tuple[float, int, int, int, float, float, float]


def translated(call: Callable[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
    """What the call returns; the engine's errors as Outrider's own."""
    try:
        return call(*args, **kwargs)
    except (ValueError, TypeError, OverflowError) as error:
        raise UsageError(_first_line(error)) from None
    except RuntimeError as error:
        raise BackendError(str(error)) from None
    except MemoryError:
        raise BackendError("out of memory; use shorter prompts or fewer sequences at once") from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def draw_arguments(draw: Draw, vocab: int) -> DrawArguments:
    """A Draw as the engine takes it: the factor that core.sampling uses (0 for the arg-max), and no huge top_k."""
    factor = float(sampling.inverse_temperature(draw.temperature)) if draw.temperature else 0.0
    top_k = min(draw.top_k, vocab)
    return factor, draw.seed, draw.sample, top_k, draw.top_p, float(np.float32(draw.min_p)), draw.typical_p
