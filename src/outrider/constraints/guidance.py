"""A constraint's state, kept by llguidance: an Earley parser over the vocabulary's bytes.

llguidance never raises; after anything unexpected, a token out of place included, a parser is in an error state for
good. So no token reaches it unasked, and a parser that ran into an error on a mere guess is built anew.

Where the grammar leaves no choice about the text, llguidance also leaves none about its tokens: the mask holds the one
that the tokenizer would use. `push` and `allows` agree with that.

Dimensions: V vocabulary.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from outrider.constraints.vocabulary import Vocabulary
from outrider.core.types import WordArray
from outrider.errors import BackendError, UsageError

# How an error begins that only says: no token of this vocabulary can go on.
_NO_TOKEN = "NoExtension"

_KEPT, _KEPT_BYTES = 4096, 256

_STACK_LOCK = threading.Lock()


class GuidedMatcher:
    """The Matcher of a grammar. `fresh` is its parser before any token, which stays as it is.

    empty says that the grammar allows the empty text and no other; gave_up is called before BackendError is raised
    because the engine of the grammar hit one of its limits.
    """

    __slots__ = (
        "_allowed",
        "_buffer",
        "_empty",
        "_fresh",
        "_gave_up",
        "_mask",
        "_masked",
        "_parser",
        "_pointer",
        "_pushed",
        "_vocabulary",
    )

    def __init__(self, fresh: LLMatcher, vocabulary: Vocabulary, empty: bool, gave_up: Callable[[], None]) -> None:
        self._fresh = fresh
        self._parser = fresh.deep_copy()
        self._vocabulary = vocabulary
        self._empty = empty
        self._gave_up = gave_up
        self._pushed: list[int] = []
        self._allowed = vocabulary.text_mask | vocabulary.end_mask
        self._buffer = np.zeros_like(self._allowed)
        self._pointer = self._buffer.ctypes.data
        self._mask = self._buffer.view()
        self._mask.setflags(write=False)
        self._masked = False  # whether the mask is that of the present state

    @property
    def ended(self) -> bool:
        return self._empty or (self._parser.is_stopped() and not self._parser.is_error())

    def mask(self) -> WordArray:
        if not self._masked:
            self._parser.unsafe_compute_mask_ptr(self._pointer, self._buffer.nbytes)
            if self._parser.is_error():
                self._no_token()
                self._buffer[:] = 0
            self._buffer &= self._allowed
            self._masked = True
        return self._mask

    def push(self, token: int) -> bool:
        if not self._is_text(token):
            return False
        if not (self._in_mask(token) if self._masked else self._may(token)):
            if self._parser.is_error():
                self._no_token()
            return False
        if not self._parser.consume_token(token):
            raise self._failure()
        self._pushed.append(token)
        self._masked = False
        return True

    def pop(self, count: int) -> None:
        if not 0 <= count <= len(self._pushed):
            raise UsageError(f"{count} tokens cannot be popped; {len(self._pushed)} were pushed")
        if count:
            if not self._parser.rollback(count):
                raise self._failure()
            del self._pushed[-count:]
            self._masked = False

    def allows(self, tokens: Sequence[int]) -> int:
        count = 0
        for token in tokens:
            if not (self._is_text(token) and self._may(token) and self._parser.consume_token(token)):
                break
            count += 1
        # A guess that leads to an error is only a bad guess; the answer need not go that way.
        if self._parser.is_error():
            self._restart()
        elif count and not self._parser.rollback(count):
            raise self._failure()
        return count

    def forced(self, most: int) -> tuple[int, ...]:
        if most < 1:
            return ()
        certain = self._parser.compute_ff_tokens()
        data = self._parser.compute_ff_bytes()
        if self._parser.is_error():
            self._restart()
            return ()
        if len(certain) < most:
            # The end of the text may merge with what follows, so llguidance leaves it out; most often it does not.
            spelt = sum(len(self._vocabulary.text[token]) for token in certain)
            certain += self._vocabulary.cut(data[spelt:])
        return tuple(certain[:most])

    def _is_text(self, token: int) -> bool:
        return 0 <= token < self._vocabulary.size and bool(self._vocabulary.text[token])

    def _in_mask(self, token: int) -> bool:
        return bool(int(self._buffer[token // 32]) >> token % 32 & 1)

    def _may(self, token: int) -> bool:
        """What the mask says of a text token, without computing all of it."""
        if self._parser.is_stopped():
            return False
        certain = self._parser.compute_ff_tokens()
        if certain:
            return certain[0] == token
        return self._parser.validate_tokens([token]) == 1

    def _restart(self) -> None:
        """A new parser behind the same tokens, in place of one in an error state."""
        self._parser = self._fresh.deep_copy()
        if not self._parser.consume_tokens(self._pushed):
            raise self._failure()

    def _no_token(self) -> None:
        """Leave the error state if all it says is that no token can come next; else raise BackendError."""
        if not self._parser.get_error().startswith(_NO_TOKEN):
            raise self._failure()
        self._restart()

    def _failure(self) -> BackendError:
        self._gave_up()
        self._masked = False
        reason = self._parser.get_error().partition("\n")[0]
        return BackendError(
            f"the constraint's grammar became too complex after {len(self._pushed)} tokens ({reason}); simplify it"
        )


class _Tokens:
    """What llguidance wants to know of a tokenizer. Control tokens are hidden: they are no text of any grammar."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.tokens = list(vocabulary.text)
        self.special_token_ids: list[int] = []
        self.eos_token_id = min(vocabulary.ends)
        self.bos_token_id = None
        self._cut = vocabulary.cut
        self._known_cut = lru_cache(_KEPT)(vocabulary.cut)

    def __call__(self, data: bytes) -> list[int]:
        # Asked again in every state for the forced text that is left, in every answer of a schema.
        return self._known_cut(data) if len(data) <= _KEPT_BYTES else self._cut(data)


def tokenizer(vocabulary: Vocabulary) -> LLTokenizer:
    """llguidance's own form of a vocabulary; takes about 0.2 s for 49,000 tokens.

    Raises UsageError for a vocabulary without an end of text.
    """
    if not vocabulary.ends:
        raise UsageError(
            "this model's vocabulary has no end of text, which a constraint needs; leave the constraint out"
        )
    return LLTokenizer(TokenizerWrapper(_Tokens(vocabulary)), eos_token=sorted(vocabulary.ends))


def parser(tokens: LLTokenizer, source: str, stack_bytes: int) -> LLMatcher:
    """A grammar's parser before any token; whoever asks looks at get_error().

    It is compiled in a thread with a stack of its own, because the compiler recurses along the definitions and the
    process would die where the stack ends.
    """
    made: list[LLMatcher] = []
    limits = LLParserLimits(verbose_errors=False)
    worker = threading.Thread(
        target=lambda: made.append(LLMatcher(tokens, source, log_level=0, limits=limits)), name="outrider-grammar"
    )
    with _STACK_LOCK:
        # A setting of the whole process, so it is put back at once; a foreign thread that starts in between only
        # gets more address space than it needs.
        before = threading.stack_size(stack_bytes)
        try:
            worker.start()
        finally:
            threading.stack_size(before)
    worker.join()
    return made[0]
