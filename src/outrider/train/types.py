"""What a training run is asked, what it says while it runs, and what it hands back. Needs neither torch nor a model.

A trained token is one position of an answer from which a chain of guesses was started.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from outrider.errors import UsageError
from outrider.models.spec import TensorType

GIB = 1 << 30
_QUANTISED = (TensorType.F32, TensorType.Q8_0, TensorType.Q4_0, TensorType.Q4_1)


class Kind(Enum):
    """What is trained; docs/training.md compares them."""

    EAGLE3 = "eagle3"  # one decoder layer that feeds on itself (2503.01840)
    MEDUSA = "medusa"  # independent residual heads (2401.10774)


class Phase(Enum):
    """What a run is doing."""

    READ = "reading"
    EXTRACT = "computing states"
    TRAIN = "training"
    EVALUATE = "evaluating"
    EXPORT = "writing"


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """One run. Raises UsageError for values that no run could have.

    The number of steps follows from `epochs`, and then the same seed gives the same head on the same machine; with
    `minutes` the run ends, its learning rate down, when they are over. One of the two must be given.
    A run writes `out`/checkpoint every `checkpoint_s` seconds; with `resume` it goes on from there if there is one.
    `start` takes the weights (not the optimiser) of another run's folder, or of a finished head's: more text, more
    epochs.
    """

    target: Path
    data: tuple[Path, ...]
    out: Path
    kind: Kind = Kind.EAGLE3
    epochs: float | None = None
    minutes: float | None = None
    draft_vocab: int = 8192
    taps: tuple[int, ...] | None = None  # None: three that were found good; medusa: the last state
    depth: int = 5  # eagle3: steps of the training-time test; medusa: heads
    learning_rate: float = 1e-3
    batch_tokens: int = 2048  # trained tokens of an optimiser step
    soft: float = 0.5  # part of the loss that follows the target's whole law; the rest follows its arg-max
    lk: float = 3.0  # how much the loss of the second half follows acceptance instead of likelihood; 0: not at all
    seed: int = 0
    resume: bool = True
    start: Path | None = None
    threads: int | None = None  # None: the cores this process may use
    memory_bytes: int = 4 * GIB  # of kept states; what does not fit is computed again each time it is needed
    states: Path | None = None  # keep them in this folder instead, where later runs find them
    matrices: TensorType = TensorType.Q4_1
    output: TensorType = TensorType.Q4_1  # of the matrix `head`
    device: str = "auto"  # "cpu", "cuda", or "auto": CUDA where torch has it
    checkpoint_s: float = 180.0
    patience: int = 8  # stop after so many evaluations without progress
    held_out: float = 0.025  # part of the questions, chosen by their hash
    command: str = ""  # for the provenance

    def __post_init__(self) -> None:
        if (self.epochs is None) == (self.minutes is None):
            raise UsageError(f"epochs is {self.epochs} and minutes is {self.minutes}; give exactly one of them")
        for name in ("epochs", "minutes", "learning_rate", "batch_tokens", "draft_vocab", "depth", "checkpoint_s"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError(f"{name} is {value}; it must be above 0")
        for name, low, high in (("soft", 0.0, 1.0), ("lk", 0.0, 100.0), ("held_out", 0.001, 0.5)):
            if not low <= getattr(self, name) <= high:
                raise UsageError(f"{name} is {getattr(self, name)}; it must be from {low} to {high}")
        if not self.data:
            raise UsageError("no data files are given; write some first (outrider train does) or name them")
        for name in ("matrices", "output"):
            if getattr(self, name) not in _QUANTISED:
                allowed = ", ".join(kind.value for kind in _QUANTISED)
                raise UsageError(f"{name} is {getattr(self, name).value}; a head's matrices may be {allowed}")
        if self.device not in ("auto", "cpu", "cuda"):
            raise UsageError(f"device is {self.device!r}; it must be auto, cpu or cuda")


@dataclass(frozen=True, slots=True)
class Acceptance:
    """How many greedy guesses the target would have taken, held-out.

    alpha[i]: of the chains whose first i guesses were right, the part whose next one was right too.
    """

    alpha: tuple[float, ...]
    tokens: int  # chains measured, one from every place
    passes: int  # that write these tokens, each with the chain from where the one before it ended

    @property
    def tau(self) -> float:
        """Tokens per pass."""
        return self.tokens / self.passes if self.passes else 1.0

    def __str__(self) -> str:
        return f"{self.tau:.3f} tokens a pass ({' '.join(f'{alpha:.3f}' for alpha in self.alpha)})"


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run is; reported every few seconds, and after every evaluation."""

    phase: Phase
    step: int
    steps: int | None  # None where the minutes decide
    trained_tokens: int
    tokens_per_s: float
    left_s: float | None  # None while nothing is known about it
    loss: float
    memory_bytes: int  # of kept states
    acceptance: Acceptance | None  # of the last evaluation
    note: str = ""  # something worth a line of its own, said once


@dataclass(frozen=True, slots=True)
class Result:
    """A finished run: its head lies in `folder`."""

    folder: Path
    acceptance: Acceptance  # held-out, of the weights as they are in the file
    before_quantising: Acceptance
    coverage: float  # part of the answers' tokens that the draft vocabulary has
    temperature: float
    trained_tokens: int
    steps: int
    seconds: float
    stopped_early: bool


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run will take on this machine, before it starts."""

    text_tokens: int
    trained_tokens: int
    minutes: float
    memory_bytes: int  # largest resident size, about
    file_bytes: int
    alpha: tuple[float, float]  # range to expect of the first guess
