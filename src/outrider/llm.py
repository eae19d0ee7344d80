"""A loaded model with a face for people: text in, text out."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from outrider.api import Chunk, FinishReason, Generator, Origin, Request, Sampling, Usage
from outrider.backends.base import Backend
from outrider.errors import OutriderError, UsageError
from outrider.models.chat import ChatTemplate
from outrider.models.tokenizer import Detokenizer, Tokenizer

Prompt: TypeAlias = str | Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Result:
    """One answer; `seed` repeats it (None: nothing was drawn). The end-of-text token is in neither ids nor text."""

    text: str
    token_ids: tuple[int, ...]
    origins: tuple[Origin, ...]
    finish_reason: FinishReason
    prompt_tokens: int
    seed: int | None
    stats: Usage


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
        seed: int | None = None,
        stop: str | Sequence[str] | None = None,
        ignore_eos: bool = False,
    ) -> Result:
        """The whole answer to a text (one user message) or to messages ({"role": ..., "content": ...}).

        raw continues the text as it stands, without the model's chat template. temperature 0 takes the likeliest token
        each time; above, a seed of None is a new one for each call. stop: the answer ends before these strings.
        ignore_eos lets it run to max_tokens whatever the model says.
        """
        request = self._request(prompt, raw, max_tokens, temperature, seed, stop, ignore_eos)
        chunks = list(self.generator.generate([request]))
        last = chunks[-1] if chunks else None
        if last is None or last.finish_reason is None or last.usage is None:
            raise OutriderError("the generator stopped before the answer ended")
        return Result(
            text="".join(chunk.text for chunk in chunks),
            token_ids=tuple(token for chunk in chunks for token in chunk.token_ids),
            origins=tuple(origin for chunk in chunks for origin in chunk.origins),
            finish_reason=last.finish_reason,
            prompt_tokens=len(request.prompt),
            seed=request.sampling.seed if temperature > 0.0 else None,
            stats=last.usage,
        )

    def stream(
        self,
        prompt: Prompt,
        *,
        raw: bool = False,
        max_tokens: int = 256,
        temperature: float = 0.0,
        seed: int | None = None,
        stop: str | Sequence[str] | None = None,
        ignore_eos: bool = False,
    ) -> Iterator[Chunk]:
        """`generate`, in chunks as they become certain; joined they are its answer. Closing the iterator ends it."""
        return self.generator.generate([self._request(prompt, raw, max_tokens, temperature, seed, stop, ignore_eos)])

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

    def _request(
        self,
        prompt: Prompt,
        raw: bool,
        max_tokens: int,
        temperature: float,
        seed: int | None,
        stop: str | Sequence[str] | None,
        ignore_eos: bool,
    ) -> Request:
        stops = () if stop is None else (stop,) if isinstance(stop, str) else tuple(stop)
        return Request(
            prompt=self.encode(prompt, raw=raw),
            max_tokens=max_tokens,
            sampling=Sampling(temperature, secrets.randbits(32) if seed is None else seed),
            stop=stops,
            ignore_eos=ignore_eos,
        )
