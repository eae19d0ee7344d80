"""The shape of a draft: who hangs below whom.

Dimensions: n draft nodes, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from operator import ge, le, lt

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
    return draft.parents == tuple(range(-1, len(draft.parents) - 1))


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


def validate(draft: Draft, vocab: int) -> None:
    """Raise UsageError unless both are tuples [n] of int, parents[i] lies in [-1, i) and tokens[i] in [0, V).

    And unless the first `forced` nodes exist and are a chain, the scores, if there are any, are n numbers in 0..1, and
    the drafters, if there are any, n.
    """
    if not _sound(draft, vocab):
        _explain(draft, vocab)
    if not isinstance(draft.forced, int) or draft.parents[: draft.forced] != tuple(range(-1, draft.forced - 1)):
        raise UsageError(
            f"a draft of {len(draft)} nodes calls {draft.forced!r} forced; the first of its nodes, a chain, can be"
        )
    score = draft.score
    # Compared one by one: the least of several hides what is no number.
    if score is not None and (
        len(score) != len(draft) or not all(map(le, repeat(0.0), score)) or not all(map(ge, repeat(1.0), score))
    ):
        raise UsageError(f"a draft of {len(draft)} nodes has the scores {score!r:.100}; give each node one in 0..1")
    drafters = draft.drafters
    if drafters is not None and (type(drafters) is not tuple or len(drafters) != len(draft)):
        raise UsageError(f"a draft of {len(draft)} nodes has the drafters {drafters!r:.100}; give each node one name")


def _sound(draft: Draft, vocab: int) -> bool:
    """Whether tokens and parents are what they must be; every step asks, so nothing here is a loop in Python."""
    tokens, parents = draft.tokens, draft.parents
    return (
        type(tokens) is type(parents) is tuple
        and len(tokens) == len(parents)
        and {int}.issuperset(map(type, tokens))
        and {int}.issuperset(map(type, parents))
        and (not tokens or (min(tokens) >= 0 and max(tokens) < vocab and min(parents) >= -1))
        and all(map(lt, parents, range(len(parents))))
    )


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
