"""What a schema case is, and short words for the parts of JSON schema that the cases are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """A question to the model, and the schema that its answer must have."""

    name: str
    prompt: str
    schema: Schema


@dataclass(frozen=True, slots=True)
class Refused:
    """A schema that the grammar engine cannot honour, and what its error must mention."""

    name: str
    schema: Any  # also what is no schema at all
    mentions: str


def obj(properties: Mapping[str, Any], optional: Sequence[str] = (), extra: Any = False) -> Schema:
    """An object; every property is required but the optional ones. extra: the schema of all others."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": extra}


def arr(items: Any, least: int | None = None, most: int | None = None) -> Schema:
    return {"type": "array", "items": items, **_given(minItems=least, maxItems=most)}


def text(most: int | None = None, least: int | None = None) -> Schema:
    return {"type": "string", **_given(minLength=least, maxLength=most)}


def like(pattern: str, most: int | None = None) -> Schema:
    return {"type": "string", "pattern": pattern, **_given(maxLength=most)}


def form(name: str, most: int | None = None) -> Schema:
    """A string of a known format."""
    return {"type": "string", "format": name, **_given(maxLength=most)}


def word(*values: str) -> Schema:
    """One of these strings."""
    return {"type": "string", "enum": list(values)}


def whole(low: int | None = None, high: int | None = None, step: int | None = None) -> Schema:
    return {"type": "integer", **_given(minimum=low, maximum=high, multipleOf=step)}


def real(low: float | None = None, high: float | None = None, step: float | None = None) -> Schema:
    return {"type": "number", **_given(minimum=low, maximum=high, multipleOf=step)}


def maybe(schema: Schema) -> Schema:
    """The same or null, with a list of types; an enum lists null too."""
    with_null = {**schema, "type": [schema["type"], "null"]}
    return {**with_null, "enum": [*schema["enum"], None]} if "enum" in schema else with_null


def either(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}


def ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


FLAG: Schema = {"type": "boolean"}
NULL: Schema = {"type": "null"}


def _given(**values: float | None) -> dict[str, float]:
    return {name: value for name, value in values.items() if value is not None}
