"""Runs on a toy target: what they reach, that they go on where they were, and what stops them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.train import toys

from outrider import train
from outrider.errors import ModelFileError, UsageError
from outrider.models import headfile
from outrider.models.spec import TensorType
from outrider.train.types import Kind, Phase, Progress, Result

torch = pytest.importorskip("torch", reason="no torch here; 'python3 dev.py setup --oracle' brings it")

from outrider.train import checkpoint  # noqa: E402
from outrider.train.features import Extractor  # noqa: E402
from outrider.train.loop import schedule  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("toy")
    toys.write(made / "toy.jsonl", toys.target(made))
    return made


def run(folder: Path, out: str, stop_after: int | None = None, **changes: Any) -> Result:
    """A run; with stop_after it is killed as soon as it reports that many steps."""

    def report(progress: Progress) -> None:
        if stop_after is not None and progress.step >= stop_after:
            raise InterruptedError

    return train.run(toys.options(folder, out, **changes), report)


def tensors(folder: Path) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in headfile.read(folder).tensors.items()}


@pytest.fixture(scope="module")
def plain(folder: Path) -> Result:
    return run(folder, "plain")


@pytest.mark.slow
def test_a_toy_target_is_learnt(folder: Path) -> None:
    """Two epochs of 6,000 tokens. Untrained it gets 1 in 100 right; what a chain guesses after its first, too."""
    early = run(folder, "untrained", epochs=0.01)
    ended = run(folder, "learnt", epochs=2.0)
    assert early.before_quantising.alpha[0] < 0.05
    assert min(ended.before_quantising.alpha) > 0.75
    assert ended.acceptance.tau > 2.5
    found = headfile.read(ended.folder)
    assert found.spec.depth == 3
    story = found.spec.provenance
    assert story["trained_tokens"] == ended.trained_tokens > 10_000
    assert story["acceptance"] == [round(alpha, 4) for alpha in ended.acceptance.alpha]
    assert len(story["curve"]) > 5
    assert str(folder) not in json.dumps(story)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_head(plain: Result, folder: Path) -> None:
    run(folder, "again")
    run(folder, "other", seed=1)
    assert tensors(folder / "again") == tensors(plain.folder)
    assert tensors(folder / "other") != tensors(plain.folder)


@pytest.mark.slow
def test_a_killed_run_goes_on_bit_for_bit(plain: Result, folder: Path) -> None:
    """Killed twice, once before anything was saved of its steps; not one bit differs in the end."""
    with pytest.raises(InterruptedError):
        run(folder, "killed", stop_after=5, checkpoint_s=1000.0)
    assert checkpoint.load(folder / "killed")["state"]["step"] == 0  # type: ignore[index]
    with pytest.raises(InterruptedError):
        run(folder, "killed", stop_after=15, checkpoint_s=1e-9)
    assert checkpoint.load(folder / "killed")["state"]["step"] > 10  # type: ignore[index]
    notes: list[str] = []
    ended = train.run(toys.options(folder, "killed"), lambda progress: notes.append(progress.note))
    assert any("going on after step" in note for note in notes)
    assert tensors(folder / "killed") == tensors(plain.folder)
    assert ended.trained_tokens == plain.trained_tokens
    assert ended.acceptance == plain.acceptance


def test_states_that_do_not_fit_are_computed_again(plain: Result, folder: Path) -> None:
    """The same head, with a twentieth of the memory."""
    seen: list[int] = []
    train.run(toys.options(folder, "tight", memory_bytes=200_000), lambda progress: seen.append(progress.memory_bytes))
    assert tensors(folder / "tight") == tensors(plain.folder)
    assert 100_000 < max(seen) <= 200_000


def test_states_in_a_folder_are_computed_once(plain: Result, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same head; and the next run computes none, whatever else is new about it."""
    train.run(toys.options(folder, "keeps", states=folder / "states", memory_bytes=0), lambda _: None)
    assert tensors(folder / "keeps") == tensors(plain.folder)
    monkeypatch.setattr(Extractor, "features", lambda _, texts: texts and pytest.fail("computed again"))
    train.run(toys.options(folder, "finds", states=folder / "states", memory_bytes=0), lambda _: None)
    assert tensors(folder / "finds") == tensors(plain.folder)


@pytest.mark.slow
def test_a_head_that_no_longer_gets_better_ends_the_run(folder: Path) -> None:
    seen: list[Progress] = []
    ended = train.run(toys.options(folder, "early", epochs=40.0, patience=1, learning_rate=1e-9), seen.append)
    planned = seen[-1].steps
    assert planned is not None
    assert ended.stopped_early
    assert planned / 2 <= ended.steps < planned * 0.7, "it waits until the rate has come down, and no longer"


def test_minutes(folder: Path) -> None:
    """The run ends when they are over, whatever the speed, and its learning rate has come down by then."""
    seen: list[Progress] = []
    ended = train.run(toys.options(folder, "timed", epochs=None, minutes=0.05), seen.append)
    assert 3 <= ended.seconds < 30
    assert seen[-1].steps is None
    left = [progress.left_s for progress in seen if progress.left_s is not None]
    assert left == sorted(left, reverse=True)
    assert left[-1] == 0
    assert {progress.phase for progress in seen} >= {Phase.READ, Phase.EVALUATE, Phase.EXPORT}


