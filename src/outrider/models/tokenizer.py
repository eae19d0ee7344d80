"""Text to token ids and back: byte-level BPE as the model file describes it.

Encoding is the `tokenizers` library's; decoding is ours, from a table of bytes per token, so that one token more costs
the same however long the answer is.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tokenizers import Regex
from tokenizers import Tokenizer as Encoder
from tokenizers.models import BPE
from tokenizers.normalizers import NFC
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer, Sequence, Split

from outrider.errors import ModelFileError, UsageError
from outrider.models.spec import TokenizerData

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED = 1, 2, 3, 4, 5

# Tokens that end an answer whenever a file has them as control tokens. A chat model's file names one end-of-text token
# (here <|im_end|>), but the model was also trained to end documents with another (<|endoftext|>): both must end it.
END_TOKENS = frozenset(
    {
        "<|endoftext|>",
        "<|end_of_text|>",
        "<|im_end|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|end|>",
        "<|end_of_turn|>",
        "<end_of_turn>",
        "<EOT>",
    }
)

# Published in the tokenizer.json of Meta-Llama-3-8B and of Qwen2-7B; they differ in how many digits make a piece.
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = _WORDS + r"\p{N}{1,3}" + _REST
_QWEN2 = _WORDS + r"\p{N}" + _REST


@dataclass(frozen=True, slots=True)
class _Pre:
    """How text is cut into pieces before the merges: isolate digits first, then a pattern (None: GPT-2's)."""

    digits: bool = False
    pattern: str | None = None
    ignore_merges: bool = False  # a piece that is a token is that token, whatever the merges would make of it
    compose: bool = False  # Unicode NFC before anything else

    def steps(self) -> PreTokenizer:
        parts: list[PreTokenizer] = [Digits(individual_digits=True)] if self.digits else []
        if self.pattern is not None:
            parts.append(Split(Regex(self.pattern), behavior="isolated"))
        parts.append(ByteLevel(add_prefix_space=False, use_regex=self.pattern is None))
        return Sequence(parts)


PRE_TOKENIZERS: Mapping[str, _Pre] = MappingProxyType(
    {
        "gpt-2": _Pre(),
        "smollm": _Pre(digits=True),
        "llama-bpe": _Pre(pattern=_LLAMA3, ignore_merges=True),
        "qwen2": _Pre(pattern=_QWEN2, compose=True),
    }
)


def byte_of_character() -> dict[str, int]:
    """GPT-2's alphabet: the character that stands for each byte in a byte-level vocabulary.

    Printable Latin-1 stands for itself; the other 68 bytes, in order, are the characters from U+0100 on.
    """
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    shifted = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(0x100 + index): byte for index, byte in enumerate(shifted)}


def _vocabulary(data: TokenizerData) -> dict[str, int]:
    """Token text -> id; ModelFileError for a token that appears twice or has a type that byte-level BPE lacks."""
    if data.model != "gpt2":
        raise ModelFileError(f"tokenizer model {data.model!r} is not supported; only 'gpt2' (byte-level BPE) is")
    if len(data.types) != len(data.tokens):
        raise ModelFileError(f"the tokenizer has {len(data.tokens)} tokens but {len(data.types)} token types")
    allowed = {_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED}
    if not set(data.types) <= allowed:
        index = next(index for index, kind in enumerate(data.types) if kind not in allowed)
        raise ModelFileError(f"token {index} has type {data.types[index]}; a byte-level vocabulary has types 1 to 5")
    ids = {token: index for index, token in enumerate(data.tokens)}
    if len(ids) != len(data.tokens):
        index = next(index for index, token in enumerate(data.tokens) if ids[token] != index)
        raise ModelFileError(f"tokens {index} and {ids[data.tokens[index]]} are the same: {data.tokens[index]!r:.100}")
    for name, token_id in (("bos", data.bos), ("eos", data.eos), *(("end of turn", end) for end in data.end_of_turn)):
        if token_id is not None and not 0 <= token_id < len(data.tokens):
            raise ModelFileError(f"the {name} token is {token_id}; the vocabulary has {len(data.tokens)} tokens")
    return ids


def _model(merges: list[str], vocabulary: dict[str, int], ignore_merges: bool) -> BPE:
    """The library's model; ModelFileError for a merge that is malformed or names a token that does not exist."""
    try:
        pairs = [(left, right) for left, right in (merge.split(" ") for merge in merges)]
        return BPE(vocabulary, pairs, ignore_merges=ignore_merges)
    except Exception as error:  # the library raises bare Exception, and checks 48,900 merges faster than we could
        for index, merge in enumerate(merges):
            left, _, right = merge.partition(" ")
            if not {left, right, left + right} <= vocabulary.keys():
                raise ModelFileError(
                    f"merge {index} is {merge!r:.100}; both parts and the whole must be ordinary tokens"
                ) from None
        raise ModelFileError(f"the tokenizer cannot be built: {error}") from error


def _encoder(data: TokenizerData, ids: dict[str, int]) -> Encoder:
    pre = PRE_TOKENIZERS.get(data.pre)
    if pre is None:
        raise ModelFileError(
            f"pre-tokenizer {data.pre!r:.100} is not supported; supported: {', '.join(PRE_TOKENIZERS)}"
        )
    # Control tokens are no part of the merges, so that text which merely looks like one never becomes one.
    hidden = (_CONTROL, _UNKNOWN, _UNUSED)
    vocabulary = {
        token: index for (token, index), kind in zip(ids.items(), data.types, strict=True) if kind not in hidden
    }
    encoder = Encoder(_model(data.merges, vocabulary, pre.ignore_merges))
    encoder.pre_tokenizer = pre.steps()
    if pre.compose:
        encoder.normalizer = NFC()
    return encoder


