"""How a draft is judged. A rule turns a draft, the target and chance into a verdict; it never reads text or a clock.

`coupled` is the default and needs no q. `rejection`, `block` and `traversal` compare p with q; with them the answer has
the target's law, but which ids come out depends on the drafts too. docs/rules.md says when to choose which, and how
each is proved: the functions below also run on fractions, over every outcome of every draft.

Dimensions: n draft nodes, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from outrider.api import Sampling
from outrider.core import tree
from outrider.core.types import Draft, Law, Verdict
from outrider.errors import UsageError

Probabilities: TypeAlias = npt.NDArray[Any]  # [V], float32 or float64, or fractions in proofs

_LANES = 64


class Target(Protocol):
    """The target below one known text; node -1 is the last known token."""

    def token(self, node: int) -> int:
        """A token drawn from p after a node: the very one that plain decoding takes."""
        ...

    def law(self, node: int) -> Probabilities:
        """p [V] after a node."""
        ...


class Chance(Protocol):
    """Where a rule gets its luck from; every question is asked once, and the answers are independent."""

    def accept(self, node: int, probability: Any) -> bool:
        """True with this probability; the question is about this node."""
        ...

    def draw(self, node: int, weights: Probabilities) -> int:
        """An id, with probability in proportion to weights [V], for the place after this node."""
        ...


Judge: TypeAlias = Callable[[Draft, Target, Chance], Verdict]


@dataclass(frozen=True, slots=True)
class Rule:
    """A judge with what it is proved for. All rules are lossless: the output has the target's law."""

    name: str
    judge: Judge
    laws: frozenset[Law]
    trees: bool  # whether drafts may branch
    uses_p: bool  # asks for p, not only for tokens
    uses_q: bool  # so a sampled draft has to bring its q

    def admit(self, draft: Draft) -> None:
        """Raise UsageError for a draft that the rule is not proved for; its judge asks this first."""
        if draft.law not in self.laws:
            known = ", ".join(sorted(law.value for law in self.laws))
            raise UsageError(f"rule {self.name} is not proved for drafts of law {draft.law.value}, only for: {known}")
        if not self.trees and not tree.is_chain(draft):
            raise UsageError(f"rule {self.name} judges chains, and this draft of law {draft.law.value} branches")
        if self.uses_q and draft.law is not Law.POINT and (draft.q is None or len(draft.q) != len(draft)):
            count = 0 if draft.q is None else len(draft.q)
            raise UsageError(
                f"rule {self.name} needs the q of every node of a draft of law {draft.law.value}: "
                f"{len(draft)} nodes have {count}"
            )

    def check(self, draft: Draft, vocab: int) -> None:
        """admit, and raise UsageError for a q that is used and is no array of V finite numbers, all at least 0."""
        self.admit(draft)
        if not self.uses_q or draft.law is Law.POINT:
            return
        for node, q in enumerate(draft.q or ()):
            if not isinstance(q, np.ndarray) or q.shape != (vocab,):
                what = q.shape if isinstance(q, np.ndarray) else type(q).__name__
                raise UsageError(f"q of draft node {node} is {what}; rule {self.name} needs an array of {vocab}")
            # Not `< 0 or inf`: NaN fails every comparison.
            if not (q.min() >= 0 and q.max() < np.inf):
                raise UsageError(
                    f"q of draft node {node} lies in {q.min()}..{q.max()}; probabilities are finite and at least 0"
                )


def coupled(draft: Draft, target: Target, chance: Chance) -> Verdict:
    """Follow the child that equals the target's token; stop where there is none.

    target.token(node) is a deterministic function of p and the position's noise, the one that plain decoding uses too.
    So the output is what plain decoding gives, whatever the draft: every law is proved. Only nodes on the path are
    asked for, each once.
    """
    path: list[int] = []
    node, token = -1, target.token(-1)
    # Children come after their parent, so one sweep finds the whole path.
    for child, parent in enumerate(draft.parents):
        if parent == node and draft.tokens[child] == token:
            path.append(child)
            node, token = child, target.token(child)
    return Verdict(tuple(path), token)


