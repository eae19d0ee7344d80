"""What a target writes for its own training: the same file however it is asked and interrupted, and no other."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.plan.worlds import EOS, PIECES, VOCAB

from outrider.api import Chunk, FinishReason, Generator, Request, Sampling
from outrider.engine.engine import Engine
from outrider.errors import UsageError
from outrider.policy.fixed import Fixed
from outrider.testing.table import RandomLaw, TableBackend
from outrider.testing.text import PieceDetokenizer
from outrider.train import data, questions, tasks, writing
from outrider.train.data import Line, Log, Recipe
from outrider.train.writing import Words, Written, write

LAW_SEED = 8  # answers of 2 to 256 tokens, most of which end
RECIPE = Recipe("table", "f1", "d1", (1, 2), (3,), seed=5, prompts=None, own=True)
PROMPTS = ((4, 4, 1), (5, 2, 1), (6, 0, 2))
LED = replace(RECIPE, leads=tasks.digest())
WITH_PROMPTS = replace(RECIPE, prompts=data.prompts_digest(PROMPTS))


def table(slots: int = 32) -> Generator:
    backend = TableBackend(RandomLaw(VOCAB, 3, seed=LAW_SEED), VOCAB, 2000)
    return Engine(backend, None, Fixed(0), lambda: PieceDetokenizer(PIECES), frozenset({EOS}), slots=slots)


def silent(_: Written) -> None: ...


def encoded(text: str) -> list[int]:
    return [1 + sum(map(ord, word)) % (EOS - 1) for word in text.split()]


def decoded(ids: Sequence[int]) -> str:
    return "".join(f"word{token} went on and on. " for token in ids)


WORDS = Words(encoded, lambda text: [0, *encoded(text)], decoded, context=2000)


def written(
    path: Path,
    tokens: int,
    recipe: Recipe = RECIPE,
    prompts: Sequence[tuple[int, ...]] = (),
    together: int = 24,
    generator: Generator | None = None,
    watch: Callable[[Written], None] = silent,
) -> bytes:
    log = Log(path, recipe, VOCAB)
    try:
        write(generator or table(), log, prompts, tokens, watch, together, words=WORDS)
    finally:
        log.close()
    return path.read_bytes()


def by_the_recipe(tokens: int, led: bool = False) -> list[Line]:
    """The definition: each seed's texts, its question and its answer, all alone."""
    found: list[Line] = []
    seen: set[tuple[int, ...]] = set()
    generator, seed = table(), RECIPE.seed
    while sum(len(line.answer) for line in found) < tokens:
        ids = led_question(generator, seed) if led else drawn(generator, seed, ())
        if ids is not None and ids not in seen:
            seen.add(ids)
            whole = (1, 2, *ids, 3)
            answer, ended = alone(generator, Request(whole, 256))
            found.append(Line(seed, ids, answer, ended is FinishReason.STOP))
        seed += 1
    assert seed - RECIPE.seed > len(found) + 5, "every question was kept, so this sees nothing"
    return found


def drawn(generator: Generator, seed: int, began: tuple[int, ...]) -> tuple[int, ...] | None:
    ids, reason = alone(generator, questions.question(RECIPE.frame, seed, began))
    return (*began, *ids) if reason is FinishReason.STOP and len(ids) >= 3 else None


def led_question(generator: Generator, seed: int) -> tuple[int, ...] | None:
    lead = tasks.lead(seed)
    texts = []
    for place, (start, most) in enumerate(lead.texts):
        sampling = Sampling(temperature=0.8, top_p=0.95, seed=3 * seed + place)
        ids, reason = alone(generator, Request((0, *encoded(start)), most, sampling))
        text = tasks.whole(start, decoded(ids), reason)
        if text is None:
            return None
        texts.append(text)
    began = tuple(encoded(lead.filled(tuple(texts))))
    if 2 * len((1, 2, *began, 3)) > WORDS.context:
        return None
    ids_or_none = drawn(generator, seed, began) if lead.drawn else began
    return ids_or_none if ids_or_none is not None and 2 * len((1, 2, *ids_or_none, 3)) <= WORDS.context else None


