"""Takes the fields of a JSON object one by one; what nobody took is refused by name.

So a field is either honoured or refused. null counts as absent, as in OpenAI's own clients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from outrider.server.problems import BAD, Problem

_SHOWN = 60


class Reader:
    """One object of a request, at a place such as "messages[0]"; what takes a field raises Problem (400) naming it."""

    def __init__(self, data: object, place: str = "") -> None:
        self._place = place
        if not isinstance(data, Mapping):
            whole = place or "the body"
            raise Problem(BAD, f"{whole} is {shown(data)}; give a JSON object", place or None)
        self._left: dict[str, object] = {str(name): value for name, value in data.items() if value is not None}

    def path(self, name: str) -> str:
        """The field's whole name."""
        return f"{self._place}.{name}" if self._place else name

    def wrong(self, name: str, value: object, wanted: str) -> Problem:
        """Why a value is refused."""
        return Problem(BAD, f"{self.path(name)} is {shown(value)}; {wanted}", self.path(name))

    def take(self, name: str) -> object:
        """The value as it is; None where it is absent."""
        return self._left.pop(name, None)

    def text(self, name: str) -> str | None:
        value = self.take(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, value, "give a text")
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self.take(name)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(name, value, "give true or false")
        return default if value is None else value

    def whole(self, name: str, low: int, high: int) -> int | None:
        value = self.take(name)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # some clients have one type for all numbers
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self.wrong(name, value, f"give a whole number from {low} to {high}")
        return value

    def number(self, name: str, default: float, low: float, high: float) -> float:
        value = self.take(name)
        if value is None:
            return default
        if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
            raise self.wrong(name, value, f"give a number from {low:g} to {high:g}")
        if not math.isfinite(value):
            raise self.wrong(name, value, f"give a number from {low:g} to {high:g}")
        return float(value)

    def items(self, name: str) -> Sequence[object] | None:
        value = self.take(name)
        if value is not None and not isinstance(value, list):
            raise self.wrong(name, value, "give a list")
        return value

    def inner(self, name: str) -> Reader | None:
        value = self.take(name)
        return None if value is None else Reader(value, self.path(name))

    def needed(self, name: str) -> Reader:
        """An object that has to be there."""
        found = self.inner(name)
        if found is None:
            raise Problem(BAD, f"{self.path(name)} is missing", self.path(name))
        return found

    def needed_text(self, name: str) -> str:
        found = self.text(name)
        if not found:
            raise Problem(BAD, f"{self.path(name)} is missing; give a text", self.path(name))
        return found

    def only(self, name: str, values: Sequence[object]) -> None:
        """A field that may be given, but says only what is done anyway."""
        value = self.take(name)
        if value is not None and value not in values:
            raise self.wrong(name, value, f"it may only be {' or '.join(shown(one) for one in values)}")

    def done(self, remedies: Mapping[str, str] | None = None) -> None:
        """Refuse what is left, with a remedy where there is one."""
        for name, value in self._left.items():
            remedy = (remedies or {}).get(name, "leave it out")
            raise Problem(
                BAD,
                f"{self.path(name)} is {shown(value)}, which this server does not support; {remedy}",
                self.path(name),
                "unsupported_parameter",
            )


def shown(value: object) -> str:
    """A value in an error message, cut short."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
