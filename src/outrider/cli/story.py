"""The story of each pass, for people who learn how speculation works (`outrider run --explain`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from outrider.api import FinishReason, Pass, Usage
from outrider.cli.render import DIM, GREEN, RESET, count, passes_saved, visible

RED = "\x1b[31m"
WIDTH = 24  # of a quoted token, so that the words after it line up

INTRODUCTION = """\
Each pass the drafter guesses the next tokens, and the target model checks all of them at once:
  ✓ a guess that the target would have written too: accepted
  ✗ the first guess that it would not have written: rejected
  · guesses behind a rejected one: lost, nobody looks at them
  + the token that the target adds itself, so that every pass brings at least one
"""

Name = Callable[[int], str]  # token id -> its text


def quoted(text: str) -> str:
    """A token's text in quotes on one line, escapes written out."""
    return visible(json.dumps(text, ensure_ascii=False))


def tell(number: int, story: Pass, name: Name, colour: bool) -> str:
    """What one pass drafted, kept and added, as lines."""
    head = f"pass {number}: position {story.position}, {1000 * story.seconds:.1f} ms, "
    if story.drafted:
        head += f"{len(story.drafted)} drafted, {len(story.path)} accepted"
    else:
        head += "nothing drafted"
    return "\n".join([head, *(_line(*mark, colour) for mark in _marks(story, name))]) + "\n"


def ending(reason: FinishReason, cut: int) -> str:
    """Why the answer ended, and how many of the tokens told so far are not part of it."""
    why = "end of text or a stop string" if reason is FinishReason.STOP else "max_tokens or the context is full"
    last = "the last token" if cut == 1 else f"the last {cut} tokens"
    left_out = f"; {last} above {'is' if cut == 1 else 'are'} not part of it" if cut else ""
    return f"the answer ended here ({why}){left_out}\n"


def _line(mark: str, token: str, says: str, colour: bool) -> str:
    shade = {"✓": GREEN, "✗": RED, "·": DIM}.get(mark, "") if colour else ""
    return f"  {shade}{mark} {token:<{WIDTH}}{says}{RESET if shade else ''}"


def _marks(story: Pass, name: Name) -> Iterator[tuple[str, str, str]]:
    """Mark, quoted token and comment: the nodes in their order, then the target's own token.

    A node was looked at when the walk reached its parent: it is then the one that the target wanted there, or not.
    """
    last = story.path[-1] if story.path else -1
    reached = {-1, *story.path}
    wanted = {story.parents[node]: story.drafted[node] for node in story.path} | {last: story.token}
    for node, (token, parent) in enumerate(zip(story.drafted, story.parents, strict=True)):
        text = quoted(name(token))
        if node in reached:
            yield "✓", text, "accepted"
        elif parent in reached:
            yield "✗", text, f"rejected: the target wanted {quoted(name(wanted[parent]))}"
        else:
            yield "·", text, "not looked at"
    says = "the target's own"
    if last in story.parents:
        says += ", in place of the rejected one (recovered)"
    elif story.drafted:
        says += ", after a draft that was kept whole (bonus)"
    yield "+", quoted(name(story.token)), says


def moral(usage: Usage, reason: FinishReason | None) -> str:
    """The sum of it: what the same answer would have cost without speculation."""
    saved = passes_saved(usage, reason)
    took = f"{count(usage.completion_tokens, 'token')} took {count(usage.passes, 'pass')}"
    lines = [f"{took}; one token a pass would have taken {usage.passes + saved}."]
    by_place = zip(usage.accepted_per_position, usage.drafted_per_position, strict=True)
    places = [f"{place}: {accepted} of {drafted}" for place, (accepted, drafted) in enumerate(by_place, 1)]
    if places:
        lines.append(f"Accepted by place in the draft: {', '.join(places)}.")
    return "\n".join(lines)
