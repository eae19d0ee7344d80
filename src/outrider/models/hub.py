"""Models on the Hugging Face hub, through huggingface_hub, which keeps the files in its own cache.

We remember which file an answer was, so that a source means the same file ever after, without the network.
"""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, cast

from outrider.errors import SourceError
from outrider.models import cache
from outrider.models.progress import Progress

_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


class Hub(Protocol):
    """What is used of huggingface_hub."""

    def list_repo_files(self, repo_id: str) -> list[str]: ...
    def hf_hub_download(self, repo_id: str, filename: str) -> str: ...


def load_hub() -> Hub:
    """huggingface_hub, which is optional. SourceError where it is not installed."""
    try:
        return cast(Hub, importlib.import_module("huggingface_hub"))
    except ModuleNotFoundError as error:
        raise SourceError(
            "hf: sources need the huggingface_hub package; run 'pip install huggingface_hub', "
            "or give the path of a .gguf file"
        ) from error


def split(name: str) -> tuple[str, str | None]:
    """owner/repo[/file] -> (owner/repo, file). SourceError for anything else."""
    owner, _, rest = name.partition("/")
    repository, _, file = rest.partition("/")
    if not _REPOSITORY.fullmatch(f"{owner}/{repository}") or (file and not file.lower().endswith(".gguf")):
        raise SourceError(f"'hf:{name}' is malformed; write hf:owner/repo or hf:owner/repo/file.gguf")
    return f"{owner}/{repository}", file or None


def _only_gguf(repository: str, files: list[str]) -> str:
    models = sorted(file for file in files if file.lower().endswith(".gguf"))
    if not models:
        raise SourceError(f"hf:{repository} has no .gguf file; give a repository that has one")
    if len(models) > 1:
        listed = "".join(f"\n  hf:{repository}/{model}" for model in models)
        raise SourceError(f"hf:{repository} has {len(models)} .gguf files; name one of them:{listed}")
    return models[0]


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the library's own lines about each retry: what is wrong is said once, by our error."""
    logger = logging.getLogger("huggingface_hub")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _download(repository: str, file: str | None, hub: Hub) -> Path:
    try:
        with _quiet():
            chosen = file or _only_gguf(repository, hub.list_repo_files(repository))
            return Path(hub.hf_hub_download(repository, chosen)).absolute()
    except SourceError:
        raise
    except Exception as error:  # huggingface_hub raises its own, its HTTP library's and built-in errors alike
        message = str(error).strip().splitlines() or ["no details"]
        raise SourceError(
            f"hf:{repository} cannot be fetched ({type(error).__name__}: {message[0]:.300}); check the name, the "
            "network and, for a gated repository, the access token; or give the path of a .gguf file"
        ) from error


def fetch(name: str, root: Path, progress: Progress, hub: Hub | None = None) -> Path:
    """The path of owner/repo[/file], asking the hub only the first time.

    Raises SourceError where huggingface_hub is missing, the hub is out of reach or refuses, or the file is not clear.
    """
    repository, file = split(name)
    source = f"hf:{name}"
    folder = root / "hub" / name.replace("/", "--")

    def known() -> Path | None:
        found = cache.look_up(folder)
        return found.path if found is not None and found.source == source else None

    if (path := known()) is not None:
        return path
    progress.note(f"Fetching {source}")
    path = _download(repository, file, hub or load_hub())
    with cache.making(folder, lambda: None) as staging, cache.explained(folder):
        built = staging / "model"
        built.mkdir()
        # The hub's own cache checks its files; they have no hash of ours.
        cache.write_marker(built, cache.Marker(source, str(path), path.stat().st_size, ""))
        cache.publish(built, folder, lambda: known() is not None)
    return path
