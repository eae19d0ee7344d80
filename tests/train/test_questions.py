"""The frame of a chat template, whole conversations from files, and a native model that writes its own."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from outrider.api import Generator, Request
from outrider.engine.engine import Engine
from outrider.errors import ModelFileError, UsageError
from outrider.models import gguf
from outrider.models.chat import ChatTemplate
from outrider.models.digest import digest
from outrider.models.fingerprint import fingerprint
from outrider.models.spec import ModelFile, TokenizerData
from outrider.models.tokenizer import Detokenizer, Tokenizer
from outrider.policy.fixed import Fixed
from outrider.testing.gguf_maker import tiny_llama
from outrider.train import corpus, data, questions
from outrider.train.data import Log, Recipe
from outrider.train.questions import Frame
from outrider.train.writing import write


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> ModelFile:
    return gguf.read(tiny_llama(tmp_path_factory.mktemp("models") / "tiny.gguf", seed=3))


@pytest.fixture(scope="module")
def tokenizer(file: ModelFile) -> Tokenizer:
    return Tokenizer(file.tokenizer)


def templated(file: ModelFile, template: str | None) -> TokenizerData:
    return replace(file.tokenizer, chat_template=template)


def test_the_frame_is_what_the_template_writes_around_a_message(file: ModelFile, tokenizer: Tokenizer) -> None:
    around = questions.frame(file.tokenizer, tokenizer)
    message = "is the fish red?"
    ids = tuple(tokenizer.encode(message, special=False))
    rendered = ChatTemplate(file.tokenizer.chat_template).render(message)
    assert around.around(ids) == tuple(tokenizer.encode_prompt(rendered, special=True))
    assert tokenizer.decode(around.opening, skip_special=False) == "<|im_start|>user\n"
    assert tokenizer.decode(around.closing, skip_special=False) == "<|im_end|>\n<|im_start|>assistant\n"


def test_a_beginning_of_text_stands_first(file: ModelFile) -> None:
    with_bos = replace(file.tokenizer, add_bos=True, bos=0)
    assert questions.frame(with_bos, Tokenizer(with_bos)).opening[:2] == (0, 1)


@pytest.mark.parametrize(
    ("template", "says"),
    [
        (None, "the target has no chat template, so that it cannot be led to write questions: give a target that was"),
        ("hello", "writes a user's message 0 times"),
        ("a{{ messages[0].content }}{{ messages[0].content }}", "writes a user's message 2 times"),
        ("{{ messages[0].content | upper }}", "writes a user's message 0 times"),
        ("{{ messages[0].content }}b", "writes nothing before a user's message"),
    ],
)
def test_templates_without_a_frame(file: ModelFile, tokenizer: Tokenizer, template: str | None, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        questions.frame(templated(file, template), tokenizer)


def test_a_broken_template(file: ModelFile, tokenizer: Tokenizer) -> None:
    with pytest.raises(ModelFileError, match="has an error in line 1"):
        questions.frame(templated(file, "{% if %}"), tokenizer)


def recipe_of(file: ModelFile, tokenizer: Tokenizer, around: Frame) -> Recipe:
    made = digest(tokenizer).hex()
    return Recipe("tiny", fingerprint(file).hex(), made, around.opening, around.closing, 0, None, True)


def native(file: ModelFile, tokenizer: Tokenizer, slots: int) -> Generator:
    from outrider.backends.native import NativeBackend

    backend = NativeBackend(file, threads=1)
    detokenizer = partial(Detokenizer, tokenizer, skip_special=True)
    return Engine(backend, None, Fixed(0), detokenizer, tokenizer.eos_ids, slots=slots)


def test_a_native_model_writes_the_same_file_in_any_batch(
    file: ModelFile, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """The engine is exact, so that one at a time, 32 at once and a resumed run write the same bytes."""
    recipe = recipe_of(file, tokenizer, questions.frame(file.tokenizer, tokenizer))
    raw = []
    for slots, together in ((1, 1), (32, 512)):
        path = tmp_path / f"{slots}.jsonl"
        for tokens in (300, 1500):
            log = Log(path, recipe, file.spec.vocab)
            write(native(file, tokenizer, slots), log, (), tokens, lambda _: None, together)
            log.close()
        raw.append(path.read_bytes())
    assert raw[0] == raw[1]
    found = data.dialogues([tmp_path / "1.jsonl"], file)
    assert len(found) > 5
    one = found[3]
    (request,) = [Request(tuple(one.prompt.tolist()), 256)]
    answer = [token for chunk in native(file, tokenizer, 1).generate([request]) for token in chunk.token_ids]
    assert one.answer.tolist() == answer


def saved(path: Path, lines: list[dict[str, object]], recipe: Recipe | None, vocab: int) -> Path:
    if recipe is not None:
        Log(path, recipe, vocab).close()
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def entry(seed: int | None, prompt: list[int], answer: list[int]) -> dict[str, object]:
    return {"seed": seed, "prompt": prompt, "answer": answer, "ended": True}


def test_conversations_are_whole_and_new(file: ModelFile, tokenizer: Tokenizer, tmp_path: Path) -> None:
    """Own questions get their frame, a user's prompts have theirs; with and without a recipe beside the file."""
    around = questions.frame(file.tokenizer, tokenizer)
    other = recipe_of(file, tokenizer, Frame((5,), (6,)))
    first = saved(tmp_path / "a.jsonl", [entry(1, [7, 8], [9]), entry(2, [7, 9], [])], None, file.spec.vocab)
    second = saved(tmp_path / "b.jsonl", [entry(1, [7, 8], [4, 4]), entry(None, [5, 7, 8, 6], [3])], other, 320)
    third = saved(tmp_path / "c.jsonl", [entry(9, [7, 8], [1])], None, file.spec.vocab)
    found = data.dialogues([first, second, third], file)
    assert [(one.prompt.tolist(), one.answer.tolist(), one.ended) for one in found] == [
        ([*around.opening, 7, 8, *around.closing], [9], True),
        ([5, 7, 8, 6], [4, 4], True),
    ]
    assert found[0].answer.dtype == np.int32


