"""States and laws of a text: the target's own, whoever reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.train import toys

from outrider.backends.base import Extend, Want
from outrider.backends.native import NativeBackend
from outrider.models import gguf
from outrider.train.corpus import Text
from outrider.train.features import KEPT, Extractor

TEXTS = [Text(np.arange(5, 5 + size, dtype=np.int32), prompt) for size, prompt in ((30, 6), (9, 2), (4, 2))]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toys.target(tmp_path_factory.mktemp("toy"))


def test_laws_are_the_target_s(model: Path) -> None:
    file = gguf.read(model)
    backend = NativeBackend(file, threads=1)
    found = Extractor(backend, (1, 3), file.spec.hidden, file.spec.norm_eps).features(TEXTS)
    for text, features in zip(TEXTS, found, strict=True):
        seq, rows = backend.open(), len(text.ids) - 1
        scores = backend.extend([Extend(seq, text.ids[:-1].tolist(), None, [Want.LOGITS] * rows)])
        assert features.law.shape == features.chance.shape == (text.starts, KEPT)
        for start in range(text.starts):
            logits = scores.logits(0, text.prompt + start).astype(np.float64)
            law = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
            best = np.argsort(-logits, kind="stable")[:KEPT]
            assert features.law[start].tolist() == best.tolist()
            np.testing.assert_allclose(features.chance[start], law[best], rtol=2e-3, atol=1e-6)
        backend.close(seq)


def test_a_text_s_features_do_not_depend_on_its_company(model: Path) -> None:
    file = gguf.read(model)
    extractor = Extractor(NativeBackend(file, threads=1), (1, 3), file.spec.hidden, file.spec.norm_eps)
    for text, together in zip(TEXTS, extractor.features(TEXTS), strict=True):
        (alone,) = extractor.features([text])
        for name in ("states", "law", "chance"):
            assert getattr(alone, name).tobytes() == getattr(together, name).tobytes()