def _matcher(texts: Iterable[str]) -> re.Pattern[str] | None:
    """Finds any of the texts, the longest at each place; None where there are none."""
    ordered = sorted((text for text in texts if text), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, ordered))) if ordered else None


class Tokenizer:
    """The tokenizer of one model file.

    Raises ModelFileError for damaged or unsupported data. Bytes that the vocabulary lacks (the default model has no
    token for 21 of the 256, control characters and parts of rare planes) are dropped by encoding, as they were when
    the model was trained.
    """

    def __init__(self, data: TokenizerData) -> None:
        if data.add_space_prefix:
            raise ModelFileError("the tokenizer asks for a space before the text (add_space_prefix): not supported")
        if data.add_eos:
            raise ModelFileError("the tokenizer asks for an end-of-text token after the prompt (add_eos_token)")
        if data.add_bos and data.bos is None:
            raise ModelFileError("the tokenizer asks for a beginning-of-text token (add_bos_token) but names none")
        self._ids = _vocabulary(data)
        self._encoder = _encoder(data, self._ids)
        self._tokens = data.tokens
        self._types = data.types
        user = [token for token, kind in zip(data.tokens, data.types, strict=True) if kind == _USER_DEFINED]
        control = [token for token, kind in zip(data.tokens, data.types, strict=True) if kind == _CONTROL]
        self._user_tokens = _matcher(user)
        self._special_tokens = _matcher(user + control)
        self._alphabet = byte_of_character()
        self._bytes: dict[int, bytes] = {}
        self._prefix = [data.bos] if data.add_bos and data.bos is not None else []
        self.bos = data.bos
        ends = {self._ids[token] for token in control if token in END_TOKENS}
        self.eos_ids: frozenset[int] = data.end_of_turn | ends | ({data.eos} if data.eos is not None else set())

    @property
    def vocab(self) -> int:
        """Number of ids."""
        return len(self._tokens)

    def encode(self, text: str, *, special: bool) -> list[int]:
        """The ids of a text. `special` lets control tokens be written as text, as a chat template does.

        Without it "<|im_end|>" in a user's text is only text. User-defined tokens are always recognised. Raises
        UsageError for text that is not Unicode (lone surrogates).
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UsageError(f"the text has a lone surrogate at character {error.start}; replace it first") from None
        matcher = self._special_tokens if special else self._user_tokens
        if matcher is None:
            return self._plain(text)
        found: list[int] = []
        position = 0
        for match in matcher.finditer(text):
            found += self._plain(text[position : match.start()])
            found.append(self._ids[match.group()])
            position = match.end()
        return found + self._plain(text[position:])

    def encode_prompt(self, text: str, *, special: bool) -> list[int]:
        """encode, behind the beginning-of-text token where the model wants one and the text does not bring it."""
        ids = self.encode(text, special=special)
        return ids if ids[:1] == self._prefix else self._prefix + ids

    def _plain(self, text: str) -> list[int]:
        if not text:
            return []
        ids: list[int] = self._encoder.encode(text, add_special_tokens=False).ids
        return ids

    def is_special(self, token: int) -> bool:
        """Whether an id is a control or unknown token, which skip_special leaves out. UsageError if out of range."""
        self._check(token)
        return self._types[token] in (_CONTROL, _UNKNOWN)

    def token_bytes(self, token: int) -> bytes:
        """The bytes that an id stands for, possibly only a part of a character. UsageError if out of range."""
        known = self._bytes.get(token)
        if known is None:
            self._check(token)
            known = self._bytes[token] = self._spell(token)
        return known

    def decode(self, ids: Iterable[int], *, skip_special: bool) -> str:
        """The text of ids; invalid bytes become U+FFFD. UsageError for an id out of range."""
        pieces = [self.token_bytes(token) for token in ids if not (skip_special and self.is_special(token))]
        return b"".join(pieces).decode("utf-8", "replace")

    def _check(self, token: int) -> None:
        if not 0 <= token < len(self._tokens):
            raise UsageError(f"token id {token} is out of range; the vocabulary has {len(self._tokens)} tokens")

    def _spell(self, token: int) -> bytes:
        text = self._tokens[token]
        if self._types[token] == _NORMAL:
            try:
                return bytes([self._alphabet[character] for character in text])
            except KeyError:
                pass  # not spelt in the alphabet: the token stands for its own text, as in the reference decoder
        return text.encode()


class Detokenizer:
    """Turns ids into text one by one: what it returns is certain and never half a character.

    The pieces and the flush, joined, are Tokenizer.decode of all the ids.
    """

    def __init__(self, tokenizer: Tokenizer, *, skip_special: bool) -> None:
        self._tokenizer = tokenizer
        self._skip_special = skip_special
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        """The text that became certain with this id. UsageError if it is out of range; nothing has changed then."""
        if self._skip_special and self._tokenizer.is_special(token):
            return ""
        return self._decoder.decode(self._tokenizer.token_bytes(token))

    def flush(self) -> str:
        """What is still held back, as U+FFFD: the ids are over. The next push starts a new text."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest
