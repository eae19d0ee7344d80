"""How often a draft model is right, by how it draws: tokens per pass, a matter of counting; and what a chain costs.

    python benchmarks/model.py [--per-group 2] [--tokens 64] [--layers 28] [--gamma 4] [--temperatures 0 0.6 1.0]

The draft model is the target without its last layers: too dear to be of use, but it agrees with the target about as
often as a real one would. Once it has the target's vocabulary, and once only the first --vocabulary tokens of it, with
a tokenizer of its own, so that the two are unlike.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

import _prompts
import _report
import numpy as np
from _shallow import shallow

from outrider.api import Request, Sampling
from outrider.backends.base import Backend, Chain, Draw, Drawn, Extend, Scores
from outrider.backends.native import NativeBackend
from outrider.core import rules
from outrider.core.rules import Rule
from outrider.core.step import Budget
from outrider.drafters.model import ModelDrafter
from outrider.drafters.vocabularies import Bridge, match
from outrider.engine.engine import Engine
from outrider.models import gguf, sources
from outrider.models.spec import TokenizerData
from outrider.models.tokenizer import Detokenizer, Tokenizer
from outrider.policy.fixed import Fixed

CONTEXT = 200  # tokens before the chains that are timed
TREES = (8, 14)


class FirstIds:
    """A model that has only the first ids of a vocabulary."""

    def __init__(self, backend: NativeBackend, vocab: int) -> None:
        self.vocab = vocab
        self.context = backend.context
        self.capabilities = backend.capabilities
        self.open, self.fork, self.close = backend.open, backend.fork, backend.close
        self.truncate, self.length, self.commit = backend.truncate, backend.length, backend.commit
        self._backend = backend
        self._ids = np.arange(vocab, dtype=np.int32)

    def extend(self, items: Sequence[Extend]) -> Scores:
        return self._backend.extend(items)

    def chain(self, items: Sequence[Chain]) -> list[Drawn]:
        return self._backend.chain([replace(item, ids=self._ids) if item.ids is None else item for item in items])


class Wide(Fixed):
    """The same tree budget in every step."""

    def __init__(self, nodes: int, depth: int) -> None:
        super().__init__(depth)
        self._budget = Budget(nodes, depth)


@dataclass(frozen=True, slots=True)
class Target:
    """The target, and what it is asked."""

    backend: Backend
    tokenizer: Tokenizer
    prompts: Sequence[_prompts.Prompt]
    tokens: int

    def per_pass(self, drafter: ModelDrafter, policy: Fixed, rule: Rule, temperature: float) -> float:
        """Tokens per pass over all answers; the same seeds every time."""
        engine = Engine(
            self.backend,
            drafter,
            policy,
            partial(Detokenizer, self.tokenizer, skip_special=True),
            self.tokenizer.eos_ids,
            rule=rule,
        )
        tokens = passes = 0
        for seed, prompt in enumerate(self.prompts):
            asked = Request(prompt.ids, self.tokens, Sampling(temperature, seed=seed))
            for chunk in engine.generate([asked]):
                if chunk.usage is not None:
                    tokens += chunk.usage.completion_tokens
                    passes += chunk.usage.passes
        return tokens / passes


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table."""

    name: str
    backend: Backend
    bridge: Bridge
    nodes: int
    rule: Rule = rules.COUPLED
    greedy: bool = False


def first_tokens(data: TokenizerData, count: int) -> TokenizerData:
    """The tokenizer of the first tokens alone: of the merges, those that make one of them."""
    tokens = data.tokens[:count]
    known = set(tokens)
    merges = [merge for merge in data.merges if merge.replace(" ", "", 1) in known]
    return replace(data, tokens=tokens, types=data.types[:count], merges=merges)


