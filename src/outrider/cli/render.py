"""Text for people: colours, control characters, the summary after an answer. Pure functions of what they are given."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from outrider.api import Chunk, FinishReason, Origin, Usage
from outrider.cli.tools import Detokenizer

GREEN = "\x1b[32m"
CYAN = "\x1b[36m"
DIM = "\x1b[2m"
RESET = "\x1b[0m"
SHADES = {Origin.ACCEPTED: GREEN, Origin.FORCED: CYAN}


def visible(text: str) -> str:
    """The text with every control character but newline and tab shown as a symbol.

    A model may write escape sequences; on a terminal they would move the cursor, change colours or worse.
    """
    return text.translate(_VISIBLE)


_VISIBLE = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"},
    0x7F: 0x2421,
    **dict.fromkeys(range(128, 160), 65533),
}


def paint(text: str, colour: str) -> str:
    """The text in a colour, closed again at once: whatever interrupts the program leaves a clean terminal."""
    return f"{colour}{text}{RESET}" if text and colour else text


class Painter:
    """Colours an answer by the origin of each token, chunk by chunk.

    The text of a chunk may lag behind its tokens (half a character, the beginning of a stop string); a detokenizer of
    our own says which characters each token brought, and the text is matched with them in order.
    """

    def __init__(self, detokenizer: Detokenizer) -> None:
        self._detokenizer = detokenizer
        self._pending: deque[tuple[str, str]] = deque()

    def paint(self, chunk: Chunk) -> str:
        """The chunk's text, safe for a terminal: accepted tokens in green, forced ones in cyan."""
        for token, origin in zip(chunk.token_ids, chunk.origins, strict=True):
            piece = self._detokenizer.push(token)
            if piece:
                self._pending.append((piece, SHADES.get(origin, "")))
        return "".join(paint(visible(text), colour) for text, colour in self._spans(chunk.text))

    def _spans(self, text: str) -> Iterator[tuple[str, str]]:
        while text and self._pending:
            piece, colour = self._pending.popleft()
            n = min(len(piece), len(text))
            if piece[:n] != text[:n]:
                # Text and tokens have parted: show the text, which is right, without colour.
                self._pending.clear()
                break
            if n < len(piece):
                self._pending.appendleft((piece[n:], colour))
            yield text[:n], colour
            text = text[n:]
        yield text, ""


def count(n: int, noun: str) -> str:
    """A number and its noun: 1 token, 2 tokens, 1 pass, 2 passes."""
    ending = "" if n == 1 else "es" if noun.endswith("s") else "s"
    return f"{n} {noun}{ending}"


ENDED = {
    FinishReason.STOP: "ended by stop",
    FinishReason.LENGTH: "ended by length",
    FinishReason.STUCK: "stuck: no token was left that the constraint and the allowed and banned ids permit",
}


def summary(usage: Usage, reason: FinishReason | None, colour: bool) -> str:
    """Two lines: how fast the answer came, and what speculation did for it."""
    speed = f" at {usage.tokens_per_s:.1f} tokens/s" if usage.decode_s > 0 else ""
    ended = f", {ENDED[reason]}" if reason else ""
    first = (
        f"{count(usage.completion_tokens, 'token')}{speed}, after {count(usage.prompt_tokens, 'prompt token')} in "
        f"{usage.prefill_s:.2f} s{ended}"
    )
    second = f"{count(usage.passes, 'pass')}, {usage.tokens_per_pass:.2f} tokens per pass; "
    if not usage.drafted:
        second += "nothing was drafted"
    else:
        share = 100 * usage.accepted / usage.drafted
        forced = f", {usage.forced} of them forced by the constraint" if usage.forced else ""
        second += f"accepted {usage.accepted} of {usage.drafted} drafted ({share:.0f} %){forced}, "
        second += f"{count(usage.plain_passes - usage.passes, 'pass')} saved"
    if not colour:
        return f"{first}\n{second}"
    legend = ""
    if usage.accepted > usage.forced:
        legend += f"  {paint('green', GREEN)}{paint(': drafted and accepted', DIM)}"
    if usage.forced:
        legend += f"  {paint('cyan', CYAN)}{paint(': forced by the constraint', DIM)}"
    return f"{paint(first, DIM)}\n{paint(second, DIM)}{legend}"


def partial_summary(tokens: int, accepted: int, passes: int) -> str:
    """The line after an answer that was interrupted; counted from its chunks, since its usage never came."""
    if not passes:
        return "interrupted before the first token"
    done = f"{count(tokens, 'token')} in {count(passes, 'pass')}, {tokens / passes:.2f} tokens per pass"
    return f"interrupted after {done}; {accepted} drafted and accepted"


def columns(rows: list[list[str]], sides: str) -> str:
    """Rows of cells as aligned columns; sides has a letter for each column, l or r."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if side == "l" else cell.rjust(width)
            for cell, width, side in zip(row, widths, sides, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
