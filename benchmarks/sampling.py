"""What a drawn row costs, draw by draw, and what drawing costs of decode speed.

    python benchmarks/sampling.py [--rows 32] [--decode-tokens 128]

Rows: microseconds from asking for a row's token to having it, right after the one-row pass that computed the logits, as
in decoding; every draw sees the same rows, those of a prompt of Spec-Bench. The greedy token is found in the pass
itself, so asking for it shows what the call alone costs. Temperature 1e6 makes the law flat, the hardest row there is.

Decode: answers without drafts, greedy and at temperature 0.7 with top_p 0.9, in turn; of each round the tokens of all
answers over the seconds after their first token.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import _prompts
import _report
import numpy as np
from _report import Spread

import outrider
from outrider.backends.base import Adjust, Draw, Extend, Scores, Want
from outrider.backends.native import NativeBackend
from outrider.core.types import WordArray
from outrider.errors import OutriderError
from outrider.models import gguf, sources

GREEDY, NUCLEUS = "greedy", "temperature 0.7, top_p 0.9"
PENALISED = 500
TEXTS = 6
CONTEXT = 64  # tokens before the first measured row


@dataclass(frozen=True, slots=True)
class Kind:
    """One thing to ask of a row."""

    draw: Draw
    ask: Callable[[Scores], object]


def token(adjust: Adjust | None = None) -> Callable[[Scores], object]:
    """Asks for the row's token."""
    return lambda scores: scores.token(0, 0, adjust)


