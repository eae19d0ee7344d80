"""The parts that are plain functions of what they are given."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.worlds import TOKENIZER, TableFace

from outrider.api import Chunk, Failed, FailureKind, FinishReason, Origin, Pass, Request, Usage
from outrider.errors import BackendError, Draining, Overloaded, UsageError
from outrider.server.common import PARAMS
from outrider.server.counting import PredictionCount, usage_json
from outrider.server.mailbox import Mailbox
from outrider.server.pieces import Piece, Splitter, one_by_one
from outrider.server.problems import Problem, of_error
from outrider.server.reading import Reader
from outrider.server.telling import pass_story, story

USAGE = Usage(10, 6, 2, 7, 5, 4, 1, (2, 2), (2, 1), 3.0, 0.5, 0.1, 0.2, 0.4, 12.5, 3)


@given(st.text(max_size=30), st.lists(st.integers(0, 6), min_size=1), st.integers(0, 3))
def test_pieces_are_the_chunk_and_each_token_once(text: str, cuts: list[int], lag: int) -> None:
    """Chunks of some tokens each, whose text lags behind by some characters: what could have become a stop string."""
    face = TableFace()
    ids = TOKENIZER.encode(text, special=False)
    whole = TOKENIZER.decode(ids, skip_special=True)
    splitter, detokenizer = Splitter(face.detokenizer()), face.detokenizer()
    at, known, told = 0, "", 0
    seen: list[int] = []
    joined = ""
    number = 0
    while at < len(ids) or told < len(whole):
        length = cuts[number % len(cuts)] or (1 if not any(cuts) else 0)
        tokens = tuple(ids[at : at + length])
        at += len(tokens)
        known += "".join(map(detokenizer.push, tokens))
        end = len(whole) if at == len(ids) else max(told, len(known) - lag)
        chunk = Chunk(0, whole[told:end], tokens, (Origin.BONUS,) * len(tokens))
        told = end
        pieces = splitter.split(chunk)
        assert "".join(piece.text for piece in pieces) == chunk.text
        assert [piece.place for piece in pieces if piece.place is not None] == list(range(len(tokens)))
        parts = list(one_by_one(chunk, pieces))
        assert "".join(part.text for part in parts) == chunk.text
        assert [token for part in parts for token in part.token_ids] == list(tokens)
        assert all(len(part.token_ids) <= 1 for part in parts)
        seen += tokens
        joined += chunk.text
        number += 1
    assert (seen, joined) == (ids, whole)


def test_the_end_goes_with_the_last_piece_and_the_story_with_the_first() -> None:
    story = Pass(5, (1, 2), (-1, 0), (0, 1), 3, 0.1)
    ids = tuple(TOKENIZER.encode("abc", special=False))
    chunk = Chunk(0, "abc", ids, (Origin.ACCEPTED,) * 2 + (Origin.BONUS,), story, FinishReason.STOP, USAGE)
    parts = list(one_by_one(chunk, Splitter(TableFace().detokenizer()).split(chunk)))
    assert [part.text for part in parts] == ["a", "b", "c"]
    assert [part.story for part in parts] == [story, None, None]
    assert [part.usage for part in parts] == [None, None, USAGE]
    assert [part.finish_reason for part in parts] == [None, None, FinishReason.STOP]


@pytest.mark.parametrize(
    ("drafted", "parents", "path", "accepted", "rejected"),
    [
        ((7, 8, 9), (-1, 0, 1), (0, 1, 2), 3, 0),
        ((7, 8, 5), (-1, 0, 1), (0, 1), 2, 0),  # 5 is not of the prediction, so it is not its fault
        ((7, 8, 9), (-1, 0, 1), (0,), 1, 2),
        ((8, 8), (-1, 0), (), 0, 1),  # the second 8 does not follow an 8 there
        ((7, 9, 8), (-1, -1, 0), (0, 2), 2, 1),  # a tree
        ((1, 2), (-1, 0), (0, 1), 0, 0),
        ((), (), (), 0, 0),
    ],
)
def test_what_was_drafted_from_a_prediction(
    drafted: tuple[int, ...], parents: tuple[int, ...], path: tuple[int, ...], accepted: int, rejected: int
) -> None:
    count = PredictionCount((7, 8, 9))
    count.see(Pass(0, drafted, parents, path, 1, 0.0))
    assert (count.accepted, count.rejected) == (accepted, rejected)
    nothing = PredictionCount(())
    nothing.see(Pass(0, drafted, parents, path, 1, 0.0))
    assert (nothing.accepted, nothing.rejected) == (0, 0)


def test_usage_of_several_answers() -> None:
    found = usage_json(10, [USAGE, USAGE], [PredictionCount(()), PredictionCount(())])
    assert (found["prompt_tokens"], found["completion_tokens"], found["total_tokens"]) == (10, 12, 22)
    assert (found["drafted"], found["accepted"], found["forced"], found["passes"]) == (10, 8, 2, 4)
    assert (found["tokens_per_pass"], found["decode_s"], found["tokens_per_s"]) == (3.0, 0.4, 25.0)
    assert found["prompt_tokens_details"] == {"cached_tokens": 6}
    assert usage_json(3, [], [])["tokens_per_pass"] == 0.0


@pytest.mark.parametrize(
    ("drafted", "parents", "path", "own"),
    [
        ((), (), (), "bonus"),
        ((1, 2), (-1, 0), (0, 1), "bonus"),
        ((1, 2), (-1, 0), (0,), "recovered"),
        ((1,), (-1,), (), "recovered"),
        ((1, 2, 3), (-1, -1, 1), (0,), "bonus"),  # the other branch goes on, this one is kept to its leaf
    ],
)
def test_what_the_own_token_of_a_pass_was(
    drafted: tuple[int, ...], parents: tuple[int, ...], path: tuple[int, ...], own: str
) -> None:
    told = pass_story(Pass(4, drafted, parents, path, 9, 0.25))
    assert told == {
        "position": 4,
        "drafted": len(drafted),
        "kept": len(path),
        "forced": 0,
        "seconds": 0.25,
        "own": own,
        "by": {},
    }


def test_a_pass_tells_what_each_drafter_did() -> None:
    told = pass_story(Pass(4, (1, 2, 3), (-1, -1, 1), (1, 2), 9, 0.25, drafters=("suffix", "store", "suffix")))
    assert told["by"] == {"suffix": {"drafted": 2, "kept": 1}, "store": {"drafted": 1, "kept": 1}}


def test_a_token_tells_who_guessed_it() -> None:
    ids = tuple(TOKENIZER.encode("abc", special=False))
    origins = (Origin.ACCEPTED, Origin.FORCED, Origin.BONUS)
    chunk = Chunk(0, "abc", ids, origins, drafters=("store", "grammar", None))
    for parts in ([chunk], list(one_by_one(chunk, Splitter(TableFace().detokenizer()).split(chunk)))):
        splitter = Splitter(TableFace().detokenizer())
        tokens: list[dict[str, Any]] = []
        for part in parts:
            tokens += cast(Any, story(part, splitter.split(part))["tokens"])
        assert [(token["text"], token.get("drafter")) for token in tokens] == [
            ("a", "store"),
            ("b", "grammar"),
            ("c", None),
        ]
    nameless = story(Chunk(0, "a", ids[:1], origins[:1]), [Piece(0, "a")])
    assert nameless["tokens"] == [{"id": ids[0], "text": "a", "origin": "accepted"}]


def test_errors_as_problems() -> None:
    overloaded = of_error(Overloaded("too many", 2.4))
    assert (overloaded.status, overloaded.headers()) == (429, {"Retry-After": "2"})
    assert of_error(Draining("stopping")).status == 503
    assert of_error(BackendError("no room")).status == 500
    named = of_error(UsageError("seed is 'x'; give a number"), PARAMS)
    assert (named.status, named.param) == (400, "seed")
    assert of_error(UsageError("something else"), PARAMS).param is None


def test_what_nobody_took_is_refused() -> None:
    reader = Reader({"a": 1, "b": {"c": "x", "d": None}, "e": [1], "f": 2.0})
    assert reader.whole("a", 0, 5) == 1
    assert reader.whole("f", 0, 5) == 2, "some clients have one type for all numbers"
    inner = reader.needed("b")
    assert inner.text("c") == "x"
    inner.done()
    with pytest.raises(Problem, match=r"e is \[1\], which this server does not support; take it out") as caught:
        reader.done({"e": "take it out"})
    assert caught.value.param == "e"
    nonsense: list[object] = [None, [], "x", 5]
    for wrong in nonsense:
        with pytest.raises(Problem, match="give a JSON object"):
            Reader(wrong)


class Late:
    """A Live whose submit waits; it notes what is cancelled."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.cancelled: list[int] = []
        self.listener: Callable[[Chunk | Failed], None] | None = None

    def submit(self, request: Request, listener: Callable[[Chunk | Failed], None]) -> int:
        assert self.go.wait(10)
        self.listener = listener
        return 7

    def cancel(self, ticket: int) -> None:
        self.cancelled.append(ticket)


