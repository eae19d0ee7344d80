"""What a drafting head costs: a draft of some steps against a one-row pass of its target, in interleaved rounds.

    python benchmarks/head.py MODEL.gguf [--threads N] [--vocab 8192] [--rounds 9] [--head FOLDER] [--cpu]

--cpu counts processor time of one thread, for a busy machine.
Without a head, one of random weights (Q4_1) is used: its guesses are worth nothing, its cost is the same. As in real
use, every draft comes behind a pass that read accepted tokens and pushed the head's weights out of the caches.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from outrider.backends.base import GREEDY, Draw, Extend, HeadChain
from outrider.backends.native import NativeBackend
from outrider.models import gguf, headfile
from outrider.models.fingerprint import fingerprint
from outrider.models.spec import ModelFile
from outrider.testing.heads import eagle_spec, medusa_spec, random_head

LENGTHS = (1, 2, 4, 6, 8)
KEPT = 3  # rows that each pass adds to the sequence


def main() -> None:
    """Print a line for each kind of draft and length: microseconds, and the share of a pass."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--vocab", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--context", type=int, default=400)
    parser.add_argument("--head", type=Path)
    parser.add_argument("--cpu", action="store_true")
    arguments = parser.parse_args()
    clock = time.thread_time if arguments.cpu else time.perf_counter
    threads = 1 if arguments.cpu else arguments.threads
    file = gguf.read(arguments.model)
    heads = [headfile.read(arguments.head)] if arguments.head else random_heads(file, arguments.vocab)
    for head in heads:
        backend = NativeBackend(file, threads=threads)
        measure(backend, head, arguments.rounds, arguments.context, clock)


def random_heads(file: ModelFile, vocab: int) -> list[headfile.HeadFile]:
    """One of each kind, as large as a trained one."""
    spec, own = file.spec, fingerprint(file).hex()
    taps = (2, spec.layers // 2, spec.layers - 3)
    eagle = eagle_spec(
        own,
        hidden=spec.hidden,
        heads=spec.heads,
        kv_heads=spec.kv_heads,
        head_dim=spec.head_dim,
        feed_forward=spec.feed_forward,
        draft_vocab=vocab,
        taps=taps,
    )
    medusa = medusa_spec(own, hidden=spec.hidden, draft_vocab=vocab, tap=spec.layers, depth=5)
    return [random_head(eagle, spec.vocab), random_head(medusa, spec.vocab)]


def measure(
    backend: NativeBackend, head: headfile.HeadFile, rounds: int, context: int, clock: Callable[[], float]
) -> None:
    """One head: drafts of every length at temperature 0, one drawn at 1, and the plain passes between."""
    native = backend.attach(head)
    seq = backend.open()
    native.begin(seq)
    tokens = [7 + 31 * i % 1000 for i in range(context)]
    start = clock()
    backend.extend([Extend(seq, tokens, None, [0] * context)])
    read = clock()
    backend.commit([(seq, range(context))])
    end = clock()
    print(f"\n{head.spec.kind.value}: {native.weight_bytes / 1e6:.1f} MB, {backend.capabilities.threads} threads")
    print(f"prompt of {context}: pass {1e3 * (read - start):.0f} ms, commit {1e3 * (end - read):.2f} ms")
    steps = [n for n in LENGTHS if n <= head.spec.depth or not native.independent]
    jobs: dict[str, Callable[[], object]] = {"one row": lambda: backend.extend([Extend(seq, [5], None, [1])])}
    for n in steps:
        jobs[f"{n} steps"] = lambda n=n: native.draft([HeadChain(seq, 5, n, GREEDY, context + 1, 1)])  # type: ignore[misc]
    wide, hot = steps[-1], Draw(1.0, seed=1)
    jobs[f"{wide} steps, 4 wide"] = lambda: native.draft([HeadChain(seq, 5, wide, GREEDY, context + 1, 4)])
    jobs[f"{wide} steps, drawn"] = lambda: native.draft([HeadChain(seq, 5, wide, hot, context + 1, 1)])
    spent = interleaved(backend, seq, context, jobs, rounds, clock)
    whole = statistics.median(spent["one row"])
    for name, seconds in spent.items():
        n = int(name.split()[0]) if name[0].isdigit() else 1
        median = statistics.median(seconds)
        shares = [part / base / n for part, base in zip(seconds, spent["one row"], strict=True)]
        share = f"{median / n / whole:6.1%} of a pass ({min(shares):.1%} to {max(shares):.1%})"
        print(f"{name:18} {1e6 * median:8.0f} us  a step {1e6 * median / n:7.0f} us = {share}")


def interleaved(
    backend: NativeBackend,
    seq: int,
    context: int,
    jobs: dict[str, Callable[[], object]],
    rounds: int,
    clock: Callable[[], float],
) -> dict[str, list[float]]:
    """Seconds of each job in each round, the median of some tries; before each the sequence gets KEPT new rows."""
    spent: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            tries = []
            for _ in range(7):
                backend.truncate(seq, context - KEPT)
                backend.extend([Extend(seq, [9] * KEPT, None, [1] * KEPT)])
                backend.commit([(seq, range(KEPT))])
                start = clock()
                job()
                tries.append(clock() - start)
            spent[name].append(statistics.median(tries))
    return spent


if __name__ == "__main__":
    main()
