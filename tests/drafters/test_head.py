"""The head drafter: what it asks a head for, what it makes of the answer, and that no head can change a token."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import pytest
from tests.engine.worlds import Answer, join

from outrider.api import Request, Sampling
from outrider.backends.base import GREEDY, Draw, Extend, HeadChain, HeadDrawn
from outrider.backends.native import NativeBackend
from outrider.backends.native.head import NativeHead
from outrider.core import rules, tree
from outrider.core.rules import COUPLED, Rule
from outrider.core.step import Budget, Load, Outcome, Tokens, View
from outrider.core.types import EMPTY, Draft, Law
from outrider.drafters.base import Drafter
from outrider.drafters.blended import BlendedDrafter
from outrider.drafters.head import LEAST, WIDTH, HeadDrafter
from outrider.drafters.merge import expected
from outrider.drafters.suffix import SuffixDrafter
from outrider.engine.engine import Engine
from outrider.models import gguf
from outrider.models.fingerprint import fingerprint
from outrider.models.headfile import HeadFile, HeadSpec
from outrider.models.spec import ModelFile
from outrider.policy.base import Policy
from outrider.policy.fixed import Fixed
from outrider.testing import drafter_suite
from outrider.testing.gguf_maker import tiny_llama
from outrider.testing.heads import eagle_spec, medusa_spec, random_head
from outrider.testing.text import PieceDetokenizer

SAID = HeadDrawn(
    (7, 8, 9),
    (((7, 0.6), (1, 0.3)), ((8, 0.5), (2, 0.4)), ((9, 0.9), (3, 0.05))),
)


class ScriptedHead:
    """Says the same whenever it is asked."""

    share = 0.07

    def __init__(self, said: HeadDrawn = SAID, independent: bool = False, knows: bool = True) -> None:
        self.independent = independent
        self.asked: list[HeadChain] = []
        self.followed: set[int] = set()
        self._said, self._knows = said, knows

    def begin(self, seq: int) -> bool:
        self.followed.add(seq)
        return self._knows

    def end(self, seq: int) -> None:
        self.followed.remove(seq)

    def draft(self, items: Sequence[HeadChain]) -> list[HeadDrawn]:
        self.asked += items
        return [HeadDrawn(self._said.tokens[: item.steps], self._said.likely[: item.steps]) for item in items]


def ask(
    head: ScriptedHead, budget: Budget, sampling: Sampling | None = None, rule: Rule = COUPLED, trees: bool = True
) -> Draft:
    drafter = HeadDrafter(head, rule, trees=trees)
    drafter.begin(4, (1, 2, 3))
    (draft,) = drafter.propose([View(4, Tokens([1, 2, 3]), sampling or Sampling())], [budget])
    return draft


def test_a_chain() -> None:
    head = ScriptedHead()
    assert ask(head, Budget(3, 3)) == Draft((7, 8, 9), (-1, 0, 1), score=(0.6, 0.5, 0.9))
    (item,) = head.asked
    assert (item.seq, item.last, item.steps, item.position, item.width) == (4, 3, 3, 3, WIDTH)
    assert (item.draw, item.least) == (GREEDY, LEAST)
    assert ask(ScriptedHead(), Budget(2, 8)) == Draft((7, 8), (-1, 0), score=(0.6, 0.5))


def test_a_tree_of_a_chain_has_leaves_beside_it() -> None:
    """Likeliest nodes first: 7 .6, 8 .3, 1 .3, 9 .27, 2 .24, 3 .015."""
    head = ScriptedHead()
    draft = ask(head, Budget(5, 3))
    assert (draft.tokens, draft.parents) == ((7, 1, 8, 9, 2), (-1, -1, 0, 2, 0))
    assert draft.law is Law.POINT
    assert draft.score == (0.6, 0.3, 0.5, 0.9, 0.4)
    assert head.asked[0].width == WIDTH
    # leaves stay leaves: six nodes are all there are
    assert len(ask(ScriptedHead(), Budget(20, 3))) == 6


def test_a_tree_of_independent_steps_is_a_product() -> None:
    draft = ask(ScriptedHead(independent=True), Budget(20, 3))
    assert len(draft) == 2 + 4 + 8
    assert sorted(map(len, tree.children(draft).values())) == [2] * 7
    assert ask(ScriptedHead(independent=True), Budget(5, 3)).tokens == (7, 1, 8, 9, 2)


def test_chains_where_there_are_no_trees() -> None:
    for draft in (ask(ScriptedHead(), Budget(5, 3), rule=rules.BLOCK), ask(ScriptedHead(), Budget(5, 3), trees=False)):
        assert draft == Draft((7, 8, 9), (-1, 0, 1), score=(0.6, 0.5, 0.9))


def test_drawn_with_the_noise_of_the_target() -> None:
    """The chain's token is trusted as much as the likeliest; others share the rest."""
    said = HeadDrawn((5, 1), (((7, 0.6), (5, 0.2), (1, 0.1)), ((8, 0.5), (2, 0.4))))
    sampling = Sampling(0.7, seed=9, sample=2, top_k=5, top_p=0.9, min_p=0.01, typical_p=0.8)
    head = ScriptedHead(said)
    draft = ask(head, Budget(3, 2), sampling)
    assert head.asked[0].draw == Draw(0.7, 9, 2, 5, 0.9, 0.01, 0.8)
    assert head.asked[0].least == LEAST
    assert (draft.tokens, draft.parents, draft.law, draft.q) == ((5, 7, 1), (-1, -1, 0), Law.POINT, None)
    assert draft.score == pytest.approx((0.6, 0.4 * 0.6 / 0.8, 0.5))
    chain = ask(ScriptedHead(said), Budget(2, 2), sampling)
    assert (chain.tokens, chain.law, chain.score) == ((5, 1), Law.POINT, (0.6, 0.5))