def alone(generator: Generator, request: Request) -> tuple[tuple[int, ...], FinishReason]:
    chunks = list(generator.generate([request]))
    reason = chunks[-1].finish_reason
    assert reason is not None
    return tuple(token for chunk in chunks for token in chunk.token_ids), reason


@pytest.mark.parametrize(("slots", "together"), [(1, 1), (3, 40), (32, 512)])
def test_the_file_depends_on_the_recipe_alone(tmp_path: Path, slots: int, together: int) -> None:
    """One at a time or all at once: the lines are those of each question and answer alone."""
    written(tmp_path / "data.jsonl", 600, together=together, generator=table(slots))
    expected = by_the_recipe(600)
    assert list(data.lines(tmp_path / "data.jsonl", VOCAB)) == expected
    assert len({line.ended for line in expected}) == 2, "all answers ended alike, so this sees nothing"


@pytest.mark.parametrize(("slots", "together"), [(3, 7), (32, 512)])
def test_led_questions_depend_on_the_recipe_alone(tmp_path: Path, slots: int, together: int) -> None:
    written(tmp_path / "data.jsonl", 2500, LED, together=together, generator=table(slots))
    expected = by_the_recipe(2500, led=True)
    assert list(data.lines(tmp_path / "data.jsonl", VOCAB)) == expected
    leads = [tasks.lead(line.seed) for line in expected if line.seed is not None]
    kinds = {(len(lead.texts), lead.drawn, bool(lead.form)) for lead in leads}
    assert {(0, True, False), (0, True, True), (1, False, True)} < kinds, "a kind is missing, so this sees nothing"
    assert any(count > 1 for count, _, _ in kinds)


class Killed(Exception):
    pass


def stop(answers: int, now: Written) -> None:
    if now.answers >= answers:
        raise Killed


@pytest.mark.parametrize("cut", [0, 1, 7])
def test_a_run_that_was_killed_goes_on_as_if_nothing_had_been(tmp_path: Path, cut: int) -> None:
    whole = written(tmp_path / "whole.jsonl", 600, WITH_PROMPTS, PROMPTS)
    path = tmp_path / "killed.jsonl"
    for lines in (1, 3, 4, 9):
        with pytest.raises(Killed):
            written(path, 600, WITH_PROMPTS, PROMPTS, watch=partial(stop, lines))
        raw = path.read_bytes()
        path.write_bytes(raw[: len(raw) - cut])
        assert whole.startswith(raw)
    assert written(path, 600, WITH_PROMPTS, PROMPTS) == whole
    assert written(path, 600, WITH_PROMPTS, PROMPTS) == whole, "a file that has enough is left alone"
    for lines in (2, 5):  # the same where questions are led
        with pytest.raises(Killed):
            written(tmp_path / "led.jsonl", 600, LED, watch=partial(stop, lines))
    assert written(tmp_path / "led.jsonl", 600, LED) == written(tmp_path / "led_whole.jsonl", 600, LED)
    longer = written(path, 900, WITH_PROMPTS, PROMPTS)
    assert longer.startswith(whole)
    assert longer == written(tmp_path / "longer.jsonl", 900, WITH_PROMPTS, PROMPTS, together=512)


def test_the_users_prompts_are_answered_first(tmp_path: Path) -> None:
    written(tmp_path / "both.jsonl", 300, WITH_PROMPTS, PROMPTS)
    both = list(data.lines(tmp_path / "both.jsonl", VOCAB))
    assert [(line.seed, line.prompt) for line in both[:3]] == [(None, prompt) for prompt in PROMPTS]
    assert both[0].answer == alone(table(), Request(PROMPTS[0], 256))[0]
    own = list(data.lines(path_of(tmp_path, written(tmp_path / "own.jsonl", 300)), VOCAB))
    assert own[0].seed == RECIPE.seed
    assert both[3:] == own[: len(both) - 3]
    alone_only = replace(WITH_PROMPTS, own=False)
    written(tmp_path / "only.jsonl", 10**6, alone_only, PROMPTS)
    assert list(data.lines(tmp_path / "only.jsonl", VOCAB)) == both[:3]


