"""Schemas that nothing finite satisfies are found, and no others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from outrider.api import Constraint, ConstraintKind
from outrider.constraints import sources
from outrider.constraints.endless import is_endless
from outrider.errors import UsageError

ROOT = {"$ref": "#"}
LEAF = {"type": "string"}


def obj(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


def defs(start: str, **definitions: Any) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{start}", "$defs": definitions}


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}


ENDLESS: dict[str, Any] = {
    "itself": ROOT,
    "a required child": obj(["a"], a=ROOT),
    "a required child that is not described": {**obj(["a"]), "additionalProperties": ROOT},
    "two that need each other": defs("a", a=obj(["b"], b=ref("b")), b=obj(["a"], a=ref("a"))),
    "every case": {"anyOf": [obj(["a"], a=ROOT), {"type": "array", "items": ROOT, "minItems": 1}]},
    "every type": {
        "type": ["object", "array"],
        "properties": {"a": ROOT},
        "required": ["a"],
        "minItems": 1,
        "items": ROOT,
    },
    "one of all": {"allOf": [LEAF, ROOT]},
    "the first of a tuple": {"type": "array", "prefixItems": [ROOT, LEAF], "minItems": 1},
    "through a case of its own": obj(["a"], a={"oneOf": [ROOT]}),
}
FINITE: dict[str, Any] = {
    "anything": {},
    "a list": {"type": "array", "items": ROOT},
    "an optional child": obj([], a=ROOT),
    "a child or null": obj(["a"], a={"anyOf": [ROOT, {"type": "null"}]}),
    "a type or another": {"type": ["object", "null"], "properties": {"a": ROOT}, "required": ["a"]},
    "no type": {"properties": {"a": ROOT}, "required": ["a"]},
    "an enum": {"enum": [1], "properties": {"a": ROOT}, "required": ["a"], "type": "object"},
    "a tuple that may be short": {"type": "array", "prefixItems": [LEAF, ROOT], "minItems": 1},
    "one that needs a finite one": defs("a", a=obj(["b"], b=ref("b")), b=obj(["c"], c=LEAF, a=ref("a"))),
    "a reference to nothing": {"$ref": "#/$defs/none"},
    "a reference to elsewhere": {"$ref": "https://example.com/x"},
    "a pointer with escapes": {"$ref": "#/$defs/a~1b~0c", "$defs": {"a/b~c": LEAF}},
    "nonsense": {"type": 5, "required": 7, "minItems": "x", "allOf": {}},
}


@pytest.mark.parametrize("name", ENDLESS)
def test_endless(name: str) -> None:
    assert is_endless(ENDLESS[name])
    with pytest.raises(UsageError, match="can never end: each value would hold another like itself"):
        sources.source(Constraint(ConstraintKind.JSON_SCHEMA, json.dumps(ENDLESS[name])))


@pytest.mark.parametrize("name", FINITE)
def test_finite(name: str) -> None:
    assert not is_endless(FINITE[name])


def test_long_chains_take_no_time() -> None:
    """Definitions in the worst order, each needing the next: the last decides."""
    links = {f"d{link}": obj(["next"], next=ref(f"d{link + 1}")) for link in range(5_000)}
    assert is_endless(defs("d0", **links, d5000=ref("d0")))
    assert not is_endless(defs("d0", **links, d5000=LEAF))