@pytest.mark.parametrize("rule", [rules.REJECTION, rules.BLOCK, rules.TRAVERSAL], ids=lambda rule: rule.name)
def test_under_rules_that_compare_laws_the_likeliest_are_chosen(rule: Rule) -> None:
    head = ScriptedHead()
    draft = ask(head, Budget(3, 3), Sampling(1.0, seed=3), rule)
    assert head.asked[0].draw is GREEDY
    assert draft.law is Law.POINT
    rule.check(draft, 10)


def test_who_is_not_known_is_not_asked_for() -> None:
    head = ScriptedHead(knows=False)
    assert ask(head, Budget(3, 3)) is EMPTY
    assert head.asked == []
    head = ScriptedHead()
    assert ask(head, Budget(0, 0)) is EMPTY
    assert head.asked == []
    assert ask(ScriptedHead(HeadDrawn((), ())), Budget(3, 3)) is EMPTY
    assert ask(ScriptedHead(HeadDrawn((), ())), Budget(4, 3)) is EMPTY
    drafter = HeadDrafter(head)
    drafter.end(4)  # never begun: the engine may say so twice


def test_in_a_blend_it_is_asked_unless_the_others_are_sure_of_a_run() -> None:
    """And what it said is forgotten once the text goes on."""
    head = ScriptedHead()
    blend = BlendedDrafter([SuffixDrafter(memory_bytes=0), HeadDrafter(head)])
    texts = {1: [1, 2, 3], 2: [5, 6, 7, 8, 9] * 4}  # nothing to look up; sure of what comes
    views = [View(seq, Tokens(text), Sampling()) for seq, text in texts.items()]
    for seq, text in texts.items():
        blend.begin(seq, text)
    fresh, _ = blend.propose(views, [Budget(8, 8)] * 2)
    assert [item.seq for item in head.asked] == [1, 2]
    assert {7, 8, 9, 1, 2} <= set(fresh.tokens), "siblings too, though the budget has no more nodes than levels"
    run = (5, 6, 7, 8, 9)
    blend.observe([Outcome(1, fresh, (), (4,)), Outcome(2, EMPTY, (), run)])
    levels = blend._members[1].source(views[0])
    assert levels.grow(8, 8, 4, 0.0) == ((), (), ())
    for seq, new in ((1, (4,)), (2, run)):
        texts[seq] += new
    head.asked.clear()
    _, sure = blend.propose(views, [Budget(8, 8)] * 2)
    assert [item.seq for item in head.asked] == [1]
    assert sure.tokens[:3] == run[:3]
    assert expected(sure.parents, sure.score or ()) > 2.0
    blend.observe([Outcome(1, EMPTY, (), (4,)), Outcome(2, sure, (), (5,))])
    texts[2] += (5,)
    head.asked.clear()
    blend.propose(views, [Budget(8, 8)] * 2)
    assert [item.seq for item in head.asked] == [1, 2], "the run is over"
    for seq in texts:
        blend.end(seq)
    assert head.followed == set()


