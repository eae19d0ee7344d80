"""The story of each pass, for people who learn how speculation works (`outrider run --explain`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from outrider.api import FinishReason, Pass, Usage
from outrider.cli.render import CYAN, DIM, GREEN, RESET, count, visible

RED = "\x1b[31m"
WIDTH = 24  # of a quoted token, so that the words after it line up

INTRODUCTION = """\
Each pass the drafter guesses the next tokens, and the target model checks all of them at once:
  ✓ a guess that the target would have written too: accepted
  ✗ the first guess that it would not have written: rejected
  · guesses behind a rejected one: lost, nobody looks at them
  + the token that the target adds itself, so that every pass brings at least one
In parentheses: who guessed.
"""

Name = Callable[[int], str]  # token id -> its text


def quoted(text: str) -> str:
    """A token's text in quotes on one line, escapes written out."""
    return visible(json.dumps(text, ensure_ascii=False))


def tell(number: int, story: Pass, name: Name, colour: bool) -> str:
    """What one pass drafted, kept and added, as lines."""
    head = f"pass {number}: position {story.position}, {1000 * story.seconds:.1f} ms, "
    if story.drafted:
        forced = f" ({story.forced} forced by the constraint)" if story.forced else ""
        head += f"{len(story.drafted)} drafted{forced}, {len(story.path)} accepted"
    else:
        head += "nothing drafted"
    lines = [_line(mark, text, says, shade if colour else "") for mark, text, says, shade in _marks(story, name)]
    return "\n".join([head, *lines]) + "\n"


_ENDS = {
    FinishReason.STOP: "end of text, a stop string or id, or the end of the constraint",
    FinishReason.LENGTH: "max_tokens or the context is full",
    FinishReason.STUCK: "the constraint and the allowed and banned ids together left no token",
}


def ending(reason: FinishReason, cut: int) -> str:
    """Why the answer ended, and how many of the tokens told so far are not part of it."""
    last = "the last token" if cut == 1 else f"the last {cut} tokens"
    left_out = f"; {last} above {'is' if cut == 1 else 'are'} not part of it" if cut else ""
    return f"the answer ended here ({_ENDS[reason]}){left_out}\n"


def _line(mark: str, token: str, says: str, shade: str) -> str:
    return f"  {shade}{mark} {token:<{WIDTH}}{says}{RESET if shade else ''}"


def _marks(story: Pass, name: Name) -> Iterator[tuple[str, str, str, str]]:
    """Mark, quoted token, comment and colour: the nodes in their order, then the target's own token.

    A node was looked at when the walk reached its parent: it is then the one that the target wanted there, or not.
    """
    last = story.path[-1] if story.path else -1
    reached = {-1, *story.path}
    wanted = {story.parents[node]: story.drafted[node] for node in story.path} | {last: story.token}
    for node, (token, parent) in enumerate(zip(story.drafted, story.parents, strict=True)):
        text = quoted(name(token))
        forced = node < story.forced
        by = f" ({story.drafters[node]})" if story.drafters and not forced else ""
        if node in reached:
            says, shade = ("forced by the constraint, accepted", CYAN) if forced else ("accepted", GREEN)
            yield "✓", text, says + by, shade
        elif parent in reached:
            # Only the text of a forced token is certain: the target may cut it otherwise.
            says = "rejected: the target cut the forced text otherwise," if forced else "rejected: the target wanted"
            yield "✗", text, f"{says} {quoted(name(wanted[parent]))}{by}", RED
        else:
            yield "·", text, f"not looked at{by}", DIM
    says = "the target's own"
    if last in story.parents:
        says += ", in place of the rejected one (recovered)"
    elif story.drafted:
        says += ", after a draft that was kept whole (bonus)"
    yield "+", quoted(name(story.token)), says, ""


def moral(usage: Usage) -> str:
    """The sum of it: what the same answer would have cost without speculation."""
    took = f"{count(usage.completion_tokens, 'token')} took {count(usage.passes, 'pass')}"
    lines = [f"{took}; one token a pass would have taken {usage.plain_passes}."]
    by_place = zip(usage.accepted_per_position, usage.drafted_per_position, strict=True)
    places = [f"{place}: {accepted} of {drafted}" for place, (accepted, drafted) in enumerate(by_place, 1)]
    if places:
        lines.append(f"Accepted by place in the draft: {', '.join(places)}.")
    return "\n".join(lines)
