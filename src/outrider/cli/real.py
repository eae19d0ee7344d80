"""The real doors of the commands: outrider.load and the model cache, imported when somebody goes through."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from outrider.cli.tools import Entry, Field, Load, Model, Serve, Served, Site, Target, Tools, Trainer, Words
from outrider.errors import UsageError

if TYPE_CHECKING:
    from outrider.models.cache import Cached
    from outrider.train.types import Estimate, TrainOptions

EMBEDDING = "token_embd.weight"


def _load(how: Load) -> Model:
    from outrider.loading import load

    return load(
        how.model,
        how.drafter,
        how.gamma,
        how.threads,
        rule=how.rule,
        draft_model=how.draft_model,
        store=how.store,
        head=how.head,
    )


def _site(model: str | None, threads: int | None) -> Site:
    from outrider.drafters import plugins
    from outrider.loading import generator, load, make_drafter
    from outrider.models import gguf, sources

    file = sources.resolve(model)
    llm = load(file, "none", None, threads)
    described = gguf.read(file)
    # A table of embeddings is looked up row by row, unless it is the head too.
    read = [tensor for name, tensor in described.tensors.items() if described.spec.tied_head or name != EMBEDDING]

    def encode(text: str) -> list[int]:
        try:
            return llm.encode(text)
        except UsageError:  # no chat template
            return llm.encode(text, raw=True)

    def head_of(name: str) -> str | None:
        # What is timed and replayed are known texts, along which nothing computes the states that a head reads. What
        # is measured beside them has to be the same.
        return None if name == plugins.WITH_HEAD[-1] else "none"

    return Site(
        llm.name,
        file,
        llm.backend,
        encode,
        lambda name: make_drafter(llm, name, head=head_of(name)),
        lambda name, gamma: generator(llm, name, gamma, head=head_of(name)),
        sum(math.prod(tensor.shape) for tensor in read),
        sum(tensor.nbytes for tensor in read),
    )


def _cached() -> Sequence[Cached]:
    from outrider.models.sources import cached

    return cached()


def _field(entry: Entry) -> Field:
    from outrider.drafters import plugins
    from outrider.loading import generator, load

    llm = load(entry.model, "none", None, entry.threads)
    try:
        llm.encode([{"role": "user", "content": "Hello"}])
    except UsageError:
        raise UsageError(f"--model {llm.name} has no usable chat template, which the questions need") from None
    able = llm.backend.capabilities
    generators = {
        entrant.name: partial(
            generator,
            llm,
            entrant.drafter,
            draft_model=entry.draft_model if entrant.drafter in plugins.WITH_MODEL else None,
            store=entry.store if entrant.drafter in plugins.WITH_STORE else None,
            head=entrant.head,
        )
        for entrant in entry.entrants
    }
    return Field(llm.name, able.isa, able.threads, llm.encode, generators)


def _words(model: str | None) -> Words:
    from outrider.models import gguf, sources
    from outrider.models.digest import digest
    from outrider.models.tokenizer import Tokenizer

    file = gguf.read(sources.resolve(model))
    tokenizer = Tokenizer(file.tokenizer)
    return Words(file.spec.name, tokenizer.vocab, digest(tokenizer), partial(tokenizer.encode, special=False))


def _target(model: str | None, threads: int | None) -> Target:
    from outrider.loading import load
    from outrider.models import gguf, sources
    from outrider.models.digest import digest
    from outrider.models.fingerprint import fingerprint
    from outrider.models.tokenizer import Tokenizer
    from outrider.train import data, questions, writing

    path = sources.resolve(model)
    file = gguf.read(path)
    tokenizer = Tokenizer(file.tokenizer)

    def encode(text: str) -> list[int]:
        return tokenizer.encode_prompt(questions.template(file.tokenizer).render(text), special=True)

    return Target(
        name=file.spec.name,
        file=path,
        vocab=file.spec.vocab,
        context=file.spec.context,
        fingerprint=fingerprint(file),
        digest=digest(tokenizer),
        end=file.tokenizer.eos,
        frame=partial(questions.frame, file.tokenizer, tokenizer),
        encode=encode,
        words=lambda: writing.Words(
            partial(tokenizer.encode, special=False),
            partial(tokenizer.encode_prompt, special=False),
            partial(tokenizer.decode, skip_special=True),
            file.spec.context,
        ),
        dialogues=partial(data.dialogues, file=file),
        generator=lambda: load(path, "none", None, threads).generator,
    )


def _trainer() -> Trainer:
    from outrider import train

    return Trainer(train.check, train.run, _estimate)


def _estimate(options: TrainOptions, tokens: int) -> Estimate:
    from outrider.models import gguf
    from outrider.train.estimate import estimate

    cores = options.threads or len(os.sched_getaffinity(0))
    return estimate(options, gguf.read(options.target).spec, tokens, cores)


def _serve(how: Serve) -> Served:
    from outrider.cli.serving import served

    return served(how)


TOOLS = Tools(_load, _site, _cached, _field, _words, _target, _trainer, _serve)
