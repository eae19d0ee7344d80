"""The EAGLE-3 style head as torch computes it (2503.01840; the contract of docs/training.md).

Dimensions: B texts, N positions of all texts one after the other, R rows (chains), L longest text, T taps, H hidden,
A query heads, G key heads, d size of a head, F feed-forward, D draft vocabulary.

A chain starts at position j of a text, where the target's states are known and so is the next token. Its step s reads
token j + s + 1 at position j + s and guesses token j + s + 2; it sees true features up to j, then its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from outrider.train.attention import Places, attended
from outrider.train.batch import Batch
from outrider.train.chains import Step, alive


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a head."""

    hidden: int
    taps: int
    heads: int
    kv_heads: int
    head_dim: int
    feed_forward: int
    draft_vocab: int
    eps: float


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The chains of one step, ordered by text and start."""

    text: Tensor  # [R]
    start: Tensor  # [R] the position j in its text
    flat: Tensor  # [R] that position among all N

    def chosen(self, keep: Tensor) -> Rows:
        """Those with these indices."""
        return Rows(self.text[keep], self.start[keep], self.flat[keep])


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """What all steps of a batch share: features, and keys and values over them."""

    fused: Tensor  # [N, H]: g
    keys: Tensor  # [B, G, L, d]
    values: Tensor  # [B, G, L, d]


@dataclass(frozen=True, slots=True, eq=False)
class Own:
    """Keys and values of a chain's own steps so far."""

    keys: Tensor  # [R, s, G, d]
    values: Tensor  # [R, s, G, d]

    def chosen(self, keep: Tensor) -> Own:
        """Those of the rows with these indices."""
        return Own(self.keys[keep], self.values[keep])


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """float32 in, float32 out [n, H]."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


class EagleHead(nn.Module):
    """Parameters are named and shaped as in the file. `half`: the type that products are computed in."""

    def __init__(self, shape: Shape, embedding: Tensor, frequencies: Tensor, half: torch.dtype) -> None:
        super().__init__()
        self.shape, self.half = shape, half
        self.head: nn.Parameter
        self.register_buffer("embedding", embedding, persistent=False)  # [V, H], normalised, the target's own
        query, key = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        hidden, forward = shape.hidden, shape.feed_forward
        self.register_buffer("frequencies", frequencies, persistent=False)
        for name, size in {
            "tap_norm": shape.taps * hidden,
            "embed_norm": hidden,
            "state_norm": hidden,
            "ffn_norm": hidden,
            "out_norm": hidden,
        }.items():
            self.register_parameter(name, nn.Parameter(torch.ones(size)))
        for name, rows, columns in (
            ("fc", hidden, shape.taps * hidden),
            ("q_proj", query, 2 * hidden),
            ("k_proj", key, 2 * hidden),
            ("v_proj", key, 2 * hidden),
            ("o_proj", hidden, query),
            ("gate", forward, hidden),
            ("up", forward, hidden),
            ("down", hidden, forward),
            ("head", shape.draft_vocab, hidden),
        ):
            self.register_parameter(name, nn.Parameter(torch.zeros(rows, columns)))

    def initialise(self, output_rows: Tensor, output_norm: Tensor, generator: torch.Generator) -> None:
        """Start as the last tap, read by the target's own output; attention and feed-forward add nothing yet."""
        hidden = self.shape.hidden
        with torch.no_grad():
            self.head.copy_(output_rows)
            # Flat: a quarter of the target's logits. As sure as the target it would start at a loss of 12, for it
            # guesses the token that is known already.
            self.out_norm.copy_(output_norm * 0.25)
            self.fc.normal_(0, 0.2 * self.fc.shape[1] ** -0.5, generator=generator)
            self.fc[:, -hidden:] += torch.eye(hidden)
            for name in ("q_proj", "k_proj", "v_proj", "gate", "up"):
                matrix = self.get_parameter(name)
                matrix.normal_(0, matrix.shape[1] ** -0.5, generator=generator)

    def walk(self, batch: Batch) -> EagleWalk:
        """The chains of a batch; see chains."""
        return EagleWalk(self, batch)


