"""What comes with the package for a model that it knows: a drafting head, a store of the model's own text.

Each lies, as `outrider train` wrote it, in a folder of outrider/shipped whose name ends with the first 16 digits of the
model's fingerprint; a file beside it says what it was made of, and by which command.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "shipped"
DIGITS = 16
_HEAD, _STORE = "head.json", "answers.store"


@dataclass(frozen=True, slots=True)
class Shipped:
    """The folder of a head, the file of a store; None: there is none."""

    head: Path | None = None
    store: Path | None = None


def find(fingerprint: bytes) -> Shipped:
    """What there is for a model (models.fingerprint). Whoever loads it checks whether it fits."""
    for folder in FOLDER.glob(f"*-{fingerprint.hex()[:DIGITS]}"):
        head, store = folder / _HEAD, folder / _STORE
        return Shipped(folder if head.is_file() else None, store if store.is_file() else None)
    return Shipped()
