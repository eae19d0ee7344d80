"""The model drafter in the engine: answers are those of plain decoding, and a good model is believed."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
from tests.drafters.modelworlds import HeartLaw, RenamedLaw, SpellingLaw
from tests.drafters.tokenizers import ALPHABET, TinyTokenizer
from tests.engine.worlds import EOS, VOCAB, Answer, world

from outrider.api import Request, Sampling
from outrider.core import rules, sampling
from outrider.core.rules import COUPLED, Rule
from outrider.core.step import Budget
from outrider.core.types import FloatArray, IntArray
from outrider.drafters.model import ModelDrafter
from outrider.drafters.vocabularies import Alike, Bridge, Unlike, match, padded
from outrider.engine.engine import Engine
from outrider.policy.fixed import Fixed
from outrider.testing.table import LogitsOf, RandomLaw, TableBackend
from outrider.testing.text import PieceDetokenizer

GAMMAS = (1, 2, 3, 5, 8, 16)
LAW = RandomLaw(VOCAB, 3, 5)
OTHER_LAW = RandomLaw(VOCAB, 2, 5)


def blurred(tokens: tuple[int, ...]) -> FloatArray:
    """A smaller model: mostly what LAW says, with errors of its own."""
    row: FloatArray = LAW(tokens) + np.float32(0.4) * OTHER_LAW(tokens)
    return row


class Wide(Fixed):
    """The same tree budget in every step."""

    def __init__(self, nodes: int, depth: int) -> None:
        super().__init__(depth)
        self._budget = Budget(nodes, depth)


def requests(sampling: Sampling, count: int = 4, tokens: int = 40) -> list[Request]:
    return [
        Request(
            tuple(index * place % EOS for place in range(1, 5 + 3 * index)),
            tokens,
            Sampling(sampling.temperature, seed=index, top_k=sampling.top_k),
            ignore_eos=True,
        )
        for index in range(count)
    ]


def answers(
    law: LogitsOf, drafter: ModelDrafter | None, gamma: int, asked: list[Request], rule: Rule = COUPLED
) -> list[Answer]:
    return world(law, drafter, gamma, rule=rule).answer(*asked)


def pair(
    law: LogitsOf, bridge: Bridge, rows: int, context: int = 256, rule: Rule = COUPLED
) -> tuple[ModelDrafter, TableBackend]:
    backend = TableBackend(law, rows, context)
    return ModelDrafter(backend, bridge, rule), backend


def same(law: LogitsOf, rule: Rule = COUPLED) -> ModelDrafter:
    return pair(law, padded(VOCAB, VOCAB), VOCAB, rule=rule)[0]


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_equal_to_plain_with_a_draft_model(gamma: int, temperature: float) -> None:
    asked = requests(Sampling(temperature, top_k=8))
    plain = answers(LAW, None, 0, asked)
    drafter, backend = pair(blurred, padded(VOCAB, VOCAB), VOCAB)
    found = answers(LAW, drafter, gamma, asked)
    assert [one.ids for one in found] == [one.ids for one in plain]
    drafted, accepted = (sum(getattr(one.usage, name) for one in found) for name in ("drafted", "accepted"))
    assert drafted > accepted > 0
    assert sum(one.usage.passes for one in found) < sum(one.usage.completion_tokens for one in found)
    assert backend.sequences == 0


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("rule", rules.RULES.values(), ids=lambda rule: rule.name)
def test_the_target_as_its_own_drafter_is_always_right(temperature: float, rule: Rule) -> None:
    """Case 2: everything is accepted, and n = 4 samples are answered."""
    drafter = same(LAW, rule)
    asked = [Request((1, 2, 3), 45, Sampling(temperature, seed=3), n=4, ignore_eos=True)]
    found = answers(LAW, drafter, 4, asked, rule)
    assert len(found) == 4
    for one in found:
        assert one.usage.accepted == one.usage.drafted > 0
        assert one.usage.passes == math.ceil(one.usage.completion_tokens / 5)
    if rule is COUPLED or temperature == 0.0:
        assert [one.ids for one in found] == [one.ids for one in answers(LAW, None, 0, asked)]


def test_its_own_noise_would_agree_less() -> None:
    """The reason to draw with the target's: with the same models, more is accepted than by greedy drafts."""
    asked = requests(Sampling(1.0), count=12, tokens=60)
    accepted = []
    for greedy in (False, True):
        backend = TableBackend(RandomLaw(VOCAB, 3, 5, spread=6.0), VOCAB)
        found = answers(
            RandomLaw(VOCAB, 3, 5, spread=5.0), ModelDrafter(backend, padded(VOCAB, VOCAB), greedy=greedy), 4, asked
        )
        accepted.append(sum(one.usage.accepted for one in found) / sum(one.usage.drafted for one in found))
    assert accepted[0] > accepted[1] + 0.1


