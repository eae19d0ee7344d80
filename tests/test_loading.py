"""Putting the parts together: arguments are checked before anything is fetched, and a file becomes a model."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import outrider
from outrider import loading
from outrider.cli import real
from outrider.cost.drafting import measure_drafter
from outrider.drafters import storefile
from outrider.errors import SourceError, UsageError
from outrider.models import gguf, headfile, shipped
from outrider.models.digest import digest
from outrider.models.fingerprint import fingerprint
from outrider.models.spec import ModelFile
from outrider.models.tokenizer import Tokenizer
from outrider.testing import drafters
from outrider.testing.gguf_maker import tiny_llama
from outrider.testing.heads import eagle_spec, medusa_spec, random_head
from outrider.testing.table import RandomLaw, TableBackend

NOWHERE = "no/such/file.gguf"


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A real file, run by a table in place of the compiled engine."""

    def table(file: ModelFile, threads: int | None) -> TableBackend:
        return TableBackend(RandomLaw(file.spec.vocab, 1, 1), file.spec.vocab, file.spec.context)

    monkeypatch.setattr(loading, "_native", table)
    return tiny_llama(tmp_path / "tiny.gguf", context=256)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"drafter": "sufix"}, "drafter is 'sufix'; built in are 'auto', 'ngram', 'suffix'"),
        ({"drafter": "model"}, "the drafter 'model' needs draft_model; give it, or choose 'auto'"),
        ({"drafter": "store", "store": "none"}, "the drafter 'store' needs store; give it, or choose 'auto'"),
        ({"drafter": "head", "head": "none"}, "the drafter 'head' needs head; give it, or choose 'auto'"),
        ({"drafter": "ngram", "head": "x"}, "head is 'x' but the drafter is 'ngram'; choose 'head'"),
        ({"drafter": "ngram", "store": "x"}, "store is 'x' but the drafter is 'ngram'; choose 'store'"),
        ({"drafter": "ngram", "draft_model": "x"}, "draft_model is 'x' but the drafter is 'ngram'; choose 'model'"),
        ({"drafter": 3}, "drafter is a int without begin, propose, observe, end"),
        ({"gamma": -1}, "gamma is -1; draft between 0"),
        ({"gamma": 65}, "gamma is 65"),
        ({"gamma": 4, "drafter": "none"}, "gamma is 4 but the drafter is 'none'"),
        ({"threads": 0}, "threads is 0; it may be 1 to 256"),
        ({"threads": 257}, "threads is 257"),
    ],
)
def test_bad_arguments_are_refused_before_the_model_is_looked_for(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        outrider.load(NOWHERE, **arguments)


def test_a_missing_model_is_a_source_error() -> None:
    with pytest.raises(SourceError, match="does not exist"):
        outrider.load(NOWHERE)


@pytest.mark.parametrize("gamma", [None, 0, 1, 8])
def test_speculation_on_and_off_give_the_same_ids(model: Path, gamma: int | None) -> None:
    plain = outrider.load(model, drafter="none").generate("hello", max_tokens=120, ignore_eos=True)
    ngram = outrider.load(str(model), "ngram", gamma).generate("hello", max_tokens=120, ignore_eos=True)
    assert plain.token_ids == ngram.token_ids
    assert plain.text == ngram.text
    assert plain.stats.drafted == 0
    assert max(ngram.stats.drafted_per_position, default=0) <= ngram.stats.passes
    if gamma:  # None: beside a pass of microseconds no draft may pay
        assert 0 < ngram.stats.accepted < ngram.stats.drafted
        assert ngram.stats.passes < 120
        assert len(ngram.stats.drafted_per_position) == gamma


def test_a_drafter_of_ones_own(model: Path) -> None:
    own = drafters.constant(5)
    result = outrider.load(model, drafter=own, gamma=2).generate("hello", max_tokens=20, ignore_eos=True)
    assert result.stats.drafted > 0
    assert own.sequences == 0
    assert result.token_ids == outrider.load(model, "none").generate("hello", max_tokens=20, ignore_eos=True).token_ids


def test_the_parts_are_the_files(model: Path) -> None:
    loaded = outrider.load(model)
    assert loaded.tokenizer.vocab == loaded.backend.vocab == 320
    assert loaded.backend.context == 256
    assert loaded.name
    assert cast(TableBackend, loaded.backend).sequences == 0


def test_another_generator_over_the_same_weights(model: Path) -> None:
    llm = loading.load(model, "none")
    others = [loading.generator(llm, drafter, gamma) for drafter, gamma in (("none", None), ("ngram", 3))]
    request = outrider.Request([1, 2, 3], max_tokens=40)
    answers = [
        [token for chunk in generator.generate([request]) for token in chunk.token_ids]
        for generator in (llm.generator, *others)
    ]
    assert answers[0] == answers[1] == answers[2]
    assert llm.generator not in others
    with pytest.raises(UsageError, match="gamma is 4 but the drafter is 'none'"):
        loading.generator(llm, "none", 4)
    with pytest.raises(UsageError, match="drafter is 'magic'"):
        loading.generator(llm, "magic")


@pytest.mark.parametrize("drafter", ["auto", "suffix", "recycle"])
@pytest.mark.parametrize("rule", ["coupled", "block"])
def test_every_drafter_goes_with_every_rule(model: Path, drafter: str, rule: str) -> None:
    """Hybrids draft chains where the rule judges chains."""
    expected = outrider.load(model, "none").generate("hello", max_tokens=100, ignore_eos=True)
    for gamma in (None, 4):  # beside a pass of microseconds no draft may pay, so only a fixed length must draft
        found = outrider.load(model, drafter, gamma, rule=rule).generate("hello", max_tokens=100, ignore_eos=True)
        assert found.token_ids == expected.token_ids
    assert found.stats.accepted > 0


def test_a_draft_model(model: Path) -> None:
    """The target as its own draft model is always right."""
    for drafter in ("model", "auto"):
        result = outrider.load(model, drafter, 4, draft_model=model).generate("hello", max_tokens=50, ignore_eos=True)
        assert (
            result.token_ids == outrider.load(model, "none").generate("hello", max_tokens=50, ignore_eos=True).token_ids
        )
        assert result.stats.tokens_per_pass > 3


@pytest.mark.parametrize("kind", ["eagle3", "medusa"])
def test_a_head(tmp_path: Path, kind: str) -> None:
    """With the engine itself, which alone runs heads; the target is held to the ids that the head has."""
    path = tiny_llama(tmp_path / "tiny.gguf", context=256)
    own = fingerprint(gguf.read(path)).hex()
    ids = (7, 40, 99, 200)
    spec = eagle_spec(own, draft_vocab=4) if kind == "eagle3" else medusa_spec(own, draft_vocab=4)
    head = random_head(spec, 320, 1, ids)
    headfile.write(tmp_path / "head", head.spec, head.tensors)

    def ask(drafter: str, **given: Any) -> Any:
        llm = outrider.load(path, drafter, threads=1, **given)
        return llm.generate("hello", max_tokens=60, temperature=0.9, seed=2, allowed_token_ids=ids)

    expected = ask("none").token_ids
    for drafter in ("head", "auto"):
        found = ask(drafter, gamma=4, head=tmp_path / "head")
        assert found.token_ids == expected
        assert found.stats.drafted > found.stats.accepted > 0
    ask("auto", head=str(tmp_path / "head"))  # as much as pays
    assert ask("head", gamma=4, head=tmp_path / "head", rule="block").stats.accepted > 0


@pytest.mark.parametrize("drafter", ["store", "head"])
def test_what_a_drafter_needs_may_ship_for_this_model_alone(model: Path, drafter: str) -> None:
    with pytest.raises(UsageError, match=f"the drafter '{drafter}' needs {drafter}; give it"):
        outrider.load(model, drafter)


def test_what_ships_for_a_model_is_used_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tiny_llama(tmp_path / "tiny.gguf", context=256)
    file = gguf.read(path)
    own = fingerprint(file).hex()
    folder = tmp_path / "shipped" / f"tiny-{own[:16]}"
    monkeypatch.setattr(shipped, "FOLDER", tmp_path / "shipped")
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path / "cache"))

    def names(**given: Any) -> str:
        generator = outrider.load(path, threads=1, **given).generator
        return str(cast(Any, generator)._drafting._drafter.name)

    assert names() == "grammar+blended(suffix, recycle)"
    head = random_head(eagle_spec(own, draft_vocab=4), 320, 1, (7, 40, 99, 200))
    headfile.write(folder, head.spec, head.tensors)
    assert names() == "grammar+blended(suffix, head)"
    storefile.build(folder / "answers.store", [[7, 40, 99]], 320, digest(Tokenizer(file.tokenizer)))
    assert names() == "grammar+blended(suffix, store, head)"
    assert names(head=str(folder)) == "grammar+blended(suffix, store, head)"
    assert names(head="none") == "grammar+blended(suffix, store)"
    assert names(store="none") == "grammar+blended(suffix, head)"
    assert names(store="none", head="none") == "grammar+blended(suffix, recycle)"
    assert names(drafter="head") == "grammar+head"
    assert names(drafter="ngram") == "grammar+ngram"
    # Planning and profiling draft for known texts, along which nothing computes the states that a head reads.
    drafter = real._site(str(path), 1).drafter("auto")
    assert drafter.name == "blended(suffix, store)"
    assert measure_drafter(drafter, 320, time.perf_counter, 0.01).seconds(1) > 0.0


