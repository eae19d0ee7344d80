"""How the ids of a target and those of a draft model go together: the same, the same texts, or the same characters.

`match` looks at both tokenizers when a pair is loaded. Where (nearly) all tokens are shared, ids are translated one by
one. Else the text is: the draft model reads the known text as its own tokenizer writes it, and what it drafts comes
back either as tokens that both have (token-level intersection, TLI) or as text that the target's tokenizer cuts up
(string-level exact match, SLEM); both of Timor et al. 2502.05202. No way can harm an answer: a draft is only a guess.

Dimensions: W ids of the target.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np

from outrider.core.types import IntArray
from outrider.errors import UsageError

# Token by token from this share of shared tokens on, on both sides: the few others are written with shared ones.
_ALIKE = 0.95
# What is cut up again when text is added, in tokens: a word is rarely longer.
_WINDOW = 10
_PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))


class Pieces(Protocol):
    """What is asked of a tokenizer; models.tokenizer.Tokenizer is one."""

    @property
    def vocab(self) -> int: ...
    def encode(self, text: str, *, special: bool) -> list[int]: ...
    def encode_prompt(self, text: str, *, special: bool) -> list[int]: ...
    def is_special(self, token: int) -> bool: ...
    def token_bytes(self, token: int) -> bytes: ...


class Teller(Protocol):
    """Tells the draft model one growing text; made by a Bridge, has the state of one sequence."""

    def tell(self, own: Sequence[int], tokens: Sequence[int]) -> tuple[int, list[int]]:
        """How the draft model reads further tokens of the target, behind `own` that it was told before.

        Returns (cut, ids): own[cut:] has to become ids.
        """
        ...

    @property
    def whole(self) -> bool:
        """Whether all that was told has been passed on: not while the text ends within a character."""
        ...


class Alike:
    """A pair that shares its tokens: ids [W] has the draft model's id of each of the target's (-1: none).

    None where they are the same. note says so to people. spelling: the draft model's ids for a token that it lacks.
    """

    def __init__(
        self, ids: IntArray | None, note: str, spelling: dict[int, list[int]] | None = None, prefix: Sequence[int] = ()
    ) -> None:
        self.ids = ids
        self.note = note
        self._spelling = {} if spelling is None else spelling
        self._prefix = list(prefix)

    def teller(self) -> Teller:
        return self

    @property
    def whole(self) -> bool:
        return True

    def tell(self, own: Sequence[int], tokens: Sequence[int]) -> tuple[int, list[int]]:
        ids = self.ids
        told = [*tokens] if ids is None else [own_id for token in tokens for own_id in self._written(ids, token)]
        if not own and told[: len(self._prefix)] != self._prefix:
            told = self._prefix + told
        return len(own), told

    def _written(self, ids: IntArray, token: int) -> list[int]:
        own = int(ids[token])
        return [own] if own >= 0 else self._spelling.get(token, [])


class Unlike:
    """A pair with different tokenizers; ids as in Alike, overlap the share of the draft model's tokens among them."""

    def __init__(self, target: Pieces, draft: Pieces, ids: IntArray, overlap: float, note: str) -> None:
        self.ids = ids
        self.overlap = overlap
        self.note = note
        self._target = target
        self._draft = draft
        self._prefixes = (target.encode_prompt("", special=False), draft.encode_prompt("", special=False))

    def teller(self) -> Teller:
        return _Retelling(self._target, self._draft, self.ids, self._prefixes)

    def retell(self, known: Sequence[int], drawn: Sequence[int], chances: Sequence[float]) -> list[tuple[int, float]]:
        """The target's tokens for what the draft model drew behind the known ones, each with its chance (SLEM).

        The target's tokenizer sees the last few known tokens too, so that a word that they begin is cut up as a whole;
        where it would then cut them otherwise, the new text stands alone. A token's chance is the product of those
        [drawn] of the drawn tokens that begin within it.
        """
        starts, new = [], b""
        for token in drawn:
            if self._draft.is_special(token):
                break
            starts.append(len(new))
            new += self._draft.token_bytes(token)
        text, rest = _characters(new)
        before = _spelt(self._target, known[_window(self._target, known) :])
        for seen in (before, b""):
            ids = self._target.encode((seen + new[: len(new) - len(rest)]).decode("utf-8", "replace"), special=False)
            ends = np.cumsum([len(self._target.token_bytes(token)) for token in ids], dtype=np.int64) - len(seen)
            skip = int(np.searchsorted(ends, 0, side="right"))
            if text and (not seen or (skip and ends[skip - 1] == 0)):
                return _with_chances(ids[skip:], ends[skip:].tolist(), starts, chances)
        return []


Bridge: TypeAlias = Alike | Unlike