def test_openings_make_texts_of_their_own(file: ModelFile, tmp_path: Path) -> None:
    """One prompt, two beginnings: two texts, of which what was drawn is not learned, both held out or neither."""
    prompts = [[token] for token in range(5, 45)]
    entries = [{**entry(None, prompt, [first, 3, 4, 5]), "opening": 1} for first in (1, 2, 1) for prompt in prompts]
    found = data.dialogues([saved(tmp_path / "a.jsonl", entries, None, 320)], file)
    assert [(one.prompt.tolist(), one.answer.tolist(), one.opening) for one in found] == [
        (prompt, [first, 3, 4, 5], 1) for first in (1, 2) for prompt in prompts
    ]
    texts = corpus.split(found, None, 0.5)
    assert {text.prompt for text in texts.train + texts.held_out} == {2}
    sides = [{int(text.ids[0]) for text in side} for side in (texts.train, texts.held_out)]
    assert not sides[0] & sides[1]
    assert [2 * len(side) for side in sides] == [len(texts.train), len(texts.held_out)]


@pytest.fixture
def lines() -> list[dict[str, object]]:
    return [entry(1, [7], [9])]


def test_conversations_of_another_target(
    file: ModelFile, tokenizer: Tokenizer, tmp_path: Path, lines: list[dict[str, object]]
) -> None:
    good = recipe_of(file, tokenizer, questions.frame(file.tokenizer, tokenizer))
    others = {"target": replace(good, fingerprint="ab" * 32), "tokenizer": replace(good, tokenizer="cd" * 32)}
    for name, other in others.items():
        path = saved(tmp_path / f"{name}.jsonl", lines, other, 320)
        with pytest.raises(UsageError, match=rf"written by tiny \({name} (ab|cd)+\), and the target is tiny"):
            data.dialogues([path], file)


def test_files_without_answers(file: ModelFile, tmp_path: Path) -> None:
    empty = saved(tmp_path / "empty.jsonl", [entry(1, [7], [])], None, 320)
    with pytest.raises(UsageError, match=r"there are no answers in .*empty\.jsonl"):
        data.dialogues([empty], file)
    with pytest.raises(UsageError, match=r"none\.jsonl cannot be read \(No such file"):
        data.dialogues([tmp_path / "none.jsonl"], file)