@pytest.mark.parametrize(("slots", "together"), [(1, 1), (32, 512)])
def test_drawn_openings_depend_on_the_recipe_alone(tmp_path: Path, slots: int, together: int) -> None:
    """Line i begins as seed + i draws it, and goes on with what is likeliest behind that; interrupted or not."""
    recipe = replace(WITH_PROMPTS, opening_tokens=3, answer_tokens=40)
    path = tmp_path / "data.jsonl"
    for tokens in (150, 600):
        written(path, tokens, recipe, PROMPTS, together, table(slots))
    found = list(data.lines(path, VOCAB))
    generator, likeliest = table(), 0
    for number, line in enumerate(found):
        whole = line.prompt if line.seed is None else recipe.frame.around(line.prompt)
        sampling = Sampling(temperature=1.0, top_p=0.95, seed=recipe.seed + number)
        opening = alone(generator, Request(whole, 3, sampling))[0]
        rest, reason = alone(generator, Request((*whole, *opening), 40 - len(opening)))
        expected = Line(line.seed, line.prompt, opening + rest, reason is FinishReason.STOP, len(opening))
        assert line == expected
        likeliest += line.answer[:3] == alone(generator, Request(whole, 3))[0]
    assert 0 < likeliest < len(found) / 2, "the openings are the likeliest, so this sees nothing"
    assert max(len(line.answer) for line in found) == 40


def test_openings_leave_room_in_the_context(tmp_path: Path) -> None:
    prompts = tuple((4,) * length for length in (1999, 1998, 1997, 1996, 1995))
    recipe = replace(RECIPE, prompts=data.prompts_digest(prompts), own=False, opening_tokens=3)
    written(tmp_path / "data.jsonl", 10**6, recipe, prompts)
    found = [(len(line.answer), line.opening) for line in data.lines(tmp_path / "data.jsonl", VOCAB)]
    assert found == [(1, 0), (2, 1), (3, 2), (4, 3), (5, 3)]


def path_of(folder: Path, raw: bytes) -> Path:
    path = folder / "copy.jsonl"
    path.write_bytes(raw)
    return path


def test_it_stops_with_the_answer_that_makes_it_enough(tmp_path: Path) -> None:
    seen: list[Written] = []
    written(tmp_path / "data.jsonl", 700, watch=seen.append)
    lines = list(data.lines(tmp_path / "data.jsonl", VOCAB))
    tokens = sum(len(line.answer) for line in lines)
    assert tokens >= 700 > tokens - len(lines[-1].answer)
    assert (seen[-1].answers, seen[-1].tokens) == (len(lines), tokens)
    assert seen[-1].drawn >= len(lines)


