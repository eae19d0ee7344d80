"""Where a run is, on disk: written whole or not at all, and read only by the run that it belongs to."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from outrider.errors import UsageError
from outrider.train.types import Acceptance

NAME = "checkpoint.pt"
_FORMAT = 1


@dataclass(slots=True)
class State:
    """What changes while a run goes on, besides weights and optimiser. Chance is keyed by seed and step."""

    step: int = 0
    steps: int | None = None  # None where the minutes decide
    evaluated: int = 0  # step of the last evaluation
    trained_tokens: int = 0
    seconds: float = 0.0
    best: Acceptance | None = None
    since_best: int = 0  # evaluations
    curve: list[tuple[int, list[float]]] = field(default_factory=list)  # trained tokens, alpha


def save(folder: Path, identity: dict[str, Any], state: State, tensors: dict[str, Any]) -> None:
    """Replace the checkpoint. Raises UsageError where it cannot be written; the old one is then still there."""
    path = folder / NAME
    part = folder / f".{NAME}.{os.getpid()}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(part, "wb") as stream:
            torch.save({"format": _FORMAT, "identity": identity, "state": asdict(state), **tensors}, stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(part, path)
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        raise UsageError(
            f"{path} cannot be written ({error}); the one before it is kept: make room and start the command again"
        ) from None
    finally:
        with suppress(OSError):
            os.unlink(part)


def load(folder: Path) -> dict[str, Any] | None:
    """The checkpoint of a folder, None where there is none. Raises UsageError for one that is damaged."""
    path = folder / NAME
    if not path.exists():
        return None
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises whatever the damaged bytes lead it to
        raise UsageError(f"{path} is damaged ({type(error).__name__}); remove it to start again") from None
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise UsageError(f"{path} is no checkpoint of this version; remove it to start again")
    return found


def state_of(found: dict[str, Any]) -> State:
    """Its State."""
    fields = dict(found["state"])
    best = fields.pop("best")
    return State(**fields, best=None if best is None else Acceptance(tuple(best.pop("alpha")), **best))


def check(folder: Path, found: dict[str, Any], identity: dict[str, Any]) -> None:
    """Raise UsageError unless the checkpoint is of a run with these options and these data."""
    for name, value in identity.items():
        was = found["identity"].get(name)
        if was != value:
            raise UsageError(
                f"{folder / NAME} belongs to a run with {name} {_short(was)}, not {_short(value)}; give the same "
                "options and data, another folder (with --start to take its weights), or remove it"
            )


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 40 else text[:37] + "..."