class _Retelling:
    """Tells a text in another tokenizer's tokens: the last few are cut up again whenever text is added."""

    def __init__(
        self, target: Pieces, draft: Pieces, ids: IntArray, prefixes: tuple[Sequence[int], Sequence[int]]
    ) -> None:
        self._target = target
        self._draft = draft
        self._ids = ids
        self._prefixes = prefixes
        self._half = b""  # the beginning of a character

    @property
    def whole(self) -> bool:
        return not self._half

    def tell(self, own: Sequence[int], tokens: Sequence[int]) -> tuple[int, list[int]]:
        told: list[int] = []
        if not own:
            # Each model's own beginning of text: the target's is not told, so that it never stands there twice.
            theirs, ours = self._prefixes
            told += ours
            tokens = tokens[len(theirs) :] if list(tokens[: len(theirs)]) == list(theirs) else tokens
        cut = _window(self._draft, own)
        text = _spelt(self._draft, own[cut:]) + self._half
        for token in tokens:
            known = int(self._ids[token])
            if known >= 0 and self._target.is_special(token):
                told += [*self._encode(text), known]
                text = b""
            else:
                text += self._target.token_bytes(token)
        _, self._half = _characters(text)
        return cut, told + self._encode(text[: len(text) - len(self._half)])

    def _encode(self, text: bytes) -> list[int]:
        return self._draft.encode(text.decode("utf-8", "replace"), special=False)


def padded(target_rows: int, draft_rows: int) -> Alike:
    """A pair of one tokenizer whose matrices may have different numbers of rows behind its tokens."""
    if target_rows == draft_rows:
        return Alike(None, "the same vocabulary")
    ids = np.arange(target_rows, dtype=np.int32)
    ids[draft_rows:] = -1
    return Alike(ids, f"the same vocabulary, in {target_rows} and {draft_rows} rows")


def match(target: Pieces, draft: Pieces, target_rows: int, draft_rows: int) -> Bridge:
    """How two tokenizers go together; the rows are those of the models' vocabularies, padding included.

    Raises UsageError where neither tokens nor text can be passed on: one of them cannot write plain characters.
    """
    theirs = _tokens(target, target_rows)
    ours = _tokens(draft, draft_rows)
    prefix = draft.encode_prompt("", special=False)
    if theirs == ours:
        same = padded(target_rows, draft_rows)
        return Alike(same.ids, same.note, prefix=prefix)
    place = {token: index for index, token in reversed(list(enumerate(ours)))}
    ids = np.full(target_rows, -1, np.int32)
    for index, token in enumerate(theirs):
        ids[index] = index if index < len(ours) and ours[index] == token else place.get(token, -1)
    shared = len(np.unique(ids[ids >= 0]))
    note = f"{_difference(theirs, ours)}; {shared} tokens are shared, of {len(theirs)} and {len(ours)}"
    if shared >= _ALIKE * max(len(theirs), len(ours)):
        missing = np.flatnonzero(ids[: len(theirs)] < 0).tolist()
        texts = {index: theirs[index][0].decode("utf-8", "replace") for index in missing}
        spelling = {index: draft.encode(text, special=False) for index, text in texts.items()}
        return Alike(ids, f"{note}: translated token by token", spelling, prefix)
    for name, tokenizer in (("target", target), ("draft model", draft)):
        _check_plain(name, tokenizer)
    return Unlike(target, draft, ids, shared / len(ours), f"{note}: translated by their text")


_Token: TypeAlias = tuple[bytes, bool]  # what it says, and whether it is special


def _tokens(tokenizer: Pieces, rows: int) -> list[_Token]:
    known = min(tokenizer.vocab, rows)
    return [(tokenizer.token_bytes(index), tokenizer.is_special(index)) for index in range(known)]


def _difference(theirs: Sequence[_Token], ours: Sequence[_Token]) -> str:
    for index, (one, other) in enumerate(zip(theirs, ours, strict=False)):
        if one != other:
            return f"id {index} is {one[0]!r} to the target and {other[0]!r} to the draft model"
    return f"the target has {len(theirs)} tokens and the draft model {len(ours)}"


def _check_plain(name: str, tokenizer: Pieces) -> None:
    written = _spelt(tokenizer, tokenizer.encode(_PRINTABLE, special=False))
    missing = sorted(set(_PRINTABLE) - set(written.decode("utf-8", "replace")))
    if missing:
        raise UsageError(
            f"the {name}'s tokenizer cannot write {missing[0]!r}, so the vocabularies cannot be matched by text; "
            "choose a draft model whose tokenizer covers the target's text"
        )


def _spelt(tokenizer: Pieces, tokens: Sequence[int]) -> bytes:
    return b"".join(map(tokenizer.token_bytes, tokens))


def _characters(text: bytes) -> tuple[str, bytes]:
    """The whole characters, and what is left of one that has only begun."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return decoder.decode(text), decoder.getstate()[0]


def _window(tokenizer: Pieces, tokens: Sequence[int]) -> int:
    """Where the last few tokens begin: behind the last special one, and not within a character."""
    cut = len(tokens)
    first = max(cut - _WINDOW, 0)
    while cut > first and not tokenizer.is_special(tokens[cut - 1]):
        cut -= 1
    while cut < len(tokens) and _within_character(tokenizer.token_bytes(tokens[cut])):
        cut += 1
    return cut


def _within_character(text: bytes) -> bool:
    return bool(text) and text[0] & 0xC0 == 0x80


def _with_chances(
    ids: Sequence[int], ends: Sequence[int], starts: Sequence[int], chances: Sequence[float]
) -> list[tuple[int, float]]:
    """Each id with the product of the chances of what starts before its end and not within an earlier one."""
    found: list[tuple[int, float]] = []
    place = 0
    for token, end in zip(ids, ends, strict=True):
        chance = 1.0
        while place < len(starts) and starts[place] < end:
            chance *= chances[place]
            place += 1
        found.append((token, chance))
    return found
