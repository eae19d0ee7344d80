"""How a target is led to write users' questions, and to answer them: there is no data set.

A chat model was trained on whole conversations, so that behind the start of a user's turn it writes what a user would.
A question is drawn there and kept if it ends by itself; its answer is the likeliest one, as the target would write it
for anybody who asks.
"""

from __future__ import annotations

from dataclasses import dataclass

from outrider.api import FinishReason, Request, Sampling
from outrider.errors import UsageError
from outrider.models.chat import ChatTemplate
from outrider.models.spec import TokenizerData
from outrider.models.tokenizer import Tokenizer

TEMPERATURE = 1.0
TOP_P = 0.95
QUESTION_TOKENS = 128
LEAST_TOKENS = 3  # what is shorter is no question
ANSWER_TOKENS = 256
_MARK = "\ue000message\ue000"  # for private use, so in no template's own text


@dataclass(frozen=True, slots=True)
class Frame:
    """The ids around a user's message: up to it, and from behind it to the start of the assistant's turn."""

    opening: tuple[int, ...]
    closing: tuple[int, ...]

    def around(self, question: tuple[int, ...]) -> tuple[int, ...]:
        """The whole prompt."""
        return (*self.opening, *question, *self.closing)


def template(data: TokenizerData) -> ChatTemplate:
    """The target's chat template. Raises UsageError where it has none, ModelFileError where it is damaged."""
    if data.chat_template is None:
        raise UsageError(
            "the target has no chat template, so that it cannot be led to write questions: give a target that was "
            "trained to chat, or files of prompts and answers (--data)"
        )
    bos, eos = ("" if token is None else data.tokens[token] for token in (data.bos, data.eos))
    return ChatTemplate(data.chat_template, bos=bos, eos=eos)


def frame(data: TokenizerData, tokenizer: Tokenizer) -> Frame:
    """What the target's chat template writes around one message, in ids.

    Raises UsageError for a target without a template, and for one that does not write the message once and as it is.
    """
    pieces = template(data).render(_MARK).split(_MARK)
    if len(pieces) != 2:
        raise UsageError(
            f"the target's chat template writes a user's message {len(pieces) - 1} times, so that it does not show "
            "where a question stands: give files of prompts and answers (--data)"
        )
    opening = tokenizer.encode_prompt(pieces[0], special=True)
    if not opening:
        raise UsageError(
            "the target's chat template writes nothing before a user's message, so that no question can be drawn: "
            "give files of prompts and answers (--data)"
        )
    return Frame(tuple(opening), tuple(tokenizer.encode(pieces[1], special=True)))


def question(around: Frame, seed: int, began: tuple[int, ...] = ()) -> Request:
    """Draws the question of this seed, or the rest of one that began so."""
    return drawn((*around.opening, *began), QUESTION_TOKENS, seed)


def drawn(prompt: tuple[int, ...], tokens: int, seed: int) -> Request:
    """Draws what the target writes behind these ids: a question, or how an answer begins."""
    return Request(prompt, tokens, Sampling(temperature=TEMPERATURE, top_p=TOP_P, seed=seed))


def answer(prompt: tuple[int, ...], tokens: int) -> Request:
    """The target's likeliest answer to a whole prompt, or its rest, its end of text respected."""
    return Request(prompt, tokens)


def usable(ids: tuple[int, ...], reason: FinishReason) -> bool:
    """Whether what was drawn is a question: it ended by itself and has a few tokens."""
    return reason is FinishReason.STOP and len(ids) >= LEAST_TOKENS
