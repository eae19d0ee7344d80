"""A head in step with its sequences: whatever happened before, it drafts as for a fresh prefill, and keeps nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tests.native import heads, models
from tests.native.conftest import Maker

from outrider.backends.base import GREEDY, Chain, Extend, HeadChain
from outrider.backends.native import NativeBackend
from outrider.backends.native.head import NativeHead
from outrider.errors import BackendError, UsageError
from outrider.models.headfile import HeadFile
from outrider.models.spec import ModelFile

Make = Callable[[ModelFile], HeadFile]
BOTH = pytest.mark.parametrize("make", [heads.eagle, heads.medusa])


class Story:
    """Some sequences and what they should hold."""

    def __init__(self, backend: NativeBackend, head: NativeHead, seed: int) -> None:
        self.backend, self.head = backend, head
        self.chance = random.Random(seed)
        self.tokens: dict[int, list[int]] = {}

    def ids(self, count: int) -> list[int]:
        # few different ids, so that a token guessed wrong is sometimes right
        return [self.chance.randrange(4) for _ in range(count)]

    def open(self) -> None:
        seq = self.backend.open()
        assert self.head.begin(seq)
        self.tokens[seq] = []

    def read(self, seq: int) -> None:
        new = self.ids(self.chance.choice([1, 2, 17, 63, 64, 65, 100]))
        heads.feed(self.backend, seq, new, [self.chance.choice([1, 16, 50, 100])])
        self.tokens[seq] += new

    def branch(self, seq: int) -> None:
        """A tree of which some path, or nothing, is committed."""
        count = self.chance.randrange(1, 9)
        parents = [self.chance.randrange(-1, node) if node else -1 for node in range(count)]
        new = self.ids(count)
        self.backend.extend([Extend(seq, new, parents, [1] * count)])
        node, path = self.chance.randrange(-1, count), list[int]()
        while node >= 0:
            path.insert(0, node)
            node = parents[node]
        self.backend.commit([(seq, path)])
        self.tokens[seq] += [new[node] for node in path]

    def draft(self, seq: int) -> None:
        if self.tokens[seq]:
            (drawn,) = self.head.draft([heads.ask(seq, [*self.tokens[seq], *self.ids(1)], self.chance.randrange(1, 6))])
            assert drawn.tokens

    def fork(self, seq: int) -> None:
        self.tokens[self.backend.fork(seq)] = list(self.tokens[seq])

    def truncate(self, seq: int) -> None:
        length = self.chance.randrange(len(self.tokens[seq]) + 1)
        self.backend.truncate(seq, length)
        del self.tokens[seq][length:]

    def close(self, seq: int) -> None:
        self.backend.close(seq)
        del self.tokens[seq]

    def chain(self, seq: int) -> None:
        """The backend's own chains commit as well."""
        new = self.ids(2)
        (drawn,) = self.backend.chain([Chain(seq, new, 3, GREEDY, len(self.tokens[seq]) + 2)])
        self.tokens[seq] += [*new, *drawn.tokens[:-1]]

    def play(self, steps: int) -> None:
        verbs = [self.read, self.branch, self.branch, self.draft, self.draft, self.fork, self.truncate, self.chain]
        self.open()
        for _ in range(steps):
            seq = self.chance.choice(list(self.tokens))
            if len(self.tokens[seq]) > 300:
                self.truncate(seq)
            self.chance.choice(verbs)(seq)
            if len(self.tokens) > 4:
                self.close(self.chance.choice(list(self.tokens)))


@BOTH
@pytest.mark.parametrize("seed", range(4))
def test_any_interleaving_is_a_fresh_prefill(model: Maker, make: Make, seed: int) -> None:
    file = model("plain")
    backend = NativeBackend(file, threads=1 + seed % 2)
    head = backend.attach(make(file))
    story = Story(backend, head, seed)
    story.play(60)
    checked = 0
    for seq, tokens in story.tokens.items():
        if not tokens:
            continue
        asked = [*tokens, 3]
        (drawn,) = head.draft([heads.ask(seq, asked)])
        state = head.export_state(seq)
        assert (drawn, state) == heads.fresh(backend, head, asked)
        checked += 1
    assert checked > 1
    for seq in story.tokens:
        backend.close(seq)
    assert head.sequences == backend.open_sequences == 0


