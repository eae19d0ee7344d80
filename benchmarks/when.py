"""When does a draft model pay, and when does the text itself guess well enough? Measured in turn, by kind of request.

    python benchmarks/when.py [--per-group 2] [--tokens 96] [--layers 4 10] [--store FILE] [--gamma 4]

The six groups of Spec-Bench, and edits of a pasted paragraph. Beside plain decoding answer n-gram and auto (with a
store, if one is given) with as much as pays, and draft models, each with as much as pays and with gamma tokens always.
A draft model is the target without its last layers, for a smaller trained model is not at hand: what it costs is real,
what it guesses is worse. So the last columns do without its guesses. They take its cost c and the measured cost of a
pass of n rows, and say how good a model of that cost would have to be (core/expect.py):

- break-even: the alpha from which on gamma tokens a pass pay
- expected: the speed at the alpha that was measured, at the best length
- to beat n-gram: the alpha above which its best length is faster than n-gram was on the same prompts, and than plain

speed counts from the first token on, whole also the prompt, which a draft model has to read as well. Every answer is
compared with the plain one, and one that differs ends the run.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import partial
from typing import TypeAlias

import _prompts
import _report
from _report import Spread
from _shallow import shallow
from _wrapper import Wrapper

from outrider import loading
from outrider.api import Chunk, Generator, Pass, Request, Usage
from outrider.backends.native import NativeBackend
from outrider.core import expect, tree
from outrider.core.step import Budget, Outcome, View
from outrider.core.types import Draft
from outrider.cost import profile
from outrider.cost.model import StepCost, fit
from outrider.drafters import vocabularies
from outrider.drafters.base import Drafter
from outrider.drafters.model import ModelDrafter
from outrider.errors import OutriderError, UsageError
from outrider.llm import LLM
from outrider.models import gguf, sources
from outrider.models.chat import ChatTemplate
from outrider.models.spec import TokenizerData

PLAIN, NGRAM, MODEL = "plain", "ngram", "model:"
BUILT_IN = (NGRAM, "auto")
EDIT, ALL = "edit", "all"
MOST_GAMMA = 16  # as Goodput; longer drafts are rarely kept
ALPHA_STEPS = 200  # in which the least alpha is looked for

_FERRY = (
    "The ferry to Lindholm leaves from pier four every morning at half past six. Tickets are sold on board, and "
    "bicycles travel free of charge as long as there is room on the lower deck. In winter the crossing takes almost "
    "an hour, because the captain has to go around the ice at the mouth of the river. Passengers who miss the last "
    "boat home may stay at the small hotel behind the lighthouse."
)
_ORCHARD = (
    "Our orchad has thirty apple trees, and most of them were planted by my granfather. The oldest stands beside the "
    "well and still beares fruit every second year. We pick the apples by hand in the begining of October, sort them "
    "in the barn, and take the bruised ones to the presse in the village. What is left over we dry in thin slices for "
    "the winter, wich makes the whole house smell of apples for weeks."
)
_MEETING = (
    "Hello Maria, the budget meeting on Tuesday has been moved to room 214, because the projector in room 109 is "
    "broken. Please bring the figures for the third quarter, the list of open invoices and the new contract with the "
    "printing company. Tom will present the plan for next year, and we should have time for questions until noon. If "
    "you cannot come, please tell Tom by Monday evening."
)
_RECIPE = (
    "Put the flour into a large bowl, make a hollow in the middle and crumble the yeast into it. Pour in the warm "
    "milk, add a spoonful of sugar and cover the bowl with a cloth. After twenty minutes add the butter, the salt and "
    "both eggs, and knead the dough until it no longer sticks to the bowl. Let it rise for an hour in a warm place, "
    "shape it into a loaf and bake it for forty minutes until it is golden brown."
)
EDITS = (
    f"Fix the spelling mistakes in this text. Answer with the corrected text only.\n\n{_ORCHARD}",
    f"Replace 'Lindholm' by 'Karlsby' in this text and change nothing else.\n\n{_FERRY}",
    f"Replace 'Tom' by 'Peter' everywhere in this message and write out the whole message again.\n\n{_MEETING}",
    f"Rewrite this recipe with margarine instead of butter. Keep everything else as it is.\n\n{_RECIPE}",
)


class Watched(Wrapper):
    """A drafter under a stop-watch, which counts calls that follow a call in the step before.

    Others are not counted: in them a draft model reads the prompt, or what was written while nobody asked it.
    """

    def __init__(self, inner: Drafter) -> None:
        super().__init__(inner)
        self.nodes = 0
        self.nodes_s = 0.0
        self._asked: set[int] = set()  # in this step
        self._steady: set[int] = set()  # in the step before

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        start = time.perf_counter()
        drafts = self._inner.propose(views, budgets)
        seconds = time.perf_counter() - start
        asked = {view.seq for view, budget in zip(views, budgets, strict=True) if budget.nodes}
        if asked <= self._steady:
            self.nodes += sum(len(draft) for draft in drafts)
            self.nodes_s += seconds
        self._asked = asked
        return drafts

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        self._steady, self._asked = self._asked, set()
        self._inner.observe(outcomes)

    def end(self, seq: int) -> None:
        self._steady.discard(seq)
        self._inner.end(seq)


@dataclass(frozen=True, slots=True)
class Contender:
    """Who answers: with a drafter (None: plain decoding), and so many tokens always or (None) as many as pay."""

    name: str
    drafter: Callable[[], Drafter] | None
    gamma: int | None = None

    def engine(self, llm: LLM) -> tuple[Generator, Watched | None]:
        """A fresh generator, which remembers nothing, and its drafter."""
        if self.drafter is None:
            return loading.generator(llm, "none"), None
        watched = Watched(self.drafter())
        return loading.generator(llm, watched, self.gamma), watched


@dataclass(slots=True)
class Sum:
    """What some answers took. tried: draft positions that were reached, in the first position and in all."""

    answer: int = 0  # tokens
    passes: int = 0
    timed: int = 0  # tokens that decode_s counts: all but those of the first pass
    decode_s: float = 0.0
    target_s: float = 0.0  # of decode_s
    whole_s: float = 0.0
    first_tried: int = 0
    first_kept: int = 0
    tried: int = 0
    kept: int = 0
    nodes: int = 0
    nodes_s: float = 0.0

    def add(self, usage: Usage, stories: Sequence[Pass]) -> None:
        """One answer."""
        self.answer += usage.completion_tokens
        self.passes += usage.passes
        self.timed += round(usage.tokens_per_s * usage.decode_s)
        self.decode_s += usage.decode_s
        self.target_s += usage.target_s
        self.whole_s += usage.prefill_s + usage.decode_s
        for story in stories:
            depth = max(tree.depths(Draft(story.drafted, story.parents)), default=-1) + 1
            kept = len(story.path)
            self.first_tried += depth > 0
            self.first_kept += kept > 0
            self.tried += min(depth, kept + 1)
            self.kept += kept

    def include(self, other: Sum) -> None:
        """All that the other counted."""
        for field in fields(Sum):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


Sums: TypeAlias = dict[tuple[str, str], list[Sum]]  # by group and contender: a sum for each round


def edits(data: TokenizerData, llm: LLM, count: int) -> list[_prompts.Prompt]:
    """The first `count` document edits as the model gets them."""
    chat = ChatTemplate(data.chat_template)
    return [
        _prompts.Prompt(EDIT, llm.tokenizer.encode_prompt(chat.render(text), special=True)) for text in EDITS[:count]
    ]


def answer(generator: Generator, watched: Watched | None, request: Request) -> tuple[list[int], Sum]:
    """One answer: its ids and what it took."""
    found = Sum()
    nodes, nodes_s = (0, 0.0) if watched is None else (watched.nodes, watched.nodes_s)
    chunks: list[Chunk] = list(generator.generate([request]))
    usage = chunks[-1].usage
    assert usage is not None
    found.add(usage, [chunk.story for chunk in chunks if chunk.story is not None])
    if watched is not None:
        found.nodes, found.nodes_s = watched.nodes - nodes, watched.nodes_s - nodes_s
    return [token for chunk in chunks for token in chunk.token_ids], found


def measure(
    llm: LLM, contenders: Sequence[Contender], prompts: Sequence[_prompts.Prompt], tokens: int, rounds: int
) -> Sums:
    """All answers, in turn; who goes first moves on with each round. Raises OutriderError where ids differ."""
    groups = [*dict.fromkeys(prompt.group for prompt in prompts), ALL]
    sums: Sums = {(group, who.name): [Sum() for _ in range(rounds)] for group in groups for who in contenders}
    plain: dict[int, list[int]] = {}
    for number in range(rounds):
        first = number % len(contenders)
        engines = [(who.name, *who.engine(llm)) for who in (*contenders[first:], *contenders[:first])]
        for index, prompt in enumerate(prompts):
            for name, generator, watched in engines:
                ids, found = answer(generator, watched, Request(prompt.ids, tokens))
                if ids != plain.setdefault(index, ids):
                    raise OutriderError(f"prompt {index + 1} ({prompt.group}), round {number + 1}: {name} differs")
                for group in (prompt.group, ALL):
                    sums[group, name][number].include(found)
        _report.say(f"round {number + 1} of {rounds} done")
    return sums


@dataclass(frozen=True, slots=True)
class Line:
    """One contender on one group; None: nothing was drafted, or no alpha is enough. to_beat is for draft models."""

    name: str
    speed: Spread
    whole: Spread
    tokens_per_pass: float
    first: float | None
    alpha: float | None
    draft_cost: float | None
    break_even: float | None
    expected: float | None
    to_beat: float | None

    def cells(self) -> list[str]:
        costed = self.draft_cost is not None
        return [
            self.name,
            self.speed.text(),
            self.whole.text(),
            f"{self.tokens_per_pass:.2f}",
            _cell(self.first, "-"),
            _cell(self.alpha, "-"),
            _cell(self.draft_cost, "-"),
            _cell(self.break_even, "never" if costed else "-"),
            _cell(self.expected, "-"),
            _cell(self.to_beat, "never" if costed and self.name.startswith(MODEL) else "-"),
        ]

    def data(self) -> dict[str, object]:
        values = {field.name: getattr(self, field.name) for field in fields(Line)}
        return {name: value.data() if isinstance(value, Spread) else value for name, value in values.items()}


def _cell(value: float | None, missing: str) -> str:
    return missing if value is None else f"{value:.2f}"


def line(sums: Sums, group: str, name: str, verify: Callable[[int], float], gamma: int) -> Line:
    """What a contender's answers to a group say; verify(n) is T(n) / T(1)."""
    own, plain, ngram = (sums[group, who] for who in (name, PLAIN, NGRAM))
    speed = Spread.of_ratios(_speeds(own), _speeds(plain))
    whole = Spread.of_ratios([one.whole_s for one in plain], [one.whole_s for one in own])
    total, of_plain = Sum(), Sum()
    for one, other in zip(own, plain, strict=True):
        total.include(one)
        of_plain.include(other)
    tau = total.answer / total.passes
    first = total.first_kept / total.first_tried if total.first_tried else None
    alpha = total.kept / total.tried if total.tried else None
    if not total.nodes or not of_plain.timed:
        return Line(name, speed, whole, tau, first, alpha, None, None, None, None)
    c = (total.nodes_s / total.nodes) / (of_plain.target_s / of_plain.timed)
    needed = expect.break_even(gamma, c, verify(gamma + 1))
    expected = None if alpha is None else expect.best_gamma(alpha, c, verify, MOST_GAMMA).speedup
    mark = Spread.of_ratios(_speeds(ngram), _speeds(plain)).middle
    to_beat = least_alpha(c, verify, max(mark, 1.0)) if name.startswith(MODEL) else None
    return Line(name, speed, whole, tau, first, alpha, c, needed, expected, to_beat)


