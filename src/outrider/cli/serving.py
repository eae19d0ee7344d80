"""The real model behind `outrider serve`: outrider.loading.serve, with the face that a server wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from outrider.backends.base import Blocks
from outrider.cli.tools import Serve, Served
from outrider.llm import LLM
from outrider.loading import serve
from outrider.models import sources
from outrider.models.filedigest import file_digest
from outrider.models.tokenizer import Detokenizer

MOST_ROOM = 1 << 40


class ModelFace:
    """A loaded model's words, as outrider.server.house.Face has them; room_tok: what its memory holds at most."""

    def __init__(self, llm: LLM, room_tok: int) -> None:
        self._llm = llm
        self._context = min(llm.backend.context, room_tok)
        self._tokenizer = llm.tokenizer

    @property
    def context(self) -> int:
        """Tokens that prompt and answer may have together."""
        return self._context

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Through the model's chat template."""
        return self._llm.encode(messages)

    def raw(self, text: str) -> list[int]:
        """As it stands."""
        return self._llm.encode(text, raw=True)

    def plain(self, text: str) -> list[int]:
        """Inside an answer."""
        return self._tokenizer.encode(text, special=False)

    def text(self, ids: Sequence[int]) -> str:
        """Without special tokens."""
        return self._tokenizer.decode(ids, skip_special=True)

    def token_text(self, token: int) -> str:
        """One token's own."""
        return self._llm.token_text(token)

    def token_bytes(self, token: int) -> bytes:
        """One token's own."""
        return self._tokenizer.token_bytes(token)

    def detokenizer(self) -> Detokenizer:
        """For one answer."""
        return self._llm.detokenizer()


def served(how: Serve) -> Served:
    """Load a model to be shared. Raises what outrider.loading.serve does."""
    load = how.load
    file = sources.resolve(load.model)
    live, llm = serve(
        file,
        load.drafter,
        load.gamma,
        load.threads,
        load.rule,
        load.draft_model,
        load.store,
        load.head,
        kv_bytes=how.kv_bytes,
        slots=how.slots,
        queue=how.queue,
    )
    blocks = llm.backend
    room_tok = live.snapshot().kv_blocks_total * blocks.block_tokens if isinstance(blocks, Blocks) else MOST_ROOM
    return Served(live, ModelFace(llm, room_tok), file.stem, file_digest(file))
