"""How many guesses each rule keeps, on the model's own answers: a matter of counting, not of time.

    python benchmarks/rules.py [--per-group 3] [--tokens 96] [--gamma 4] [--layers 28] [--temperatures 0.6 0.8 1.0]

Three drafters: n-gram (its drafts are points), and the target without its last layers as a drafter that draws, once a
chain of gamma tokens and once a tree. It draws with the target's own noise for `coupled`, and independently of it for
the other rules; in the tree, without replacement. Both know the temperature. Such a drafter is far too dear to be of
use: it stands in for a small model that agrees with the target about as often.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import TypeAlias

import _prompts
import _report
import numpy as np
from _shallow import shallow

from outrider.api import Sampling
from outrider.backends.base import Backend, Draw, Extend, Scores, Want
from outrider.backends.native import NativeBackend
from outrider.core import chance, noise, rules, tree
from outrider.core.rules import Probabilities, Rule
from outrider.core.step import Budget, Outcome, View
from outrider.core.types import EMPTY, Draft, Law
from outrider.drafters.ngram import NgramDrafter
from outrider.models import gguf, sources
from outrider.models.tokenizer import Tokenizer

TREE = (2, 2, 1, 1)  # children of each node, level by level: 14 nodes
DRAFTERS = ("n-gram", "chain", "tree")


class Text:
    """One text in a backend: what is known of it, and the pass that looks at nodes below it. Is a rules.Target."""

    def __init__(self, backend: Backend, seq: int, draw: Draw) -> None:
        self._backend = backend
        self._seq = seq
        self._draw = draw
        self._scores: Scores | None = None
        self._first = 0  # the row of node 0

    def look(self, known: Sequence[int], draft: Draft) -> None:
        """One pass over what the backend has not seen of the known tokens, and over the draft."""
        missing = list(known[self._backend.length(self._seq) :])
        self._first = len(missing)
        parents = [*range(-1, len(missing) - 1), *(self._first + parent for parent in draft.parents)]
        want = [Want.NONE] * (len(missing) - 1) + [Want.LOGITS] * (1 + len(draft))
        item = Extend(self._seq, [*missing, *draft.tokens], parents, want, self._draw)
        self._scores = self._backend.extend([item])

    def keep(self, path: Sequence[int]) -> None:
        """Commit the known tokens and the nodes on the path."""
        rows = [*range(self._first), *(self._first + node for node in path)]
        self._backend.commit([(self._seq, rows)])

    def token(self, node: int) -> int:
        """The draw after a node, with the noise of its position."""
        assert self._scores is not None
        return self._scores.token(0, self._first + node)

    def law(self, node: int) -> Probabilities:
        """The law after a node."""
        assert self._scores is not None
        return self._scores.law(0, self._first + node)

    def close(self) -> None:
        """Give the sequence back."""
        self._backend.close(self._seq)


class Drawing:
    """Drafts drawn from a model, level by level."""

    def __init__(self, text: Text, draw: Draw, branching: Sequence[int], coupled: bool) -> None:
        self._text = text
        self._draw = draw
        self._branching = branching
        self._coupled = coupled

    def guess(self, known: Sequence[int]) -> Draft:
        """A draft below the known tokens."""
        draft = Draft((), (), Law.DISTINCT, ())
        level = [-1]
        for depth, count in enumerate(self._branching):
            self._text.look(known, draft)
            tokens, parents, laws = list(draft.tokens), list(draft.parents), list(draft.q or ())
            for parent in level:
                q = self._text.law(parent)
                for token in self._children(q, parent, count, len(known), depth):
                    tokens.append(token)
                    parents.append(parent)
                    laws.append(q)
            level = list(range(len(draft), len(tokens)))
            draft = Draft(tuple(tokens), tuple(parents), Law.DISTINCT, tuple(laws))
        self._text.keep(())
        return draft

    def _children(self, q: Probabilities, parent: int, count: int, start: int, depth: int) -> tuple[int, ...]:
        seed, sample = self._draw.seed, self._draw.sample
        if not self._coupled:
            return chance.draw_children(q, count, seed, sample, start, parent)
        if count == 1:
            return (self._text.token(parent),)
        with np.errstate(divide="ignore"):
            times = noise.exponential(len(q), seed, sample, start + depth) / q.astype(np.float64)
        return tuple(int(token) for token in np.argsort(times, kind="stable")[:count])


class Looking:
    """Drafts of the n-gram drafter."""

    def __init__(self, prompt: Sequence[int], gamma: int) -> None:
        self._drafter = NgramDrafter()
        self._drafter.begin(0, prompt)
        self._budget = Budget(gamma, gamma)
        self._seen = len(prompt)

    def guess(self, known: Sequence[int]) -> Draft:
        """A draft below the known tokens."""
        new = tuple(known[self._seen :])
        self._drafter.observe([Outcome(0, EMPTY, (), new)])
        self._seen = len(known)
        return self._drafter.propose([View(0, known, Sampling())], [self._budget])[0]


@dataclass(slots=True)
class Tally:
    """What became of the drafts of one answer."""

    passes: int = 0
    tokens: int = 0
    levels: int = 0  # draft positions that were tried: the depths of the drafts
    kept: int = 0


@dataclass(frozen=True, slots=True)
class Limit:
    """Where an answer ends."""

    tokens: int
    eos: frozenset[int]


def answer(text: Text, drafter: Drawing | Looking, rule: Rule, known: list[int], draw: Draw, limit: Limit) -> Tally:
    """One answer, until its end of text or its limit; tokens behind the end are not counted."""
    tally, prompt = Tally(), len(known)
    while len(known) - prompt < limit.tokens:
        draft = drafter.guess(known)
        text.look(known, draft)
        verdict = rule.judge(draft, text, chance.KeyedChance(draw.seed, draw.sample, len(known)))
        text.keep(verdict.path)
        new = [*(draft.tokens[node] for node in verdict.path), verdict.token]
        ends = [index for index, token in enumerate(new) if token in limit.eos]
        if ends:
            return tally
        known += new
        tally.passes += 1
        tally.tokens += len(new)
        tally.levels += max(tree.depths(draft), default=-1) + 1
        tally.kept += len(verdict.path)
    return tally


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over answers and its standard error."""

    middle: float
    error: float

    @staticmethod
    def of(values: Sequence[float]) -> Mean:
        return Mean(fmean(values), stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan)


