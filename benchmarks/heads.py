"""What heads guess of the same known answers, side by side: nothing here depends on how busy the machine is.

    python benchmarks/heads.py --head FOLDER [--head FOLDER ...] [--questions FILE] [--per-group 90] [--tokens 96]

The model answers prompts that nobody trained on once, plainly, and each head drafts a greedy chain at every place. A
held-out part of a head's own data says how well it learned that data; this says what became of it elsewhere.

- first: how often the first token of a chain is right, at all places
- tokens a pass: of passes that follow one another, with chains of --steps, by group
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import _prompts
import _report
from _replay import Written, chains, write

from outrider import loading
from outrider.backends.base import Backend, HeadDrawn, HeadHost
from outrider.core import tree
from outrider.core.types import Draft
from outrider.errors import UsageError
from outrider.models import gguf, headfile, sources

_PROMPTS = Path(__file__).resolve().parents[1] / "training" / "fit.jsonl"


def measure(written: Sequence[Written], host: HeadHost, folder: Path, steps: int) -> dict[str, float]:
    """How often the first guess is right ("first"), and tokens a pass by group and of all."""
    said = chains(written, cast(Backend, host), host.attach(headfile.read(folder)), steps, 1, 0.0)
    right = places = 0
    tokens: dict[str, int] = {}
    passes: dict[str, int] = {}
    for one, drawn in zip(written, said, strict=True):
        # The answer's first token comes with the prompt, and no chain is drafted before it.
        kept = [0] + [_kept(drawn[len(one.prompt) + at], one.answer[at:]) for at in range(1, len(one.answer))]
        right += sum(count > 0 for count in kept[1:])
        places += len(kept) - 1
        at = 1
        while at < len(one.answer):
            brought = min(kept[at] + 1, len(one.answer) - at)
            for group in (one.group, "all"):
                tokens[group] = tokens.get(group, 0) + brought
                passes[group] = passes.get(group, 0) + 1
            at += brought
    return {"first": right / max(1, places), **{group: tokens[group] / passes[group] for group in tokens}}


def _kept(drawn: HeadDrawn, text: Sequence[int]) -> int:
    """Guesses that are right, up to the first that is not."""
    return len(tree.follow(Draft.chain(drawn.tokens), text))


def main() -> None:
    """Write the answers, let every head guess them, print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _report.add_model(parser)
    parser.add_argument("--head", type=Path, action="append", required=True, help="a folder with a head of the model")
    _prompts.add_options(parser, _PROMPTS)
    parser.set_defaults(per_group=90)
    parser.add_argument("--tokens", type=int, default=96, help="of each answer; default %(default)s")
    parser.add_argument("--steps", type=int, default=4, help="guesses of a chain; default %(default)s")
    arguments = parser.parse_args()
    _report.begin(arguments)
    path = sources.resolve(arguments.model)
    llm = loading.load(path, "none", threads=arguments.threads)
    prompts = _prompts.prompts(arguments.questions, arguments.per_group, gguf.read(path).tokenizer)
    if not prompts:
        raise UsageError(f"{arguments.questions} has no questions")
    written = [write(llm, prompt, arguments.tokens) for prompt in prompts]
    host = cast(HeadHost, llm.backend)
    found = {str(folder): measure(written, host, folder, arguments.steps) for folder in arguments.head}
    if not arguments.json:
        columns = list(next(iter(found.values())))
        rows = [[head, *(f"{row[name]:.3f}" for name in columns)] for head, row in found.items()]
        _report.table(["head", *columns], rows)
    _report.finish(arguments, {"answers": len(written), "heads": found})


if __name__ == "__main__":
    _report.start(main)
