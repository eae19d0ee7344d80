"""A trained head in torch and the same head in the native engine, which reads it from its file: the same guesses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.train import toys

from outrider.backends.base import GREEDY, Extend, HeadChain, Want
from outrider.backends.native import NativeBackend
from outrider.core.types import FloatArray
from outrider.models import gguf, headfile
from outrider.models.spec import TensorType
from outrider.train import run
from outrider.train.corpus import Text
from outrider.train.types import Kind, TrainOptions

torch = pytest.importorskip("torch", reason="no torch here; 'python3 dev.py setup --oracle' brings it")

from outrider.train.packing import pack, unpacked  # noqa: E402
from outrider.train.setup import Setup, prepare  # noqa: E402

DEPTH, WIDTH, TEXTS = 3, 8, 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("toy")
    toys.write(made / "toy.jsonl", toys.target(made))
    return made


def laws(setup: Setup, texts: list[Text], temperature: float) -> dict[tuple[int, int], list[FloatArray]]:
    """Of each (text, start) the law of every step as torch computes it, fed with its own guesses until one is wrong."""
    features = setup.kept.features([(-1 - number, text) for number, text in enumerate(texts)])
    batch = setup.batcher.batch(texts, features)
    where = [(n, start) for n, text in enumerate(texts) for start in range(text.prompt - 1, len(text.ids) - 2)]
    found: dict[tuple[int, int], list[FloatArray]] = {place: [] for place in where}
    walk = setup.head.walk(batch)
    alive = list(range(len(where)))
    with torch.no_grad():
        for number, step in enumerate(walk.steps(DEPTH)):
            alive = [
                chain for chain in alive if int(batch.room[chain]) > number and int(batch.label[chain + number]) >= 0
            ]
            logits = step.a.float() @ setup.head.head.float().T
            right = logits.argmax(-1) == step.goal.label
            for chain, row in zip(alive, torch.softmax(logits / temperature, -1).numpy(), strict=True):
                found[where[chain]].append(row)
            alive = [chain for chain, on in zip(alive, right.tolist(), strict=True) if on]
            walk.went_on(right)
    return found


def native(
    backend: NativeBackend, head: headfile.HeadFile, text: Text, start: int
) -> list[tuple[tuple[int, float], ...]]:
    """The candidates of each step, when the text is known up to `start` and the token behind it."""
    attached = backend.attach(head)
    seq = backend.open()
    assert attached.begin(seq)
    tokens = text.ids[: start + 1].tolist()
    backend.extend([Extend(seq, tokens, None, [Want.NONE] * len(tokens))])
    backend.commit([(seq, range(len(tokens)))])
    drawn = attached.draft([HeadChain(seq, int(text.ids[start + 1]), DEPTH, GREEDY, start + 2, WIDTH)])[0]
    backend.close(seq)
    return list(drawn.likely)


@pytest.fixture(scope="module", params=list(Kind), ids=lambda kind: str(kind.value))
def trained(request: pytest.FixtureRequest, folder: Path) -> TrainOptions:
    """A head of either kind, not quantised."""
    kind = request.param
    options = toys.options(
        folder, kind.value, kind=kind, epochs=1.0, matrices=TensorType.F32, output=TensorType.F32, depth=DEPTH
    )
    run(options, lambda _: None)
    return options


def as_type(head: headfile.HeadFile, kind: TensorType) -> headfile.HeadFile:
    """The head with its matrices in another type."""
    tensors = dict(head.tensors)
    for name in head.spec.types:
        tensors[name] = pack(np.asarray(head.tensors[name], np.float32), kind)
    types = dict.fromkeys(head.spec.types, kind.value)
    return headfile.HeadFile(replace(head.spec, types=types), tensors)


@pytest.mark.parametrize("matrices", [TensorType.F32, TensorType.Q8_0, TensorType.Q4_1])
def test_torch_and_native_guess_alike(
    trained: TrainOptions, matrices: TensorType, record_property: Callable[[str, object], None]
) -> None:
    """Laws differ by what int8 inputs of products and float16 caches cost, the best guess where two are about equal."""
    head = as_type(headfile.read(trained.out), matrices)
    setup = prepare(trained)
    load(setup, head)
    texts = list(setup.corpus.held_out)[:TEXTS]
    backend = NativeBackend(gguf.read(trained.target), threads=1)
    distances, agreed, steps = [], 0, [0] * DEPTH
    for (number, start), rows in laws(setup, texts, head.spec.temperature).items():
        for step, (row, likely) in enumerate(zip(rows, native(backend, head, texts[number], start), strict=False)):
            entries = [int(np.flatnonzero(np.equal(setup.ids, token))[0]) for token, _ in likely]
            distances.append(max(abs(row[entry] - chance) for entry, (_, chance) in zip(entries, likely, strict=True)))
            agreed += entries[0] == int(row.argmax())
            steps[step] += 1
    same = agreed / len(distances)
    figures = (
        f"{trained.kind.value} {matrices.value}: {steps} laws, chances differ by {np.mean(distances):.4f} on average, "
        f"{np.max(distances):.4f} at most; the best guess is the same in {same:.3f}"
    )
    print(figures)
    record_property("figures", figures)
    assert steps[0] > 200
    assert sum(steps[1:]) > 20
    assert np.mean(distances) < 0.01
    assert same > 0.97


def load(setup: Setup, head: headfile.HeadFile) -> None:
    """The file's own values into the torch head, products in float32."""
    setup.head.half = torch.float32
    with torch.no_grad():
        for name, parameter in setup.head.named_parameters():
            parameter.copy_(torch.from_numpy(unpacked(head.tensors[name], head.spec.types.get(name, "F32"))))
