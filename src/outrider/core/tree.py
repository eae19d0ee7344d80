"""The shape of a draft: who hangs below whom.

Dimensions: n draft nodes, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real

from outrider.core.types import Draft
from outrider.errors import UsageError


def depths(draft: Draft) -> tuple[int, ...]:
    """Depth of each node [n]; a node below the last known token has depth 0."""
    found: list[int] = []
    for parent in draft.parents:
        found.append(0 if parent < 0 else found[parent] + 1)
    return tuple(found)


def path(draft: Draft, node: int) -> tuple[int, ...]:
    """The nodes from the root side down to `node`, itself included; () for -1."""
    found: list[int] = []
    while node >= 0:
        found.append(node)
        node = draft.parents[node]
    return tuple(reversed(found))


def children(draft: Draft) -> dict[int, tuple[int, ...]]:
    """The children of each node that has any, first drawn first; -1: of the last known token."""
    found: dict[int, tuple[int, ...]] = {}
    for node, parent in enumerate(draft.parents):
        found[parent] = (*found.get(parent, ()), node)
    return found


def follow(draft: Draft, tokens: Sequence[int]) -> tuple[int, ...]:
    """The nodes that carry these tokens, one below the other from the root on, as far as there are any."""
    path: list[int] = []
    above = -1
    for wanted in tokens:
        below = (node for node, parent in enumerate(draft.parents) if parent == above and draft.tokens[node] == wanted)
        above = next(below, -1)
        if above < 0:
            break
        path.append(above)
    return tuple(path)


def is_chain(draft: Draft) -> bool:
    """Whether every node hangs below the one before it (an empty draft is a chain)."""
    return draft.parents == _chain(len(draft.parents))


def _chain(n: int) -> tuple[int, ...]:
    """The parents of a chain of n nodes."""
    return tuple(range(-1, n - 1))


def keep(draft: Draft, nodes: Sequence[int]) -> Draft:
    """The draft of these nodes alone, in rising order; with a node, all nodes above it have to be kept."""
    place = {-1: -1} | {node: index for index, node in enumerate(nodes)}
    return Draft(
        tuple(draft.tokens[node] for node in nodes),
        tuple(place[draft.parents[node]] for node in nodes),
        draft.law,
        None if draft.q is None else tuple(draft.q[node] for node in nodes),
        sum(node < draft.forced for node in nodes),
        None if draft.score is None else tuple(draft.score[node] for node in nodes),
        None if draft.drafters is None else tuple(draft.drafters[node] for node in nodes),
    )


def validate(draft: Draft, vocab: int) -> int:
    """Nodes on the longest path of a sound draft; n if it is a chain, and only then.

    Raise UsageError unless tokens and parents are tuples [n] of int, parents[i] in [-1, i) and tokens[i] in [0, V); the
    first `forced` nodes exist and are a chain; and scores, q and drafters, where there are any, are tuples [n], scores
    of numbers in 0..1.
    """
    deepest = _deepest(draft, vocab)
    if deepest < 0:
        _explain(draft, vocab)
        deepest = max(depths(draft), default=-1) + 1
    n, forced = len(draft.tokens), draft.forced
    # No tuple is made where nothing is forced, as nearly always.
    if not isinstance(forced, int) or not 0 <= forced <= n or (forced and draft.parents[:forced] != _chain(forced)):
        raise UsageError(f"a draft of {n} nodes calls {forced!r} forced; the first of its nodes, a chain, can be")
    if draft.score is not None and not _scored(draft.score, n):
        raise UsageError(f"a draft of {n} nodes has the scores {draft.score!r:.100}; give each node one in 0..1")
    if draft.q is not None and (not isinstance(draft.q, tuple) or len(draft.q) != n):
        raise UsageError(f"a draft of {n} nodes has a q of {type(draft.q).__name__}; give each node one in a tuple")
    if draft.drafters is not None and (not isinstance(draft.drafters, tuple) or len(draft.drafters) != n):
        raise UsageError(f"a draft of {n} nodes has the drafters {draft.drafters!r:.100}; give each node one name")
    return deepest


def _deepest(draft: Draft, vocab: int) -> int:
    """Nodes on the longest path; -1 where tokens or parents look wrong.

    Every step asks, when a pass has just emptied the caches: one loop touches less than a call for each question.
    """
    tokens, parents = draft.tokens, draft.parents
    if not (type(tokens) is type(parents) is tuple and len(tokens) == len(parents)):
        return -1
    below = [0]  # nodes above the children of the root, then of each node
    for token, parent in zip(tokens, parents, strict=True):
        if type(token) is not int or type(parent) is not int:
            return -1
        if not (0 <= token < vocab and 0 <= parent + 1 < len(below)):
            return -1
        below.append(below[parent + 1] + 1)
    return max(below)


def _scored(score: tuple[float, ...], n: int) -> bool:
    if not isinstance(score, tuple) or len(score) != n:
        return False
    for chance in score:
        # NaN fails both comparisons.
        if (type(chance) is not float and not isinstance(chance, Real)) or not 0.0 <= chance <= 1.0:
            return False
    return True


def _explain(draft: Draft, vocab: int) -> None:
    """Raise UsageError for the first fault, if there is one."""
    if not isinstance(draft.tokens, tuple) or not isinstance(draft.parents, tuple):
        raise UsageError(f"a draft holds {type(draft.tokens).__name__} and {type(draft.parents).__name__}; use tuples")
    if len(draft.tokens) != len(draft.parents):
        raise UsageError(
            f"a draft has {len(draft.tokens)} tokens but {len(draft.parents)} parents; give each node one of both"
        )
    for node, (token, parent) in enumerate(zip(draft.tokens, draft.parents, strict=True)):
        if not isinstance(token, int) or not 0 <= token < vocab:
            raise UsageError(f"draft node {node} has token id {token!r}; ids of this model lie in 0..{vocab - 1}")
        if not isinstance(parent, int) or not -1 <= parent < node:
            raise UsageError(
                f"draft node {node} has parent {parent!r}; a parent comes before its node (-1: no node above)"
            )
