"""llama.cpp, measured one request at a time: runs in the peer's own environment, started by _peer.py.

    python _peer_llamacpp.py MODEL.gguf THREADS CONTEXT

Reads one JSON object a line and answers each with one. Between requests it waits for its input and computes nothing.
Uses the binding's low-level interface, so that a measurement holds llama_decode and little else.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from typing import Any

import llama_cpp as api
import numpy as np

BATCH = 512


class Engine:
    """One model, one context, one sequence."""

    def __init__(self, path: str, threads: int, context: int) -> None:
        self._model = api.llama_model_load_from_file(path.encode(), api.llama_model_default_params())
        if not self._model:
            raise SystemExit(f"llama.cpp cannot load {path}")
        settings = api.llama_context_default_params()
        settings.n_ctx = context
        settings.n_batch = settings.n_ubatch = BATCH
        settings.n_threads = settings.n_threads_batch = threads
        self._context = api.llama_init_from_model(self._model, settings)
        self._memory = api.llama_get_memory(self._context)
        self._vocab = api.llama_vocab_n_tokens(api.llama_model_get_vocab(self._model))
        self._batch = api.llama_batch_init(BATCH, 0, 1)

    def fill(self, tokens: list[int]) -> float:
        """Start anew with a prompt, scoring its last token only; the seconds this took."""
        api.llama_memory_clear(self._memory, True)
        start = time.perf_counter()
        for first in range(0, len(tokens), BATCH):
            part = tokens[first : first + BATCH]
            self._decode(part, first, scored=1 if first + BATCH >= len(tokens) else 0)
        self._best((len(tokens) - 1) % BATCH)
        return time.perf_counter() - start

    def passes(self, tokens: list[int], position: int, repeats: int) -> list[float]:
        """Seconds of passes over the tokens as rows, all scored, after `position` others; the first is not counted."""
        seconds = []
        for _ in range(repeats + 1):
            start = time.perf_counter()
            self._decode(tokens, position, scored=len(tokens))
            api.llama_get_logits_ith(self._context, len(tokens) - 1)
            seconds.append(time.perf_counter() - start)
            api.llama_memory_seq_rm(self._memory, 0, position, -1)
        return seconds[1:]

    def greedy(self, tokens: list[int], count: int) -> dict[str, Any]:
        """The ids of a greedy continuation, and the seconds from the first of them to the last."""
        self.fill(tokens)
        ids = [self._best((len(tokens) - 1) % BATCH)]
        start = time.perf_counter()
        while len(ids) < count:
            self._decode([ids[-1]], len(tokens) + len(ids) - 1, scored=1)
            ids.append(self._best(0))
        return {"ids": ids, "seconds": time.perf_counter() - start}

    def _decode(self, tokens: list[int], position: int, scored: int) -> None:
        """One pass; logits of the last `scored` tokens."""
        batch = self._batch
        batch.n_tokens = len(tokens)
        for row, token in enumerate(tokens):
            batch.token[row] = token
            batch.pos[row] = position + row
            batch.n_seq_id[row] = 1
            batch.seq_id[row][0] = 0
            batch.logits[row] = row >= len(tokens) - scored
        status = api.llama_decode(self._context, batch)
        if status != 0:
            raise SystemExit(f"llama_decode returned {status}")

    def _best(self, row: int) -> int:
        logits = api.llama_get_logits_ith(self._context, row)
        return int(np.ctypeslib.as_array(logits, shape=(self._vocab,)).argmax())


def quantise(source: str, target: str) -> None:
    """Write a model again in Q4_0, its embedding too."""
    settings = api.llama_model_quantize_default_params()
    settings.ftype = api.LLAMA_FTYPE_MOSTLY_Q4_0
    settings.allow_requantize = True
    if api.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(settings)) != 0:
        raise SystemExit(f"llama.cpp cannot write {source} as Q4_0")


def answer(engine: Engine, request: dict[str, Any]) -> object:
    """Do what a request asks for."""
    verb = request["verb"]
    if verb == "fill":
        return engine.fill(request["tokens"])
    if verb == "passes":
        return engine.passes(request["tokens"], request["position"], request["repeats"])
    if verb == "greedy":
        return engine.greedy(request["tokens"], request["count"])
    raise SystemExit(f"unknown verb {verb!r}")


def main() -> None:
    """Serve requests until the input ends."""
    # The library prints; what reads our answers must not see that.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    api.llama_backend_init()
    quiet = api.llama_log_callback(lambda *_: None)  # has to live as long as the library may call it
    api.llama_log_set(quiet, ctypes.c_void_p(0))
    if sys.argv[1] == "quantise":
        quantise(sys.argv[2], sys.argv[3])
        return
    engine = Engine(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    for line in sys.stdin:
        print(json.dumps(answer(engine, json.loads(line))), file=out, flush=True)


if __name__ == "__main__":
    main()