def test_a_submit_that_is_under_way_when_the_client_leaves_is_cancelled() -> None:
    async def leave() -> Late:
        live = Late()
        mailbox = Mailbox(live)  # type: ignore[arg-type]
        submitting = asyncio.create_task(asyncio.to_thread(mailbox.submit, [Request((1,))]))
        await asyncio.sleep(0)
        mailbox.close()
        live.go.set()
        await submitting
        return live

    live = asyncio.run(leave())
    assert live.cancelled == [7]
    assert live.listener is not None
    live.listener(Failed(0, "late", FailureKind.INTERNAL))  # the loop has ended: nothing happens, nothing is raised


def test_a_mailbox_gives_all_that_came_and_waits_for_more() -> None:
    async def take() -> list[list[int]]:
        live = Late()
        live.go.set()
        mailbox = Mailbox(live)  # type: ignore[arg-type]
        mailbox.submit([Request((1,))])
        assert live.listener is not None
        put = live.listener
        found = [[len(item.token_ids) for _, item in await mailbox.take(0.01) if isinstance(item, Chunk)]]
        for count in range(3):
            put(Chunk(0, "", (1,) * count, ()))
        found.append([len(item.token_ids) for _, item in await mailbox.take(5) if isinstance(item, Chunk)])
        threading.Thread(target=put, args=[Chunk(0, "", (1,) * 9, ())]).start()
        found.append([len(item.token_ids) for _, item in await mailbox.take(5) if isinstance(item, Chunk)])
        return found

    assert asyncio.run(take()) == [[], [0, 1, 2], [9]]