@pytest.mark.parametrize("rule", [rules.COUPLED, rules.TRAVERSAL, rules.REJECTION], ids=lambda rule: rule.name)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_trees_through_the_engine(rule: Rule, temperature: float) -> None:
    asked = requests(Sampling(temperature), count=6, tokens=60)
    per_pass = []
    for nodes in (3, 12):
        backend = TableBackend(LAW, VOCAB)
        drafter = ModelDrafter(TableBackend(blurred, VOCAB), padded(VOCAB, VOCAB), rule)
        engine = Engine(
            backend, drafter, Wide(nodes, 3), lambda: PieceDetokenizer(("x",) * VOCAB), frozenset({EOS}), rule=rule
        )
        usages = [chunk.usage for chunk in engine.generate(asked) if chunk.usage is not None]
        per_pass.append(sum(usage.completion_tokens for usage in usages) / sum(usage.passes for usage in usages))
    assert per_pass[1] >= per_pass[0] > 1


def test_a_small_draft_context_pauses_and_counts() -> None:
    """Case 9: prompt 200, draft context 64, target 512; and a text that outgrows the draft model on its way."""
    asked = [Request(tuple(i % EOS for i in range(length)), 100, ignore_eos=True) for length in (200, 30)]
    plain = world(LAW, None, 0, context=512).answer(*asked)
    drafter, backend = pair(LAW, padded(VOCAB, VOCAB), VOCAB, context=64)
    with pytest.warns(
        RuntimeWarning, match="a text of 200 tokens does not fit the draft model's context of 64"
    ) as caught:
        found = world(LAW, drafter, 4, context=512).answer(*asked)
    assert len(caught) == 1
    assert [one.ids for one in found] == [one.ids for one in plain]
    long, short = (one.usage for one in found)
    assert long.drafted == 0
    assert short.accepted > 20
    # Before the last token of an answer nothing is asked for.
    assert drafter.paused == (long.passes - 1) + (short.passes - 1) - short.drafted_per_position[0]
    assert backend.sequences == 0


RENAMED: IntArray = np.random.default_rng(2).permutation(VOCAB).astype(np.int32)
LACKING: IntArray = np.array([-1 if token == 4 else token for token in range(VOCAB)], np.int32)


@pytest.mark.parametrize(
    ("bridge", "rows"),
    [
        (padded(VOCAB, VOCAB + 128), VOCAB + 128),
        (Alike(RENAMED, ""), VOCAB),
        (Alike(LACKING, "", {4: [5, 6]}), VOCAB),
    ],
    ids=["padded", "renamed", "one lacking"],
)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_vocabularies_that_can_be_mapped(bridge: Alike, rows: int, temperature: float) -> None:
    """Case 22 (i) and (ii): works without flags; the same model in other ids is as good a drafter."""
    asked = requests(Sampling(temperature))
    plain = answers(LAW, None, 0, asked)
    assert bridge.ids is not None
    drafter, _ = pair(RenamedLaw(LAW, bridge.ids, rows), bridge, rows)
    found = answers(LAW, drafter, 4, asked)
    assert [one.ids for one in found] == [one.ids for one in plain]
    usages = [one.usage for one in found]
    if bridge.ids.min() >= 0:
        assert all(usage.accepted == usage.drafted > 0 for usage in usages)
    else:
        assert sum(usage.accepted for usage in usages) > 0
    assert all(4 not in story.drafted for one in found for story in one.stories) or bridge.ids.min() >= 0


PROSE = "the cat sat on the mat and the cat ate the rat that sat on the mat " * 4
TARGET = TinyTokenizer([*ALPHABET, "the", " the", " cat", " sat", " mat", " and", " rat", "at", " on", " that"])
OTHER = TinyTokenizer(
    [*reversed(ALPHABET), "th", "e ", "ca", "t ", "the cat", " sa", "t on", "ma", "an", "d the", "ra"]
)


