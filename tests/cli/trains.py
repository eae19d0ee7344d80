"""Doors to a target that is a table of laws, and to a trainer that only takes down what it is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from tests.cli.scripted import SKY, ScriptedModel, tools
from tests.plan.worlds import EOS, VOCAB
from tests.train.test_data import WORDS, table

from outrider.api import Generator
from outrider.cli.tools import Target, Tools, Trainer
from outrider.errors import UsageError
from outrider.train import data
from outrider.train.data import Dialogue
from outrider.train.questions import Frame
from outrider.train.types import Acceptance, Estimate, Progress, Result, TrainOptions

AROUND = Frame((1, 2), (3,))
MINE, DIGEST = b"\xab" * 32, b"\xcd" * 32


def dialogues(paths: Sequence[Path]) -> list[Dialogue]:
    found = []
    for path in paths:
        for line in data.lines(path, VOCAB):
            prompt = line.prompt if line.seed is None else AROUND.around(line.prompt)
            found.append(Dialogue(np.array(prompt), np.array(line.answer, np.int32), line.ended))
    return found


@dataclass
class World:
    """Doors to a table and a trainer, with what went through them."""

    generator: Callable[[], Generator] = table
    asked: list[TrainOptions] = field(default_factory=list)
    reports: Sequence[Progress] = ()
    missing: bool = False
    fails: BaseException | None = None
    fingerprint: bytes = MINE

    def target(self, model: str | None, threads: int | None) -> Target:
        return Target(
            name=f"table {model}",
            file=Path("table.gguf"),
            vocab=VOCAB,
            context=400,
            fingerprint=self.fingerprint,
            digest=DIGEST,
            end=EOS,
            frame=lambda: AROUND,
            encode=lambda text: AROUND.around(tuple(ord(letter) % EOS for letter in text)),
            words=lambda: WORDS,
            dialogues=dialogues,
            generator=self.generator,
        )

    def doors(self) -> Tools:
        trainer = Trainer(self.check, self.run, self.estimate)
        return replace(tools(ScriptedModel(SKY)), target=self.target, trainer=lambda: trainer)

    def check(self) -> None:
        if self.missing:
            raise UsageError("training needs torch; install it")

    def run(self, options: TrainOptions, report: Callable[[Progress], None]) -> Result:
        self.asked.append(options)
        for progress in self.reports:
            report(progress)
        if self.fails is not None:
            raise self.fails
        found = Acceptance((0.75, 0.5), 850, 400)
        return Result(options.out, found, found, 0.99, 1.0, 12_345, 60, 300.0, True)

    def estimate(self, options: TrainOptions, tokens: int) -> Estimate:
        self.asked.append(options)
        return Estimate(tokens, 3 * tokens, 40.0, 3 << 30, 7_000_000, (0.6, 0.7))
