"""A replay counts what the engine counts, without the target."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plan.worlds import EOS, LAW, VOCAB, TimedBackend, engine, prompts

from outrider.api import FinishReason, Request, Usage
from outrider.core.types import EMPTY, Draft
from outrider.drafters.base import Drafter
from outrider.drafters.ngram import NgramDrafter
from outrider.plan.replay import Known, Tally, replay
from outrider.testing import drafters


def no_clock() -> float:
    return 0.0


def answer(drafter: Drafter | None, gamma: int, prompt: list[int], max_tokens: int) -> tuple[Known, Usage, list[int]]:
    """The engine's answer, its bill, and the drafted nodes of each pass."""
    backend = TimedBackend(LAW, lambda rows: 1.0)
    ids: list[int] = []
    nodes: list[int] = []
    for chunk in engine(backend, drafter, gamma).generate([Request(prompt, max_tokens)]):
        ids += chunk.token_ids
        assert chunk.story is not None
        nodes.append(len(chunk.story.drafted))
    assert chunk.usage is not None
    return Known(prompt, ids, chunk.finish_reason is FinishReason.STOP), chunk.usage, nodes


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, VOCAB - 2), min_size=1, max_size=12),
    st.integers(1, 60),
    st.sampled_from([0, 1, 2, 3, 5, 8]),
)
def test_a_replay_is_what_the_engine_does(prompt: list[int], max_tokens: int, gamma: int) -> None:
    known, _, _ = answer(None, 0, prompt, max_tokens)
    again, bill, nodes = answer(NgramDrafter(), gamma, prompt, max_tokens)
    assert again == known
    tally = replay(NgramDrafter(), [known], gamma, max_tokens, no_clock)
    assert tally.passes == bill.passes - 1
    assert sorted(tally.sizes.elements()) == sorted(nodes[1:])


def test_acceptance_is_counted_by_position_as_the_engine_counts_it() -> None:
    """With the first pass of each answer left out, which nothing is known before: here it drafts nothing."""
    drafted: list[int] = []
    kept: list[int] = []
    found: list[Known] = []
    for prompt in prompts(12):
        first = [prompt[0]]
        known, _, _ = answer(None, 0, first, 50)
        again, bill, nodes = answer(NgramDrafter(), 4, first, 50)
        assert nodes[0] == 0
        if known.stopped:  # what is trimmed at the end of a text is counted by the replay alone
            continue
        found.append(again)
        drafted = [sum(pair) for pair in itertools.zip_longest(drafted, bill.drafted_per_position, fillvalue=0)]
        kept = [sum(pair) for pair in itertools.zip_longest(kept, bill.accepted_per_position, fillvalue=0)]
    tally = replay(NgramDrafter(), found, 4, 50, no_clock)
    assert tally.drafted == drafted
    assert tally.kept == kept
    assert 0 < kept[0] < drafted[0]


def test_trees_are_replayed_too() -> None:
    known, _, _ = answer(None, 0, [1, 2, 3], 30)
    texts: dict[tuple[int, ...], tuple[int, ...]] = {(1, 2, 3): tuple(known.answer)}
    tree = drafters.trees(texts, EOS, VOCAB, 3)
    again, bill, _ = answer(tree, 6, [1, 2, 3], 30)
    assert again == known
    tally = replay(drafters.trees(texts, EOS, VOCAB, 3), [known], 6, 30, no_clock)
    assert tally.passes == bill.passes - 1


def test_shares_by_hand() -> None:
    tally = Tally()
    chain = Draft.chain((1, 2, 3))
    tally.add(chain, (0, 1, 2), 10, 0.5)
    tally.add(chain, (0,), 14, 0.5)
    tally.add(chain, (), 16, 0.5)
    tally.add(EMPTY, (), 20, 0.5)
    assert tally.passes == 4
    assert (tally.context, tally.nodes, tally.draft_s) == (15.0, 2.25, 2.0)
    assert tally.acceptance == pytest.approx([2 / 3, 1 / 2, 1.0])
    assert tally.survival == pytest.approx([2 / 4, 1 / 2, 1.0])
    assert tally.mean(lambda nodes: 1.0 + nodes) == pytest.approx((3 * 4 + 1) / 4)


def test_joined_tallies_are_one_replay_of_all() -> None:
    known = [answer(None, 0, prompt, 40)[0] for prompt in prompts(6)]
    joined = Tally()
    for one in known:
        joined.join(replay(NgramDrafter(), [one], 4, 40, no_clock))
    assert joined == replay(NgramDrafter(), known, 4, 40, no_clock)
    assert joined.passes > len(joined.kept) > 1


def test_nothing_to_replay_is_nothing() -> None:
    tally = replay(NgramDrafter(), [], 4, 50, no_clock)
    assert (tally.passes, tally.nodes, tally.context, tally.acceptance) == (0, 0.0, 0.0, [])
    assert tally.mean(lambda nodes: 1.0) == 0.0


def test_a_drafter_that_raises_is_ended() -> None:
    ended: list[int] = []

    class Broken(NgramDrafter):
        def observe(self, outcomes: object) -> None:
            raise RuntimeError("broken")

        def end(self, seq: int) -> None:
            ended.append(seq)

    with pytest.raises(RuntimeError, match="broken"):
        replay(Broken(), [Known([1, 2], [3, 4, 5], False)], 2, 3, no_clock)
    assert ended == [0]
