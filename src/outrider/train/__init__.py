"""Trains drafting heads on the target's own answers. torch is imported when a run starts, not before."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

from outrider.errors import UsageError
from outrider.train.types import Progress, Result, TrainOptions

__all__ = ["run"]


def run(options: TrainOptions, report: Callable[[Progress], None]) -> Result:
    """Train a head and write it into options.out; see TrainOptions.

    Raises UsageError where torch is missing, the data are empty or damaged, a checkpoint belongs to another run, or
    the disk is full; ModelFileError for the target. What a run had reached by then lies in its checkpoint.
    """
    if find_spec("torch") is None:
        raise UsageError("training needs torch; install it with: pip install 'outrider[train]'")
    result: Result = import_module("outrider.train.loop").run(options, report)
    return result
