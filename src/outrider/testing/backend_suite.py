"""What every backend must do, as checks that take a maker of fresh backends; a failed check raises AssertionError.

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_conformance(check): check(make_backend)

Logits are compared byte by byte. A backend needs a vocabulary of at least 8 and a context
of at least 64 positions (not many more, or one of the checks is slow).

Dimensions: V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from outrider.backends.base import Backend, Blocks, Extend, Want
from outrider.core import tree
from outrider.core.types import Draft
from outrider.errors import BackendError, UsageError
from outrider.testing import scores_suite
from outrider.testing.checks import PROMPT, Maker, prompt, refused

__all__ = ["CHECKS", "Maker"]

_TREE = Draft((1, 2, 3, 4, 5, 6, 2), (-1, 0, 0, 2, -1, 4, 2))


def feed(
    backend: Backend, seq: int, tokens: Sequence[int], chunk: int = 512, parents: Sequence[int] | None = None
) -> list[bytes]:
    """Extend a chain in chunks, or one tree in one pass (not committed then); returns each row's logits."""
    found: list[bytes] = []
    for start in range(0, len(tokens), chunk):
        part = tokens[start : start + chunk]
        scores = backend.extend([Extend(seq, part, parents, [Want.LOGITS] * len(part))])
        found += [scores.logits(0, row).tobytes() for row in range(len(part))]
        if parents is None:
            backend.commit([(seq, range(len(part)))])
    return found


def fresh(backend: Backend, tokens: Sequence[int]) -> list[bytes]:
    """The rows' logits of a new sequence that reads the tokens in one go."""
    seq = backend.open()
    found = feed(backend, seq, tokens)
    backend.close(seq)
    return found


def chunked_equals_one_by_one(make: Maker) -> None:
    """However a prompt is cut into passes, its rows are the same."""
    backend = make()
    tokens = prompt(backend)
    alone = fresh(backend, tokens)
    for chunk in (1, 2, 3, 8, 16, 17, PROMPT - 1):
        seq = backend.open()
        assert feed(backend, seq, tokens, chunk) == alone, f"chunks of {chunk} change a row"
        assert backend.length(seq) == PROMPT, f"{PROMPT} rows committed, but the length is {backend.length(seq)}"
        backend.close(seq)
    assert len(set(alone)) > 1, "all rows are the same, so this check sees nothing"


def tree_row_equals_chain_row(make: Maker) -> None:
    """A node of a tree has the logits that a chain of its ancestors gives."""
    backend = make()
    tokens = prompt(backend)
    seq = backend.open()
    feed(backend, seq, tokens)
    rows = feed(backend, seq, _TREE.tokens, parents=_TREE.parents)
    for node, row in enumerate(rows):
        chain = [_TREE.tokens[above] for above in tree.path(_TREE, node)]
        assert row == fresh(backend, tokens + chain)[-1], f"node {node} differs from its chain"


def commit_equals_prefill(make: Maker) -> None:
    """After the commit of a path everything is as if its tokens had been read at once."""
    backend = make()
    tokens, more = prompt(backend), prompt(backend, 20, seed=2)
    for node in range(-1, len(_TREE)):
        path = tree.path(_TREE, node)
        whole = tokens + [_TREE.tokens[above] for above in path]
        seq = backend.open()
        feed(backend, seq, tokens)
        feed(backend, seq, _TREE.tokens, parents=_TREE.parents)
        backend.commit([(seq, path)])
        assert backend.length(seq) == len(whole), f"after the commit of {path} the length is {backend.length(seq)}"
        assert feed(backend, seq, more) == fresh(backend, whole + more)[len(whole) :], f"path {path} left its mark"
        backend.close(seq)


def pending_and_draft_in_one_pass(make: Maker) -> None:
    """The last prompt rows and a tree below them share a pass, and a path may run through both."""
    backend = make()
    tokens, more = prompt(backend), prompt(backend, 5, seed=2)
    parents = [*range(-1, PROMPT - 1), *(above + PROMPT if above >= 0 else PROMPT - 1 for above in _TREE.parents)]
    seq = backend.open()
    rows = feed(backend, seq, [*tokens, *_TREE.tokens], parents=parents)
    path = tree.path(_TREE, 3)
    whole = tokens + [_TREE.tokens[node] for node in path]
    assert rows[PROMPT + 3] == fresh(backend, whole)[-1], "a draft node below prompt rows differs from its chain"
    backend.commit([(seq, [*range(PROMPT), *(PROMPT + node for node in path)])])
    assert feed(backend, seq, more) == fresh(backend, whole + more)[len(whole) :], "the committed path left its mark"


