"""What was measured of a model, a machine and a drafter. Times are seconds, contexts tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PassCost:
    """The median time of a pass of `rows` rows, spread over `sequences` that each have `context` committed tokens."""

    rows: int
    sequences: int
    context: int
    seconds: float
    rounds: int  # how many times it was measured


@dataclass(frozen=True, slots=True)
class PhaseCost:
    """Where the time of a pass of one sequence goes; together the four are the pass as its caller sees it."""

    rows: int
    context: int
    linear_s: float
    attention_s: float
    head_s: float
    other_s: float

    @property
    def seconds(self) -> float:
        """All of the pass."""
        return self.linear_s + self.attention_s + self.head_s + self.other_s


@dataclass(frozen=True, slots=True)
class DraftCost:
    """What a drafter costs a step: proposal_s for being asked and told, and node_s for each node that it drafts."""

    proposal_s: float
    node_s: float

    def seconds(self, nodes: float) -> float:
        """The cost of a step that drafts so many nodes."""
        return self.proposal_s + self.node_s * nodes


@dataclass(frozen=True, slots=True)
class Profile:
    """What passes and drafters cost on one machine; phases is empty where the backend does not tell."""

    passes: tuple[PassCost, ...]
    phases: tuple[PhaseCost, ...]
    measured: str  # date and time, UTC
    drafters: Mapping[str, DraftCost] = field(default_factory=dict)

    def one_sequence(self, context: int) -> list[PassCost]:
        """The passes of a single sequence after exactly this context, by rows."""
        found = [cost for cost in self.passes if cost.sequences == 1 and cost.context == context]
        return sorted(found, key=lambda cost: cost.rows)

    @property
    def contexts(self) -> list[int]:
        """The contexts that a single sequence was measured after, ascending."""
        return sorted({cost.context for cost in self.passes if cost.sequences == 1})
