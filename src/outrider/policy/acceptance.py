"""What drafted nodes are worth: conditional acceptance, counted by what can be seen of a node before it is checked.

A node falls under a *key*: the drafter's own score where it gives one; else its depth and how long the whole draft is
(an n-gram drafter drafts further where it matched more). Tries and hits are counted by key, once for all sequences and
once for each; old ones fade. The chance of a node, given that the node above it was kept, is a beta posterior's mean:
the sequence's own counts with what all sequences showed as prior, and that in turn with the drafter's score, or with
what is believed of the depth above, as prior.

What was drafted is compared with the tokens that the sequence then got, whether or not it was put into a pass: so a
draft that was cut away still teaches, for nothing. Under the coupled rule, and for POINT nodes under any rule, a node
in a pass is kept exactly where it equals the token.

Dimensions: n draft nodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from outrider.core import tree
from outrider.core.types import Draft

MOST_DEPTH = 64  # draft depths that are told apart when only the budget is known

_SCORES = 16
_FORCED = _SCORES  # text that a constraint leaves no choice about
_LENGTHS = (1, 2, 3, 5, 8, 12)  # the longest draft of each class; longer ones, and those that fill the budget, are last
_FIRST = (0.5, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9)  # the chance of the first node of each class, before anything is known
_DEPTHS = 12  # told apart in a class; deeper nodes count as the last
_CLASS = _FORCED + 1
_SIBLING = _CLASS + (len(_LENGTHS) + 1) * _DEPTHS  # children after the first, by rank and depth
_SIBLING_RANKS, _SIBLING_DEPTHS = 2, 4
_REACH = _SIBLING + _SIBLING_RANKS * _SIBLING_DEPTHS
KEYS = _REACH + MOST_DEPTH

_AS_ABOVE = -1.0  # the prior of a key that believes what is believed of the node above

SHARED_KEEP = 0.995  # of the counts of all sequences, at each new try of their key: about 200 tries are remembered
OWN_KEEP = 0.92  # of a sequence's own: about 12, so that it follows when the text changes
SHARED_WEIGHT = 6.0  # tries that the prior of all sequences' counts is worth
OWN_WEIGHT = 3.0  # tries that all sequences' counts are worth to one of them
SCORE_WEIGHT = 20.0  # the same where the drafter gives scores: those follow the text by themselves
_RISE = 0.9  # the chance to fail, from one depth to the next: a guess that held so far is likelier a good one
_HOPE = 0.7  # standard errors, see reach


def _priors() -> list[float]:
    scored = [(bucket + 0.5) / _SCORES for bucket in range(_SCORES)]
    by_depth = [prior for first in _FIRST for prior in (first, *[_AS_ABOVE] * (_DEPTHS - 1))]
    siblings = [0.15] * (_SIBLING_RANKS * _SIBLING_DEPTHS)
    reach = [0.5, *[_AS_ABOVE] * (MOST_DEPTH - 1)]
    return [*scored, 0.98, *by_depth, *siblings, *reach]


_PRIORS = _priors()
_WEIGHTS = [SCORE_WEIGHT if key < _SCORES else OWN_WEIGHT for key in range(KEYS)]
# The keys of a chain of each class, to any depth.
_CHAINS = [
    [_CLASS + kind * _DEPTHS + min(depth, _DEPTHS - 1) for depth in range(MOST_DEPTH)]
    for kind in range(len(_LENGTHS) + 1)
]
_KIND = [next((kind for kind, most in enumerate(_LENGTHS) if n <= most), len(_LENGTHS)) for n in range(MOST_DEPTH)]
_REACHED = list(range(_REACH, KEYS))
_PARENTS = [tuple(range(-1, n - 1)) for n in range(MOST_DEPTH + 1)]  # of a chain of n nodes


class Counts:
    """Tries and hits of each key; at each try of a key its older ones are worth `keep` of what they were."""

    __slots__ = ("_keep", "hits", "tries")

    def __init__(self, keep: float) -> None:
        self._keep = keep
        self.tries = [0.0] * KEYS
        self.hits = [0.0] * KEYS

    def add(self, key: int, hit: bool) -> None:
        """One more try."""
        self.tries[key] = self.tries[key] * self._keep + 1.0
        self.hits[key] = self.hits[key] * self._keep + hit

    def fade_reach(self, keep: float) -> None:
        """What is known by budget and depth alone is worth `keep` of what it was: time has passed without news."""
        for key in range(_REACH, KEYS):
            self.tries[key] *= keep
            self.hits[key] *= keep


def keys(draft: Draft, asked: int) -> Sequence[int]:
    """The key of each node [n]; asked is the depth that the drafter was allowed."""
    n = len(draft)
    found: Sequence[int]
    if draft.score is not None:
        found = [min(_SCORES - 1, int(score * _SCORES)) for score in draft.score]
    elif is_chain(draft):
        by_depth = _by_depth(n, asked)
        found = by_depth if n <= MOST_DEPTH else [*by_depth, *by_depth[-1:] * (n - MOST_DEPTH)]
    else:
        found = _tree_keys(draft, asked)
    if draft.forced:
        found = [*[_FORCED] * draft.forced, *found[draft.forced :]]
    return found[:n]


def is_chain(draft: Draft) -> bool:
    """As tree.is_chain, without making the parents of a chain anew."""
    parents = draft.parents
    return parents == _PARENTS[len(parents)] if len(parents) <= MOST_DEPTH else tree.is_chain(draft)


def _by_depth(depth: int, asked: int) -> list[int]:
    return _CHAINS[-1 if depth >= min(asked, MOST_DEPTH) else _KIND[depth]]


def _tree_keys(draft: Draft, asked: int) -> list[int]:
    depths = tree.depths(draft)
    by_depth = _by_depth(max(depths) + 1, asked)
    children = [0] * (len(depths) + 1)  # the last is the root's
    found = []
    for parent, depth in zip(draft.parents, depths, strict=True):
        rank = children[parent]
        children[parent] = rank + 1
        if rank == 0:
            found.append(by_depth[min(depth, MOST_DEPTH - 1)])
        else:
            place = min(rank, _SIBLING_RANKS) - 1
            found.append(_SIBLING + place * _SIBLING_DEPTHS + min(depth, _SIBLING_DEPTHS - 1))
    return found


def survival(draft: Draft, node_keys: Sequence[int], own: Counts, shared: Counts, least: float) -> list[float]:
    """The chance that each node [n] is kept, never above that of the node it hangs below.

    Of a chain only as many as have a chance of at least `least`.
    """
    if is_chain(draft):
        return _chain_survival(node_keys, own, shared, least)
    kept: list[float] = []
    beliefs: list[float] = []
    taken = [0.0] * (len(draft) + 1)  # by siblings before; the last is the root's
    own_tries, own_hits, tries, hits = own.tries, own.hits, shared.tries, shared.hits
    for key, parent in zip(node_keys, draft.parents, strict=True):
        prior, weight = _PRIORS[key], _WEIGHTS[key]
        if prior < 0.0:
            prior = 1.0 - _RISE * (1.0 - beliefs[parent])
        belief = (hits[key] + SHARED_WEIGHT * prior) / (tries[key] + SHARED_WEIGHT)
        chance = (own_hits[key] + weight * belief) / (own_tries[key] + weight)
        # One sibling at most is kept, so together they cannot be likelier than 1.
        chance = min(chance, 1.0 - taken[parent])
        taken[parent] += chance
        beliefs.append(belief)
        kept.append(chance if parent < 0 else chance * kept[parent])
    return kept


def _chain_survival(node_keys: Sequence[int], own: Counts, shared: Counts, least: float) -> list[float]:
    found: list[float] = []
    own_tries, own_hits, tries, hits = own.tries, own.hits, shared.tries, shared.hits
    belief, kept = 0.5, 1.0
    for key in node_keys:
        prior, weight = _PRIORS[key], _WEIGHTS[key]
        belief = prior if prior >= 0.0 else 1.0 - _RISE * (1.0 - belief)
        belief = (hits[key] + SHARED_WEIGHT * belief) / (tries[key] + SHARED_WEIGHT)
        kept *= (own_hits[key] + weight * belief) / (own_tries[key] + weight)
        if kept < least:
            break
        found.append(kept)
    return found


def reach(depth: int, own: Counts, shared: Counts, least: float) -> list[float]:
    """For each depth: the chance that a node there is kept, when nothing is known but that it was asked for.

    As many as have a chance of at least `least`, at most [depth]. The first one, which decides whether the drafter is
    asked at all, is taken a little better than it showed: an unlucky row of misses would otherwise end the asking, and
    with it the news that it was bad luck.
    """
    found = _chain_survival(_REACHED[:depth], own, shared, 0.0)
    if not found or not found[0]:
        return []
    first = min(found[0], 1.0)  # rounding may put it above
    error = math.sqrt(first * (1.0 - first) / (own.tries[_REACH] + OWN_WEIGHT))
    hope = min(1.0, first + _HOPE * error) / first
    return [hope * chance for chance in found if hope * chance >= least]


class Trace:
    """A draft on its way along the tokens that its sequence gets."""

    __slots__ = ("_asked", "_at", "_chain", "_draft", "_keys", "depth")

    def __init__(self, draft: Draft, node_keys: Sequence[int], asked: int) -> None:
        self._draft = draft
        self._chain = is_chain(draft)
        self._keys = node_keys
        self._asked = min(asked, MOST_DEPTH)
        self._at = -1
        self.depth = 0  # nodes that came true so far

    def follow(self, tokens: Sequence[int], own: Counts, shared: Counts) -> bool:
        """Count the nodes that these tokens decide. Whether later tokens may decide more."""
        drafted, node_keys = self._draft.tokens, self._keys
        for token in tokens:
            hit = -1
            for node in self._children():
                # Each child is a try, and none but the first that is this token a hit.
                came = hit < 0 and drafted[node] == token
                if came:
                    hit = node
                own.add(node_keys[node], came)
                shared.add(node_keys[node], came)
            if self.depth < self._asked:
                own.add(_REACH + self.depth, hit >= 0)
                shared.add(_REACH + self.depth, hit >= 0)
            if hit < 0:
                return False
            self._at = hit
            self.depth += 1
        return self.depth < self._asked or self._at + 1 < len(drafted)

    def _children(self) -> Sequence[int]:
        below, parents = self._at + 1, self._draft.parents
        if self._chain:
            return (below,) if below < len(parents) else ()
        return [node for node in range(below, len(parents)) if parents[node] == self._at]