def rejection(draft: Draft, target: Target, chance: Chance) -> Verdict:
    """Speculative sampling (Leviathan et al. 2211.17192), in a tree with recursive rejection among siblings.

    A child x is kept with probability min(1, p(x) / q(x)); after a rejection p becomes norm((p - q)+), and the next
    sibling is tried with what its own q then is (SpecInfer 2305.09781 for IID, RSD 2402.14160 for DISTINCT). When none
    is left, the token is drawn from what p has become.
    """
    REJECTION.admit(draft)
    below = tree.children(draft)
    path: list[int] = []
    node = -1
    while node in below:
        p = _exact(target.law(node))
        for child, q in _drawn(draft, below[node], p):
            token = draft.tokens[child]
            if chance.accept(child, _odds(p[token], q[token])):
                path.append(child)
                node = child
                break
            _, p = _left(1, p, q)
        else:
            return Verdict(tuple(path), chance.draw(node, p))
    return Verdict(tuple(path), target.token(node))


def block(draft: Draft, target: Target, chance: Chance) -> Verdict:
    """Block verification of a chain (Sun et al. 2403.10444): the longest of all prefixes that passes its own trial.

    share is P_i = min(P_{i-1} p(x_i) / q(x_i), 1). The prefix of i tokens passes with h_i = Z_i / (Z_i + 1 - P_i),
    where Z_i = sum (P_i p - q)+ after it, the whole chain with P; after i tokens the next is drawn from (P_i p - q)+.
    """
    BLOCK.admit(draft)
    share: Any = 1
    odds, rests = [], []  # of the prefix that ends above each node
    for node, token in enumerate(draft.tokens):
        p = _exact(target.law(node - 1))
        ((_, q),) = _drawn(draft, (node,), p)
        total, rest = _left(share, p, q)
        odds.append(_pass(total, share))
        rests.append(rest)
        share = _odds(share * p[token], q[token])
        if not share:
            break
    odds.append(share)
    for end in range(len(odds) - 1, 0, -1):
        if chance.accept(end - 1, odds[end]):
            token = chance.draw(end - 1, rests[end]) if end < len(draft) else target.token(end - 1)
            return Verdict(tuple(range(end)), token)
    return Verdict((), chance.draw(-1, rests[0]) if rests else target.token(-1))


def traversal(draft: Draft, target: Target, chance: Chance) -> Verdict:
    """Traversal verification of a tree (Weng et al. 2505.12398), leaves first; on a chain it is block.

    Goes down to the first leaf and keeps its path with probability P. A rejected node is taken out: above it the laws
    become those of what is left, and P becomes Z / (Z + 1 - P). A node without children left is a leaf itself. The
    root's P stays 1, so that it is kept when nothing else is.
    """
    TRAVERSAL.admit(draft)
    below = tree.children(draft)
    places = [_Place(draft, target, -1, below.get(-1, ()), 1)]
    while True:
        place = places[-1]
        child, share = place.descend()
        if child is not None:
            # Below an impossible node nothing can be kept, and p need not even exist.
            places.append(_Place(draft, target, child, below.get(child, ()) if share else (), share))
        elif place.node < 0 or chance.accept(place.node, place.share):
            token = target.token(place.node) if place.p is None else chance.draw(place.node, place.p)
            return Verdict(tree.path(draft, place.node), token)
        else:
            places.pop()
            places[-1].reject()


