"""The model drafter alone: what it drafts, what it keeps of its cache, and when it pauses."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.drafters.modelworlds import Forgetful, RenamedLaw, SpellingLaw, Text
from tests.drafters.tokenizers import ALPHABET, TinyTokenizer
from tests.native import models

from outrider.api import Sampling
from outrider.backends.native import NativeBackend
from outrider.core import rules, sampling, tree
from outrider.core.noise import Purpose, number
from outrider.core.rules import COUPLED, Rule
from outrider.core.step import Budget
from outrider.core.types import EMPTY, Law
from outrider.drafters.model import READ_ROWS, ModelDrafter
from outrider.drafters.vocabularies import Alike, Unlike, match, padded
from outrider.testing import drafter_suite
from outrider.testing.table import RandomLaw, TableBackend

V = drafter_suite.VOCAB
LAW = RandomLaw(V, 3, 1)
TARGET = TinyTokenizer([*ALPHABET, " a", "ab", "ba", " ab", "th", "he", "the", "bb"])
OTHER = TinyTokenizer([*reversed(ALPHABET), "b a", "aba", " b", "aa", "t ", "hea", " th", "a b"])
HOT = Sampling(temperature=1.0, seed=5)
PROMPT = (1, 2, 3, 4, 5)


def table(context: int = 256, trees: bool = True) -> TableBackend:
    return TableBackend(LAW, V, context, trees)


def drafter(rule: Rule = COUPLED, greedy: bool = False) -> ModelDrafter:
    return ModelDrafter(Forgetful(LAW, V), padded(V, V), rule, greedy=greedy)


def renamed() -> ModelDrafter:
    ids = np.array([5, 3, 11, 7, 0, 1, 9, 2], np.int32)
    return ModelDrafter(Forgetful(RenamedLaw(LAW, ids, 12), 12), Alike(ids, ""))


def over_padding() -> ModelDrafter:
    bridge = padded(V, V + 128)
    assert bridge.ids is not None
    return ModelDrafter(Forgetful(RenamedLaw(LAW, bridge.ids, V + 128), V + 128), bridge)


def by_text() -> ModelDrafter:
    bridge = match(TARGET, OTHER, TARGET.vocab, OTHER.vocab)
    return ModelDrafter(Forgetful(SpellingLaw(OTHER), OTHER.vocab), bridge)


MAKERS: dict[str, Callable[[], ModelDrafter]] = {
    "same": drafter,
    "renamed": renamed,
    "padded": over_padding,
    "greedy": lambda: drafter(greedy=True),
    "chains": lambda: ModelDrafter(Forgetful(LAW, V, trees=False), padded(V, V)),
    "short context": lambda: ModelDrafter(Forgetful(LAW, V, context=24), padded(V, V)),
}


@pytest.mark.parametrize("check", drafter_suite.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.filterwarnings("ignore:a text of .* does not fit the draft model")
def test_conformance(check: Callable[[drafter_suite.Maker], None], name: str) -> None:
    check(MAKERS[name])


def test_conformance_on_the_native_backend(tmp_path: Path) -> None:
    backend = NativeBackend(models.make("plain", tmp_path), threads=1)
    for check in drafter_suite.CHECKS:
        drafters: list[ModelDrafter] = []

        def make(made: list[ModelDrafter] = drafters) -> ModelDrafter:
            made.append(ModelDrafter(backend, padded(V, backend.vocab)))
            return made[-1]

        check(make)
        for one in drafters:
            for seq in range(20):
                one.end(seq)
    assert backend.open_sequences == 0


def test_the_likeliest_tokens_with_their_chances() -> None:
    draft = Text(drafter(), PROMPT).ask(4)
    assert (draft.law, draft.q) == (Law.POINT, None)
    text = list(PROMPT)
    assert draft.score is not None
    for token, score in zip(draft.tokens, draft.score, strict=True):
        law = sampling.law(LAW(tuple(text)), sampling.Draw(1.0))
        assert token == law.argmax()
        assert score == pytest.approx(law.max(), rel=1e-5)
        text.append(token)
    assert tree.is_chain(draft)


@pytest.mark.parametrize("name", ["same", "renamed", "padded"])
@pytest.mark.parametrize("extra", [{}, {"top_k": 3}, {"top_p": 0.7}, {"min_p": 0.2}, {"typical_p": 0.8}])
def test_draws_with_the_noise_and_the_filters_of_the_target(name: str, extra: dict[str, float]) -> None:
    found = set()
    for seed in range(8):
        asked = Sampling(temperature=1.2, seed=seed, sample=2, **extra)  # type: ignore[arg-type]
        draft = Text(MAKERS[name](), PROMPT, asked).ask(5)
        draw = sampling.Draw(1.2, seed, 2, **extra)  # type: ignore[arg-type]
        text = list(PROMPT)
        for token in draft.tokens:
            assert token == sampling.token(LAW(tuple(text)), draw, len(text))
            text.append(token)
        assert (draft.law, draft.q, len(draft)) == (Law.IID, None, 5)
        with pytest.raises(ValueError, match="needs the q"):
            rules.REJECTION.check(draft, V)
        found.add(draft.tokens)
    assert len(found) > 2


def test_greedy_whatever_the_temperature() -> None:
    hot, cold = Text(drafter(greedy=True), PROMPT, HOT).ask(6), Text(drafter(), PROMPT).ask(6)
    assert hot == cold
    assert Text(drafter(), PROMPT, HOT).ask(6).tokens != cold.tokens


@pytest.mark.parametrize("rule", [rules.REJECTION, rules.BLOCK, rules.TRAVERSAL], ids=lambda rule: rule.name)
def test_other_rules_get_q_and_noise_of_its_own(rule: Rule) -> None:
    tokens, coupled = set(), []
    for seed in range(20):
        asked = Sampling(temperature=1.0, seed=seed, top_k=6)
        draft = Text(drafter(rule), PROMPT, asked).ask(4)
        rule.check(draft, V)
        assert draft.law is Law.IID
        assert draft.q is not None
        assert draft.score is not None
        text = list(PROMPT)
        for node, (token, q) in enumerate(zip(draft.tokens, draft.q, strict=True)):
            assert q.tobytes() == sampling.law(LAW(tuple(text)), sampling.Draw(1.0, top_k=6)).tobytes()
            assert draft.score[node] == pytest.approx(q.max())
            unit = number(seed, 0, len(PROMPT), Purpose.DRAFT, node)
            assert q[: token + 1].sum() >= unit - 1e-6
            assert q[:token].sum() <= unit + 1e-6
            text.append(token)
        tokens.add(draft.tokens)
        coupled.append(draft.tokens == Text(drafter(), PROMPT, asked).ask(4).tokens)
    assert len(tokens) > 10
    assert sum(coupled) < 5
    assert Text(drafter(rule), PROMPT).ask(4) == Text(drafter(), PROMPT).ask(4)


def test_trees_where_the_rule_and_the_backend_know_them() -> None:
    for rule in rules.RULES.values():
        draft = Text(drafter(rule), PROMPT, HOT).ask(14, 4)
        assert tree.is_chain(draft) is not rule.trees
        assert len(draft) == (14 if rule.trees else 4)
        assert max(tree.depths(draft)) == 3
        rule.check(draft, V)
    assert tree.is_chain(Text(ModelDrafter(table(trees=False), padded(V, V)), PROMPT).ask(14, 4))


def test_the_seed_decides() -> None:
    def drafts(seed: int, sample: int) -> tuple[int, ...]:
        return Text(drafter(), PROMPT, Sampling(temperature=1.5, seed=seed, sample=sample)).ask(6).tokens

    assert drafts(1, 0) == drafts(1, 0)
    assert len({drafts(seed, sample) for seed in range(4) for sample in range(3)}) > 6


def test_only_what_is_new_is_computed() -> None:
    backend = table()
    text = Text(ModelDrafter(backend, padded(V, V)), PROMPT)
    draft = text.ask(4)
    assert backend.passes == [5, 1, 1, 1]
    text.tell(*draft.tokens, 6, draft=draft, path=(0, 1, 2, 3))
    assert backend.cached(1) == (*PROMPT, *draft.tokens[:3])
    del backend.passes[:]
    draft = text.ask(4)
    assert backend.passes == [2, 1, 1, 1]
    text.tell((draft.tokens[0] + 1) % V, draft=draft)
    del backend.passes[:]
    text.ask(4)
    assert backend.passes == [1, 1, 1, 1]


def test_a_tree_is_computed_once() -> None:
    backend = table()
    text = Text(ModelDrafter(backend, padded(V, V)), PROMPT)
    draft = text.ask(8, 3)
    path = tree.path(draft, max(range(len(draft)), key=lambda node: tree.depths(draft)[node]))
    assert len(path) == 3
    kept = [draft.tokens[node] for node in path]
    text.tell(*kept, 6, draft=draft, path=path)
    # The leaf was never read; its inner nodes were, and need not be again.
    assert backend.cached(1) == (*PROMPT, *kept[:2])
    del backend.passes[:]
    text.ask(8, 3)
    assert backend.passes[0] == 2


def test_sequences_share_their_passes() -> None:
    backend = table()
    one = ModelDrafter(backend, padded(V, V))
    texts = [Text(one, [1, 2, 3, seq], HOT if seq % 2 else Sampling(), seq) for seq in range(6)]
    drafts = one.propose([text.view for text in texts], [Budget(4, 4)] * 6)
    assert backend.passes == [24, 6, 6, 6]
    assert all(len(draft) == 4 for draft in drafts)
    trees = one.propose([text.view for text in texts], [Budget(9, 3)] * 6)
    assert len(backend.passes) == 4 + 3
    assert all(len(draft) == 9 for draft in trees)


def test_a_prompt_is_read_when_a_draft_is_asked_for_and_in_portions() -> None:
    backend = table(context=4000)
    long = [index % V for index in range(2 * READ_ROWS + 100)]
    text = Text(ModelDrafter(backend, padded(V, V)), long)
    assert (text.ask(0), backend.passes) == (EMPTY, [])
    assert (text.ask(3), backend.passes) == (EMPTY, [READ_ROWS])
    text.tell(1)
    assert (text.ask(3), backend.passes) == (EMPTY, [READ_ROWS] * 2)
    text.tell(2)
    assert len(text.ask(3)) == 3
    assert backend.passes[2:] == [101, 1, 1, 1]
    assert sum(backend.passes[:4]) == len(long) + 2


def test_prompts_that_begin_alike_are_read_once() -> None:
    backend = table(context=4000)
    one = ModelDrafter(backend, padded(V, V))
    prompt = [index * index % V for index in range(200)]
    first = Text(one, prompt)
    first.tell(*first.ask(2).tokens)
    del backend.passes[:]
    other = Text(one, prompt, HOT, seq=1)
    assert other.ask(2) == Text(drafter(), prompt, HOT).ask(2)
    third = Text(one, [*prompt[:150], (prompt[150] + 1) % V, 3], seq=2)
    assert third.ask(2) == Text(drafter(), third.tokens).ask(2)
    assert backend.passes == [1, 1, 2, 1]
    one.end(0)
    assert other.ask(4) == Text(drafter(), prompt, HOT).ask(4)
    Text(one, prompt[:10], seq=3).ask(1)
    assert backend.passes[-1] == 10
    for seq in (1, 2, 3):
        one.end(seq)
    assert backend.sequences == 0


def test_no_pass_reads_more_than_its_share() -> None:
    backend = table(context=4000)
    one = ModelDrafter(backend, padded(V, V))
    texts = [Text(one, [seq + 1] * count, seq=seq) for seq, count in enumerate((400, 300, 200, 3, 2000))]
    drafts = one.propose([text.view for text in texts], [Budget(2, 2)] * 5)
    assert [len(draft) for draft in drafts] == [2, 2, 2, 2, 0]
    assert backend.passes[:-2] == [399, 299 + 199, READ_ROWS]
    assert backend.passes[-2:] == [1 + 1 + 1 + 3, 4]


def test_drafting_pauses_where_the_context_ends() -> None:
    backend = table(context=12)
    one = ModelDrafter(backend, padded(V, V))
    text = Text(one, PROMPT)
    lengths = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(12):
            draft = text.ask(4)
            lengths.append(len(draft))
            text.tell((draft.tokens or (0,))[0], draft=draft, path=(0,) if draft.tokens else ())
    (warning,) = caught
    assert "does not fit the draft model's context of 12" in str(warning.message)
    assert lengths == [4, 4, 4, 4, 4, 3, 2, 1, 0, 0, 0, 0]
    assert one.paused == 4
    assert backend.sequences == 0
    one.end(0)
    other = Text(one, PROMPT, seq=1)
    assert len(other.ask(4)) == 4


def test_a_prompt_that_does_not_fit_is_not_read() -> None:
    backend = table(context=64)
    one = ModelDrafter(backend, padded(V, V))
    text = Text(one, [index % V for index in range(200)])
    with pytest.warns(RuntimeWarning, match="a text of 200 tokens does not fit"):
        assert text.ask(8) == EMPTY
    for step in range(1, 4):
        assert one.paused == step
        text.tell(3)
        assert text.ask(8) == EMPTY
    assert (backend.passes, backend.sequences) == ([], 0)
    one.end(0)


def test_another_drafters_tokens_are_taken_over() -> None:
    """A draft of others is kept where ours stood (a hybrid, a grammar), or only a part of ours is (a policy)."""
    backend = table()
    one = ModelDrafter(backend, padded(V, V))
    text = Text(one, PROMPT)
    draft = text.ask(4)
    text.tell(*draft.tokens[:2])
    assert backend.cached(1) == (*PROMPT, draft.tokens[0])
    assert text.ask(2).tokens == draft.tokens[2:]


def played(one: ModelDrafter, fresh: Callable[[], ModelDrafter], vocab: int, hot: bool, seed: int, steps: int) -> int:
    """Any outcome, step by step: each draft is what a drafter says that sees the text for the first time."""
    chance = random.Random(seed)
    sampling = HOT if hot else Sampling()
    text = Text(one, [chance.randrange(vocab) for _ in range(chance.randint(1, 30))], sampling)
    drafted = 0
    for _ in range(steps):
        budget = chance.choice([(4, 4), (1, 1), (9, 3), (3, 9), (0, 0)])
        draft = text.ask(*budget)
        assert draft == Text(fresh(), text.tokens, sampling).ask(*budget)
        if chance.random() < 0.2:
            text.ask(2)  # asked twice: the first draft is forgotten
        path = tree.path(draft, chance.randrange(-1, len(draft)))
        kept = [draft.tokens[node] for node in path]
        if chance.random() < 0.2:
            kept = [chance.randrange(vocab) for _ in range(chance.randint(0, 3))]
        text.tell(*kept, *[chance.randrange(vocab) for _ in range(chance.choice([0, 1, 1, 1]))], draft=draft)
        drafted += len(draft)
    one.end(0)
    return drafted


@pytest.mark.parametrize("name", ["same", "renamed", "padded", "chains"])
@given(hot=st.booleans(), seed=st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_rollback_after_any_outcome(name: str, hot: bool, seed: int) -> None:
    one = MAKERS[name]()
    assert played(one, MAKERS[name], V, hot, seed, 12) > 0


@given(hot=st.booleans(), seed=st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_rollback_where_the_tokenizers_differ(hot: bool, seed: int) -> None:
    """Drafts may differ from a fresh reading's: a text told bit by bit may be cut up otherwise. Nothing may break."""
    one = by_text()
    chance = random.Random(seed)
    text = Text(one, TARGET.encode("a b ab aba", special=False), HOT if hot else Sampling())
    for _ in range(12):
        draft = text.ask(*chance.choice([(4, 4), (9, 3), (1, 1)]))
        tree.validate(draft, TARGET.vocab)
        path = tree.path(draft, chance.randrange(-1, len(draft)))
        text.tell(*(draft.tokens[node] for node in path), chance.randrange(TARGET.vocab), draft=draft, path=path)
    one.end(0)


def test_what_the_model_reads_is_the_text() -> None:
    bridge = match(TARGET, OTHER, TARGET.vocab, OTHER.vocab)
    assert isinstance(bridge, Unlike)
    backend = TableBackend(SpellingLaw(OTHER), OTHER.vocab)
    text = Text(ModelDrafter(backend, bridge), TARGET.encode("a b ab", special=False))
    for step in range(10):
        draft = text.ask(4)
        text.tell(*draft.tokens[: step % 4], step)
        text.ask(1)
        assert TARGET.text(text.tokens).startswith(OTHER.text(backend.cached(1)))
        assert len(OTHER.text(backend.cached(1))) >= len(TARGET.text(text.tokens)) - 6
