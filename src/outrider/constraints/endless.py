"""Finds schemas that no finite text satisfies: each value would have to hold another like itself, for ever.

llguidance compiles them, and an answer would run into its length. What is finite is the least fixed point of a few
rules, found by a work list; whatever this module does not know counts as finite, and is somebody else's complaint.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, TypeAlias

Node: TypeAlias = Any  # a schema: an object or a boolean


def is_endless(schema: Node) -> bool:
    """Whether every value that the schema allows would be infinitely deep."""
    nodes = list(_schemas(schema))
    users: dict[int, list[Node]] = defaultdict(list)
    for node in nodes:
        for used in _used(node, schema):
            users[id(used)].append(node)
    finite: set[int] = set()
    waiting = list(nodes)  # from the end: what is inside comes first
    while waiting:
        node = waiting.pop()
        if id(node) not in finite and _is_finite(node, schema, finite):
            finite.add(id(node))
            waiting += [user for user in users[id(node)] if id(user) not in finite]
    return isinstance(schema, dict) and id(schema) not in finite


def _schemas(value: Node) -> Iterator[Node]:
    """Every object in the schema, those that are no schemas too: they do no harm."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            yield found
            waiting += found.values()
        elif isinstance(found, list):
            waiting += found


def _is_finite(node: Node, root: Node, finite: set[int]) -> bool:
    def known(other: Node) -> bool:
        return not isinstance(other, dict) or id(other) in finite

    if "$ref" in node and not known(_target(node["$ref"], root)):
        return False
    if not all(map(known, _listed(node, "allOf"))):
        return False
    if not all(any(map(known, cases)) for cases in (_listed(node, "anyOf"), _listed(node, "oneOf")) if cases):
        return False
    if "const" in node or "enum" in node or "type" not in node:
        return True
    types = node["type"] if isinstance(node["type"], list) else [node["type"]]
    return not types or any(all(map(known, _needed(node, kind))) for kind in types)


def _used(node: Node, root: Node) -> Iterator[Node]:
    """The schemas on which a schema's finiteness depends."""
    if "$ref" in node:
        yield _target(node["$ref"], root)
    for key in ("allOf", "anyOf", "oneOf"):
        yield from _listed(node, key)
    for kind in ("object", "array"):
        yield from _needed(node, kind)


def _needed(node: Node, kind: object) -> Iterator[Node]:
    """The schemas of the values that a value of this type cannot do without."""
    if kind == "object":
        properties = node.get("properties")
        for name in _listed(node, "required"):
            known = isinstance(properties, dict) and isinstance(name, str) and name in properties
            yield properties[name] if known else node.get("additionalProperties", True)
    elif kind == "array":
        least = node.get("minItems", 0)
        first = _listed(node, "prefixItems")
        if isinstance(least, int):
            yield from first[:least]
            if least > len(first):
                yield node.get("items", True)


def _listed(node: Node, key: str) -> list[Node]:
    found = node.get(key)
    return found if isinstance(found, list) else []


def _target(reference: object, root: Node) -> Node:
    """What a pointer into this schema points to; True for any other reference."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return True
    found = root
    for part in reference[1:].split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and part in found:
            found = found[part]
        elif isinstance(found, list) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            return True
    return found
