"""The run: steps, evaluations, checkpoints, an early end, and the head that comes out.

A step is a function of the seed, its number and the weights, so that a run that was killed goes on bit for bit.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from outrider.errors import UsageError
from outrider.train import chains, checkpoint, export
from outrider.train.batch import Batch
from outrider.train.checkpoint import State
from outrider.train.corpus import Plan, Text
from outrider.train.evaluate import measure
from outrider.train.loss import Recipe
from outrider.train.pace import Pace
from outrider.train.setup import Setup, prepare
from outrider.train.types import Acceptance, Phase, Progress, Result, TrainOptions

_WARM_UP = 100  # steps
_FLOOR = 0.05  # of the learning rate, at the end
_CLIP = 1.0  # norm of the gradient
_BETAS, _DECAY = (0.9, 0.95), 0.01
_EVALUATIONS, _BETWEEN = 40, 10  # of a run, and the least steps from one to the next
# While the rate is high nothing has to get better: a head that starts from a trained one first gets worse.
_PATIENT_FROM = 0.5
_REST = 9.0  # of a timed run: training between two evaluations takes at least so much longer than one
_MEASURED = 12_000  # chains of an evaluation; the last one measures five times as many
_REPORT_S = 5.0


def run(options: TrainOptions, report: Callable[[Progress], None]) -> Result:
    """See train.run."""
    report(Progress(Phase.READ, 0, None, 0, 0.0, None, math.nan, 0, None))
    setup = prepare(options)
    with _threads(setup.threads), closing(setup.kept):
        trainer = Trainer(setup, report)
        trainer.restore()
        return trainer.finish(trainer.train())


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """Set by Ctrl-C: a step is finished before a run ends, so that what it saves is whole."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # signals are not ours to handle
        yield asked
        return
    before = signal.signal(signal.SIGINT, lambda *_: asked.set())
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def schedule(step: int, done: float) -> float:
    """Part of the learning rate: a warm-up over 100 steps or a tenth of the run, and a cosine over it down to 5 %."""
    rising = min(1.0, max((step + 1) / _WARM_UP, 10 * done))
    return rising * (_FLOOR + (1 - _FLOOR) * 0.5 * (1 + math.cos(math.pi * min(1.0, done))))


