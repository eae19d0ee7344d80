"""One tree out of several sources: what each says counts, what came of it teaches; and the drafter suite."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider import _native
from outrider.api import Sampling
from outrider.core import tree
from outrider.core.step import Budget, Outcome, Tokens, View
from outrider.core.types import EMPTY, Draft, Law
from outrider.drafters import storefile
from outrider.drafters.blended import LEAST, BlendedDrafter, Sourced
from outrider.drafters.merge import survival
from outrider.drafters.recycle import RecycleDrafter
from outrider.drafters.store import StoreDrafter
from outrider.drafters.storefile import StoreFile
from outrider.drafters.suffix import SuffixDrafter
from outrider.errors import UsageError
from outrider.testing import drafter_suite

VOCAB = 8
BIAS, RATE = -2.0, 0.0
WEIGHTS = ((1.0, 2.0, -2.0), (0.5, 1.0, -1.0))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> StoreFile:
    """Behind 1, 2 came 3 always; behind 2 alone came 4 as well."""
    path = tmp_path_factory.mktemp("blended") / "a.store"
    storefile.build(path, [[1, 2, 3], [1, 2, 3], [5, 2, 4], [6, 7, 6, 7]], VOCAB, bytes(32))
    return StoreFile(path)


def text(prompt: Sequence[int]) -> _native.SuffixText:
    return _native.SuffixText(prompt, None, 1.0, 2.0)


def log_odds(chance: float) -> float:
    inside = min(max(chance, 0.002), 0.998)
    return math.log(inside / (1.0 - inside))


def mixed(words: Sequence[float | None]) -> float:
    """The definition: None where the source knows nothing, 0 where it names others."""
    total = BIAS
    for word, (of_word, named, unsaid) in zip(words, WEIGHTS, strict=True):
        if word is not None:
            total += of_word * log_odds(word) + named if word else unsaid
    return 1.0 / (1.0 + math.exp(-total))


def says(source: _native.Source) -> dict[int, float]:
    """What a source alone drafts at the root."""
    tokens, _, scores = source.grow(8, 1, 8, 0.0)
    return dict(zip(tokens, scores, strict=True))


@given(st.lists(st.integers(0, 4), min_size=3, max_size=40), st.lists(st.integers(0, 4), min_size=3, max_size=40))
def test_a_chance_is_the_mixture_of_what_all_say(first: list[int], second: list[int]) -> None:
    words = [says(text(first)), says(text(second))]
    blend = _native.Blend([text(first), text(second)], WEIGHTS, BIAS, RATE)
    tokens, parents, scores, _ = blend.grow(16, 1, 8, 0.0)
    expected = {}
    for token in {*words[0], *words[1]}:
        expected[token] = mixed([said.get(token, 0.0) if said else None for said in words])
    total = sum(expected.values())
    assert set(parents) <= {-1}
    assert list(scores) == sorted(scores, reverse=True)
    assert dict(zip(tokens, scores, strict=True)) == pytest.approx(
        {token: chance / max(total, 1.0) for token, chance in expected.items()}, rel=1e-5
    )


@given(st.lists(st.integers(0, 4), min_size=3, max_size=40), st.lists(st.integers(0, 4), min_size=3, max_size=40))
def test_a_node_is_credited_to_the_source_that_spoke_most_for_it(first: list[int], second: list[int]) -> None:
    """The definition: of those that named the token, the one with the largest term in the sum of log-odds."""
    said = [says(text(first)), says(text(second))]
    blend = _native.Blend([text(first), text(second)], WEIGHTS, BIAS, RATE)
    tokens, _, _, loudest = blend.grow(16, 1, 8, 0.0)
    for token, source in zip(tokens, loudest, strict=True):
        terms = {
            number: of_word * log_odds(words[token]) + named
            for number, (words, (of_word, named, _)) in enumerate(zip(said, WEIGHTS, strict=True))
            if token in words
        }
        assert terms[source] == pytest.approx(max(terms.values()), abs=1e-5)


@given(
    st.lists(st.integers(0, 2), min_size=6, max_size=40),
    st.lists(st.floats(0.0, 0.6), min_size=1, max_size=8),
    st.booleans(),
)
def test_growth_ends_before_the_first_node_below_its_floor(
    prompt: list[int], floors: list[float], blended: bool
) -> None:
    """Nodes are found in falling order of their chance to be kept; beyond the last floor that one counts."""
    source = _native.Blend([text(prompt)], WEIGHTS[:1], BIAS, RATE) if blended else text(prompt)
    tokens, parents, scores, *_ = source.grow(12, 6, 3, 0.0)
    kept = survival(parents, scores)
    reached = [chance >= floors[min(node, len(floors) - 1)] for node, chance in enumerate(kept)]
    end = reached.index(False) if False in reached else len(reached)
    found = source.grow(12, 6, 3, 0.0, floors)
    assert found[:3] == (tokens[:end], parents[:end], scores[:end])


@given(st.lists(st.integers(0, 3), min_size=6, max_size=40), st.integers(1, 12), st.integers(1, 6), st.booleans())
def test_trees_are_sound_and_chains_are_chains(prompt: list[int], nodes: int, depth: int, chain: bool) -> None:
    drafter = BlendedDrafter([SuffixDrafter(0), RecycleDrafter(VOCAB)], trees=not chain)
    drafter.begin(1, prompt)
    (draft,) = drafter.propose([View(1, Tokens(prompt), Sampling())], [Budget(nodes, depth)])
    tree.validate(draft, VOCAB)
    assert len(draft) <= nodes
    assert max(tree.depths(draft), default=-1) < depth
    assert (draft.law, draft.q) == (Law.POINT, None)
    assert {*(draft.drafters or ())} <= {"suffix", "recycle"}
    if chain:
        assert tree.is_chain(draft)
    kept: list[float] = []
    for parent, score in zip(draft.parents, draft.score or (), strict=True):
        kept.append(score * (kept[parent] if parent >= 0 else 1.0))
    assert kept == sorted(kept, reverse=True), "the likeliest first"
    assert min(kept, default=1.0) >= LEAST


def ask(drafter: BlendedDrafter, tokens: Sequence[int], nodes: int = 8, scope: str = "", seq: int = 1) -> Draft:
    (draft,) = drafter.propose([View(seq, Tokens(list(tokens)), Sampling(), scope=scope)], [Budget(nodes, nodes)])
    return draft


def test_each_member_speaks_where_it_knows_something(store: StoreFile) -> None:
    """Behind 1, 2 the text says 6 and is believed before the store; behind 5, 2 only the store knows anything."""
    drafter = BlendedDrafter([SuffixDrafter(0), StoreDrafter(store)])
    prompt = [1, 2, 6, 0, 1, 2]
    drafter.begin(1, prompt)
    draft = ask(drafter, prompt)
    assert draft.tokens[:1] == (6,)
    drafter.observe([Outcome(1, draft, (), (5,))])
    assert ask(drafter, [*prompt, 5]).tokens[:1] == (2,)
    drafter.end(1)


def test_each_node_bears_its_member_s_name_and_others_can_be_left_out(store: StoreFile) -> None:
    """Behind 1, 2 the text says 6, 0 and the store 3; behind 5 only the store knows anything."""
    text = [1, 2, 6, 0, 1, 2]
    cases: list[tuple[list[int], frozenset[str] | None, dict[int, str]]] = [
        (text, None, {6: "suffix", 0: "suffix", 3: "store"}),
        ([*text, 5], None, {2: "store"}),
        (text, frozenset({"suffix", "other"}), {6: "suffix", 0: "suffix"}),
        ([*text, 5], frozenset({"suffix"}), {}),
        (text, frozenset({"store"}), {3: "store"}),
        (text, frozenset({"other"}), {}),
    ]
    for seq, (prompt, chosen, expected) in enumerate(cases):
        drafter = BlendedDrafter([SuffixDrafter(0), StoreDrafter(store)])
        assert drafter.names == ("suffix", "store")
        drafter.begin(seq, prompt)
        view = View(seq, Tokens(prompt), Sampling(), drafters=chosen)
        (draft,) = drafter.propose([view], [Budget(8, 8)])
        found = dict(zip(draft.tokens, draft.drafters or (), strict=True))
        assert {token: found[token] for token in expected} == expected
        assert set(found.values()) == set(expected.values())
        drafter.observe([Outcome(seq, draft, (), (6,))])
        drafter.end(seq)


def test_agreement_counts(store: StoreFile) -> None:
    drafter = BlendedDrafter([SuffixDrafter(0), StoreDrafter(store)])
    chances = []
    for seq, third in enumerate((3, 6)):
        prompt = [1, 2, third, 0, 1, 2]
        drafter.begin(seq, prompt)
        draft = ask(drafter, prompt, seq=seq)
        assert draft.score is not None
        chances.append(draft.score[draft.tokens.index(third)])
    assert chances[0] > 1.2 * chances[1]


class Asked(SuffixDrafter):
    """A member that has to be asked, and then says what a text says."""

    name = "asked"
    price = 0.0
    asks = 0

    def follows(self, seq: int) -> bool:
        return True

    def look(self, views: Sequence[View], budgets: Sequence[Budget]) -> None:
        self.asks += len(views)


def test_beside_a_member_that_is_asked_other_weights_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[list[tuple[float, float, float]], float]] = []
    make = _native.Blend

    def noted(
        sources: list[_native.Source], weights: list[tuple[float, float, float]], bias: float, rate: float
    ) -> _native.Blend:
        begun.append((weights, bias))
        return make(sources, weights, bias, rate)

    monkeypatch.setattr(_native, "Blend", noted)
    asked = Asked(0)
    blends: list[list[Sourced]] = [[SuffixDrafter(0), RecycleDrafter(VOCAB)], [RecycleDrafter(VOCAB), asked]]
    for seq, members in enumerate(blends):
        drafter = BlendedDrafter(members)
        drafter.begin(seq, [1, 2, 3, 1, 2])
        ask(drafter, [1, 2, 3, 1, 2], seq=seq)
        assert drafter.weighs == (asked in members)
    assert asked.asks == 1
    (alone, bias), (beside, other_bias) = begun
    assert alone == [SuffixDrafter.weight, RecycleDrafter.weight]
    assert beside == [RecycleDrafter.weight, SuffixDrafter.beside], "who has none keeps the usual ones"
    assert bias != other_bias


def test_a_source_that_is_wrong_is_heard_less_and_one_that_is_right_more() -> None:
    wrong, right = text([1, 2, 1, 2, 1]), text([1, 3, 1, 3, 1])
    blend = _native.Blend([wrong, right], ((1.0, 1.0, 0.0),) * 2, -1.0, 0.05)
    for _ in range(200):
        blend.grow(4, 1, 8, 0.0)
        blend.learn([3])
    tokens, _, (first, second), _ = blend.grow(4, 1, 8, 0.0)
    assert tokens == (3, 2)
    assert first > 0.9
    assert second < 0.1
    (_, named_wrong, _), (_, named_right, _) = blend.weights
    assert named_right > 1.0 > named_wrong


def test_what_was_not_on_the_way_teaches_nothing() -> None:
    blend = _native.Blend([text([1, 2, 3, 1])], ((1.0, 1.0, 0.0),), -1.0, 0.05)
    before = blend.weights
    blend.grow(4, 4, 8, 0.0)
    blend.learn([])
    blend.learn([2])  # the draft is gone
    assert blend.weights == before
    blend.grow(4, 4, 8, 0.0)
    blend.learn([2])
    assert blend.weights != before


@pytest.mark.parametrize("count", [0, 7])
def test_a_blend_has_one_to_six_members(count: int) -> None:
    with pytest.raises(UsageError, match=f"a blend has {count} members; give it 1 to 6"):
        BlendedDrafter([SuffixDrafter(0)] * count)
    with pytest.raises(ValueError, match="1 to 6 sources"):
        _native.Blend([text([1])] * count, [(1.0, 1.0, 0.0)] * count, 0.0, 0.0)
    with pytest.raises(ValueError, match="a weight for each source"):
        _native.Blend([text([1])], [(1.0, 1.0, 0.0)] * 2, 0.0, 0.0)


def test_scopes_reach_the_members() -> None:
    drafter = BlendedDrafter([SuffixDrafter(1 << 20), RecycleDrafter(VOCAB)])
    assert drafter.followers == 8
    answer = [1, 2, 3, 4, 5, 6, 7]
    for seq, scope in enumerate(("one", "one", "other")):
        drafter.begin(seq, [0])
        drafted = bool(ask(drafter, [0], scope=scope, seq=seq).tokens)
        assert drafted == (seq == 1)
        drafter.observe([Outcome(seq, EMPTY, (), tuple(answer))])
        drafter.end(seq)


@pytest.mark.parametrize("check", drafter_suite.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("trees", [True, False])
def test_conformance(check: Callable[[drafter_suite.Maker], None], trees: bool, store: StoreFile) -> None:
    def make() -> BlendedDrafter:
        members: list[Sourced] = [SuffixDrafter(0), StoreDrafter(store), RecycleDrafter(drafter_suite.VOCAB)]
        drafter = BlendedDrafter(members, trees=trees)
        # The table of recycled tokens is made for a first sequence, and stays.
        drafter.begin(0, [0])
        ask(drafter, [0], seq=0)
        drafter.end(0)
        return drafter

    check(make)


def test_a_damaged_index_costs_no_more_than_speed(tmp_path: Path) -> None:
    """Places that point outside read as the end of a document."""
    store = StoreFile(_built(tmp_path / "a.store"))
    text, places, starts = (bytearray(part) for part in store.arrays)
    places[:] = b"\xff" * len(places)
    index = _native.StoreIndex(
        memoryview(bytes(text)).cast("H"), memoryview(bytes(places)).cast("I"), memoryview(bytes(starts)).cast("I")
    )
    assert _native.StoreText(index, 8, 48, [1, 2]).grow(8, 4, 8, 0.0) == ((), (), ())
    starts[:] = b"\xff" * len(starts)
    index = _native.StoreIndex(
        memoryview(bytes(text)).cast("H"), memoryview(bytes(places)).cast("I"), memoryview(bytes(starts)).cast("I")
    )
    assert index.find(1) == (1, 0, 0)


def _built(path: Path) -> Path:
    storefile.build(path, [[1, 2, 3], [1, 2, 3]], VOCAB, bytes(32))
    return path