def rows_are_alone(make: Maker) -> None:
    """Sequences that share a pass do not see each other; a ragged batch equals single runs."""
    backend = make()
    prompts = [prompt(backend, count, seed=count) for count in (1, 5, 16, 33)]
    seqs = [backend.open() for _ in prompts]
    items = [Extend(seq, part, None, [Want.LOGITS] * len(part)) for seq, part in zip(seqs, prompts, strict=True)]
    scores = backend.extend(items)
    together = [[scores.logits(item, row).tobytes() for row in range(len(p))] for item, p in enumerate(prompts)]
    backend.commit([(seq, range(len(part))) for seq, part in zip(seqs, prompts, strict=True)])
    for seq, part, rows in zip(seqs, prompts, together, strict=True):
        assert rows == fresh(backend, part), f"a batch changes the rows of a prompt of {len(part)}"
        assert feed(backend, seq, [1, 2]) == fresh(backend, [*part, 1, 2])[len(part) :], "a batch mixes caches"


def forks_are_independent(make: Maker) -> None:
    """A fork starts where its parent is and goes its own way, also when the parent is closed or truncated."""
    backend = make()
    tokens, left, right = prompt(backend), prompt(backend, 9, seed=2), prompt(backend, 9, seed=3)
    seq = backend.open()
    feed(backend, seq, tokens)
    forked, again = backend.fork(seq), backend.fork(seq)
    assert backend.length(forked) == PROMPT, "a fork has another length than its parent"
    assert feed(backend, seq, left) == fresh(backend, tokens + left)[PROMPT:], "a fork disturbs its parent"
    assert feed(backend, forked, right) == fresh(backend, tokens + right)[PROMPT:], "a parent disturbs its fork"
    backend.truncate(seq, 3)
    feed(backend, seq, right)
    backend.close(seq)
    assert feed(backend, again, left) == fresh(backend, tokens + left)[PROMPT:], "a closed parent disturbs its fork"


def truncate_forgets(make: Maker) -> None:
    """After truncate to any length the sequence is as if it had never gone further."""
    backend = make()
    tokens, more = prompt(backend), prompt(backend, 9, seed=2)
    for length in (PROMPT, PROMPT - 1, 32, 17, 16, 15, 1, 0):
        seq = backend.open()
        feed(backend, seq, tokens)
        feed(backend, seq, _TREE.tokens, parents=_TREE.parents)
        backend.truncate(seq, length)
        assert backend.length(seq) == length, f"truncated to {length}, but the length is {backend.length(seq)}"
        expected = fresh(backend, tokens[:length] + more)[length:]
        assert feed(backend, seq, more) == expected, f"truncate to {length} left its mark"
        backend.close(seq)


def uncommitted_rows_are_dropped(make: Maker) -> None:
    """Rows that nobody committed are gone with the next extend."""
    backend = make()
    tokens, more = prompt(backend), prompt(backend, 9, seed=2)
    seq = backend.open()
    feed(backend, seq, tokens)
    feed(backend, seq, _TREE.tokens, parents=_TREE.parents)
    assert feed(backend, seq, more) == fresh(backend, tokens + more)[PROMPT:], "uncommitted rows left their mark"
    feed(backend, seq, _TREE.tokens, parents=_TREE.parents)
    backend.commit([(seq, ())])
    assert backend.length(seq) == PROMPT + 9, "the empty path committed something"
    refused(UsageError, lambda: backend.commit([(seq, (0,))]), "a commit of rows that are gone")


def errors_change_nothing(make: Maker) -> None:
    """A refused call leaves every sequence as it was, also those that came before the bad item."""
    backend = make()
    tokens, more = prompt(backend), prompt(backend, 9, seed=2)
    seq, other = backend.open(), backend.open()
    feed(backend, seq, tokens)
    good = Extend(seq, [1], None, [Want.TOKEN])
    want = [Want.TOKEN]
    bad = [
        (UsageError, [good, Extend(other, [backend.vocab], None, want)], "an id over the vocabulary"),
        (UsageError, [good, Extend(other, [-1], None, want)], "a negative id"),
        (UsageError, [good, Extend(other, [1, 2], [-1, 1], want * 2)], "a row that is its own parent"),
        (UsageError, [good, Extend(other, [1, 2], [-1, -2], want * 2)], "a parent under -1"),
        (UsageError, [good, Extend(other, [1, 2], [-1], want * 2)], "fewer parents than tokens"),
        (UsageError, [good, Extend(other, [1, 2], None, want)], "fewer wants than tokens"),
        (UsageError, [good, Extend(other, [1], None, [3])], "an unknown want"),
        (UsageError, [good, Extend(other, [], None, [])], "an item without rows"),
        (UsageError, [good, good], "a sequence twice in a pass"),
        (BackendError, [good, Extend(seq + other + 9999, [1], None, want)], "an unknown sequence"),
        (
            BackendError,
            [good, Extend(other, [1] * (backend.context + 1), None, want * (backend.context + 1))],
            "rows outside the context",
        ),
    ]
    for error, items, what in bad:
        refused(error, partial(backend.extend, items), what)
    feed(backend, other, _TREE.tokens, parents=_TREE.parents)
    for path, what in (
        ((1,), "a path without its root"),
        ((0, 4), "a broken path"),
        ((7,), "no row"),
        ((0, 0), "a loop"),
    ):
        refused(UsageError, partial(backend.commit, [(seq, ()), (other, path)]), what)
    for length in (-1, PROMPT + 1):
        refused(UsageError, partial(backend.truncate, seq, length), f"truncate to {length}")
    assert (backend.length(seq), backend.length(other)) == (PROMPT, 0), "a refused call changed a length"
    assert feed(backend, seq, more) == fresh(backend, tokens + more)[PROMPT:], "a refused call left its mark"


