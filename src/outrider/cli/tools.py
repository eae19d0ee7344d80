"""What the commands need from the rest of the house, as plain functions, so that tests can hand in others.

Nothing heavy is imported before one of them is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from outrider.api import Chunk, Generator, Live

if TYPE_CHECKING:
    from pathlib import Path

    from outrider.asking import Ask
    from outrider.backends.base import Backend  # brings numpy, which --help does not wait for
    from outrider.drafters.base import Drafter
    from outrider.models.cache import Cached
    from outrider.server.house import Face
    from outrider.train.data import Dialogue
    from outrider.train.questions import Frame
    from outrider.train.types import Estimate, Progress, Result, TrainOptions
    from outrider.train.writing import Words as TextWords


class Detokenizer(Protocol):
    """Ids to text, one by one: what push returns is certain, never half a character; flush gives the rest."""

    def push(self, token: int) -> str: ...
    def flush(self) -> str: ...


class Model(Protocol):
    """A loaded model, as far as the command line uses it; outrider.LLM is one."""

    def answer(self, prompt: str, ask: Ask) -> Iterator[Chunk]:
        """The answer in chunks as they become certain. Raises UsageError before the first."""
        ...

    def detokenizer(self) -> Detokenizer:
        """For one answer: its special tokens have no text."""
        ...

    def token_text(self, token: int) -> str:
        """One token's own text, special ones spelt out, part of a character as U+FFFD."""
        ...


@dataclass(frozen=True, slots=True)
class Load:
    """Which model, with which drafter; None leaves the choice to outrider.load."""

    model: str | None
    drafter: str
    gamma: int | None
    threads: int | None
    rule: str = "coupled"
    draft_model: str | None = None
    store: str | None = None
    head: str | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of `outrider run`; where form and prediction are in files, ask names the files."""

    load: Load
    prompt: str | None
    ask: Ask
    as_json: bool = False
    explain: bool = False
    color: str = "auto"  # auto, always, never


@dataclass(frozen=True, slots=True)
class Entrant:
    """A drafter of `outrider bench`: what the table calls it, and the head that it is given."""

    name: str
    drafter: str
    head: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """Which model and drafters `outrider bench` compares."""

    model: str | None
    threads: int | None
    entrants: Sequence[Entrant]
    draft_model: str | None
    store: str | None


@dataclass(frozen=True, slots=True)
class Field:
    """What `outrider bench` compares: one model in memory once, and a generator for each drafter."""

    model: str
    isa: str
    threads: int
    encode: Callable[[Sequence[Mapping[str, str]]], Sequence[int]]  # messages to ids, chat template included
    generators: Mapping[str, Callable[[], Generator]]  # by entrant; each call a fresh one


@dataclass(frozen=True, slots=True)
class Site:
    """One model in memory, to be measured, and what can be put around it."""

    model: str
    file: Path
    backend: Backend
    encode: Callable[[str], Sequence[int]]  # a user's message to ids, in the chat template where there is one
    drafter: Callable[[str], Drafter]  # a fresh one by its name, which is not "none"
    generator: Callable[[str, int], Generator]  # (drafter, draft length)
    parameters: int  # that a pass uses
    weight_bytes: int  # that a pass reads, as they are stored


@dataclass(frozen=True, slots=True)
class Words:
    """What token ids mean to a model, without its weights."""

    model: str
    vocab: int
    digest: bytes  # models.digest
    encode: Callable[[str], Sequence[int]]  # plain text to ids


@dataclass(frozen=True, slots=True)
class Target:
    """A model that a drafter is made for. Only `generator` reads its weights."""

    name: str
    file: Path
    vocab: int
    context: int
    fingerprint: bytes  # models.fingerprint
    digest: bytes  # models.digest
    end: int | None  # the id behind an answer that ended
    frame: Callable[[], Frame]  # UsageError where the chat template shows none
    encode: Callable[[str], Sequence[int]]  # a user's message to the ids of the whole prompt
    words: Callable[[], TextWords]  # train.writing.Words
    dialogues: Callable[[Sequence[Path]], Sequence[Dialogue]]  # train.data.dialogues
    generator: Callable[[], Generator]  # plain decoding


@dataclass(frozen=True, slots=True)
class Trainer:
    """What trains heads: the functions of outrider.train."""

    check: Callable[[], None]  # UsageError where torch is missing
    run: Callable[[TrainOptions, Callable[[Progress], None]], Result]
    estimate: Callable[[TrainOptions, int], Estimate]  # (options, tokens of the answers)


@dataclass(frozen=True, slots=True)
class Serve:
    """Which model `outrider serve` serves, and how much at once; kv_bytes None leaves the choice to the loader."""

    load: Load
    kv_bytes: int | None
    slots: int
    queue: int


@dataclass(frozen=True, slots=True)
class Served:
    """A model that answers many at once."""

    live: Live
    face: Face
    name: str
    digest: str  # of its file: hexadecimal


@dataclass(frozen=True, slots=True)
class Tools:
    """The doors that the commands go through."""

    load: Callable[[Load], Model]
    site: Callable[[str | None, int | None], Site]  # (model, threads)
    cached: Callable[[], Sequence[Cached]]
    field: Callable[[Entry], Field]
    words: Callable[[str | None], Words]  # (model)
    target: Callable[[str | None, int | None], Target]  # (model, threads)
    trainer: Callable[[], Trainer]
    serve: Callable[[Serve], Served]