def test_heads_that_cannot_be(model: Path, tmp_path: Path) -> None:
    head = random_head(eagle_spec("ab" * 32), 320)
    headfile.write(tmp_path / "head", head.spec, head.tensors)
    with pytest.raises(UsageError, match=r"head .*nowhere has no head.json"):
        outrider.load(model, "head", head=tmp_path / "nowhere")
    with pytest.raises(UsageError, match="this backend runs no heads; leave it out"):
        outrider.load(model, "auto", head=tmp_path / "head")


@pytest.mark.parametrize("drafter", ["auto", "ngram", "suffix", "recycle"])
def test_every_drafter_uses_a_prediction(model: Path, drafter: str) -> None:
    request = outrider.Request([1, 2, 3], max_tokens=60, ignore_eos=True)
    llm = outrider.load(model, drafter, 4)
    (alone, told) = (
        list(llm.generator.generate([one]))[-1].usage
        for one in (request, replace(request, prediction=_answer(model, request)))
    )
    assert alone is not None
    assert told is not None
    assert told.tokens_per_pass > max(3.0, 1.2 * alone.tokens_per_pass)


def _answer(model: Path, request: outrider.Request) -> tuple[int, ...]:
    chunks = outrider.load(model, "none").generator.generate([request])
    return tuple(token for chunk in chunks for token in chunk.token_ids)


