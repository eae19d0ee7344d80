"""`outrider store build`: texts and token ids in, a store out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.cli.checks import decoded
from outrider.cli.render import count
from outrider.cli.tools import Tools, Words
from outrider.drafters import storefile
from outrider.errors import UsageError


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of `outrider store build`."""

    files: Sequence[str]
    out: str
    model: str | None


def build(tools: Tools, options: Options) -> int:
    """Reads the files, writes the store, says how large it is; returns the exit status. Raises UsageError."""
    raw = [_read(name) for name in options.files]
    words = tools.words(options.model)
    documents = [
        ids
        for name, content in zip(options.files, raw, strict=True)
        for ids in (_lines(name, content, words) if name.endswith(".jsonl") else [_encoded(name, content, words)])
    ]
    try:
        tokens = storefile.build(options.out, documents, words.vocab, words.digest)
    except OSError as error:
        raise UsageError(f"--out {options.out} cannot be written ({error.strerror}): name another file") from None
    size = os.path.getsize(options.out) / 1e6
    print(f"{options.out}: {count(tokens, 'token')} of {count(len(documents), 'document')}, {size:.1f} MB")
    return 0


def _read(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a null character
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{name} cannot be read ({why}): give files of text or of token ids") from None


def _encoded(name: str, content: bytes, words: Words) -> Sequence[int]:
    return words.encode(decoded(content, name, "it should hold text").removeprefix("\ufeff"))


def _lines(name: str, content: bytes, words: Words) -> Iterator[Sequence[int]]:
    """The documents of a .jsonl file; blank lines are skipped."""
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            entry: Any = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{where} is not JSON ({error}): give one JSON object a line") from None
        ids, text = (entry.get("token_ids"), entry.get("text")) if isinstance(entry, dict) else (None, None)
        if isinstance(ids, list) and all(type(token) is int and 0 <= token < words.vocab for token in ids):
            made = entry.get("tokenizer", words.digest.hex())
            if made != words.digest.hex():
                raise UsageError(
                    f"{where} has ids of another tokenizer than {words.model}'s: give the --model of these"
                )
            yield ids
        elif ids is None and isinstance(text, str):
            yield words.encode(text)
        else:
            raise UsageError(f"{where} has neither token_ids in 0..{words.vocab - 1} nor text: give one of them")
