"""Where a run that goes on from another one begins: at the weights of that one's checkpoint or, where only the head is
left, at those of the head, which are quantised.

Dimensions: D draft vocabulary, H hidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from outrider.errors import UsageError
from outrider.models import headfile
from outrider.train import checkpoint
from outrider.train.corpus import Ids
from outrider.train.packing import unpacked
from outrider.train.types import Kind


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """Another run's head, and what it is for."""

    folder: Path
    target: str  # fingerprint, in hex
    kind: Kind
    taps: tuple[int, ...]
    depth: int
    ids: Ids  # [D]
    weights: Mapping[str, Tensor]  # by parameter, among them "head" [D, H]

    def check(self, target: str, kind: Kind, taps: tuple[int, ...], depth: int) -> None:
        """Raise UsageError unless a head of these could have these weights."""
        for name, was, value in (
            ("target", self.target, target),
            ("kind", self.kind.value, kind.value),
            ("taps", self.taps, taps),
            ("depth", self.depth, depth),
        ):
            if was != value:
                raise UsageError(
                    f"the head in {self.folder} has {name} {was!s:.24}, not {value!s:.24}; start from another one, or "
                    "train with what it was trained with"
                )

    def rows(self, ids: Ids, others: Tensor) -> Tensor:
        """The matrix `head` for another draft vocabulary [D']: what is known of it, and the rest as in `others`."""
        known = self.weights["head"]
        place = {int(token): entry for entry, token in enumerate(self.ids)}
        rows = others.clone()
        for entry, token in enumerate(ids.tolist()):
            if token in place:
                rows[entry] = known[place[token]]
        return rows


def read(folder: Path) -> Origin:
    """What a folder has to start from. Raises UsageError where that is nothing, or damaged."""
    found = checkpoint.load(folder)
    if found is not None:
        was = found["identity"]
        weights = found["best"] or found["weights"]
        kind, taps = Kind(was["kind"]), tuple(was["taps"])
        return Origin(folder, was["target"], kind, taps, was["depth"], found["ids"].numpy(), weights)
    if not (folder / headfile.SPEC_NAME).exists():
        raise UsageError(f"{folder} has neither {checkpoint.NAME} nor a head to start from; give another run's folder")
    head = headfile.read(folder)
    spec = head.spec
    matrices = {
        name: torch.from_numpy(unpacked(array, spec.types.get(name, "F32")))
        for name, array in head.tensors.items()
        if name != "ids"
    }
    ids = head.tensors["ids"].astype(np.int32)
    return Origin(folder, spec.fingerprint, Kind(spec.kind.value), spec.taps, spec.depth, ids, matrices)