def test_a_forks_prompt_may_go_on_with_another_token(model: Maker) -> None:
    """The last position that is left was read with the token behind it, which is gone: it is read again."""
    file = model("plain")
    backend = NativeBackend(file, threads=1)
    head = backend.attach(heads.eagle(file))
    tokens = models.ids(150, file.spec.vocab)
    first = backend.open()
    head.begin(first)
    heads.feed(backend, first, tokens[:-1], [150])
    head.draft([heads.ask(first, tokens)])
    for cut in (1, 40, 64, 65, 128):
        seq = backend.fork(first)
        backend.truncate(seq, cut)
        other = [*tokens[:cut], 5]
        (drawn,) = head.draft([heads.ask(seq, other)])
        assert (drawn, head.export_state(seq)) == heads.fresh(backend, head, other)
        # and the one that it was forked from has not changed
        assert (head.draft([heads.ask(first, tokens)])[0], head.export_state(first)) == heads.fresh(
            backend, head, tokens
        )


@BOTH
@pytest.mark.parametrize("together", [False, True])
def test_forks_that_part_within_a_block_do_not_see_each_other(model: Maker, make: Make, together: bool) -> None:
    """What waits lies in a block that they share and in the next one; read before a draft, or with its first step."""
    file = model("plain")
    backend = NativeBackend(file, threads=1)
    head = backend.attach(make(file))
    stem = models.ids(59, file.spec.vocab)
    first = backend.open()
    head.begin(first)
    heads.feed(backend, first, stem[:-1], [58])
    head.draft([heads.ask(first, stem)])
    texts = {first: [*stem, *models.ids(10, file.spec.vocab, 1)]}
    texts[backend.fork(first)] = [*stem, *models.ids(13, file.spec.vocab, 2)]
    texts[backend.fork(first)] = [*stem[:-1], *models.ids(9, file.spec.vocab, 3)]
    for seq, tokens in texts.items():
        heads.feed(backend, seq, tokens[58:-1], [3])
    asked = [heads.ask(seq, tokens) for seq, tokens in texts.items()]
    found = head.draft(asked) if together else [head.draft([item])[0] for item in asked]
    for (seq, tokens), drawn in zip(texts.items(), found, strict=True):
        assert (drawn, head.export_state(seq)) == heads.fresh(backend, head, tokens)


@BOTH
def test_who_cannot_be_drafted_for_gets_nothing(model: Maker, make: Make) -> None:
    file = model("plain")
    backend = NativeBackend(file, threads=1)
    head = backend.attach(make(file))
    late, empty, ahead, flying = (backend.open() for _ in range(4))
    heads.feed(backend, late, [1, 2, 3], [3])
    assert not head.begin(late)  # its states were not kept
    assert head.begin(empty)
    assert head.begin(ahead)
    heads.feed(backend, ahead, [1, 2], [2])
    backend.extend([Extend(flying, [1, 2], None, [0, 0])])
    assert head.begin(flying)
    backend.commit([(flying, [0, 1])])  # kept before anybody told to follow
    strange = backend.open()
    heads.feed(backend, strange, [1, 2, 3], [3])
    asked = [
        heads.ask(late, [1, 2, 3, 4]),
        heads.ask(empty, [1]),
        heads.ask(ahead, [1, 2, 3, 4]),  # the prompt is not all committed
        heads.ask(flying, [1, 2, 3]),
        heads.ask(strange, [1, 2, 3, 4]),  # nobody told to follow it
    ]
    assert [drawn.tokens for drawn in head.draft(asked)] == [()] * 5
    assert head.draft([heads.ask(ahead, [1, 2, 3])])[0].tokens
    backend.truncate(empty, 0)
    heads.feed(backend, empty, [1], [1])
    assert head.draft([heads.ask(empty, [1, 2])])[0].tokens
    head.end(ahead)
    assert head.draft([heads.ask(ahead, [1, 2, 3])])[0].tokens == ()


def test_two_heads_and_taps_at_once(model: Maker) -> None:
    """Each head gets its own states, and the taps theirs; a head that nobody holds is forgotten."""
    file = model("plain")
    tokens = models.ids(30, file.spec.vocab)
    alone = NativeBackend(file, threads=1)
    expected = [heads.fresh(alone, alone.attach(make(file)), tokens) for make in (heads.eagle, heads.medusa)]
    backend = NativeBackend(file, threads=1)
    both = [backend.attach(heads.eagle(file)), backend.attach(heads.medusa(file))]
    backend.tap([1])
    seq = backend.open()
    for head in both:
        assert head.begin(seq)
    scores = backend.extend([Extend(seq, tokens[:-1], None, [0] * 29)])
    assert scores.states(0).tobytes() == heads.states(file, tokens[:-1], [1]).tobytes()
    backend.commit([(seq, range(29))])
    found = [(head.draft([heads.ask(seq, tokens)])[0], head.export_state(seq)) for head in both]
    assert found == expected
    del both, head
    heads.feed(backend, seq, tokens[-1:], [1])
    backend.close(seq)


