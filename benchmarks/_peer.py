"""Other engines, each a process of its own that measures when it is asked to and sleeps meanwhile."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _report import say

from outrider.errors import OutriderError

WORKER = Path(__file__).with_name("_peer_llamacpp.py")
SETTLE_S = 0.03  # after a request an engine's threads may still spin for a few milliseconds


class Peer:
    """llama.cpp on a model file. Tokens are ids of the model's vocabulary, times are seconds.

    Raises OutriderError where the process ends instead of answering.
    """

    def __init__(self, python: Path, model: Path, threads: int, context: int = 8192) -> None:
        self._process = subprocess.Popen(
            [python, WORKER, model, str(threads), str(context)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def fill(self, tokens: Sequence[int]) -> float:
        """Read a prompt into an empty cache, scoring its last token."""
        return float(self._ask({"verb": "fill", "tokens": list(tokens)}))

    def passes(self, tokens: Sequence[int], position: int, repeats: int) -> list[float]:
        """One pass over these rows after `position` tokens, several times."""
        request = {"verb": "passes", "tokens": list(tokens), "position": position, "repeats": repeats}
        return [float(seconds) for seconds in self._ask(request)]

    def greedy(self, tokens: Sequence[int], count: int) -> tuple[list[int], float]:
        """`count` ids after a prompt, and the seconds from the first to the last."""
        found = self._ask({"verb": "greedy", "tokens": list(tokens), "count": count})
        return found["ids"], float(found["seconds"])

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(timeout=10)

    def _ask(self, request: dict[str, object]) -> Any:
        if self._process.stdin is None or self._process.stdout is None:
            raise OutriderError("the peer has no pipes")
        time.sleep(SETTLE_S)
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise OutriderError(f"the peer ended with status {self._process.wait()}; its message stands above")
        time.sleep(SETTLE_S)
        return json.loads(line)


def home() -> Path:
    """Where setup.sh puts the peers' environments, and where their models may lie."""
    return Path(os.environ.get("PEERS_HOME", Path.home() / ".cache" / "outrider-peers"))


def add_options(parser: argparse.ArgumentParser) -> None:
    """--peer-python and --no-peer."""
    parser.add_argument(
        "--peer-python",
        type=Path,
        default=home() / "llamacpp" / "bin" / "python",
        help="an interpreter that has llama_cpp; default: %(default)s",
    )
    parser.add_argument("--no-peer", action="store_true", help="measure Outrider alone")


def python_of(arguments: argparse.Namespace) -> Path | None:
    """The peer's interpreter; None, and a word about it, where it was not wanted or is not there."""
    if arguments.no_peer:
        return None
    python: Path = arguments.peer_python
    if not python.is_file():
        raise OutriderError(f"--peer-python {python} does not exist; make it (setup.sh llamacpp), or use --no-peer")
    return python


def as_q4_0(python: Path, model: Path) -> Path:
    """The model requantised by llama.cpp, its fastest form; made once, beside the peers' environments."""
    target = home() / "models" / f"{model.stem}.requantised.Q4_0.gguf"
    if not target.is_file():
        say(f"writing {target}")
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(".part")
        subprocess.run([python, WORKER, "quantise", model, partial], check=True)
        partial.rename(target)
    return target