@pytest.mark.parametrize("knows", [True, False])
def test_who_may_not_be_drafted_for_and_who_is_not_known_teaches_nothing_of_the_head(knows: bool) -> None:
    """Neither a budget of nothing nor a sequence without states is an ask that brought nothing."""
    head = ScriptedHead(knows=knows)
    blend = BlendedDrafter([SuffixDrafter(memory_bytes=0), HeadDrafter(head)])
    views = [View(seq, Tokens([1, 2, 3]), Sampling()) for seq in (1, 2)]
    for view in views:
        blend.begin(view.seq, [1, 2, 3])
    for step in range(40):
        blend.propose(views, [Budget(8, 8), Budget(0, 0)])
        blend.observe([Outcome(seq, EMPTY, (), (100 + step,)) for seq in (1, 2)])
    assert len(head.asked) == (40 if knows else 0)
    ((_, worth),) = blend._asked
    assert set(worth._own) == ({1} if knows else set())


def test_its_price_follows_the_length_of_its_chains() -> None:
    head, dearer = ScriptedHead(), ScriptedHead()
    dearer.share = 2 * head.share
    drafters = [HeadDrafter(head), HeadDrafter(head), HeadDrafter(dearer)]
    for drafter, steps in zip(drafters, (1, 3, 3), strict=True):
        drafter.begin(4, (1, 2, 3))
        for _ in range(50):
            drafter.propose([View(4, Tokens([1, 2, 3]), Sampling())], [Budget(steps, steps)])
    short, long, twice = (drafter.price for drafter in drafters)
    assert head.share < short < long
    assert twice == pytest.approx(2 * long)


def test_a_row_without_order() -> None:
    """NaN weights: the chain goes on, and nobody trusts it."""
    draft = ask(ScriptedHead(HeadDrawn((7, 8), ((), ()))), Budget(2, 2))
    assert (draft.tokens, draft.score) == ((7, 8), (0.0, 0.0))


# Real heads: a tiny model, and heads of random weights over few ids that the target is held to, so that some are right.
IDS = (3, 5, 8, 13, 21, 34, 55, 89)
SEED = 1  # of weights that guess right now and then
MAKERS = (eagle_spec, medusa_spec)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> ModelFile:
    return gguf.read(tiny_llama(tmp_path_factory.mktemp("head") / "tiny.gguf"))


def head_of(file: ModelFile, make: Callable[..., HeadSpec], ids: Sequence[int] = IDS) -> HeadFile:
    return random_head(make(fingerprint(file).hex(), draft_vocab=len(ids)), file.spec.vocab, SEED, ids)


class Fed:
    """A head drafter whose target reads what its sequences know, as the engine does in its passes."""

    def __init__(self, backend: NativeBackend, drafter: HeadDrafter) -> None:
        self.drafter = drafter
        self.views: dict[int, View] = {}
        self._backend = backend

    def begin(self, seq: int, prompt: Sequence[int]) -> None:
        own = self._backend.open()
        self.views[seq] = View(own, (), Sampling())
        self.drafter.begin(own, prompt)

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        asked = []
        for view in views:
            own = self.views[view.seq].seq
            unread = view.tokens[self._backend.length(own) : -1]
            if unread:
                self._backend.extend([Extend(own, list(unread), None, [0] * len(unread))])
                self._backend.commit([(own, range(len(unread)))])
            asked.append(View(own, view.tokens, view.sampling))
        return self.drafter.propose(asked, budgets)

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        self.drafter.observe(outcomes)

    def end(self, seq: int) -> None:
        if seq in self.views:
            own = self.views.pop(seq).seq
            self.drafter.end(own)
            self._backend.close(own)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("check", drafter_suite.CHECKS, ids=lambda check: check.__name__)