def unlike() -> Unlike:
    bridge = match(TARGET, OTHER, TARGET.vocab, OTHER.vocab)
    assert isinstance(bridge, Unlike)
    return bridge


def answer(law: LogitsOf, drafter: ModelDrafter | None, asked: Request) -> Answer:
    target = world(
        law,
        drafter,
        4,
        vocab=TARGET.vocab,
        eos=frozenset(),
        context=400,
        detokenizer=lambda: PieceDetokenizer(("x",) * TARGET.vocab),
    )
    return target.answer(asked)[0]


def test_text_of_another_tokenizer_is_drafted_by_its_text() -> None:
    """Case 22 (iii), SLEM: two models that both know the text by heart, each in its own tokens."""
    first = TARGET.encode(PROSE[:30], special=False)
    law, drafting = HeartLaw(TARGET, PROSE), HeartLaw(OTHER, PROSE)
    asked = Request(first, 60)
    drafter, backend = pair(drafting, unlike(), OTHER.vocab, context=400)
    plain, found = answer(law, None, asked), answer(law, drafter, asked)
    assert found.ids == plain.ids
    assert PROSE.startswith(TARGET.text([*first, *found.ids]))
    # What is drafted last may be half a word.
    assert found.usage.accepted > 0.5 * found.usage.drafted
    assert found.usage.tokens_per_pass > 2.5
    assert backend.sequences == 0


def test_drawn_tokens_that_both_have_agree() -> None:
    """Case 22 (iii), TLI: the same law of characters in other pieces, drawn with the target's noise."""
    law, drafting = SpellingLaw(TARGET), SpellingLaw(OTHER)
    accepted = drafted = 0
    for seed in range(6):
        asked = Request(TARGET.encode("the cat", special=False), 40, Sampling(1.0, seed=seed))
        drafter, _ = pair(drafting, unlike(), OTHER.vocab)
        plain, found = answer(law, None, asked), answer(law, drafter, asked)
        assert found.ids == plain.ids
        accepted += found.usage.accepted
        drafted += found.usage.drafted
    assert accepted > 0.5 * drafted > 0


@pytest.mark.slow
@pytest.mark.parametrize("rule", [rules.REJECTION, rules.BLOCK, rules.TRAVERSAL], ids=lambda rule: rule.name)
@pytest.mark.parametrize("bridged", [False, True], ids=["same", "renamed"])
def test_the_answers_have_the_targets_law(rule: Rule, bridged: bool) -> None:
    """Chi-square over the joint law of three tokens; false alarms 1e-9."""
    vocab, length, count = 3, 3, 3000
    law, other = RandomLaw(vocab, 2, 1, spread=3.0), RandomLaw(vocab, 2, 2, spread=3.0)
    ids = np.array([2, 0, 1], np.int32)
    bridge = Alike(ids, "") if bridged else padded(vocab, vocab)
    backend = TableBackend(RenamedLaw(other, ids, vocab) if bridged else other, vocab)
    engine = Engine(
        TableBackend(law, vocab),
        ModelDrafter(backend, bridge, rule),
        Wide(4 if rule.trees else 2, 2),
        lambda: PieceDetokenizer(("x",) * vocab),
        frozenset(),
        rule=rule,
    )
    asked = [Request((1,), length, Sampling(1.0, seed=seed)) for seed in range(count)]
    ids_of: dict[int, list[int]] = {}
    rejected = 0
    for chunk in engine.generate(asked):
        ids_of.setdefault(chunk.request, []).extend(chunk.token_ids)
        rejected += chunk.usage.drafted - chunk.usage.accepted if chunk.usage is not None else 0
    seen = Counter(map(tuple, ids_of.values()))
    assert rejected > count / 10
    chi = 0.0
    for tokens in product(range(vocab), repeat=length):
        expected = float(count)
        for place, token in enumerate(tokens):
            expected *= float(sampling.law(law((1, *tokens[:place])), sampling.Draw(1.0))[token])
        chi += (seen[tokens] - expected) ** 2 / expected
    # 26 degrees of freedom; Wilson and Hilferty's cube root at 6 standard deviations.
    assert chi < 26 * (1 - 2 / (9 * 26) + 6 * math.sqrt(2 / (9 * 26))) ** 3
