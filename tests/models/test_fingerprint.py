"""The fingerprint tells models apart by what they are, and by nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from outrider.errors import ModelFileError
from outrider.models import gguf
from outrider.models.fingerprint import fingerprint
from outrider.testing.gguf_maker import tiny_llama


def test_fingerprints(tmp_path: Path) -> None:
    file = gguf.read(tiny_llama(tmp_path / "a.gguf"))
    own = fingerprint(file)
    assert len(own) == 32
    assert own == fingerprint(gguf.read(tiny_llama(tmp_path / "b.gguf")))
    assert own == fingerprint(replace(file, tokenizer=replace(file.tokenizer, pre="x")))
    others = [
        gguf.read(tiny_llama(tmp_path / "seed.gguf", seed=1)),
        gguf.read(tiny_llama(tmp_path / "context.gguf", context=256)),
        replace(file, spec=replace(file.spec, norm_eps=1e-6)),
        replace(file, spec=replace(file.spec, rope=replace(file.spec.rope, base=9.0))),
        replace(file, tensors={name: t for name, t in file.tensors.items() if name != "output_norm.weight"}),
    ]
    assert len({own, *map(fingerprint, others)}) == 6


@pytest.mark.parametrize("place", [0, 4095, -4096, -1])
def test_both_ends_of_a_tensor_count(tmp_path: Path, place: int) -> None:
    file = gguf.read(tiny_llama(tmp_path / "a.gguf"))
    own = fingerprint(file)
    tensor = file.tensors["token_embd.weight"]
    assert tensor.nbytes > 3 * 4096
    data = bytearray(file.path.read_bytes())
    data[tensor.offset + place % tensor.nbytes] ^= 1
    file.path.write_bytes(data)
    assert fingerprint(file) != own
    data[tensor.offset + place % tensor.nbytes] ^= 1
    data[tensor.offset + 4096] ^= 1  # between the ends: not looked at
    file.path.write_bytes(data)
    assert fingerprint(file) == own


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    file = gguf.read(tiny_llama(tmp_path / "a.gguf"))
    file.path.unlink()
    with pytest.raises(ModelFileError, match="cannot be read"):
        fingerprint(file)
