"""Any interleaving of verbs over many sequences: each is what a fresh prefill of its tokens gives."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule
from tests.native import models
from tests.native.test_trees import Whole, drafts

from outrider.backends.base import Draw, Extend, Want
from outrider.backends.native import NativeBackend, NativeScores
from outrider.core import sampling, tree
from outrider.core.types import Draft, FloatArray

VOCAB = 277
LONG = st.sampled_from([1, 2, 5, 16, 17, 30, 60, 64, 65, 100])


@dataclass(slots=True)
class Known:
    """What a sequence should be."""

    tokens: list[int] = field(default_factory=list)
    pending: Draft | None = None


@dataclass(slots=True)
class Held:
    """Logits that somebody still looks at, and what they were."""

    view: FloatArray
    content: bytes
    scores: NativeScores
    place: tuple[int, int]
    token: int


class Sequences(RuleBasedStateMachine):
    seqs = Bundle("seqs")
    backend: ClassVar[NativeBackend]
    whole: ClassVar[Whole]

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[int, Known] = {}
        self.held: list[Held] = []

    @rule(target=seqs)
    def open(self) -> int:
        seq = self.backend.open()
        assert seq not in self.known
        self.known[seq] = Known()
        return seq

    @rule(target=seqs, seq=seqs)
    def fork(self, seq: int) -> int:
        forked = self.backend.fork(seq)
        assert forked not in self.known
        self.known[forked] = Known([*self.known[seq].tokens])
        return forked

    @rule(seq=seqs, part=st.floats(0, 1))
    def truncate(self, seq: int, part: float) -> None:
        known = self.known[seq]
        length = round(part * len(known.tokens))
        self.backend.truncate(seq, length)
        known.tokens, known.pending = known.tokens[:length], None

    @rule(seq=consumes(seqs))
    def close(self, seq: int) -> None:
        self.backend.close(seq)
        del self.known[seq]

    @rule(seq=seqs, count=LONG, seed=st.integers(0, 9))
    def read(self, seq: int, count: int, seed: int) -> None:
        """A prompt's chunk, committed at once."""
        known = self.known[seq]
        tokens = models.ids(count, VOCAB, seed)[: 400 - len(known.tokens)]
        if not tokens:
            return
        rows = models.read(self.backend, seq, tokens)
        self.backend.commit([(seq, range(len(tokens)))])
        before = len(known.tokens)
        known.tokens, known.pending = [*known.tokens, *tokens], None
        assert rows == self.whole(known.tokens)[0][before:]

    @rule(batch=st.lists(st.tuples(seqs, drafts(12, VOCAB)), min_size=1, max_size=4), seed=st.integers(0, 3))
    def extend(self, batch: list[tuple[int, Draft]], seed: int) -> None:
        """Trees below several sequences in one pass; one node of each is looked at."""
        items = {seq: draft for seq, draft in batch if len(self.known[seq].tokens) <= 400}
        if not items:
            return
        draw = Draw(0.0 if seed == 0 else 1.5, seed)
        scores = self.backend.extend(
            [Extend(seq, d.tokens, d.parents, [Want.LOGITS] * len(d), draw) for seq, d in items.items()]
        )
        for item, (seq, draft) in enumerate(items.items()):
            known = self.known[seq]
            known.pending = draft
            node = len(draft) - 1
            chain = known.tokens + self.ids_on(draft, tree.path(draft, node))
            view = scores.logits(item, node)
            assert view.tobytes() == self.whole(chain)[0][-1]
            expected = sampling.token(view, draw, len(chain))
            self.held.append(Held(view, view.tobytes(), scores, (item, node), expected))

    @rule(batch=st.lists(st.tuples(seqs, st.integers(-1, 11)), min_size=1, max_size=4, unique_by=lambda pair: pair[0]))
    def commit(self, batch: list[tuple[int, int]]) -> None:
        paths: list[tuple[int, Sequence[int]]] = []
        for seq, node in batch:
            known = self.known[seq]
            draft = known.pending or Draft((), ())
            path = tree.path(draft, min(node, len(draft) - 1))
            paths.append((seq, path))
            known.tokens, known.pending = known.tokens + self.ids_on(draft, path), None
        self.backend.commit(paths)

    @rule(seq=seqs)
    def look_at_the_cache(self, seq: int) -> None:
        assert self.backend.export_cache(seq) == self.whole(self.known[seq].tokens)[1]

    @rule()
    def let_go(self) -> None:
        for held in self.held[::2]:
            assert held.scores.token(*held.place) == held.token
        del self.held[::2]

    @invariant()
    def lengths_are_right(self) -> None:
        assert {seq: self.backend.length(seq) for seq in self.known} == {
            seq: len(known.tokens) for seq, known in self.known.items()
        }

    @invariant()
    def held_logits_stay(self) -> None:
        for held in self.held:
            assert held.view.tobytes() == held.content

    def teardown(self) -> None:
        for seq, known in self.known.items():
            assert self.backend.export_cache(seq) == self.whole(known.tokens)[1]
            self.backend.close(seq)
        assert self.backend.open_sequences == 0

    @staticmethod
    def ids_on(draft: Draft, path: Sequence[int]) -> list[int]:
        return [draft.tokens[node] for node in path]


def test_any_interleaving() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = models.make("thirds", Path(folder))
        assert file.spec.vocab == VOCAB
        Sequences.backend = NativeBackend(file, threads=2)
        Sequences.whole = Whole(NativeBackend(file, threads=1))
        machine = Sequences.TestCase
        machine.settings = settings(deadline=None, max_examples=40, stateful_step_count=40)
        try:
            machine("runTest").runTest()
        finally:
            del Sequences.backend, Sequences.whole