def kinds(vocab: int) -> dict[str, Kind]:
    """Everything that is measured, by name."""
    chance = np.random.default_rng(1)
    ids = np.sort(chance.choice(vocab, PENALISED, replace=False)).astype(np.int32)
    none, ones = np.empty(0, np.float32), np.full(PENALISED, 1.1, np.float32)
    mask: WordArray = chance.integers(0, 2**32, -(-vocab // 32), dtype=np.uint32)
    masked = token(Adjust(np.empty(0, np.int32), none, none, mask))
    penalised = token(Adjust(ids, ones, np.full(PENALISED, -0.5, np.float32), None))
    drawn = Draw(1.0, 1)
    return {
        GREEDY: Kind(Draw(), token()),
        "temperature 1": Kind(drawn, token()),
        "temperature 1, flat law": Kind(Draw(1e6, 1), token()),
        NUCLEUS: Kind(Draw(0.7, 1, top_p=0.9), token()),
        "top_k 40": Kind(Draw(1.0, 1, top_k=40), token()),
        "min_p 0.05": Kind(Draw(1.0, 1, min_p=0.05), token()),
        "typical_p 0.9": Kind(Draw(1.0, 1, typical_p=0.9), token()),
        "all four": Kind(Draw(0.7, 1, 0, 100, 0.95, 0.02, 0.95), token()),
        "greedy, mask of half the ids": Kind(Draw(), masked),
        "temperature 1, the same mask": Kind(drawn, masked),
        f"greedy, {PENALISED} penalised ids": Kind(Draw(), penalised),
        f"temperature 1, {PENALISED} penalised ids": Kind(drawn, penalised),
        "law": Kind(drawn, lambda scores: scores.law(0, 0)),
        "logprobs, top 5": Kind(drawn, lambda scores: scores.logprobs(0, 0, 0, 5, False)),
    }


def row_seconds(backend: NativeBackend, ids: Sequence[int], rows: int, kind: Kind) -> float:
    """Median seconds of a row over the last `rows` tokens."""
    seq = backend.open()
    backend.extend([Extend(seq, ids[:-rows], None, [Want.NONE] * (len(ids) - rows))])
    backend.commit([(seq, range(len(ids) - rows))])
    spent = []
    for known in ids[-rows:]:
        scores = backend.extend([Extend(seq, [known], None, [Want.LOGITS], kind.draw)])
        start = time.perf_counter()
        kind.ask(scores)
        spent.append(time.perf_counter() - start)
        backend.commit([(seq, (0,))])
    backend.close(seq)
    return median(spent)


def measure_rows(backend: NativeBackend, ids: Sequence[int], rounds: int, rows: int) -> dict[str, Spread]:
    """Seconds a row by kind, the kinds in turn; one round before warms up."""
    asked = kinds(backend.vocab)
    found: dict[str, list[float]] = {name: [] for name in asked}
    for number in range(rounds + 1):
        for name, kind in asked.items():
            seconds = row_seconds(backend, ids, rows, kind)
            if number:
                found[name].append(seconds)
    return {name: Spread.of(seconds) for name, seconds in found.items()}


def decode_speed(llm: outrider.LLM, texts: Sequence[str], count: int, drawn: bool) -> float:
    """Tokens per second over the answers to all texts."""
    tokens, seconds = 0, 0.0
    for text in texts:
        answer = (
            llm.generate(text, max_tokens=count, ignore_eos=True, temperature=0.7, top_p=0.9, seed=1)
            if drawn
            else llm.generate(text, max_tokens=count, ignore_eos=True)
        )
        tokens += answer.stats.completion_tokens - 1
        seconds += answer.stats.decode_s
    return tokens / seconds


def measure_decode(llm: outrider.LLM, texts: Sequence[str], rounds: int, count: int) -> dict[str, list[float]]:
    """Tokens per second of each round, greedy and drawn in turn; one answer of each before warms up."""
    found: dict[str, list[float]] = {GREEDY: [], NUCLEUS: []}
    for name in found:
        decode_speed(llm, texts[:1], count, name == NUCLEUS)
    for _ in range(rounds):
        for name, speeds in found.items():
            speeds.append(decode_speed(llm, texts, count, name == NUCLEUS))
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _report.add_common(parser)
    _prompts.add_options(parser)
    parser.add_argument("--rows", type=int, default=32, help="rows measured in a round; default 32")
    parser.add_argument("--decode-tokens", type=int, default=128, help="tokens of an answer; default 128")
    arguments = parser.parse_args()
    _report.begin(arguments)
    path = sources.resolve(arguments.model)
    file = gguf.read(path)
    backend = NativeBackend(file, threads=arguments.threads)
    prompts = _prompts.prompts(arguments.questions, 1, file.tokenizer)
    longest = max((prompt.ids for prompt in prompts), key=len)
    ids = longest[: min(CONTEXT + arguments.rows, backend.context)]
    if len(ids) <= arguments.rows:
        raise OutriderError(
            f"--rows is {arguments.rows}, but the longest prompt has {len(longest)} tokens; ask for fewer"
        )
    rows = measure_rows(backend, ids, arguments.rounds, arguments.rows)
    if not arguments.json:
        _report.table(["microseconds a row", ""], [[name, spread.text(1e6, 1)] for name, spread in rows.items()])
    llm = outrider.load(path, drafter="none", threads=arguments.threads)
    texts = [text for group in _prompts.turns(arguments.questions, arguments.per_group).values() for text in group]
    texts = sorted(texts, key=len)[:TEXTS]  # how long a prompt takes to read is not measured
    speeds = measure_decode(llm, texts, arguments.rounds, arguments.decode_tokens)
    ratio = Spread.of_ratios(speeds[NUCLEUS], speeds[GREEDY])
    spreads = {name: Spread.of(of_rounds) for name, of_rounds in speeds.items()}
    if not arguments.json:
        table = [[name, spread.text(digits=1)] for name, spread in spreads.items()]
        _report.table(["tokens per second", ""], [*table, ["drawn / greedy", ratio.text(digits=3)]])
    data: dict[str, object] = {
        "seconds_a_row": {name: spread.data() for name, spread in rows.items()},
        "tokens_per_s": {name: spread.data() for name, spread in spreads.items()},
        "drawn_over_greedy": ratio.data(),
    }
    _report.finish(arguments, {"threads": backend.capabilities.threads, **data})


if __name__ == "__main__":
    _report.start(main)
