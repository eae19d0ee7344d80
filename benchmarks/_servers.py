"""Servers as processes of their own: ours, llama.cpp's, vLLM's; started, waited for, ended."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from _asking import Place

from outrider.errors import OutriderError

START_S = 300.0
_HOST = "127.0.0.1"


def free_port() -> int:
    """A port that nobody listens at now."""
    with socket.socket() as found:
        found.bind((_HOST, 0))
        return int(found.getsockname()[1])


@contextmanager
def running(
    command: Sequence[str | os.PathLike[str]],
    port: int,
    model: str | None = None,
    *,
    environment: dict[str, str] | None = None,
    log: IO[bytes] | int = subprocess.DEVNULL,
) -> Iterator[tuple[Place, subprocess.Popen[bytes]]]:
    """A server, once its /health says that it is well. Raises OutriderError where it ends before."""
    process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **(environment or {})})
    try:
        wait_ready(process, port)
        yield Place(_HOST, port, model), process
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_ready(process: subprocess.Popen[bytes], port: int) -> float:
    """Wait for /health; returns the seconds that it took. Raises OutriderError."""
    start = time.perf_counter()
    while time.perf_counter() - start < START_S:
        if process.poll() is not None:
            raise OutriderError(f"the server ended with status {process.returncode} instead of listening at {port}")
        try:
            with urllib.request.urlopen(f"http://{_HOST}:{port}/health", timeout=5):
                return time.perf_counter() - start
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise OutriderError(f"the server at {port} was not ready after {START_S:g} s")


def outrider(model: Path, port: int, threads: int, slots: int, *more: str) -> list[str]:
    """Ours."""
    flags = ["--port", str(port), "--threads", str(threads), "--slots", str(slots), *more]
    return [sys.executable, "-m", "outrider", "serve", str(model), *flags]


def llamacpp(program: Path, model: Path, port: int, threads: int, streams: int, context: int) -> list[str]:
    """llama.cpp's, with as many slots as streams and room for `context` tokens in each."""
    flags = ["--host", _HOST, "--port", str(port), "-t", str(threads), "-tb", str(threads)]
    flags += ["-np", str(streams), "-c", str(streams * context), "--no-webui"]
    return [str(program), "-m", str(model), *flags]


def vllm(python: Path, folder: Path, port: int, streams: int, context: int) -> tuple[list[str], dict[str, str]]:
    """vLLM's CPU build on a Hugging Face folder, and what it wants in its environment."""
    flags = ["--model", str(folder), "--host", _HOST, "--port", str(port), "--dtype", "bfloat16"]
    flags += ["--max-model-len", str(context), "--max-num-seqs", str(streams)]
    environment = {
        "VLLM_CPU_KVCACHE_SPACE": "2",
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, sorted(os.sched_getaffinity(0)))),
        "VLLM_LOGGING_LEVEL": "WARNING",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    return [str(python), "-m", "vllm.entrypoints.openai.api_server", *flags], environment