@dataclass(frozen=True, slots=True)
class Result:
    """Of all answers: tokens per pass, how many more than with coupled on the same prompt, and how much was kept."""

    tau: Mean
    more: Mean
    kept: float  # of the draft positions that were tried

    @staticmethod
    def of(tallies: Sequence[Tally], coupled: Sequence[Tally]) -> Result:
        pairs = [(_tau(own), _tau(other)) for own, other in zip(tallies, coupled, strict=True)]
        levels = sum(tally.levels for tally in tallies)
        kept = sum(tally.kept for tally in tallies) / max(levels, 1)
        return Result(Mean.of([own for own, _ in pairs]), Mean.of([own - other for own, other in pairs]), kept)

    def text(self) -> str:
        return f"{self.tau.middle:.2f}  {self.more.middle:+.2f} ± {self.more.error:.2f}  {100 * self.kept:3.0f} %"


def _tau(tally: Tally) -> float:
    """1 for an answer that ended at once: nothing was won or lost."""
    return tally.tokens / tally.passes if tally.passes else 1.0


Results: TypeAlias = dict[tuple[str, str, float], Result]  # by drafter, rule and temperature


@dataclass(frozen=True, slots=True)
class Models:
    """The target and the drafter, and how much is drafted."""

    target: Backend
    drafter: Backend
    gamma: int
    limit: Limit

    def run(self, prompt: Sequence[int], stems: tuple[int, int], drafter: str, rule: Rule, draw: Draw) -> Tally:
        """One answer to a prompt that both models have read but for its last token."""
        text = Text(self.target, self.target.fork(stems[0]), draw)
        own = Text(self.drafter, self.drafter.fork(stems[1]), draw)
        try:
            guesser: Drawing | Looking = Looking(prompt, self.gamma)
            if drafter != "n-gram":
                branching = TREE if drafter == "tree" else (1,) * self.gamma
                guesser = Drawing(own, draw, branching, rule is rules.COUPLED)
            return answer(text, guesser, rule, list(prompt), draw, self.limit)
        finally:
            text.close()
            own.close()

    def stems(self, prompt: Sequence[int]) -> tuple[int, int]:
        """A sequence of each with the prompt but for its last token."""
        found = []
        for backend in (self.target, self.drafter):
            seq = backend.open()
            text = Text(backend, seq, Draw())
            text.look(prompt[:-1], EMPTY)
            text.keep(())
            found.append(seq)
        return found[0], found[1]


def measure(models: Models, prompts: Sequence[_prompts.Prompt], temperatures: Sequence[float]) -> Results:
    """Every rule with every drafter that it takes, at every temperature; the same seeds for all."""
    tallies: dict[tuple[str, str, float], list[Tally]] = {}
    for index, prompt in enumerate(prompts):
        _report.say(f"prompt {index + 1} of {len(prompts)}")
        stems = models.stems(prompt.ids)
        for temperature in temperatures:
            draw = Draw(temperature, seed=index)
            for drafter in DRAFTERS:
                for rule in rules.RULES.values():
                    if rule.trees or drafter != "tree":
                        tally = models.run(prompt.ids, stems, drafter, rule, draw)
                        tallies.setdefault((drafter, rule.name, temperature), []).append(tally)
        models.target.close(stems[0])
        models.drafter.close(stems[1])
    return {key: Result.of(found, tallies[key[0], rules.COUPLED.name, key[2]]) for key, found in tallies.items()}


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _report.add_model(parser)
    _prompts.add_options(parser)
    parser.add_argument("--tokens", type=int, default=96, help="of each answer at most; default 96")
    parser.add_argument("--gamma", type=int, default=4, help="of the n-gram drafter and of chains; default 4")
    parser.add_argument("--layers", type=int, default=28, help="that the drafter keeps; default 28")
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.6, 0.8, 1.0])
    arguments = parser.parse_args()
    _report.begin(arguments)
    file = gguf.read(sources.resolve(arguments.model))
    prompts = _prompts.prompts(arguments.questions, arguments.per_group, file.tokenizer)
    target = NativeBackend(file, threads=arguments.threads)
    drafter = NativeBackend(shallow(file, arguments.layers), threads=arguments.threads)
    limit = Limit(arguments.tokens, Tokenizer(file.tokenizer).eos_ids)
    models = Models(target, drafter, arguments.gamma, limit)
    found = measure(models, prompts, arguments.temperatures)
    if not arguments.json:
        for name in DRAFTERS:
            known = [rule for rule in rules.RULES if (name, rule, arguments.temperatures[0]) in found]
            rows = [[rule, *(found[name, rule, t].text() for t in arguments.temperatures)] for rule in known]
            _report.table([name, *(f"temperature {t}" for t in arguments.temperatures)], rows)
        print(
            "\ntokens per pass; how many more than coupled on the same prompts, ± standard error; share of tried draft"
        )
        print("positions that was kept")
    data = [
        {"drafter": name, "rule": rule, "temperature": temperature, **asdict(result)}
        for (name, rule, temperature), result in found.items()
    ]
    _report.finish(arguments, {"prompts": len(prompts), "results": data})


if __name__ == "__main__":
    _report.start(main)
