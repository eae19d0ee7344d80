"""From weights to the files of a head: quantised, measured as they are in the file, with their story.

Dimensions: D draft vocabulary, H hidden.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import torch

from outrider.models import headfile
from outrider.models.safetensors import Array
from outrider.train.batch import Batch
from outrider.train.checkpoint import State
from outrider.train.evaluate import Tally, measure
from outrider.train.packing import pack, unpacked
from outrider.train.setup import Setup
from outrider.train.sizes import head_spec
from outrider.train.types import Result, TrainOptions


def finish(setup: Setup, state: State, batches: Sequence[Batch], early: bool) -> Result:
    """Write the head into options.out and say how good it is. The module's weights are quantised by it.

    Raises UsageError where the folder cannot be written.
    """
    options = setup.options
    before = measure(setup.head, batches, options.depth).acceptance()
    tensors, types = quantised(setup)
    tally = measure(setup.head, batches, options.depth, calibrate=True)
    spec = replace(
        head_spec(options, setup.target.spec),
        fingerprint=setup.fingerprint,
        types=types,
        temperature=tally.temperature(),
        provenance=_provenance(setup, state, tally, early),
    )
    headfile.write(options.out, spec, tensors)
    return Result(
        folder=options.out,
        acceptance=tally.acceptance(),
        before_quantising=before,
        coverage=setup.coverage,
        temperature=spec.temperature,
        trained_tokens=state.trained_tokens,
        steps=state.step,
        seconds=state.seconds,
        stopped_early=early,
    )


def quantised(setup: Setup) -> tuple[dict[str, Array], dict[str, str]]:
    """Every tensor as the file holds it, and the types of the matrices. The module takes the quantised values too."""
    tensors: dict[str, Array] = {"ids": setup.ids}
    types: dict[str, str] = {}
    with torch.no_grad():
        for name, parameter in setup.head.named_parameters():
            values = parameter.detach().float().cpu().numpy()
            if parameter.ndim == 1:
                tensors[name] = values.copy()
                continue
            kind = setup.options.output if name == "head" else setup.options.matrices
            types[name] = kind.value
            tensors[name] = pack(values, kind)
            parameter.copy_(torch.from_numpy(unpacked(tensors[name], kind.value)))
    return tensors, types


def _provenance(setup: Setup, state: State, tally: Tally, early: bool) -> dict[str, Any]:
    found = tally.acceptance()
    texts = setup.corpus
    return {
        "command": setup.options.command,
        "options": _plain(setup.options),
        "data": {
            "files": [path.name for path in setup.options.data],
            "digest": texts.digest,
            "texts": len(texts.train),
            "answer_tokens": texts.starts,
            "held_out_texts": len(texts.held_out),
            "coverage": round(setup.coverage, 5),
        },
        "seeds": {"training": setup.options.seed},
        "versions": _versions(),
        "steps": state.step,
        "trained_tokens": state.trained_tokens,
        "seconds": round(state.seconds, 1),
        "stopped_early": early,
        "acceptance": [round(alpha, 4) for alpha in found.alpha],
        "tokens_per_pass": round(found.tau, 4),
        "held_out_tokens": found.tokens,
        "curve": [[tokens, [round(alpha, 4) for alpha in alphas]] for tokens, alphas in state.curve],
    }


def _plain(options: TrainOptions) -> dict[str, Any]:
    """What decides the result; no paths, which are about the machine and not about the head."""
    left_out = (
        "target",
        "data",
        "out",
        "start",
        "command",
        "resume",
        "threads",
        "memory_bytes",
        "states",
        "checkpoint_s",
    )
    fields = {name: value for name, value in asdict(options).items() if name not in left_out}
    return {name: getattr(value, "value", value) for name, value in fields.items()}


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__}
    for package in ("outrider", "gguf"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # run from a source tree
            found[package] = "source"
    return found
