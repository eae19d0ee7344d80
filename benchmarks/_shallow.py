"""A stand-in for a smaller model of the same family: the target without its last layers."""

from __future__ import annotations

from dataclasses import replace

from outrider.errors import UsageError
from outrider.models.spec import ModelFile


def shallow(file: ModelFile, layers: int) -> ModelFile:
    """The same model without its last layers. Raises UsageError unless some are left and some are not."""
    if not 0 < layers < file.spec.layers:
        raise UsageError(f"--layers is {layers}; the drafter may have 1 to {file.spec.layers - 1} of the target's")
    tensors = {
        name: tensor
        for name, tensor in file.tensors.items()
        if not name.startswith("blk.") or int(name.split(".")[1]) < layers
    }
    return replace(file, spec=replace(file.spec, layers=layers), tensors=tensors)