class _Place:
    """A node on the way down to the leaf that is on trial, with what is left of p and of its children."""

    __slots__ = ("_draft", "_q", "_siblings", "node", "p", "share")

    def __init__(self, draft: Draft, target: Target, node: int, children: Sequence[int], share: Any) -> None:
        self.node = node
        self.share = share
        self.p: Any = _exact(target.law(node)) if children else None  # None: a leaf of the draft
        self._draft = draft
        self._q: Any = None  # of the child that was descended to last
        self._siblings = iter(()) if self.p is None else _drawn(draft, children, self.p)

    def descend(self) -> tuple[int | None, Any]:
        """The next child with its share; (None, None) where none is left."""
        child, self._q = next(self._siblings, (None, None))
        if child is None:
            return None, None
        token = self._draft.tokens[child]
        return child, _odds(self.share * self.p[token], self._q[token])

    def reject(self) -> None:
        """Take out the child that was descended to last."""
        total, self.p = _left(self.share, self.p, self._q)
        self.share = _pass(total, self.share)


def _drawn(draft: Draft, siblings: Sequence[int], p: Probabilities) -> Iterator[tuple[int, Probabilities]]:
    """Each of these siblings, with the law [V] that it was drawn from given those before it; p tells the type."""
    gone: list[int] = []
    for child in siblings:
        if draft.law is Law.POINT or draft.q is None:
            q = np.zeros_like(p)
            q[draft.tokens[child]] = 1
        else:
            q = draft.q[child]
            if draft.law is Law.DISTINCT and gone:
                q = q.copy()
                q[gone] = 0
        yield child, _exact(q)
        gone.append(draft.tokens[child])


def _left(share: Any, p: Probabilities, q: Probabilities) -> tuple[Any, Probabilities]:
    """Z = sum (share p - q)+, and the law in proportion to (share p - q)+ [V]; p itself where Z is 0.

    Only rounding comes there: in exact arithmetic nothing is rejected when p is q.
    """
    weights = share * p
    weights -= q
    np.maximum(weights, 0, out=weights)
    total = _total(weights)
    if not total:
        return total, p
    weights /= total
    return total, weights


def _odds(p: Any, q: Any) -> Any:
    """min(p / q, 1). A token that q rules out was not drawn from it, so it is not kept."""
    if not q:
        return 0
    return 1 if p >= q else p / q


def _pass(total: Any, share: Any) -> Any:
    """Z / (Z + 1 - P), and 1 for 0 / 0: there p is q, and what follows is kept for certain."""
    whole = total + (1 - share)
    return total / whole if whole else 1


def _exact(law: Probabilities) -> Probabilities:
    """The law [V] in float64 (fractions stay), summing to 1; all zeros stay."""
    own = law.astype(law.dtype if law.dtype == object else np.float64)
    total = _total(own)
    if total not in (0, 1):
        own /= total
    return own


def _total(weights: Probabilities) -> Any:
    """Their sum: in lanes, then lane after lane, then the rest. numpy's own order of a sum is not promised."""
    lanes = np.add.reduce(weights[: len(weights) // _LANES * _LANES].reshape(-1, _LANES), axis=0)
    # A loop, because Python's own sum of floats rounds otherwise from 3.12 on.
    total: Any = 0
    for value in (*lanes.tolist(), *weights[len(weights) // _LANES * _LANES :].tolist()):
        total += value
    return total


_ALL = frozenset(Law)
COUPLED = Rule("coupled", coupled, _ALL, trees=True, uses_p=False, uses_q=False)
REJECTION = Rule("rejection", rejection, _ALL, trees=True, uses_p=True, uses_q=True)
BLOCK = Rule("block", block, _ALL, trees=False, uses_p=True, uses_q=True)
TRAVERSAL = Rule("traversal", traversal, _ALL, trees=True, uses_p=True, uses_q=True)
RULES = {rule.name: rule for rule in (COUPLED, REJECTION, BLOCK, TRAVERSAL)}


def find(name: str) -> Rule:
    """The rule of this name. Raises UsageError, with the names there are."""
    rule = RULES.get(name) if isinstance(name, str) else None
    if rule is None:
        raise UsageError(f"rule is {name!r}; it must be one of: {', '.join(RULES)}")
    return rule


def rule_for(rule: Rule, sampling: Sampling) -> Rule:
    """At temperature 0 p is a point, of which every rule keeps exactly what equals it: coupled does so without p."""
    return COUPLED if sampling.temperature == 0.0 else rule