def test_conformance(file: ModelFile, make: Callable[..., HeadSpec], check: Callable[..., None]) -> None:
    backend = NativeBackend(file, threads=1)
    head = backend.attach(head_of(file, make, range(1, drafter_suite.VOCAB)))
    check(lambda: Fed(backend, HeadDrafter(head)))
    open_still = backend.open_sequences
    assert head.sequences == open_still  # of drafters that the check left in the middle of a text


class Wide(Fixed):
    """The same tree budget in every step."""

    def __init__(self, nodes: int, depth: int) -> None:
        super().__init__(depth)
        self._budget = Budget(nodes, depth)


class Growing(Fixed):
    """Another budget in every step, nothing and trees among them."""

    def __init__(self) -> None:
        super().__init__(1)
        self._turn = 0

    def budgets(self, views: Sequence[View], load: Load) -> list[Budget]:
        self._turn += 1
        return [Budget((self._turn + view.seq) % 7, 1 + self._turn % 4) for view in views]


def answers(
    backend: NativeBackend,
    drafter: Drafter | None,
    policy: Policy,
    asked: Sequence[Request],
    rule: Rule = COUPLED,
) -> list[Answer]:
    engine = Engine(
        backend, drafter, policy, lambda: PieceDetokenizer(("x",) * backend.vocab), frozenset(), rule=rule, slots=3,
        chunk_rows=20,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a drafter that is left out would make this test an empty one
        return join(list(engine.generate(asked)), [request.n for request in asked])


def requests(temperature: float) -> list[Request]:
    """Prompts longer than a chunk, samples that fork, one that does without speculation."""
    sampling = [
        Sampling(temperature, seed=seed, allowed_token_ids=IDS, top_k=top_k) for seed, top_k in ((1, 0), (2, 4), (3, 0))
    ]
    prompts = [tuple(IDS[(seed + place * place) % 8] for place in range(30 + 8 * seed)) for seed in range(3)]
    return [
        Request(prompts[0], 40, sampling[0], n=3),
        Request(prompts[1], 30, sampling[1]),
        Request(prompts[2], 20, sampling[2], speculate=False),
    ]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_equal_to_plain_with_a_head(file: ModelFile, make: Callable[..., HeadSpec], temperature: float) -> None:
    backend = NativeBackend(file, threads=1)
    plain = answers(backend, None, Fixed(0), requests(temperature))
    head = backend.attach(head_of(file, make))
    for policy in (Fixed(1), Fixed(5), Wide(9, 3), Growing()):
        drafter = HeadDrafter(head)
        found = answers(backend, drafter, policy, requests(temperature))
        assert [one.ids for one in found] == [one.ids for one in plain]
        usages = [one.usage for one in found[:-1]]
        assert sum(usage.drafted for usage in usages) > sum(usage.accepted for usage in usages) > 0
        assert sum(usage.passes for usage in usages) < sum(usage.completion_tokens for usage in usages)
        assert found[-1].usage.drafted == 0
        assert head.sequences == backend.open_sequences == 0


@pytest.mark.parametrize("rule", rules.RULES.values(), ids=lambda rule: rule.name)
def test_every_rule_takes_its_drafts(file: ModelFile, rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    for bound in ("head.LEAST", "head.LEAST_BESIDE", "blended.LEAST"):
        monkeypatch.setattr(f"outrider.drafters.{bound}", 0.0)  # random weights are sure of nothing
    backend = NativeBackend(file, threads=1)
    head = backend.attach(head_of(file, eagle_spec))
    # Such a head is as large as its target, and a blend would seldom ask it.
    monkeypatch.setattr(NativeHead, "share", 0.0)
    for drafter in (HeadDrafter(head, rule), BlendedDrafter([HeadDrafter(head, rule)])):
        found = answers(backend, drafter, Wide(5, 3), requests(1.0), rule)
        assert sum(one.usage.accepted for one in found) > 0
        assert head.sequences == 0