def least_alpha(draft_cost: float, verify: Callable[[int], float], mark: float) -> float | None:
    """The least alpha whose best draft length is faster than the mark; None where even 1 is not enough."""
    alphas = (step / ALPHA_STEPS for step in range(ALPHA_STEPS + 1))
    return next((a for a in alphas if expect.best_gamma(a, draft_cost, verify, MOST_GAMMA).speedup > mark), None)


def _speeds(sums: Sequence[Sum]) -> list[float]:
    return [one.timed / one.decode_s for one in sums]


def verify_costs(cost: StepCost, context: float) -> list[float]:
    """T(n) / T(1) after so many tokens, by the number of rows (index 0 unused)."""
    one = cost.seconds(1, 1, context)
    return [0.0, *(cost.seconds(1, rows, context) / one for rows in range(1, MOST_GAMMA + 2))]


def prepare(arguments: argparse.Namespace) -> tuple[LLM, list[Contender], list[_prompts.Prompt], StepCost]:
    """Load the models, find the prompts, and measure what the target's passes cost."""
    path = sources.resolve(arguments.model)
    llm, file = loading.load(path, drafter="none", threads=arguments.threads), gguf.read(path)
    contenders = [Contender(PLAIN, None)]
    stores = {"auto": arguments.store}
    contenders += [Contender(name, partial(loading.make_drafter, llm, name, stores.get(name))) for name in BUILT_IN]
    for layers in arguments.layers:
        small = NativeBackend(shallow(file, layers), threads=arguments.threads)
        bridge = vocabularies.padded(llm.backend.vocab, small.vocab)
        make = partial(ModelDrafter, small, bridge)
        contenders.append(Contender(f"{MODEL}{layers}", make))
        contenders.append(Contender(f"{MODEL}{layers}, gamma {arguments.gamma}", make, arguments.gamma))
    prompts = _prompts.prompts(arguments.questions, arguments.per_group, file.tokenizer)
    prompts += edits(file.tokenizer, llm, arguments.per_group)
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return llm, contenders, prompts, fit(profile.measure(llm.backend, profile.QUICK, time.perf_counter, date).passes)


