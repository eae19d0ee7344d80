"""A toy target whose answers a head can learn, and what it wrote."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from outrider.backends.base import Extend, Want
from outrider.backends.native import NativeBackend
from outrider.models import gguf
from outrider.models.spec import TensorType
from outrider.testing.gguf_maker import tiny_llama
from outrider.train.types import TrainOptions

QUESTIONS, QUESTION_TOK, ANSWER_TOK = 160, 6, 40
_LAST_DRAWN = 40  # ids that questions are made of: few, so that much of the text is seen twice


def target(folder: Path) -> Path:
    """A tiny model of random weights, but that each output row is the embedding of another id.

    After a token it therefore mostly writes that other one. Only the last layer's attention adds anything, which makes
    the exceptions.
    """
    path = tiny_llama(folder / "toy.gguf", layers=3, layer_type=TensorType.Q8_0, tied=False, seed=5)
    tensors = gguf.read(path).tensors
    values = np.memmap(path, np.uint8, "r+")
    rows, output = (
        values[tensors[name].offset : tensors[name].offset + tensors[name].nbytes].reshape(tensors[name].shape[0], -1)
        for name in ("token_embd.weight", "output.weight")
    )
    output[3:] = rows[3 + (np.arange(len(rows) - 3) * 5 + 1) % (len(rows) - 3)]
    for name in ("blk.0.ffn_down", "blk.1.ffn_down", "blk.2.ffn_down", "blk.0.attn_output", "blk.1.attn_output"):
        tensor = tensors[f"{name}.weight"]
        values[tensor.offset : tensor.offset + tensor.nbytes] = 0
    values.flush()
    return path


def greedy(backend: NativeBackend, prompt: Sequence[int], count: int) -> list[int]:
    """The likeliest `count` tokens after a prompt."""
    seq = backend.open()
    answer: list[int] = []
    new = list(prompt)
    for _ in range(count):
        scores = backend.extend([Extend(seq, new, None, [Want.NONE] * (len(new) - 1) + [Want.TOKEN])])
        backend.commit([(seq, range(len(new)))])
        new = [scores.token(0, len(new) - 1)]
        answer += new
    backend.close(seq)
    return answer


def write(path: Path, model: Path, questions: int = QUESTIONS) -> Path:
    """A data file of the toy's greedy answers."""
    backend = NativeBackend(gguf.read(model), threads=1)
    chance = np.random.default_rng(3)
    with path.open("w") as stream:
        for number in range(questions):
            prompt = chance.integers(3, _LAST_DRAWN, QUESTION_TOK).tolist()
            answer = greedy(backend, prompt, ANSWER_TOK)
            line = {"seed": None, "prompt": prompt, "answer": answer, "ended": number % 2 == 0}
            stream.write(json.dumps(line) + "\n")
    return path


def options(folder: Path, out: str = "head", **changes: Any) -> TrainOptions:
    """A run on the toy's data, of a few seconds: 23 steps."""
    fields: dict[str, Any] = {
        "target": folder / "toy.gguf",
        "data": (folder / "toy.jsonl",),
        "out": folder / out,
        "epochs": 0.5,
        "draft_vocab": 300,
        "depth": 3,
        "learning_rate": 1e-2,
        "batch_tokens": 128,
        "held_out": 0.1,
        "threads": 1,
        **changes,
    }
    return TrainOptions(**fields)