def test_a_target_that_writes_no_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two letters and the end: soon there is nothing new."""
    monkeypatch.setattr(writing, "_MOST_USELESS", 60)

    class Dull:
        def generate(self, requests: Sequence[Request]) -> Iterator[Chunk]:
            for index, request in enumerate(requests):
                ids = (1, 1, 1) if request.sampling.seed < 9 else (1, 1)
                yield Chunk(index, "", ids, (), finish_reason=FinishReason.STOP)

    with pytest.raises(UsageError, match="of the last 60 questions that the target wrote none ended by itself"):
        written(tmp_path / "data.jsonl", 1000, generator=Dull())
    assert len(list(data.lines(tmp_path / "data.jsonl", VOCAB))) == 1


class Small:
    """A stream to a disk with room for so many bytes, which takes a part of what does not fit."""

    def __init__(self, stream: object, room: int) -> None:
        self._stream, self._room = stream, room

    def write(self, raw: bytes) -> int:
        part = bytes(raw[: min(self._room, 40)])
        if not part:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._room -= len(part)
        count: int = self._stream.write(part)  # type: ignore[attr-defined]
        return count

    def truncate(self, size: int) -> int:
        kept: int = self._stream.truncate(size)  # type: ignore[attr-defined]
        return kept

    def close(self) -> None:
        self._stream.close()  # type: ignore[attr-defined]


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole.jsonl", 600)
    path = tmp_path / "full.jsonl"
    log = Log(path, RECIPE, VOCAB)
    log._stream = Small(log._stream, len(whole) // 2)  # type: ignore[assignment]
    with pytest.raises(UsageError, match=r"no space left for .*full\.jsonl: what is written is kept"):
        write(table(), log, (), 600, silent)
    log.close()
    kept = path.read_bytes()
    assert whole.startswith(kept)
    assert kept.endswith(b"\n")
    assert kept.count(b"\n") >= 2
    assert written(path, 600) == whole


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"seed": 6}, "with seed 5 and is to go on with 6"),
        ({"fingerprint": "f2"}, 'with fingerprint "f1" and is to go on with "f2"'),
        ({"opening": (1, 2, 2)}, r"with opening \[1, 2\] and is to go on with \[1, 2, 2\]"),
        ({"prompts": "ab"}, "with prompts null and is to go on with"),
        ({"answer_tokens": 9}, "with answer_tokens 256 and is to go on with 9"),
    ],
)
def test_another_recipe_is_refused(tmp_path: Path, change: dict[str, object], says: str) -> None:
    path = tmp_path / "data.jsonl"
    before = written(path, 100)
    with pytest.raises(UsageError, match=says):
        Log(path, replace(RECIPE, **change), VOCAB)  # type: ignore[arg-type]
    assert path.read_bytes() == before
    Log(path, RECIPE, VOCAB).close()


def test_two_processes_do_not_write_one_file(tmp_path: Path) -> None:
    first = Log(tmp_path / "data.jsonl", RECIPE, VOCAB)
    with pytest.raises(UsageError, match="is being written by another process"):
        Log(tmp_path / "data.jsonl", RECIPE, VOCAB)
    first.close()
    Log(tmp_path / "data.jsonl", RECIPE, VOCAB).close()


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        Log(tmp_path / "file" / "data.jsonl", RECIPE, VOCAB)
    with pytest.raises(UsageError, match="cannot be written"):
        Log(tmp_path / "a\0b" / "data.jsonl", RECIPE, VOCAB)


@pytest.mark.parametrize("raw", ["[]", "{}", "nonsense", '{"format": 1}', '{"opening": 3, "closing": []}'])
def test_a_recipe_that_is_none(tmp_path: Path, raw: str) -> None:
    (tmp_path / "data.json").write_text(raw)
    with pytest.raises(UsageError, match="no recipe of training data"):
        Log(tmp_path / "data.jsonl", RECIPE, VOCAB)


def test_a_recipe_of_another_format(tmp_path: Path) -> None:
    Log(tmp_path / "data.jsonl", RECIPE, VOCAB).close()
    sidecar = data.sidecar(tmp_path / "data.jsonl")
    sidecar.write_text(sidecar.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(UsageError, match="has format 2, not 1"):
        Log(tmp_path / "data.jsonl", RECIPE, VOCAB)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("nonsense", "line 2 is not JSON"),
        ("[" * 100_000, "line 2 is not JSON"),
        ("[1]", "line 2 is no object"),
        ('{"seed": 1.5, "prompt": [1], "answer": [1], "ended": true}', "line 2 has the seed 1.5"),
        ('{"seed": 1, "prompt": [1], "answer": [1]}', "line 2 has the seed 1, ended None and opening 0"),
        (
            '{"seed": 1, "prompt": [1], "answer": [1], "ended": true, "opening": 2}',
            "an opening of 2 ids and an answer of 1",
        ),
        ('{"seed": 1, "prompt": [1], "answer": [1], "ended": true, "opening": true}', "and opening True"),
        (f'{{"seed": 1, "prompt": [{VOCAB}], "answer": [1], "ended": true}}', r"line 2 has no ids in 0\.\.11 as its p"),
        ('{"seed": 1, "prompt": [1], "answer": [true], "ended": true}', r"line 2 has no ids in 0\.\.11 as its answer"),
        ('{"seed": 1, "prompt": [1], "answer": "1", "ended": true}', "line 2 has no ids"),
    ],
)
def test_damaged_lines(tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps({"seed": 1, "prompt": [1], "answer": [2], "ended": True}) + f"\n{line}\n")
    with pytest.raises(UsageError, match=says):
        list(data.lines(path, VOCAB))
    with pytest.raises(UsageError, match=says):
        Log(path, RECIPE, VOCAB)


def test_a_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    raw = written(path, 200)
    path.write_bytes(raw[:-1])
    assert len(list(data.lines(path, VOCAB))) == raw.count(b"\n") - 1
