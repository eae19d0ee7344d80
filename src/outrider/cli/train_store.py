"""`outrider train --kind store`: the target's own text as a store, with what it was made of beside it."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from outrider.cli.render import count
from outrider.cli.tools import Target
from outrider.drafters import storefile
from outrider.errors import UsageError
from outrider.train import data

NAME, SIDECAR = "answers.store", "answers.json"
FORMAT = 1
TAIL = 8  # ids of the prompt that are kept: how the first words of an answer are found again


def build(target: Target, files: Sequence[Path], out: Path, command: str) -> str:
    """Writes the store and its provenance; returns what to tell. Raises UsageError for data and disks that fail."""
    dialogues = target.dialogues(files)
    path = out / NAME
    try:
        out.mkdir(parents=True, exist_ok=True)
        tokens = storefile.build(path, documents(dialogues, target.end), target.vocab, target.digest)
        size = path.stat().st_size
        made = {
            "format": FORMAT,
            "kind": "store",
            "target": {"name": target.name, "fingerprint": target.fingerprint.hex()},
            "tokenizer": target.digest.hex(),
            "tokens": tokens,
            "documents": len(dialogues),
            "bytes": size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "provenance": {
                "command": command,
                "data": [_origin(file, target.vocab) for file in files],
                "versions": _versions(),
            },
        }
        _replace(out / SIDECAR, json.dumps(made, indent=1) + "\n")
    except OSError as error:
        raise UsageError(f"--out {out} cannot be written ({error.strerror}): free space, or name another") from None
    answers = count(len(dialogues), "answer")
    return f"{path}: {tokens:,} tokens of {answers}, {size / 1e6:.1f} MB ({size / tokens:.2f} bytes a token)"


def documents(dialogues: Sequence[data.Dialogue], end: int | None) -> Iterator[npt.NDArray[np.int32]]:
    """Each answer behind the last ids of its prompt; one that ended by itself with the end of text, to be guessed."""
    for one in dialogues:
        tail = [end] if one.ended and end is not None else []
        yield np.concatenate([one.prompt[-TAIL:], one.answer, np.array(tail, np.int32)])


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "numpy": np.__version__}
    with suppress(PackageNotFoundError):  # run from its sources
        found["outrider"] = version("outrider")
    return found


def _origin(file: Path, vocab: int) -> dict[str, Any]:
    recipe = data.recipe_of(file)
    found = list(data.lines(file, vocab))
    seeds = [line.seed for line in found if line.seed is not None]
    return {
        "file": file.name,
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "answers": len(found),
        "tokens": sum(len(line.answer) for line in found),
        "seeds": [min(seeds), max(seeds)] if seeds else None,
        "recipe": None if recipe is None else asdict(recipe),
    }


def _replace(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, "utf-8")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
