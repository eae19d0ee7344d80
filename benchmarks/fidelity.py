"""How close the quantised engine stays to the same weights in float32: KL and top-1 agreement on real text.

    python benchmarks/fidelity.py [--per-group 3] [--text FILE ...]

The reference is transformers' (python3 dev.py setup --oracle). Texts are the tests' passages, the first turns of
Spec-Bench's questions where its file is there, and any files that are named. Deterministic: one run is enough.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

import _prompts
import _report

from outrider.backends.native import NativeBackend
from outrider.errors import OutriderError
from outrider.models import gguf, sources
from outrider.models.tokenizer import Tokenizer


def texts(arguments: argparse.Namespace, passages: dict[str, str]) -> dict[str, list[str]]:
    """What is measured, by kind."""
    found = {name: [text] for name, text in passages.items()}
    if arguments.per_group:
        found |= _prompts.turns(arguments.questions, arguments.per_group)
    for path in arguments.text:
        found[path.name] = [path.read_text("utf-8")]
    return found


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a source as for `outrider run --model`; default: the default model")
    _prompts.add_options(parser)
    parser.add_argument("--text", type=Path, nargs="+", default=[], help="further texts")
    parser.add_argument("--longest", type=int, default=512, help="tokens of a text that are used")
    parser.add_argument("--dense", action="store_true", help="compare the dense mode (float32) instead")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    arguments = parser.parse_args()
    _report.begin(arguments)
    if find_spec("torch") is None or find_spec("transformers") is None:
        raise OutriderError("torch or transformers is missing; 'python3 dev.py setup --oracle' brings both")
    # The reference lives with the tests that hold it to account.
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tests.oracle.passages import PASSAGES
    from tests.oracle.reference import Difference, Reference, ours, total

    path = sources.resolve(arguments.model)
    file = gguf.read(path)
    tokenizer, backend, reference = (
        Tokenizer(file.tokenizer),
        NativeBackend(file, dense=arguments.dense),
        Reference(path),
    )
    found: dict[str, Difference] = {}
    for name, of_kind in texts(arguments, PASSAGES).items():
        ids = [tokenizer.encode(text, special=True)[: arguments.longest] for text in of_kind]
        found[name] = total([Difference.of(reference.log_law(part), ours(backend, part)) for part in ids])
    found["all"] = total(list(found.values()))
    if not arguments.json:
        _report.table(
            ["dense" if arguments.dense else "quantised", "positions", "mean KL", "top-1", "log p RMS", "largest"],
            [
                [name, f"{d.positions}", f"{d.kl:.6f}", f"{d.top1:.2%}", f"{d.rms:.2e}", f"{d.largest:.2e}"]
                for name, d in found.items()
            ],
        )
    data = {
        name: {"positions": d.positions, "kl": d.kl, "top1": d.top1, "rms": d.rms, "largest": d.largest}
        for name, d in found.items()
    }
    _report.finish(arguments, {"dense": arguments.dense, "isa": backend.capabilities.isa, "texts": data})


if __name__ == "__main__":
    _report.start(main)
