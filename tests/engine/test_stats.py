"""Counts and times: each figure of the bill on answers that can be counted by hand."""

from __future__ import annotations

from itertools import count

from tests.engine.worlds import VOCAB, Answer, world

from outrider.api import Origin, Pass, Request
from outrider.core.step import StepTime
from outrider.core.types import EMPTY, Draft
from outrider.engine.stats import Meter
from outrider.testing import drafters
from outrider.testing.drafters import FunctionDrafter
from outrider.testing.table import ScriptedLaw

PROMPT = (6,) * 10
SCRIPT = (0, 1, 2, 3, 4, 5, 0, 1, 2, 3)


def ask(drafter: FunctionDrafter | None, max_tokens: int = 10, chunk_rows: int = 512) -> Answer:
    ticks = count(0)
    made = world(
        ScriptedLaw(VOCAB, len(PROMPT), SCRIPT), drafter, 3, chunk_rows=chunk_rows, clock=lambda: float(next(ticks))
    )
    return made.answer(Request(PROMPT, max_tokens))[0]


def test_counts_per_position() -> None:
    """The guess is right for two tokens out of three: passes give 3, 3, 3 and the last 1 (nothing to guess then)."""

    def guess(view: object, budget: object) -> Draft:
        done = len(view.tokens) - len(PROMPT)  # type: ignore[attr-defined]
        tokens = (*SCRIPT[done : done + 2], 9)[: budget.depth]  # type: ignore[attr-defined]
        return Draft.chain(tokens)

    answer = ask(FunctionDrafter("two of three", guess))
    usage = answer.usage
    assert answer.ids == SCRIPT
    assert (usage.prompt_tokens, usage.completion_tokens, usage.passes) == (10, 10, 4)
    assert (usage.drafted, usage.accepted) == (9, 6)
    assert usage.drafted_per_position == (3, 3, 3)
    assert usage.accepted_per_position == (3, 3, 0)
    assert usage.tokens_per_pass == 2.5
    own = [Origin.ACCEPTED, Origin.ACCEPTED, Origin.RECOVERED] * 3
    assert answer.origins == (*own, Origin.BONUS)


def test_a_whole_draft_kept_ends_in_a_bonus() -> None:
    answer = ask(drafters.oracle({PROMPT: SCRIPT}, 0), max_tokens=8)
    assert answer.origins == (*[Origin.ACCEPTED] * 3, Origin.BONUS) * 2
    assert answer.usage.accepted_per_position == answer.usage.drafted_per_position == (2, 2, 2)


def test_trees_count_nodes_and_positions_apart() -> None:
    """Two siblings and a child of the second: three nodes on two positions."""
    tree = FunctionDrafter(
        "tree",
        lambda view, budget: (
            Draft((9, SCRIPT[len(view.tokens) - len(PROMPT)], 9), (-1, -1, 1)) if budget.depth > 1 else EMPTY
        ),
    )
    answer = ask(tree, max_tokens=4)
    usage = answer.usage
    assert (usage.drafted, usage.accepted, usage.passes) == (3, 1, 3)
    assert usage.drafted_per_position == (1, 1)
    assert usage.accepted_per_position == (1, 0)
    assert answer.origins == (Origin.ACCEPTED, Origin.RECOVERED, Origin.BONUS, Origin.BONUS)


def test_without_a_drafter_every_pass_gives_one_token() -> None:
    answer = ask(None, chunk_rows=4)
    usage = answer.usage
    assert (usage.passes, usage.drafted, usage.accepted, usage.tokens_per_pass) == (10, 0, 0, 1.0)
    assert usage.drafted_per_position == usage.accepted_per_position == ()
    assert set(answer.origins) == {Origin.BONUS}


def test_times_add_up_on_a_clock_of_one_tick_a_look() -> None:
    """A step looks at the clock 7 times, so it lasts 6 ticks: 1 + 1 for the drafter, 1 + 1 for the target."""
    usage = ask(None, chunk_rows=4).usage
    assert usage.prefill_s == 3 * 6  # 4 + 4 + 2 prompt rows
    assert usage.decode_s == 9 * 6
    assert usage.draft_s == usage.target_s == 9 * 2
    assert usage.tokens_per_s == 9 / (9 * 6)


def test_tokens_of_the_first_pass_are_not_decoded_ones() -> None:
    usage = ask(drafters.oracle({PROMPT: SCRIPT}, 0), max_tokens=8).usage
    assert usage.prefill_s == usage.decode_s == 6
    assert usage.tokens_per_s == 4 / 6
    assert ask(None, max_tokens=1).usage.tokens_per_s == 0.0


def test_the_story_of_a_pass() -> None:
    answer = ask(drafters.oracle({PROMPT: SCRIPT[:5]}, 9), max_tokens=10)
    first, second = answer.stories[:2]
    assert first == Pass(10, (0, 1, 2), (-1, 0, 1), (0, 1, 2), 3, 6.0, drafters=("oracle",) * 3)
    assert (second.position, second.drafted, second.path, second.token) == (14, (4, 9, 9), (0,), 5)
    assert [chunk.story is not None for chunk in answer.chunks] == [True] * len(answer.chunks)


def test_a_meter_counts_nothing_from_the_first_trimmed_token_on() -> None:
    meter = Meter(5)
    meter.record(0, Draft.chain((1, 2, 3)), (0, 1, 2), trimmed=False)
    meter.time(StepTime(1.0, 0.1, 0.8))
    meter.record(4, Draft((1, 2, 3, 4), (-1, -1, 1, 2)), (1, 2, 3), trimmed=True)
    meter.time(StepTime(2.0, 0.2, 1.6))
    usage = meter.usage(6)
    assert (usage.drafted, usage.accepted) == (6, 5)
    assert usage.drafted_per_position == (2, 2, 1)
    assert usage.accepted_per_position == (2, 2, 1)
    # A stop string may take back tokens of earlier passes, too.
    assert meter.usage(2).accepted_per_position == (1, 1)
    assert (usage.prefill_s, usage.decode_s, usage.tokens_per_s) == (1.0, 2.0, 1.0)
