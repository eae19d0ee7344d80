"""Makes matchers of constraints: checks them, compiles them, and keeps the latest for the next request."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from outrider.api import Constraint, ConstraintKind
from outrider.constraints.base import Matcher
from outrider.constraints.marker import AfterMarker, Marker
from outrider.constraints.vocabulary import Vocabulary
from outrider.errors import BackendError, UsageError

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

    from outrider.constraints.guidance import GuidedMatcher

_KEPT = 32
_STACK_BYTES = 2**28
# Text that the first tokens must spell is cut up anew for each of them, so that a longer one would take minutes.
_MOST_FORCED_BYTES = 2**16
_PREFLIGHT_TOKENS = 64

_Key: TypeAlias = tuple[ConstraintKind, str]
_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class _Compiled:
    fresh: LLMatcher  # the parser before any token; only ever copied, which takes microseconds
    empty: bool  # nothing but the empty text is allowed


class Compiler:
    """The MatcherMaker of a vocabulary; may be used from several threads.

    llguidance is imported, and the vocabulary prepared for it (some 0.4 s), with the first constraint or `prepare`. The
    last 32 constraints and markers are kept.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._lock = threading.Lock()
        self._tokenizer: LLTokenizer | None = None
        self._compiled: OrderedDict[_Key, _Compiled] = OrderedDict()
        self._markers: OrderedDict[str, Marker] = OrderedDict()

    def __call__(self, constraint: Constraint) -> Matcher:
        """A matcher before any token.

        Raises UsageError for a constraint that is malformed, that no text of this vocabulary satisfies, or that asks
        for what is not supported; docs/constraints.md lists it.
        """
        marker = None if constraint.after is None else self._marker(constraint.after)
        key = (constraint.kind, constraint.text)
        with self._lock:
            compiled = self._compiled.get(key)
            if compiled is not None:
                self._compiled.move_to_end(key)
        if compiled is None:
            compiled = self._compile(constraint)
            with self._lock:
                _keep(self._compiled, key, compiled)
        matcher = self._matcher(key, compiled)
        return matcher if marker is None else AfterMarker(marker, matcher)

    def prepare(self) -> None:
        """Do now what is done once for all constraints, so that nobody has to wait for it later.

        Most of it holds the interpreter's lock, which compiling does not. Raises UsageError for a vocabulary that can
        have no constraints.
        """
        self._prepared()

    def _prepared(self) -> LLTokenizer:
        from outrider.constraints import guidance

        with self._lock:
            if self._tokenizer is None:
                self._tokenizer = guidance.tokenizer(self._vocabulary)
            return self._tokenizer

    def _matcher(self, key: _Key, compiled: _Compiled) -> GuidedMatcher:
        from outrider.constraints.guidance import GuidedMatcher

        return GuidedMatcher(compiled.fresh, self._vocabulary, compiled.empty, partial(self._forget, key))

    def _forget(self, key: _Key) -> None:
        """Copies share what they learn about their grammar; one that hit a limit may have used it up for all."""
        with self._lock:
            self._compiled.pop(key, None)

    def _marker(self, text: str) -> Marker:
        with self._lock:
            marker = self._markers.get(text)
            if marker is None:
                marker = Marker(text, self._vocabulary)
            _keep(self._markers, text, marker)
        return marker

    def _compile(self, constraint: Constraint) -> _Compiled:
        from outrider.constraints import guidance, sources

        text = sources.source(constraint)
        fresh = guidance.parser(self._prepared(), text, _STACK_BYTES)
        complaint = fresh.get_error()
        if complaint:
            raise sources.explained(constraint.kind, complaint)
        key = (constraint.kind, constraint.text)
        try:
            empty = self._preflight(sources.NAMES[constraint.kind], self._matcher(key, _Compiled(fresh, False)), fresh)
        except BackendError as error:
            raise UsageError(f"{sources.NAMES[constraint.kind]} cannot be used: {error}") from None
        return _Compiled(fresh, empty)

    def _preflight(self, name: str, matcher: GuidedMatcher, fresh: LLMatcher) -> bool:
        """Try the first tokens; returns whether there are none but an end of text."""
        vocabulary = self._vocabulary
        forced = fresh.deep_copy().compute_ff_bytes()
        if len(forced) > _MOST_FORCED_BYTES:
            raise UsageError(
                f"{name} leaves no choice about its first {len(forced)} bytes; at most {_MOST_FORCED_BYTES} are allowed"
            )
        if sum(len(vocabulary.text[token]) for token in vocabulary.cut(forced)) < len(forced):
            raise UsageError(
                f"{name} begins with {forced!r:.60}, which this model's vocabulary cannot spell; change it"
            )
        mask = matcher.mask()
        if not mask.any():
            raise UsageError(f"{name} allows no text at all, not even an empty one; correct it")
        if not (mask & vocabulary.text_mask).any():
            return True
        for token in matcher.forced(_PREFLIGHT_TOKENS):
            if not matcher.push(token):
                break
            matcher.mask()
        return False


def _keep(kept: OrderedDict[_K, _V], key: _K, value: _V) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > _KEPT:
        kept.popitem(last=False)
