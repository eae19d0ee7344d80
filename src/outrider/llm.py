"""A loaded model with a face for people: text in, text out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from outrider.api import Chunk, FinishReason, Generator, Logprob, Origin, Request, Usage
from outrider.asking import Ask, Chance, Ending, Form, Guessing, Nudges, Telling
from outrider.backends.base import Backend
from outrider.errors import OutriderError, UsageError
from outrider.models.chat import ChatTemplate
from outrider.models.tokenizer import Detokenizer, Tokenizer

Prompt: TypeAlias = str | Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Result:
    """One answer; `seed` repeats it (None: nothing was drawn). The end-of-text token is in neither ids nor text.

    With echo the text begins with the prompt's; ids, origins and logprobs are the answer's alone. Of n answers this is
    sample 0, and `samples` has them all.
    """

    text: str
    token_ids: tuple[int, ...]
    origins: tuple[Origin, ...]
    finish_reason: FinishReason
    prompt_tokens: int
    seed: int | None
    stats: Usage
    logprobs: tuple[Logprob, ...] | None = None  # one for each id, if asked for
    prompt_logprobs: tuple[Logprob | None, ...] | None = None  # one for each prompt id, None for the first
    others: tuple[Result, ...] = ()  # samples 1 to n - 1

    @property
    def samples(self) -> tuple[Result, ...]:
        """All n answers; sample 0, which is this one, first."""
        return (self, *self.others)


class LLM:
    """Answers prompts with one model; `outrider.load` makes it.

    Calls may come from several threads. Every method that takes a prompt raises UsageError, before anything runs, for
    an argument that is out of range, for a prompt that does not fit the context, and for malformed messages.
    """

    def __init__(
        self, name: str, generator: Generator, backend: Backend, tokenizer: Tokenizer, chat: ChatTemplate | None
    ) -> None:
        self.name = name
        self.generator = generator
        self.backend = backend
        self.tokenizer = tokenizer
        self._chat = chat

    def generate(
        self,
        prompt: Prompt,
        *,
        raw: bool = False,
        max_tokens: int = 256,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        typical_p: float = 1.0,
        frequency_penalty: float = 0.0,
        presence_penalty: float = 0.0,
        repetition_penalty: float = 1.0,
        logit_bias: Mapping[int, float] | None = None,
        allowed_token_ids: Iterable[int] | None = None,
        banned_token_ids: Iterable[int] | None = None,
        min_tokens: int = 0,
        ignore_eos: bool = False,
        stop: str | Sequence[str] | None = None,
        stop_token_ids: Iterable[int] | None = None,
        seed: int | None = None,
        n: int = 1,
        logprobs: int | None = None,
        logprobs_mode: str = "raw",
        prompt_logprobs: int | None = None,
        echo: bool = False,
        json_schema: Mapping[str, object] | bool | str | None = None,
        json_object: bool = False,
        regex: str | None = None,
        grammar: str | None = None,
        constrain_after: str | None = None,
        speculate: bool = True,
        max_draft: int | None = None,
        prediction: str | None = None,
        drafters: Sequence[str] | None = None,
    ) -> Result:
        """The whole answer to a text (one user message) or to messages ({"role": ..., "content": ...}).

        docs/sampling.md defines each parameter and its range. In short: raw continues the text without the model's
        chat template. temperature 0 takes the likeliest token each time; above, a seed of None is a new one for each
        call. The answer ends before the stop strings and ids, at max_tokens, or where its constraint ends: json_schema
        (a dict, a bool or JSON text), json_object, regex or grammar (Lark), from the start or behind the text
        constrain_after. logprobs and prompt_logprobs: how many alternatives to tell with each token; echo puts the
        prompt's text in front. speculate=False decodes plainly, max_draft bounds the tokens drafted per pass,
        prediction is text that the answer is expected to repeat in part, and drafters names those that may draft.
        """
        chance = Chance(temperature, top_k, top_p, min_p, typical_p, seed)
        penalties = (frequency_penalty, presence_penalty, repetition_penalty)
        nudges = Nudges(*penalties, logit_bias, allowed_token_ids, banned_token_ids)
        ending = Ending(max_tokens, min_tokens, ignore_eos, stop, stop_token_ids)
        form = Form(json_schema, json_object, regex, grammar, constrain_after)
        telling = Telling(n, logprobs, logprobs_mode, prompt_logprobs, echo)
        guessing = Guessing(speculate, max_draft, prediction, drafters)
        return self._whole(prompt, Ask(raw, chance, nudges, ending, form, telling, guessing))

    def stream(
        self,
        prompt: Prompt,
        *,
        raw: bool = False,
        max_tokens: int = 256,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        typical_p: float = 1.0,
        frequency_penalty: float = 0.0,
        presence_penalty: float = 0.0,
        repetition_penalty: float = 1.0,
        logit_bias: Mapping[int, float] | None = None,
        allowed_token_ids: Iterable[int] | None = None,
        banned_token_ids: Iterable[int] | None = None,
        min_tokens: int = 0,
        ignore_eos: bool = False,
        stop: str | Sequence[str] | None = None,
        stop_token_ids: Iterable[int] | None = None,
        seed: int | None = None,
        n: int = 1,
        logprobs: int | None = None,
        logprobs_mode: str = "raw",
        prompt_logprobs: int | None = None,
        echo: bool = False,
        json_schema: Mapping[str, object] | bool | str | None = None,
        json_object: bool = False,
        regex: str | None = None,
        grammar: str | None = None,
        constrain_after: str | None = None,
        speculate: bool = True,
        max_draft: int | None = None,
        prediction: str | None = None,
        drafters: Sequence[str] | None = None,
    ) -> Iterator[Chunk]:
        """`generate`, in chunks as they become certain; joined they are its answer. Closing the iterator ends it.

        Chunks of n samples interleave. With echo each sample begins with a chunk that has only text.
        """
        chance = Chance(temperature, top_k, top_p, min_p, typical_p, seed)
        penalties = (frequency_penalty, presence_penalty, repetition_penalty)
        nudges = Nudges(*penalties, logit_bias, allowed_token_ids, banned_token_ids)
        ending = Ending(max_tokens, min_tokens, ignore_eos, stop, stop_token_ids)
        form = Form(json_schema, json_object, regex, grammar, constrain_after)
        telling = Telling(n, logprobs, logprobs_mode, prompt_logprobs, echo)
        guessing = Guessing(speculate, max_draft, prediction, drafters)
        return self.answer(prompt, Ask(raw, chance, nudges, ending, form, telling, guessing))

    def answer(self, prompt: Prompt, ask: Ask) -> Iterator[Chunk]:
        """`stream` for what is asked in one value."""
        return self._begin(prompt, ask)[1]

    def encode(self, prompt: Prompt, *, raw: bool = False) -> list[int]:
        """The ids that a prompt becomes, chat template included unless raw."""
        if raw:
            if not isinstance(prompt, str):
                raise UsageError("raw=True takes one text; messages need the chat template, so leave raw out")
            return self.tokenizer.encode_prompt(prompt, special=True)
        if self._chat is None:
            raise UsageError("the model has no chat template; use raw=True to continue the prompt as it stands")
        return self.tokenizer.encode_prompt(self._chat.render(prompt), special=True)

    def detokenizer(self) -> Detokenizer:
        """Ids to text for one answer; special tokens have none."""
        return Detokenizer(self.tokenizer, skip_special=True)

    def token_text(self, token: int) -> str:
        """One token's own text, special ones spelt out, parts of a character as U+FFFD."""
        return self.tokenizer.decode([token], skip_special=False)

    def _begin(self, prompt: Prompt, ask: Ask) -> tuple[Request, Iterator[Chunk]]:
        """The request and its chunks, after every check."""
        # The prediction stands inside the answer: no beginning of text, and nothing in it is a control token.
        prediction = self.tokenizer.encode(ask.guessing.text(), special=False)
        request = ask.request(self.encode(prompt, raw=ask.raw), prediction)
        chunks = self.generator.generate([request])
        if not ask.telling.echo:
            return request, chunks
        shown = (
            prompt if isinstance(prompt, str) and ask.raw else self.tokenizer.decode(request.prompt, skip_special=True)
        )
        return request, _echoing(shown, request.n, chunks)

    def _whole(self, prompt: Prompt, ask: Ask) -> Result:
        request, chunks = self._begin(prompt, ask)
        answers: list[list[Chunk]] = [[] for _ in range(request.n)]
        for chunk in chunks:
            answers[chunk.sample].append(chunk)
        others = tuple(_result(request, answer) for answer in answers[1:])
        return _result(request, answers[0], others)


def _echoing(text: str, n: int, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    for sample in range(n):
        yield Chunk(0, text, (), (), sample=sample)
    # Closing this iterator closes that one.
    yield from chunks


def _result(request: Request, chunks: Sequence[Chunk], others: tuple[Result, ...] = ()) -> Result:
    """One answer out of all its chunks. Raises OutriderError where the end is missing."""
    last = chunks[-1] if chunks else None
    if last is None or last.finish_reason is None or last.usage is None:
        raise OutriderError("the generator stopped before the answer ended")
    told = [logprob for chunk in chunks for logprob in chunk.logprobs or ()]
    return Result(
        text="".join(chunk.text for chunk in chunks),
        token_ids=tuple(token for chunk in chunks for token in chunk.token_ids),
        origins=tuple(origin for chunk in chunks for origin in chunk.origins),
        finish_reason=last.finish_reason,
        prompt_tokens=len(request.prompt),
        seed=request.sampling.seed if request.sampling.temperature > 0.0 else None,
        stats=last.usage,
        logprobs=None if request.logprobs is None else tuple(told),
        prompt_logprobs=next((chunk.prompt_logprobs for chunk in chunks if chunk.prompt_logprobs is not None), None),
        others=others,
    )