def test_the_learning_rate() -> None:
    assert schedule(0, 0.0) == pytest.approx(0.01)
    assert schedule(49, 0.0) == pytest.approx(0.5)
    assert schedule(3, 0.05) == pytest.approx(0.5, abs=0.01)
    assert schedule(1000, 0.5) == pytest.approx(0.525)
    assert schedule(1000, 1.0) == schedule(1000, 1.1) == pytest.approx(0.05)


def test_medusa(folder: Path) -> None:
    ended = run(folder, "medusa", kind=Kind.MEDUSA, output=TensorType.Q8_0)
    found = headfile.read(ended.folder)
    assert ended.trained_tokens > 2000
    assert set(found.spec.types) == {"head", "heads.1", "heads.2", "heads.3"}
    assert found.spec.types["head"] == "Q8_0"
    assert found.spec.taps == (3,)


def test_another_runs_weights_to_start_from(plain: Result, folder: Path) -> None:
    """Of the draft vocabulary the ids that both have: with 20 fewer it starts about where the other was."""
    ended = run(folder, "longer", start=plain.folder, draft_vocab=280, epochs=0.01, learning_rate=1e-9)
    assert plain.before_quantising.alpha[0] > 0.2
    assert ended.before_quantising.alpha[0] == pytest.approx(plain.before_quantising.alpha[0], abs=0.05)
    with pytest.raises(UsageError, match=r"nowhere has neither checkpoint.pt nor a head to start from"):
        run(folder, "longer2", start=folder / "nowhere")
    with pytest.raises(UsageError, match="plain has kind eagle3, not medusa; start from another one"):
        run(folder, "longer3", start=plain.folder, kind=Kind.MEDUSA)


def test_a_head_alone_to_start_from(plain: Result, folder: Path) -> None:
    """Of a run whose checkpoint is lost: the weights are those of the file, to the bit."""
    lost = folder / "lost"
    headfile.write(lost, (found := headfile.read(plain.folder)).spec, found.tensors)
    ended = run(folder, "from_head", start=lost, epochs=0.01, learning_rate=1e-12)
    assert ended.before_quantising.alpha == pytest.approx(plain.acceptance.alpha, abs=1e-4)
    assert tensors(ended.folder)["ids"] == tensors(lost)["ids"]
    with pytest.raises(UsageError, match=r"lost has depth 3, not 2; start from another one"):
        run(folder, "from_head2", start=lost, depth=2)
    (lost / headfile.TENSORS_NAME).write_bytes(b"")
    with pytest.raises(UsageError, match="train it again or give another folder"):
        run(folder, "from_head3", start=lost)


def test_a_checkpoint_of_other_options_is_refused(plain: Result, folder: Path) -> None:
    with pytest.raises(UsageError, match=r"belongs to a run with seed 0, not 1; give the same"):
        run(folder, "plain", seed=1)
    assert run(folder, "plain", seed=1, resume=False, epochs=0.01).steps < plain.steps


def test_damaged_checkpoints(folder: Path) -> None:
    for number, content in enumerate((b"", b"PK\x03\x04" + bytes(100), np.random.default_rng(0).bytes(1000))):
        out = folder / f"damaged{number}"
        out.mkdir()
        (out / checkpoint.NAME).write_bytes(content)
        with pytest.raises(UsageError, match=r"checkpoint.pt is damaged .* remove it to start again"):
            run(folder, out.name)


def test_a_folder_that_cannot_be_written_is_found_at_once(folder: Path) -> None:
    (folder / "file").write_text("")
    with pytest.raises(UsageError, match=r"cannot be written .* start the command again"):
        run(folder, "file", stop_after=1)


def test_a_full_disk_leaves_the_checkpoint_before(plain: Result, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (plain.folder / checkpoint.NAME).read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("outrider.train.checkpoint.os.fsync", full)
    with pytest.raises(UsageError, match=r"No space left on device.*the one before it is kept"):
        checkpoint.save(plain.folder, {}, checkpoint.State(), {})
    assert (plain.folder / checkpoint.NAME).read_bytes() == before
    assert [path.name for path in plain.folder.iterdir() if path.name.endswith(".part")] == []


def test_no_text(folder: Path) -> None:
    few = folder / "few.jsonl"
    few.write_text("".join((folder / "toy.jsonl").read_text().splitlines(True)[:1]))
    with pytest.raises(UsageError, match="both are needed; let the target write more"):
        run(folder, "few", data=(few,))


def test_no_target(folder: Path) -> None:
    with pytest.raises(ModelFileError, match=r"toy\.jsonl"):
        run(folder, "none", target=folder / "toy.jsonl")


def test_a_head_reads_the_states_of_the_one_that_it_starts_from(folder: Path) -> None:
    first = run(folder, "two", taps=(1, 3), epochs=0.01)
    second = run(folder, "two_more", start=first.folder, epochs=0.01)
    assert headfile.read(second.folder).spec.taps == (1, 3)
    # Going on with the second takes nothing more of the first, which may be gone.
    again = run(folder, "two_more", start=folder / "gone", epochs=0.01)
    assert again.steps == second.steps
    assert headfile.read(again.folder).spec.taps == (1, 3)
