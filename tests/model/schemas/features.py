"""Which features of JSON schema a case has, read off the schema itself, and which of them an answer made use of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator

_NUMBER, _TEXT, _LIST, _OBJECT = (int, float), (str,), (list,), (dict,)
# What an answer must be for a keyword to say anything about it.
_ABOUT: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format"), _TEXT),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), _NUMBER),
    **dict.fromkeys(("minItems", "maxItems", "prefixItems", "nested arrays", "lists of objects"), _LIST),
    **dict.fromkeys(("minProperties", "maxProperties", "patternProperties", "optional", "closed", "map"), _OBJECT),
}
_UNIONS = ("anyOf", "oneOf", "allOf")
_ALWAYS = ("enum", "const", "$ref", *_UNIONS, "nullable", "several types")
_WHOLE = ("recursion", "other scripts", "deep", "no object")
ALL = frozenset({*_ABOUT, *_ALWAYS, *_WHOLE})
_DEEP = 5  # levels


def of_schema(schema: Any) -> frozenset[str]:
    """The features of a schema."""
    names = {name for node in _nodes(schema) for name in _names(node)}
    if any(_reaches(schema, node["$ref"], node["$ref"], set()) for node in _nodes(schema) if "$ref" in node):
        names.add("recursion")
    if not str(schema).isascii():
        names.add("other scripts")
    if _levels(schema) >= _DEEP:
        names.add("deep")
    if "type" in schema and schema["type"] != "object":
        names.add("no object")
    return frozenset(names)


def of_answer(schema: Any, value: Any) -> frozenset[str]:
    """The features that decided something about this valid answer: maxLength, say, only where there was a string."""
    names = set(_visited(schema, schema, value, ("#",)))
    if not str(value).isascii():
        names.add("other scripts")
    if _depth(value) >= _DEEP:
        names.add("deep")
    if not isinstance(value, dict):
        names.add("no object")
    return frozenset(names)


def _names(node: dict[str, Any]) -> Iterator[str]:
    """The features of one schema without those inside it."""
    yield from (name for name in (*_ABOUT, *_ALWAYS) if name in node)
    types = node["type"] if isinstance(node.get("type"), list) else []
    if "null" in types or {"type": "null"} in [*node.get("anyOf", ()), *node.get("oneOf", ())]:
        yield "nullable"
    if len(types) - ("null" in types) > 1:
        yield "several types"
    if set(node.get("properties", ())) - set(node.get("required", ())):
        yield "optional"
    if node.get("additionalProperties") is False:
        yield "closed"
    if isinstance(node.get("additionalProperties"), dict):
        yield "map"
    if isinstance(node.get("items"), dict):
        yield from {"array": ["nested arrays"], "object": ["lists of objects"]}.get(str(node["items"].get("type")), [])


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """A schema and all those inside it."""
    if not isinstance(schema, dict):
        return
    yield schema
    for key in ("properties", "patternProperties", "$defs", "definitions"):
        for inner in schema.get(key, {}).values():
            yield from _nodes(inner)
    for key in ("prefixItems", *_UNIONS):
        for inner in schema.get(key, ()):
            yield from _nodes(inner)
    for key in ("items", "additionalProperties"):
        yield from _nodes(schema.get(key))


def _visited(root: Any, schema: Any, value: Any, references: tuple[str, ...]) -> Iterator[str]:
    """The features of all schemas that say something about a part of the value."""
    if not isinstance(schema, dict):
        return
    yield from (name for name in _names(schema) if name not in _ABOUT or _is(value, _ABOUT[name]))
    if "$ref" in schema:
        target = schema["$ref"]
        if target in references:
            yield "recursion"
        yield from _visited(root, _resolved(root, target), value, (*references, target))
    fits = Draft202012Validator(root)
    for union in _UNIONS:
        for branch in schema.get(union, ()):
            if fits.evolve(schema=branch).is_valid(value):
                yield from _visited(root, branch, value, references)
    for inner, part in _parts(schema, value):
        yield from _visited(root, inner, part, references)


def _parts(schema: dict[str, Any], value: Any) -> Iterator[tuple[Any, Any]]:
    """The parts of a value, each with the schema that it must have."""
    if isinstance(value, dict):
        known = schema.get("properties", {})
        others = next(iter(schema.get("patternProperties", {}).values()), schema.get("additionalProperties"))
        yield from ((known.get(key, others), part) for key, part in value.items())
    if isinstance(value, list):
        first = schema.get("prefixItems", [])
        yield from zip(first, value, strict=False)
        yield from ((schema.get("items"), part) for part in value[len(first) :])


def _is(value: Any, types: tuple[type, ...]) -> bool:
    return isinstance(value, types) and not isinstance(value, bool)


def _resolved(root: Any, target: str) -> Any:
    for key in target.removeprefix("#").strip("/").split("/"):
        root = root[key] if key else root
    return root


def _reaches(root: Any, target: str, goal: str, seen: set[str]) -> bool:
    """Whether following a reference leads back to it."""
    if target == "#":
        return True
    for node in _nodes(_resolved(root, target)):
        reference = node.get("$ref")
        if reference == goal:
            return True
        if reference is not None and reference not in seen:
            seen.add(reference)
            if _reaches(root, reference, goal, seen):
                return True
    return False


def _levels(schema: Any) -> int:
    """Objects and arrays inside one another, references left out."""
    if not isinstance(schema, dict):
        return 0
    below = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    branches = [branch for union in _UNIONS for branch in schema.get(union, ())]
    own = schema.get("type") in ("object", "array")
    return max([own + max(map(_levels, below), default=0), *map(_levels, branches)])


def _depth(value: Any) -> int:
    if isinstance(value, dict | list):
        return 1 + max(map(_depth, value.values() if isinstance(value, dict) else value), default=0)
    return 0
