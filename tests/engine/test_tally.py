"""What a service counts of each drafter; and a request that lets only some of them draft."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest

import pytest
from tests.engine.serving import hall
from tests.engine.worlds import EOS, VOCAB, world

from outrider.api import Request
from outrider.drafters.hybrid import Merged
from outrider.policy.fixed import Fixed
from outrider.testing import drafters
from outrider.testing.table import RandomLaw

LAW = RandomLaw(VOCAB, 2, seed=4)


def test_guesses_are_counted_for_each_drafter() -> None:
    """The oracle knows the first five tokens; the other guesses 7 all along, in a tree with it."""
    request = Request((1, 2), 40, ignore_eos=True)
    ids = world(LAW).answer(request)[0].ids
    right, other = drafters.oracle({(1, 2): ids[:5]}, EOS), drafters.constant(7)
    made = hall(LAW, Merged([right, other]), Fixed(6))
    assert [(one.name, one.drafted) for one in made.service.snapshot().drafters] == [("oracle", 0), ("constant", 0)]
    _, heard = made.submit(request)
    made.run()
    taken = made.service.snapshot()
    kept = [name for chunk in heard.chunks for name in chunk.drafters if name]
    stories = [chunk.story for chunk in heard.chunks if chunk.story]
    for one in taken.drafters:
        assert one.accepted == sum(one.accepted_by_position) >= kept.count(one.name) > 0
        assert one.drafted == sum(story.drafters.count(one.name) for story in stories) > one.accepted
        assert len(one.drafted_by_position) == len(one.accepted_by_position)
    assert sum(one.drafted for one in taken.drafters) == taken.drafted
    by_position = zip_longest(*(one.accepted_by_position for one in taken.drafters), fillvalue=0)
    assert [*map(sum, by_position), 0, 0][: len(taken.accepted_by_position)] == list(taken.accepted_by_position)


@pytest.mark.parametrize("chosen", [("oracle",), ("constant",), ("oracle", "constant")])
def test_a_request_may_choose_who_drafts_and_its_answer_stays(chosen: tuple[str, ...]) -> None:
    plain = Request((1, 2), 40, ignore_eos=True)
    ids = world(LAW).answer(plain)[0].ids
    oracle = drafters.oracle({(1, 2): ids}, EOS)
    made = hall(LAW, Merged([oracle, drafters.constant(7)]), Fixed(6))
    (found,), (all_of_them,) = made.ask(replace(plain, drafters=chosen), plain)
    assert found.ids == all_of_them.ids == ids
    drafted = {name for story in found.stories for name in story.drafters}
    assert drafted == set(chosen)
    assert {name for story in all_of_them.stories for name in story.drafters} == {"oracle", "constant"}
    made.check_nothing_is_left()