def optimiser(head: nn.Module, learning_rate: float) -> torch.optim.Optimizer:
    """AdamW; norms do not decay."""
    matrices = [p for p in head.parameters() if p.ndim > 1]
    norms = [p for p in head.parameters() if p.ndim == 1]
    groups = [{"params": matrices, "weight_decay": _DECAY}, {"params": norms, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=_BETAS, fused=True)


class Trainer:
    """A run under way."""

    def __init__(self, setup: Setup, report: Callable[[Progress], None]) -> None:
        self.setup, self.options, self.state = setup, setup.options, State()
        self._report = report
        self._optimiser = optimiser(setup.head, setup.options.learning_rate)
        self._plan = Plan(setup.corpus.train, setup.options.batch_tokens, setup.options.seed)
        self._pace = Pace()
        self._best: dict[str, Tensor] | None = None
        self._loss = math.nan
        self._evaluation_s = 0.0
        self._rested_s = 0.0
        self._last: Acceptance | None = None
        self._text_tok = sum(len(text.ids) - 1 for text in setup.corpus.train)

    def restore(self) -> None:
        """Go on from the checkpoint of options.out, or start with the weights that the head was prepared with."""
        options, setup = self.options, self.setup
        found = checkpoint.load(options.out) if options.resume else None
        if found is not None:
            checkpoint.check(options.out, found, setup.identity())
            setup.head.load_state_dict(found["weights"])
            self._optimiser.load_state_dict(found["optimiser"])
            self._best, self.state = found["best"], checkpoint.state_of(found)
            self._last = self.state.best
            return self._say(Phase.READ, f"going on after step {self.state.step}")
        if options.epochs is not None:
            self.state.steps = max(1, round(options.epochs * self._plan.epoch_steps))
        self._say(
            Phase.READ,
            f"{len(setup.corpus.train)} texts with {setup.corpus.starts} tokens to train on; {len(setup.ids)} ids "
            f"to guess cover {setup.coverage:.2%} of them; states {setup.taps}; products in {setup.head.half}",
        )
        return self.save()  # a folder that cannot be written is found now

    def train(self) -> bool:
        """All steps that are left. True where it ended early, for lack of progress.

        Raises KeyboardInterrupt after Ctrl-C, when the step is done and saved.
        """
        with _interrupts() as asked:
            return self._train(asked)

    def _train(self, asked: threading.Event) -> bool:
        saved = time.monotonic()
        self._pace.lap()
        while self.done < 1:
            self._step()
            self.state.seconds += self._pace.lap()
            if self._evaluation_due():
                self._evaluate()
                if self.state.since_best >= self.options.patience:
                    return True
            if asked.is_set() or time.monotonic() - saved > self.options.checkpoint_s:
                self.save()
                saved = time.monotonic()
            if asked.is_set():
                raise KeyboardInterrupt
        return False

    @property
    def done(self) -> float:
        """Part of the run: of its steps, or of its time where minutes are given, for speed comes and goes."""
        if self.options.minutes is not None:
            return self.state.seconds / (60 * self.options.minutes)
        return self.state.step / (self.state.steps or 1)

    def finish(self, early: bool) -> Result:
        """Take the best weights, write the head, measure it as it is in the file."""
        self.save()
        if self._best is not None:
            self.setup.head.load_state_dict(self._best)
        self._say(Phase.EXPORT)
        return export.finish(self.setup, self.state, list(self.held_out(5 * _MEASURED)), early)

    def save(self) -> None:
        """Write the checkpoint."""
        parts: dict[str, Any] = {
            "weights": self.setup.head.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "best": self._best,
            "ids": torch.from_numpy(self.setup.ids),
        }
        checkpoint.save(self.options.out, self.setup.identity(), self.state, parts)

    def held_out(self, wanted: int) -> Iterator[Batch]:
        """Held-out texts with at least so many chains, or all, in batches."""
        texts: list[tuple[int, Text]] = []
        total = size = 0
        for index, text in enumerate(self.setup.corpus.held_out):
            if total >= wanted:
                break
            texts.append((-1 - index, text))
            total += text.starts
            size += text.starts
            if size >= self.options.batch_tokens:
                yield self._batch(texts)
                texts, size = [], 0
        if texts:
            yield self._batch(texts)

    def _batch(self, texts: Sequence[tuple[int, Text]]) -> Batch:
        before, computed = time.monotonic(), self.setup.kept.computed_tok
        features = self.setup.kept.features(texts)
        self._pace.extracted(time.monotonic() - before, self.setup.kept.computed_tok - computed)
        return self.setup.batcher.batch([text for _, text in texts], features)

    def _step(self) -> None:
        texts, options = self.setup.corpus.train, self.options
        batch = self._batch([(index, texts[index]) for index in self._plan.step(self.state.step)])
        before = time.monotonic()
        for group in self._optimiser.param_groups:
            group["lr"] = options.learning_rate * schedule(self.state.step, self.done)
        recipe = Recipe(options.soft, options.lk * max(0.0, min(1.0, 2 * self.done - 1)))
        loss = chains.loss(self.setup.head, batch, options.depth, recipe)
        self._optimiser.zero_grad(set_to_none=True)
        loss.value.backward()
        torch.nn.utils.clip_grad_norm_(self.setup.head.parameters(), _CLIP)
        self._optimiser.step()
        value = float(loss.value.detach())
        if not math.isfinite(value):
            raise UsageError(f"the loss of step {self.state.step} is {value}; start again with a lower learning_rate")
        self._loss = value if math.isnan(self._loss) else 0.95 * self._loss + 0.05 * value
        self.state.step += 1
        self.state.trained_tokens += len(batch.chain_text)
        self._pace.stepped(time.monotonic() - before, len(batch.chain_text))
        if self._pace.since_report() > _REPORT_S:
            self._say(Phase.TRAIN)

    def _evaluation_due(self) -> bool:
        state, done = self.state, self.done
        # On a busy machine forty evaluations may take longer than the training. A run of so many epochs has them all
        # the same: which weights are the best must not depend on the clock.
        if self.options.minutes is not None and done < 1 and state.seconds < self._rested_s:
            return False
        return done >= 1 or (state.step >= state.evaluated + _BETWEEN and done * _EVALUATIONS >= len(state.curve) + 1)

    def _evaluate(self) -> None:
        self._say(Phase.EVALUATE)
        before = time.monotonic()
        tally = measure(self.setup.head, self.held_out(_MEASURED), self.options.depth)
        self._last = found = tally.acceptance()
        self._evaluation_s = time.monotonic() - before
        self.state.evaluated = self.state.step
        self.state.curve.append((self.state.trained_tokens, [*found.alpha]))
        if self.state.best is None or found.tau > self.state.best.tau:
            self.state.best, self.state.since_best = found, 0
            self._best = {name: value.detach().cpu().clone() for name, value in self.setup.head.state_dict().items()}
        elif self.done >= _PATIENT_FROM:
            self.state.since_best += 1
        self.state.seconds += self._pace.lap()
        self._rested_s = self.state.seconds + _REST * self._evaluation_s
        self._say(Phase.TRAIN, f"held out: {found}")

    def _left_s(self) -> float | None:
        state, kept = self.state, self.setup.kept
        if self.options.minutes is not None:
            return max(0.0, 60 * self.options.minutes - state.seconds)
        if state.steps is None or not self._pace.step_s:
            return None
        steps = state.steps - state.step
        states = kept.to_compute(self._text_tok, steps / self._plan.epoch_steps)
        return self._pace.left_s(
            steps, states, min(_EVALUATIONS - len(state.curve), steps // _BETWEEN), self._evaluation_s
        )

    def _say(self, phase: Phase, note: str = "") -> None:
        state = self.state
        self._report(
            Progress(
                phase=phase,
                step=state.step,
                steps=state.steps,
                trained_tokens=state.trained_tokens,
                tokens_per_s=self._pace.tokens_per_s,
                left_s=self._left_s(),
                loss=self._loss,
                memory_bytes=self.setup.kept.bytes,
                acceptance=self._last,
                note=note,
            )
        )
        self._pace.reported()
