"""Drafters that other packages bring: entry points of the group `outrider.drafters` (docs/plugins.md).

Nothing is looked for, and no plugin's code runs, before somebody asks for a name that is not built in.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from outrider.errors import UsageError

if TYPE_CHECKING:
    from outrider.drafters.base import Drafter  # brings numpy, which --help does not wait for

GROUP = "outrider.drafters"
BUILT_IN = ("auto", "ngram", "suffix", "recycle", "store", "head", "model", "none")
# those that can use a draft model, a store, or a drafting head
WITH_MODEL, WITH_STORE, WITH_HEAD = ("auto", "model"), ("auto", "store"), ("auto", "head")
VERBS = ("begin", "propose", "observe", "end")


def check(name: str) -> None:
    """Raise UsageError unless a drafter of this name is built in or installed."""
    if name not in BUILT_IN:
        _find(name)


def make(name: str) -> Drafter:
    """A fresh drafter of a plugin: what its entry point, a class or a function without arguments, returns.

    Raises UsageError where no plugin has the name, where it cannot be imported, and where what it makes is no drafter.
    """
    entry = _find(name)
    where = f"drafter {name!r} of the plugin {entry.value!r}"
    try:
        made: Drafter = entry.load()()
    except Exception as error:
        raise UsageError(
            f"{where} could not be made ({type(error).__name__}: {error}); mend or uninstall its package, or choose "
            "another drafter"
        ) from error
    missing = absent_verbs(made)
    if missing:
        raise UsageError(
            f"{where} is a {type(made).__name__} without {', '.join(missing)}; the entry point has to name a class or "
            "a function that takes no arguments and returns a drafter (outrider.drafters.base)"
        )
    return made


def absent_verbs(drafter: object) -> list[str]:
    """The verbs of the Drafter protocol that an object lacks, in the order of their use; none for a drafter."""
    return [verb for verb in VERBS if not callable(getattr(drafter, verb, None))]


def _find(name: str) -> EntryPoint:
    installed = _installed()
    found = installed.get(name)
    if found is None:
        plugins = ", ".join(map(repr, sorted(installed))) or "none"
        raise UsageError(
            f"drafter is {name!r}; built in are {', '.join(map(repr, BUILT_IN))}; installed plugins: {plugins}"
        )
    return found


def _installed() -> Mapping[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}
