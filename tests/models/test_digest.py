"""The digest tells tokenizers apart by what their ids mean, and by nothing else."""

from __future__ import annotations

from dataclasses import replace

from outrider.models.digest import digest
from outrider.models.spec import TokenizerData
from outrider.models.tokenizer import Tokenizer

DATA = TokenizerData("gpt2", "gpt-2", ["a", "b", "ab", "<end>"], [1, 1, 1, 3], ["a b"], eos=3)


def test_digests() -> None:
    own = digest(Tokenizer(DATA))
    assert len(own) == 32
    assert own == digest(Tokenizer(replace(DATA, tokens=list(DATA.tokens))))
    # The pieces that merges make of a text do not change what an id means.
    assert own == digest(Tokenizer(replace(DATA, merges=[], pre="smollm", chat_template="x")))
    others = [
        replace(DATA, tokens=["b", "a", "ab", "<end>"]),
        replace(DATA, tokens=["a", "b", "ab", "<stop>"]),
        replace(DATA, types=[1, 1, 1, 4]),
        replace(DATA, tokens=["a", "b", "ab", "<end>", "c"], types=[1, 1, 1, 3, 1]),
    ]
    assert len({own, *(digest(Tokenizer(other)) for other in others)}) == 5