class EagleWalk:
    """The chains of a batch; see chains.Walk. Matrices are cast once, and not in each step."""

    def __init__(self, head: EagleHead, batch: Batch) -> None:
        self._head, self._half, self._batch = head, head.half, batch
        matrices = {name: p for name, p in head.named_parameters() if p.ndim == 2 and name != "head"}
        self._weights = {name: matrix.to(head.half) for name, matrix in matrices.items()}
        self._right: Tensor | None = None

    def went_on(self, right: Tensor) -> None:
        """Which chains [R] of the step go on."""
        self._right = right.nonzero()[:, 0]

    def steps(self, depth: int) -> Iterator[Step]:
        """At most `depth` steps, fewer where no chain is left."""
        batch = self._batch
        known, first = self.read()
        chains = torch.arange(len(batch.chain_text), device=first.device)
        rows = Rows(batch.chain_text, batch.chain_start, batch.chain_flat)
        a = known.fused[rows.flat]
        own: Own | None = None
        for step in range(depth):
            reached, keep = alive(batch, chains, step)
            if not len(keep):  # reached, but the draft vocabulary lacks what comes
                yield Step(reached, self.output(a[keep]), batch.goal(chains[keep], step), chains[keep])
                return
            chains, rows, a = chains[keep], rows.chosen(keep), a[keep]
            z = first[rows.flat] if step == 0 else self.inputs(batch.following[rows.flat + step], a)
            if step:
                own = grown(own and own.chosen(keep), *self.keys_values(z, rows.start + step))
            a = self.step(known, rows, z, a, own)
            yield Step(reached, self.output(a), batch.goal(chains, step), chains)
            if self._right is None:
                return
            chains, rows, a = chains[self._right], rows.chosen(self._right), a[self._right]
            own = own and own.chosen(self._right)

    def product(self, x: Tensor, name: str) -> Tensor:
        """x times a matrix, in `half`."""
        return functional.linear(x.to(self._half), self._weights[name])

    def fuse(self, states: Tensor) -> Tensor:
        """g [N, H] of normalised states [N, T * H]."""
        return self.product(states.to(self._half) * self._head.tap_norm.to(self._half), "fc").float()

    def inputs(self, tokens: Tensor, state: Tensor) -> Tensor:
        """z [n, 2H] of the tokens that follow [n] and states [n, H]."""
        eps = self._head.shape.eps
        parts = [
            self._head.embedding[tokens].float() * self._head.embed_norm,
            rms_norm(state, self._head.state_norm, eps),
        ]
        return torch.cat(parts, -1).to(self._half)

    def rotated(self, x: Tensor, position: Tensor) -> Tensor:
        """Rotary positions on neighbouring pairs of x [n, heads, d]."""
        angle = position[:, None].float() * self._head.frequencies  # [n, d / 2]
        cos, sin = angle.cos()[:, None], angle.sin()[:, None]
        even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2).to(self._half)

    def keys_values(self, z: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values [n, G, d] of inputs."""
        heads = (self._head.shape.kv_heads, self._head.shape.head_dim)
        keys = self.rotated(self.product(z, "k_proj").unflatten(-1, heads), position)
        return keys, self.product(z, "v_proj").unflatten(-1, heads)

    def read(self) -> tuple[Known, Tensor]:
        """What all steps share, and z [N, 2H] of every position, which is the first step's input."""
        batch = self._batch
        fused = self.fuse(batch.states)
        z = self.inputs(batch.following, fused)
        keys, values = self.keys_values(z, batch.position)
        longest = int(batch.position.max()) + 1
        place = batch.text * longest + batch.position
        heads = (self._head.shape.kv_heads, self._head.shape.head_dim)

        def padded(x: Tensor) -> Tensor:
            room = x.new_zeros(batch.texts * longest, *heads).index_copy(0, place, x)
            return room.view(batch.texts, longest, *heads).transpose(1, 2)

        return Known(fused, padded(keys), padded(values)), z

    def step(self, known: Known, rows: Rows, z: Tensor, state: Tensor, own: Own | None) -> Tensor:
        """a [R, H] of one step: its input z [R, 2H], its state g [R, H], and the chain's own keys, this step's too."""
        shape = self._head.shape
        steps = 0 if own is None else own.keys.shape[1]
        query = self.product(z, "q_proj").unflatten(-1, (shape.heads, shape.head_dim))
        query = self.rotated(query, rows.start + steps)
        h = state + self.product(self.attend(known, rows, query, own), "o_proj").float()
        n = rms_norm(h, self._head.ffn_norm, shape.eps).to(self._half)
        return h + self.product(functional.silu(self.product(n, "gate")) * self.product(n, "up"), "down").float()

    def attend(self, known: Known, rows: Rows, query: Tensor, own: Own | None) -> Tensor:
        """Attention [R, A * d] over the true features up to each row's start, and over its own steps."""
        places = Places(torch.bincount(rows.text, minlength=len(known.keys)).tolist(), rows.start)
        if own is None:
            none = query.new_empty(len(query), 0, *known.keys.shape[1::2])
            own = Own(none, none)
        return attended(query, known.keys, known.values, own.keys, own.values, places).flatten(1)

    def output(self, a: Tensor) -> Tensor:
        """What the matrix `head` reads [R, H], in `half`."""
        return rms_norm(a, self._head.out_norm, self._head.shape.eps).to(self._half)


def grown(own: Own | None, keys: Tensor, values: Tensor) -> Own:
    """A chain's own keys and values with those of another step [R, G, d]."""
    if own is None:
        return Own(keys[:, None], values[:, None])
    return Own(torch.cat([own.keys, keys[:, None]], 1), torch.cat([own.values, values[:, None]], 1))
