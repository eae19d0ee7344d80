"""What one answer's text so far does to its next rows: penalties, masks, and the constraint's state.

The state stands behind the known tokens, and moves ahead along a draft's path while the rule walks it: a node's row is
shaped by the tokens above the node, drafted ones included. Only nodes that the rule asks about cost anything.

Dimensions: V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from outrider.api import Request
from outrider.constraints.base import Matcher
from outrider.core import penalties, tree
from outrider.core.penalties import Penalties
from outrider.core.sampling import Adjust
from outrider.core.types import Draft, Law, WordArray

_NO_IDS, _NO_FLOATS = np.zeros(0, np.int32), np.zeros(0, np.float32)


class Shaper:
    """The shaping of one answer; `wanted` says whether a request needs one."""

    __slots__ = (
        "_ahead",
        "_count",
        "_dead",
        "_eos",
        "_full",
        "_matcher",
        "_min_tokens",
        "_no_ends",
        "_no_eos",
        "_penalties",
        "_static",
    )

    def __init__(self, request: Request, vocab: int, eos: frozenset[int], matcher: Matcher | None) -> None:
        sampling = request.sampling
        self._penalties = Penalties(sampling, request.prompt) if penalties.wanted(sampling) else None
        self._matcher = matcher
        self._full = _words(range(vocab), vocab)
        self._static: WordArray | None = None
        if sampling.allowed_token_ids is not None or sampling.banned_token_ids:
            allowed = self._full
            if sampling.allowed_token_ids is not None:
                allowed = _words(sampling.allowed_token_ids, vocab)
            self._static = allowed & ~_words(sampling.banned_token_ids, vocab)
        self._min_tokens = request.min_tokens
        ends = {*request.stop_token_ids, *(() if request.ignore_eos else eos)}
        self._no_ends = ~_words(ends, vocab)
        # Under a constraint an end of text is no text that could be passed over: ignoring it means never choosing it.
        self._no_eos = ~_words(eos, vocab) if request.ignore_eos and matcher is not None else None
        self._eos = eos
        self._count = 0  # tokens of the answer behind which the state stands, those ahead not counted
        self._ahead: list[int] = []
        self._dead = False  # the node in question hangs below a token that the constraint does not allow

    @property
    def ended(self) -> bool:
        """Whether the constraint's text is complete behind the known tokens."""
        return self._matcher is not None and not self._ahead and self._matcher.ended

    def at(self, draft: Draft, node: int) -> Adjust | None:
        """Shape the row of a draft's node (-1: of the last known token); valid until the next call of any method."""
        self._move([draft.tokens[above] for above in tree.path(draft, node)])
        mask = self._mask()
        if self._penalties is not None:
            return Adjust(*self._penalties.moved(), mask)
        return None if mask is None else Adjust(_NO_IDS, _NO_FLOATS, _NO_FLOATS, mask)

    def permits(self, token: int) -> bool:
        """Whether the token may come next behind the known ones."""
        if self._ahead and self._ahead[0] == token:
            # The constraint has taken it already. That a row left it a chance says nothing: one without any has id 0.
            return _has(self._by_ids(self._count), token)
        self._move(())
        return _has(self._mask(), token)

    def take(self, token: int) -> None:
        """A permitted token, no end of text, joins the known ones."""
        if self._ahead and self._ahead[0] == token:
            del self._ahead[0]
        else:
            self._move(())
            self._push(token)
            self._ahead.clear()
        self._count += 1

    def possible(self, draft: Draft) -> Draft:
        """The draft without the nodes that the constraint rules out.

        Only of a POINT draft: a drawn token has to stand trial even where p is 0, because its rejection changes the law
        of the token in its place.
        """
        if self._matcher is None or draft.law is not Law.POINT or not draft.tokens:
            return draft
        if tree.is_chain(draft):
            count = self._matcher.allows(draft.tokens)
            return draft if count == len(draft) else tree.keep(draft, range(count))
        kept: list[int] = []
        for node in range(len(draft)):
            tokens = [draft.tokens[above] for above in tree.path(draft, node)]
            if self._matcher.allows(tokens) == len(tokens):
                kept.append(node)
        return tree.keep(draft, kept)

    def _mask(self) -> WordArray | None:
        """The ids that may come next behind the known tokens and those ahead; None: all."""
        by_ids = self._by_ids(self._count + len(self._ahead))
        if self._matcher is None:
            return by_ids
        if self._dead:
            return np.zeros_like(self._full)
        mask = self._matcher.mask()
        if self._matcher.ended:
            return mask  # only an end of text is left: nothing may stand in its way
        if self._no_eos is not None:
            mask = mask & self._no_eos
        return mask if by_ids is None else mask & by_ids

    def _by_ids(self, count: int) -> WordArray | None:
        """The ids that may come after `count` tokens of the answer, the constraint aside; None: all."""
        if count >= self._min_tokens:
            return self._static
        return (self._full if self._static is None else self._static) & self._no_ends

    def _move(self, tokens: Sequence[int]) -> None:
        """Stand behind the known tokens and these."""
        same = 0
        while same < min(len(tokens), len(self._ahead)) and tokens[same] == self._ahead[same]:
            same += 1
        back = self._ahead[same:]
        if back:
            if self._matcher is not None:
                self._matcher.pop(len(back))
            if self._penalties is not None:
                for token in reversed(back):
                    self._penalties.pop(token)
            del self._ahead[same:]
        self._dead = not all(self._push(token) for token in tokens[same:])

    def _push(self, token: int) -> bool:
        # A draft may go on behind an end of text; the grammar does not.
        if self._matcher is not None and (token in self._eos or not self._matcher.push(token)):
            return False
        if self._penalties is not None:
            self._penalties.push(token)
        self._ahead.append(token)
        return True


def wanted(request: Request) -> bool:
    """Whether anything but the row itself has a say."""
    sampling = request.sampling
    return (
        request.constraint is not None
        or request.min_tokens > 0
        or sampling.allowed_token_ids is not None
        or bool(sampling.banned_token_ids)
        or penalties.wanted(sampling)
    )


def _has(mask: WordArray | None, token: int) -> bool:
    return mask is None or bool(mask[token // 32] >> np.uint32(token % 32) & np.uint32(1))


def _words(ids: Iterable[int], vocab: int) -> WordArray:
    """A mask with the bits of these ids [ceil(V / 32)]."""
    bits = np.zeros(-(-vocab // 32) * 32, np.uint8)
    bits[np.fromiter(ids, np.int64)] = 1
    return np.packbits(bits, bitorder="little").view(np.uint32)