def cases(backend: NativeBackend, tokenizer: Tokenizer, data: TokenizerData, vocab: int, gamma: int) -> list[Case]:
    """What is compared."""
    same = match(tokenizer, tokenizer, backend.vocab, backend.vocab)
    cut = FirstIds(backend, vocab)
    unlike = match(tokenizer, Tokenizer(first_tokens(data, vocab)), backend.vocab, vocab)
    return [
        Case(f"chain of {gamma}", backend, same, gamma),
        Case(f"chain of {gamma}, greedy", backend, same, gamma, greedy=True),
        *(Case(f"tree of {nodes}, {gamma} levels", backend, same, nodes) for nodes in TREES),
        Case(f"chain of {gamma}, block", backend, same, gamma, rules.BLOCK),
        Case(f"tree of {TREES[-1]}, traversal", backend, same, TREES[-1], rules.TRAVERSAL),
        Case(f"unlike, chain of {gamma}", cut, unlike, gamma),
        Case(f"unlike, chain of {gamma}, greedy", cut, unlike, gamma, greedy=True),
    ]


def chain_seconds(backend: NativeBackend, prompt: Sequence[int], draw: Draw, gamma: int, rounds: int) -> _report.Spread:
    """Seconds of a drafted token in chains of gamma after CONTEXT tokens."""
    seq = backend.open()
    text = (list(prompt) * CONTEXT)[:CONTEXT]
    backend.chain([Chain(seq, text, 1, draw, CONTEXT)])
    found = []
    for _ in range(rounds):
        start = perf_counter()
        backend.chain([Chain(seq, [text[-1]], gamma, draw, CONTEXT)])
        found.append((perf_counter() - start) / gamma)
        backend.truncate(seq, CONTEXT)
    backend.close(seq)
    return _report.Spread.of(found)


def main() -> None:
    """Count, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _report.add_common(parser)
    _prompts.add_options(parser)
    parser.add_argument("--tokens", type=int, default=64, help="of each answer at most; default 64")
    parser.add_argument("--layers", type=int, default=28, help="that the draft model keeps; default 28")
    parser.add_argument("--gamma", type=int, default=4, help="levels of all drafts; default 4")
    parser.add_argument("--vocabulary", type=int, default=12000, help="tokens of the unlike model; default 12000")
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.0, 0.6, 1.0])
    arguments = parser.parse_args()
    _report.begin(arguments)
    file = gguf.read(sources.resolve(arguments.model))
    tokenizer = Tokenizer(file.tokenizer)
    prompts = _prompts.prompts(arguments.questions, arguments.per_group, file.tokenizer)
    target = Target(NativeBackend(file, threads=arguments.threads), tokenizer, prompts, arguments.tokens)
    backend = NativeBackend(shallow(file, arguments.layers), threads=arguments.threads)
    gamma, temperatures = arguments.gamma, arguments.temperatures
    rows = []
    for case in cases(backend, tokenizer, file.tokenizer, arguments.vocabulary, gamma):
        _report.say(case.name)
        found = []
        for temperature in temperatures:
            drafter = ModelDrafter(case.backend, case.bridge, case.rule, greedy=case.greedy)
            found.append(target.per_pass(drafter, Wide(case.nodes, gamma), case.rule, temperature))
        rows.append((case.name, found))
    costs = {
        temperature: chain_seconds(backend, prompts[0].ids, Draw(temperature, 1), gamma, 4 * arguments.rounds)
        for temperature in temperatures
    }
    if not arguments.json:
        head = [f"temperature {temperature}" for temperature in temperatures]
        _report.table(
            ["tokens per pass", *head], [[name, *(f"{value:.2f}" for value in found)] for name, found in rows]
        )
        _report.table(["milliseconds", *head], [["a drafted token", *(cost.text(1e3) for cost in costs.values())]])
    counted: list[object] = [
        {"case": name, "temperature": temperature, "tokens_per_pass": value}
        for name, found in rows
        for temperature, value in zip(temperatures, found, strict=True)
    ]
    timed = [{"temperature": temperature, **cost.data()} for temperature, cost in costs.items()]
    _report.finish(arguments, {"prompts": len(prompts), "results": counted, "drafted_token_s": timed})


if __name__ == "__main__":
    _report.start(main)
