"""Ends inside an accepted block: text, ids, origins and counts end at the same token, streamed or not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.engine.worlds import EOS, PIECES, VOCAB, Answer, World, world

from outrider.api import FinishReason, Origin, Request
from outrider.errors import UsageError
from outrider.testing import drafters
from outrider.testing.table import RandomLaw, ScriptedLaw
from outrider.testing.text import ByteDetokenizer

PROMPT = (6, 6, 6)
GAMMAS = (0, 1, 2, 3, 5, 8, 16)


def scripted(script: Sequence[int], gamma: int, past: int = 7) -> World:
    """A target that says the script (its last id for ever), and an oracle that drafts it and goes on with `past`."""
    law = ScriptedLaw(VOCAB, len(PROMPT), script)
    return world(law, drafters.oracle({PROMPT: script}, past), gamma)


def ask(script: Sequence[int], gamma: int, past: int = 7, **request: object) -> Answer:
    made = scripted(script, gamma, past)
    (answer,) = made.answer(Request(PROMPT, **request))  # type: ignore[arg-type]
    assert made.backend.sequences == 0
    return answer


@pytest.mark.parametrize("gamma", GAMMAS)
def test_nothing_after_the_end_of_text(gamma: int) -> None:
    """Case 4: the drafter drafts on past the end, and the target would go on too."""
    answer = ask([0, 1, 2, EOS, 4, 5, 4, 5], gamma)
    assert (answer.text, answer.ids, answer.finish) == ("abc", (0, 1, 2), FinishReason.STOP)
    # Counted: what was drafted for kept tokens. Every guess was right, so that is what was accepted, too.
    assert answer.usage.drafted == answer.usage.accepted == 3 - sum(o is not Origin.ACCEPTED for o in answer.origins)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_ignore_eos_goes_on(gamma: int) -> None:
    answer = ask([0, 1, EOS, 4, EOS, 5, 6], gamma, max_tokens=6, ignore_eos=True)
    assert (answer.ids, answer.finish) == ((0, 1, EOS, 4, EOS, 5), FinishReason.LENGTH)


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_max_tokens_inside_a_block(gamma: int, limit: int) -> None:
    made = scripted([0, 1, 2, 3, 4, 5, 0, 1, 2, 3], gamma)
    (answer,) = made.answer(Request(PROMPT, limit))
    assert (answer.ids, answer.finish) == ((0, 1, 2, 3, 4, 5, 0)[:limit], FinishReason.LENGTH)
    assert answer.usage.passes == -(-limit // (gamma + 1))
    # No row was computed that could only be thrown away.
    assert sum(made.backend.passes) == len(PROMPT) - 1 + limit


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize(
    ("script", "stop", "text", "ids"),
    [
        ([0, 7, 1, 7, 2], ("b",), "ax", (0, 7)),  # the stop string is a whole token
        ([7, 3, 7], ("b",), "xa", (7, 3)),  # it ends a token: the token stays, for its "a"
        ([7, 0, 1, 2, 7], ("abc",), "x", (7,)),  # it straddles three tokens
        ([7, 5, 4, 7], ("abc",), "xc", (7, 5)),  # and starts inside one: "ca", "bc"
        ([0, 1, 2], ("ab",), "", ()),  # it is all there is
        ([0, 0, 0, 1, 7], ("aab",), "a", (0,)),  # a false start overlaps it
        ([7, 9, 9, 1, 0], ("b",), "x", (7,)),  # tokens without text before it go with it
        ([0, 7, 2, 1], ("c", "xc"), "a", (0,)),  # two end at once: the one that starts first
        ([2, 10, 10, 7], ("\n\n",), "c", (2,)),
        ([0, 1, 7, EOS], ("xa",), "abx", (0, 1, 7)),  # the end of text comes while one could still begin
    ],
)
def test_stop_strings(gamma: int, script: list[int], stop: tuple[str, ...], text: str, ids: tuple[int, ...]) -> None:
    """Case 5: cut at the first stop string, even early in an accepted block."""
    answer = ask(script, gamma, stop=stop, max_tokens=50)
    assert (answer.text, answer.ids, answer.finish) == (text, ids, FinishReason.STOP)
    assert answer.usage.drafted <= len(ids)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_a_false_start_at_the_limit_is_given_out(gamma: int) -> None:
    answer = ask([7, 0, 1, 2], gamma, stop=("abcc",), max_tokens=3)
    assert (answer.text, answer.ids, answer.finish) == ("xab", (7, 0, 1), FinishReason.LENGTH)


def test_chunks_hold_back_what_could_become_a_stop() -> None:
    made = world(ScriptedLaw(VOCAB, len(PROMPT), [7, 0, 1, 7, 0, 1, 2]))
    (answer,) = made.answer(Request(PROMPT, stop=("abc",)))
    assert [chunk.text for chunk in answer.chunks] == ["x", "", "", "abx", "", "", ""]
    assert [chunk.token_ids for chunk in answer.chunks] == [(7,), (), (), (0, 1, 7), (), (), ()]
    assert answer.usage.completion_tokens == 4
    assert answer.usage.passes == 7


@pytest.mark.parametrize("gamma", GAMMAS)
def test_half_a_character_is_never_given_out(gamma: int) -> None:
    text = "né 🐟🐟 ok"
    script = [*text.encode(), 0]
    law = ScriptedLaw(256, len(PROMPT), script)
    made = world(
        law, drafters.oracle({PROMPT: script}, 1), gamma, vocab=256, detokenizer=ByteDetokenizer, eos=frozenset({0})
    )
    for stop, expected in (((), text), (("🐟 ",), "né 🐟"), (("é",), "n")):
        (answer,) = made.answer(Request(PROMPT, stop=stop))
        assert answer.text == expected == "".join(chunk.text for chunk in answer.chunks)
        assert bytes(answer.ids).decode() == expected
    # Cut off in the middle of the first fish: its two bytes are counted, and shown as what they are.
    (answer,) = made.answer(Request(PROMPT, max_tokens=6))
    assert (answer.text, len(answer.ids)) == ("né �", 6)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_a_prompt_that_nearly_fills_the_context(gamma: int) -> None:
    """Case 8: 56 of 64 positions; the table backend raises for any row outside."""
    law = RandomLaw(VOCAB, 2, seed=1)
    prompt = (3,) * 56
    free = world(law, context=256).answer(Request(prompt, 8, ignore_eos=True))[0]
    for drafter in (drafters.oracle({prompt: free.ids}, 1), drafters.trees({prompt: free.ids}, 1, VOCAB, 1)):
        (answer,) = world(law, drafter, gamma, context=64).answer(Request(prompt, 500, ignore_eos=True))
        assert (answer.ids, answer.finish) == (free.ids, FinishReason.LENGTH)


def test_a_prompt_without_room_is_refused_before_anything_runs() -> None:
    made = world(RandomLaw(VOCAB, 1, 1), context=64)
    assert len(made.answer(Request((1,) * 63))[0].ids) == 1
    before = list(made.backend.passes)
    for length in (64, 65, 1000):
        with pytest.raises(UsageError, match=rf"prompt has {length} tokens .* context of 64; shorten it to at most 63"):
            made.engine.generate([Request((1, 2)), Request((1,) * length)])
    assert made.backend.passes == before


def test_the_cache_never_holds_what_was_trimmed() -> None:
    """At the commit of the last pass, cache and answer agree."""
    script = [0, 1, 2, EOS, 4, 5]
    made = scripted(script, 5)
    seen: list[tuple[int, ...]] = []
    close = made.backend.close

    def spy(seq: int) -> None:
        seen.append(made.backend.cached(seq))
        close(seq)

    made.backend.close = spy  # type: ignore[method-assign]
    made.answer(Request(PROMPT), Request(PROMPT, stop=("c",)))
    assert seen == [(*PROMPT, 0, 1, 2), (*PROMPT, 0, 1)]


def test_ends_agree_with_the_text_of_the_ids() -> None:
    """Without stop strings, the text is the ids' text."""
    answer = ask([0, 3, 8, 9, 6, EOS], 3)
    assert answer.text == "".join(PIECES[token] for token in answer.ids)