def context_is_the_limit(make: Maker) -> None:
    """The last position can be used, the one after it raises BackendError, by depth and not by rows."""
    backend = make()
    seq = backend.open()
    tokens = prompt(backend, backend.context - 2)
    feed(backend, seq, tokens)
    feed(backend, seq, [1, 2, 3, 4, 5], parents=[-1, 0, 0, -1, 3])
    refused(BackendError, lambda: feed(backend, seq, [1, 2, 3]), "a position outside the context")
    feed(backend, seq, [1, 2])
    assert backend.length(seq) == backend.context, "the context cannot be filled"
    refused(BackendError, lambda: feed(backend, seq, [1]), "a row in a full context")


def close_leaves_nothing(make: Maker) -> None:
    """A closed sequence is unknown, and any number may be opened and closed."""
    backend = make()
    tokens = prompt(backend)
    alone = fresh(backend, tokens)
    for _ in range(50):
        seq = backend.open()
        assert backend.length(seq) == 0, "a new sequence is not empty"
        assert feed(backend, seq, tokens)[-1] == alone[-1], "a new sequence remembers an old one"
        backend.close(seq)
    verbs: tuple[Callable[[], object], ...] = (
        lambda: backend.length(seq),
        lambda: backend.close(seq),
        lambda: backend.truncate(seq, 0),
        lambda: backend.fork(seq),
        lambda: backend.commit([(seq, ())]),
        lambda: backend.extend([Extend(seq, [1], None, [Want.TOKEN])]),
    )
    for verb in verbs:
        refused(BackendError, verb, "the use of a closed sequence")


def blocks_are_counted_once(make: Maker) -> None:
    """Of a backend that counts blocks: shared ones count once, a partial one is copied when written, all come back."""
    backend = make()
    if not isinstance(backend, Blocks):
        return
    size, start = backend.block_tokens, backend.blocks_used
    assert min(size, backend.block_bytes) > 0, f"blocks of {size} positions and {backend.block_bytes} bytes"
    tokens = prompt(backend, backend.context - 2)
    whole, full = -(-len(tokens) // size), len(tokens) // size
    copied = whole - full

    def used() -> int:
        return backend.blocks_used - start

    seq = backend.open()
    assert used() == 0, "an empty sequence holds blocks"
    feed(backend, seq, tokens)
    assert used() == whole, f"{len(tokens)} positions hold {used()} blocks of {size}"
    forked = backend.fork(seq)
    assert used() == whole, "a fork counts the blocks that it shares"
    feed(backend, forked, [1])
    assert used() == max(whole + copied, -(-(len(tokens) + 1) // size)), "a fork writes into a shared block"
    backend.truncate(forked, 0)
    feed(backend, forked, _TREE.tokens, parents=_TREE.parents)
    backend.commit([(forked, ())])
    assert used() == whole, "rows that nobody keeps hold blocks"
    backend.truncate(seq, 1)
    assert used() == 1, "truncated positions hold blocks"
    backend.close(forked)
    backend.close(seq)
    assert used() == 0, "closed sequences hold blocks"


CHECKS: tuple[Callable[[Maker], None], ...] = (
    chunked_equals_one_by_one,
    tree_row_equals_chain_row,
    commit_equals_prefill,
    pending_and_draft_in_one_pass,
    rows_are_alone,
    forks_are_independent,
    truncate_forgets,
    uncommitted_rows_are_dropped,
    *scores_suite.CHECKS,
    errors_change_nothing,
    context_is_the_limit,
    close_leaves_nothing,
    blocks_are_counted_once,
)
