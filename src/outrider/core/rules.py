"""How a draft is judged. A rule turns a draft and the target's tokens into a verdict; it never reads text or a clock.

`coupled` is the default and needs no q; rules that compare p with q stand beside it, each one function.
"""

from __future__ import annotations

from collections.abc import Callable

from outrider.core.types import Draft, Verdict


def coupled(draft: Draft, draw: Callable[[int], int]) -> Verdict:
    """Follow the child that equals the target's token; stop where there is none.

    draw(node) is the target's token after that node (-1: after the last known token), a deterministic function of p and
    the position's noise, the one that plain decoding uses too. So the output is what plain decoding gives, whatever the
    draft: every law is proved. Only nodes on the path are asked for, each once.
    """
    path: list[int] = []
    node, token = -1, draw(-1)
    # Children come after their parent, so one sweep finds the whole path.
    for child, parent in enumerate(draft.parents):
        if parent == node and draft.tokens[child] == token:
            path.append(child)
            node, token = child, draw(child)
    return Verdict(tuple(path), token)
