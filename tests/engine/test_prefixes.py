"""Kept beginnings: the longest is found, scopes are apart, the least recently used block goes first, nothing leaks."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from outrider.backends.base import Extend, Want
from outrider.engine.prefixes import Node, Prefixes
from outrider.testing.table import RandomLaw, TableBackend

B = 4


def made() -> tuple[TableBackend, Prefixes]:
    backend = TableBackend(RandomLaw(8, 1, 1), 8, 64, block_tokens=B)
    return backend, Prefixes(backend, B)


def read(backend: TableBackend, tokens: Sequence[int]) -> int:
    seq = backend.open()
    if tokens:
        backend.extend([Extend(seq, tokens, None, [Want.NONE] * len(tokens))])
        backend.commit([(seq, range(len(tokens)))])
    return seq


def keep(backend: TableBackend, prefixes: Prefixes, tokens: Sequence[int], scope: str = "") -> Node | None:
    """Keep what a sequence read, and close the sequence."""
    seq = read(backend, tokens)
    node = prefixes.keep(scope, tokens, seq)
    backend.close(seq)
    return node


def found(prefixes: Prefixes, tokens: Sequence[int], scope: str = "", most: int | None = None) -> int:
    """Tokens of the longest kept beginning."""
    node = prefixes.find(scope, tokens, len(tokens) if most is None else most)
    return 0 if node is None else node.depth * B


LONG = tuple(index % 7 for index in range(14))  # three blocks and a half


def test_the_longest_beginning_of_whole_blocks_is_found_and_forked() -> None:
    backend, prefixes = made()
    keep(backend, prefixes, LONG)
    assert backend.blocks_used == prefixes.nodes == prefixes.idle == 3
    assert found(prefixes, LONG) == 12
    assert found(prefixes, LONG, most=11) == 8
    assert found(prefixes, (*LONG[:9], 7, 7, 7, 7)) == 8
    assert found(prefixes, LONG[:3]) == found(prefixes, (7, *LONG)) == 0
    node = prefixes.find("", LONG, 11)
    assert node is not None
    assert backend.cached(prefixes.fork(node)) == LONG[:8]
    assert backend.blocks_used == 3, "a fork copied what it shares"


def test_what_is_shorter_than_a_block_is_not_kept() -> None:
    backend, prefixes = made()
    assert keep(backend, prefixes, LONG[:3]) is None
    assert backend.sequences == backend.blocks_used == prefixes.nodes == 0


def test_scopes_are_apart() -> None:
    backend, prefixes = made()
    keep(backend, prefixes, LONG, "ann")
    assert found(prefixes, LONG, "bob") == found(prefixes, LONG) == 0
    keep(backend, prefixes, LONG[:8], "bob")
    assert found(prefixes, LONG, "ann") == 12
    assert found(prefixes, LONG, "bob") == 8
    assert backend.blocks_used == 5, "scopes shared a block"


def test_one_sequence_is_kept_for_each_leaf() -> None:
    backend, prefixes = made()
    keep(backend, prefixes, LONG[:4])
    keep(backend, prefixes, LONG[:12])
    assert backend.sequences == 1
    keep(backend, prefixes, (*LONG[:4], 7, 7, 7, 7))
    keep(backend, prefixes, LONG[:8])
    assert backend.sequences == 2
    # The first block was computed again for the second leaf; kept blocks are never more than nodes and those.
    assert prefixes.nodes == 4


def test_the_least_recently_used_block_goes_first_from_the_end() -> None:
    backend, prefixes = made()
    keep(backend, prefixes, LONG[:8])
    keep(backend, prefixes, (7,) * 8)
    assert prefixes.evict()
    assert (found(prefixes, LONG), found(prefixes, (7,) * 8)) == (4, 8)
    node = prefixes.find("", LONG, 8)
    assert node is not None
    prefixes.hold(node)
    prefixes.release(node)
    assert prefixes.evict()
    assert (found(prefixes, LONG), found(prefixes, (7,) * 8)) == (4, 4)
    assert prefixes.evict()
    assert (found(prefixes, LONG), found(prefixes, (7,) * 8)) == (4, 0)
    assert prefixes.evict()
    assert not prefixes.evict()
    assert backend.sequences == backend.blocks_used == prefixes.nodes == prefixes.idle == 0


def test_nothing_that_somebody_stands_on_is_evicted() -> None:
    backend, prefixes = made()
    keep(backend, prefixes, LONG)
    node = prefixes.find("", LONG, 8)
    assert node is not None
    prefixes.hold(node)
    assert (prefixes.idle, prefixes.held(node)) == (1, 2)
    assert prefixes.evict()
    assert not prefixes.evict()
    assert found(prefixes, LONG) == 8
    prefixes.release(node)
    prefixes.clear()
    assert backend.sequences == prefixes.nodes == 0


def test_everything_can_be_dropped_though_somebody_stands_there() -> None:
    backend, prefixes = made()
    keep(backend, prefixes, LONG)
    node = prefixes.find("", LONG, 12)
    assert node is not None
    prefixes.hold(node)
    seq = prefixes.fork(node)
    prefixes.drop()
    assert (backend.sequences, prefixes.nodes, prefixes.idle) == (1, 0, 0)
    prefixes.release(node)
    assert backend.cached(seq) == LONG[:12]
    assert (found(prefixes, LONG), prefixes.idle, prefixes.evict()) == (0, 0, False)
    keep(backend, prefixes, LONG)
    assert (found(prefixes, LONG), prefixes.nodes, prefixes.idle) == (12, 3, 3)


TEXTS = st.lists(st.sampled_from([1, 2]), max_size=4).map(lambda parts: [part for part in parts for _ in range(B)])
SCOPES = st.sampled_from(["", "ann"])


class Keeping(RuleBasedStateMachine):
    """Against a plain set of kept beginnings."""

    def __init__(self) -> None:
        super().__init__()
        self.backend, self.prefixes = made()
        self.kept: set[tuple[str, tuple[int, ...]]] = set()
        self.standing: list[tuple[Node, int]] = []

    @rule(scope=SCOPES, text=TEXTS, more=st.integers(0, B - 1))
    def keep(self, scope: str, text: list[int], more: int) -> None:
        keep(self.backend, self.prefixes, [*text, *[3] * more], scope)
        self.kept |= {(scope, tuple(text[:end])) for end in range(B, len(text) + 1, B)}

    @rule(scope=SCOPES, text=TEXTS)
    def stand(self, scope: str, text: list[int]) -> None:
        node = self.prefixes.find(scope, text, len(text))
        longest = max((len(kept) for s, kept in self.kept if s == scope and text[: len(kept)] == [*kept]), default=0)
        assert (0 if node is None else node.depth * B) == longest
        if node is not None:
            self.prefixes.hold(node)
            seq = self.prefixes.fork(node)
            assert list(self.backend.cached(seq)) == text[:longest]
            self.standing.append((node, seq))

    @precondition(lambda self: self.standing)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        node, seq = self.standing.pop(data.draw(st.integers(0, len(self.standing) - 1)))
        self.prefixes.release(node)
        self.backend.close(seq)

    @rule()
    def evict(self) -> None:
        before, blocks = self.prefixes.idle, self.backend.blocks_used
        evicted = self.prefixes.evict()
        assert evicted == (before > 0)
        gone = {entry for entry in self.kept if found(self.prefixes, entry[1], entry[0]) < len(entry[1])}
        assert len(gone) == evicted
        assert self.backend.blocks_used <= blocks
        self.kept -= gone

    @invariant()
    def nothing_leaks(self) -> None:
        assert self.prefixes.nodes == len(self.kept)
        leaves = [
            entry
            for entry in self.kept
            if not any(
                s == entry[0] and len(k) > len(entry[1]) and k[: len(entry[1])] == entry[1] for s, k in self.kept
            )
        ]
        assert self.backend.sequences == len(leaves) + len(self.standing)
        assert len(self.prefixes._leaves) <= 2 * self.prefixes.nodes + 65

    def teardown(self) -> None:
        for node, seq in self.standing:
            self.prefixes.release(node)
            self.backend.close(seq)
        self.prefixes.clear()
        assert self.backend.sequences == self.backend.blocks_used == self.prefixes.nodes == self.prefixes.idle == 0


Keeping.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestKeeping = Keeping.TestCase
