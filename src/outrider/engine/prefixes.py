"""Beginnings of texts in the cache, so that nobody computes them again: system prompts, earlier turns of a chat.

A tree over whole blocks of tokens for each scope. A path from the root is a beginning; the backend's sequence that
holds it stands at its leaf. Blocks are shared between those sequences and the running ones, so what is kept costs
memory only where nobody runs on it. It is given up one block at a time, from the ends, the least recently used first.

Dimensions: B tokens of a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush

from outrider.backends.base import Backend

_CLOSED = -1
_MOST_STALE = 64


class Node:
    """One block behind those above it. users: running sequences that stand on it or below."""

    __slots__ = ("children", "depth", "key", "parent", "scope", "seq", "used", "users")

    def __init__(self, scope: str, parent: Node | None, key: tuple[int, ...]) -> None:
        self.scope = scope
        self.parent = parent
        self.key = key  # [B]
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.children: dict[tuple[int, ...], Node] = {}
        self.seq = _CLOSED  # of a leaf: the backend's sequence of depth * B tokens
        self.users = 0
        self.used = 0  # when it was last asked for

    def path(self) -> Iterator[Node]:
        """From this node up, the root not included."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent


class Prefixes:
    """The kept beginnings of all scopes, at first none; a scope never sees another's.

    Time: of every verb O(length / B), of evict also O(log nodes).
    """

    def __init__(self, backend: Backend, block_tokens: int) -> None:
        self._backend = backend
        self._block = block_tokens
        self._roots: dict[str, Node] = {}
        self._clock = 0
        self._leaves: list[tuple[int, int, Node]] = []  # (used, order, node), the oldest first; some are out of date
        self._order = 0
        self.nodes = 0
        self.idle = 0  # nodes without users: blocks that evict can give up

    def find(self, scope: str, tokens: Sequence[int], most: int) -> Node | None:
        """The longest kept beginning of the tokens, of at most `most` tokens; None where there is none."""
        node = self._roots.get(scope)
        if node is None:
            return None
        for start in range(0, most - self._block + 1, self._block):
            below = node.children.get(tuple(tokens[start : start + self._block]))
            if below is None:
                break
            node = below
        return node if node.depth else None

    def fork(self, node: Node) -> int:
        """A new sequence of the backend with a beginning's tokens."""
        leaf = node
        while leaf.children:
            leaf = next(iter(leaf.children.values()))
        seq = self._backend.fork(leaf.seq)
        if leaf is not node:
            self._backend.truncate(seq, node.depth * self._block)
        return seq

    def keep(self, scope: str, tokens: Sequence[int], seq: int) -> Node | None:
        """Keep the whole blocks of a sequence's committed tokens; the last of them, or None where there is none."""
        count = len(tokens) // self._block
        if not count:
            return None
        node = self._roots.setdefault(scope, Node(scope, None, ()))
        held = _CLOSED
        for block in range(count):
            key = tuple(tokens[block * self._block : (block + 1) * self._block])
            below = node.children.get(key)
            if below is None:
                if held == _CLOSED:
                    held = self._backend.fork(seq)
                    self._backend.truncate(held, count * self._block)
                    # The new leaf holds this one's blocks too.
                    self._close(node)
                below = node.children[key] = Node(scope, node, key)
                self.nodes += 1
                self.idle += 1
            node = below
        if held != _CLOSED:
            node.seq = held
        self._touch(node)
        return node

    def hold(self, node: Node) -> None:
        """A running sequence stands on this beginning: nothing of it is evicted until it is released."""
        for above in node.path():
            self.idle -= above.users == 0
            above.users += 1
        self._touch(node)

    def release(self, node: Node) -> None:
        """The sequence stands there no more."""
        for above in node.path():
            above.users -= 1
            self.idle += above.users == 0
        self._wait(node)

    def evict(self) -> bool:
        """Give up the least recently used block that nobody stands on; False where there is none."""
        while self._leaves:
            used, _, node = heappop(self._leaves)
            if self._stale(node, used):
                continue
            self._drop(node)
            return True
        return False

    def held(self, node: Node) -> int:
        """How many blocks of this beginning somebody stands on."""
        return sum(above.users > 0 for above in node.path())

    def clear(self) -> None:
        """Give up all that nobody stands on."""
        while self.evict():
            pass

    def drop(self) -> None:
        """Give up everything; who stands on something stands there by itself."""
        waiting = list(self._roots.values())
        while waiting:
            node = waiting.pop()
            waiting += node.children.values()
            self._close(node)
            node.parent = None
        self._roots, self._leaves = {}, []
        self.nodes = self.idle = 0

    def _drop(self, leaf: Node) -> None:
        parent = leaf.parent
        assert parent is not None
        del parent.children[leaf.key]
        self.nodes -= 1
        self.idle -= 1
        if parent.children or parent.parent is None:
            self._close(leaf)
        else:
            parent.seq, leaf.seq = leaf.seq, _CLOSED
            self._backend.truncate(parent.seq, parent.depth * self._block)
            self._wait(parent)
        leaf.parent = None
        if parent.parent is None and not parent.children:
            del self._roots[parent.scope]

    def _close(self, node: Node) -> None:
        if node.seq != _CLOSED:
            seq, node.seq = node.seq, _CLOSED
            self._backend.close(seq)

    def _touch(self, node: Node) -> None:
        self._clock += 1
        for above in node.path():
            above.used = self._clock
        self._wait(node)

    def _wait(self, node: Node) -> None:
        """A node that could be evicted waits its turn."""
        if self._stale(node, node.used):
            return
        self._order += 1
        heappush(self._leaves, (node.used, self._order, node))
        if len(self._leaves) > 2 * self.nodes + _MOST_STALE:
            self._leaves = [entry for entry in self._leaves if not self._stale(entry[2], entry[0])]
            heapify(self._leaves)

    def _stale(self, node: Node, used: int) -> bool:
        return bool(node.users or node.children or node.parent is None or node.used != used)