def test_serve_gives_a_service_and_its_face(model: Path) -> None:
    """Many ask at once; each gets what a load gives alone; the face's answers come from the service too."""
    expected = outrider.load(model, "none").generate("hello", max_tokens=60, ignore_eos=True)
    service, llm = loading.serve(model, kv_bytes=64 * 40, slots=3, queue=5)
    try:
        assert llm.generator is service
        found: list[tuple[int, ...]] = []

        def ask() -> None:
            found.append(llm.generate("hello", max_tokens=60, ignore_eos=True).token_ids)

        threads = [threading.Thread(target=ask) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert found == [expected.token_ids] * 5
        taken = service.snapshot()
        assert taken.kv_blocks_total == 40
        assert taken.tokens == 300
    finally:
        service.close()
    assert cast(TableBackend, llm.backend).sequences == 0


def test_serve_takes_half_of_what_is_free(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "free_memory_bytes", lambda: 64 * 1000)
    service, _ = loading.serve(model)
    assert service.snapshot().kv_blocks_total == 500
    service.close()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"slots": 0}, "slots is 0; it must be at least 1"),
        ({"queue": 0}, "queue is 0"),
        ({"drafter": "sufix"}, "drafter is 'sufix'"),
        ({"threads": 0}, "threads is 0"),
    ],
)
def test_serve_refuses_bad_arguments_before_the_model_is_looked_for(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        loading.serve(NOWHERE, **arguments)