def test_a_head_that_comes_between_a_pass_and_its_commit(model: Maker) -> None:
    """What was kept for others may not be all that it needs."""
    file = model("plain")
    backend = NativeBackend(file, threads=1)
    early = backend.attach(heads.medusa(file))
    seq = backend.open()
    assert early.begin(seq)
    backend.extend([Extend(seq, [1, 2], None, [0, 0])])
    late = backend.attach(heads.eagle(file))
    assert late.begin(seq)
    backend.commit([(seq, range(2))])
    assert early.draft([heads.ask(seq, [1, 2, 3])])[0].tokens
    assert late.draft([heads.ask(seq, [1, 2, 3])])[0].tokens == ()


def test_a_draft_does_not_leave_the_context(model: Maker) -> None:
    file = model("mixed")  # 300 positions
    backend = NativeBackend(file, threads=1)
    head = backend.attach(heads.eagle(file))
    tokens = models.ids(297, file.spec.vocab)
    seq = backend.open()
    head.begin(seq)
    heads.feed(backend, seq, tokens[:-1], [100])
    assert len(head.draft([heads.ask(seq, tokens, 5)])[0].tokens) == 5
    with pytest.raises(BackendError, match="position 300 does not fit the context of 300"):
        head.draft([heads.ask(seq, tokens, 6)])
    assert (head.draft([heads.ask(seq, tokens)])[0], head.export_state(seq)) == heads.fresh(backend, head, tokens)


@pytest.mark.parametrize(
    ("item", "match"),
    [
        (HeadChain(0, 320, 1, GREEDY, 3, 1), "token id 320"),
        (HeadChain(0, -1, 1, GREEDY, 3, 1), "token id -1"),
        (HeadChain(0, 1, 0, GREEDY, 3, 1), "steps is 0"),
        (HeadChain(0, 1, 1, GREEDY, 3, 0), "width 0"),
        (HeadChain(0, 1, 1, GREEDY, -3, 1), "incompatible|range|argument"),
    ],
)
def test_malformed_drafts_are_refused(model: Maker, item: HeadChain, match: str) -> None:
    backend = NativeBackend(model("plain"), threads=1)
    head = backend.attach(heads.eagle(model("plain")))
    seq = backend.open()
    head.begin(seq)
    heads.feed(backend, seq, [1, 2], [2])
    with pytest.raises(UsageError, match=match):
        head.draft([replace(item, seq=seq)])
    with pytest.raises(UsageError, match="named twice"):
        head.draft([heads.ask(seq, [1, 2, 3])] * 2)
    with pytest.raises(BackendError, match="is not open"):
        head.draft([heads.ask(99, [1, 2, 3])])
    with pytest.raises(BackendError, match="is not open"):
        head.begin(99)


def test_heads_that_do_not_fit_are_refused(model: Maker) -> None:
    file = model("plain")
    backend = NativeBackend(file, threads=1)
    head = heads.eagle(file)
    medusa = heads.medusa(file)

    def with_ids(last: int) -> HeadFile:
        ids = np.append(head.tensors["ids"][:-1], np.int32(last)).astype(np.int32)
        return HeadFile(head.spec, {**head.tensors, "ids": ids})

    wrong = {
        "trained for tiny .*, and the model is tiny": HeadFile(replace(head.spec, fingerprint="ab" * 32), head.tensors),
        "taps state 3; the model has 0 to 2": HeadFile(replace(head.spec, taps=(0, 1, 3)), head.tensors),
        "hidden size is 96": HeadFile(replace(medusa.spec, hidden=96), medusa.tensors),
        "head size is 32": HeadFile(replace(head.spec, head_dim=32), head.tensors),
        "ascend below 320": with_ids(320),
        "entry 99 of its ids is 0": with_ids(0),
        "tensor fc has another shape": HeadFile(head.spec, {**head.tensors, "fc": head.tensors["head"]}),
    }
    for match, bad in wrong.items():
        with pytest.raises(UsageError, match=match):
            backend.attach(bad)
    other = NativeBackend(file, threads=1).attach(head)
    seq = backend.open()
    stranger = NativeHead(backend._engine, other._head, head.spec, backend.vocab)
    with pytest.raises(UsageError, match="belongs to another engine"):
        stranger.begin(seq)