def check(arguments: argparse.Namespace) -> None:
    """Raises UsageError for what cannot be measured."""
    if not 1 <= arguments.gamma <= MOST_GAMMA:
        raise UsageError(f"--gamma is {arguments.gamma}; let the draft models draft 1 to {MOST_GAMMA} tokens a pass")
    if arguments.tokens < 2 * (MOST_GAMMA + 1):
        raise UsageError(f"--tokens is {arguments.tokens}; an answer needs at least {2 * (MOST_GAMMA + 1)}")
    if arguments.per_group < 1:
        raise UsageError(f"--per-group is {arguments.per_group}; take at least one prompt of each group")


def run(arguments: argparse.Namespace) -> None:
    """Measure and print."""
    check(arguments)
    _report.begin(arguments)
    llm, contenders, prompts, cost = prepare(arguments)
    sums = measure(llm, contenders, prompts, arguments.tokens, arguments.rounds)
    results = []
    for group in [*dict.fromkeys(prompt.group for prompt in prompts), ALL]:
        lengths = [len(prompt.ids) for prompt in prompts if group in (prompt.group, ALL)]
        verify = verify_costs(cost, sum(lengths) / len(lengths) + arguments.tokens / 2)
        lines = [line(sums, group, who.name, verify.__getitem__, arguments.gamma) for who in contenders]
        if not arguments.json:
            head = [group, "speed", "whole", "tokens/pass", "first", "alpha", "c", "break-even", "expected"]
            _report.table([*head, "to beat n-gram"], [found.cells() for found in lines])
            print(f"T({arguments.gamma + 1})/T(1) {verify[arguments.gamma + 1]:.2f}, {len(lengths)} prompts")
        results += [{"group": group, **found.data()} for found in lines]
    _report.finish(arguments, {"prompts": len(prompts), "gamma": arguments.gamma, "results": results})


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _report.add_common(parser)
    _prompts.add_options(parser)
    parser.set_defaults(per_group=2)
    parser.add_argument("--store", help="a store for auto")
    parser.add_argument("--tokens", type=int, default=96, help="of each answer at most; default 96")
    parser.add_argument("--layers", type=int, nargs="+", default=[4, 10], help="of the draft models")
    parser.add_argument("--gamma", type=int, default=4, help="of the draft models that always draft as much; default 4")
    # A drafter that the engine leaves out warns, and is plain decoding from then on: no figure for it.
    warnings.simplefilter("error", RuntimeWarning)
    run(parser.parse_args())


if __name__ == "__main__":
    try:
        main()
    except (OutriderError, RuntimeWarning) as error:
        sys.exit(str(error))
