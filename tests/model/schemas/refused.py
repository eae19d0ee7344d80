"""Schemas that cannot be honoured: each is refused before the first token, with an error that names the trouble."""

from __future__ import annotations

from tests.model.schemas.build import FLAG, Refused, arr, obj, ref, text, whole

CASES = [
    Refused("not", {"type": "string", "not": {"enum": ["no"]}}, "not"),
    Refused("uniqueItems", obj({"tags": {**arr(text(9)), "uniqueItems": True}}), "uniqueItems"),
    Refused("contains", {"type": "array", "contains": {"const": 7}}, "contains"),
    Refused("if, then, else", {"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"type": "integer"}}, "if"),
    Refused("dependentRequired", {"type": "object", "dependentRequired": {"card": ["zip"]}}, "dependentRequired"),
    Refused("dependentSchemas", {"type": "object", "dependentSchemas": {"a": obj({"b": FLAG})}}, "dependentSchemas"),
    Refused("dependencies of draft 7", {"type": "object", "dependencies": {"a": ["b"]}}, "dependencies"),
    Refused("propertyNames", {"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}}, "propertyNames"),
    Refused("unevaluatedProperties", {"type": "object", "unevaluatedProperties": False}, "unevaluatedProperties"),
    Refused("a dynamic reference", arr({"$dynamicRef": "#node"}), "$dynamicRef"),
    Refused("an unknown format", obj({"price": {"type": "string", "format": "currency"}}), "currency"),
    Refused("a format of OpenAPI", obj({"secret": {"type": "string", "format": "password"}}), "password"),
    Refused("a reference to nothing", obj({"a": ref("missing")}), "missing"),
    Refused("a reference to elsewhere", {"$ref": "https://example.com/pet.json"}, "example.com"),
    Refused("a minimum over the maximum", obj({"age": whole(9, 3)}), "'age'"),
    Refused("no length is right", text(2, 5), "minLength"),
    Refused("no count is right", arr(FLAG, 3, 1), "minItems"),
    Refused("no multiple in reach", whole(1, 2, 5), "multiple"),
    Refused("two types at once", {"allOf": [text(), whole()]}, "incompatible"),
    Refused("an empty enum", {"enum": []}, "empty"),
    Refused("a required property that may not be", obj({"a": FLAG}) | {"required": ["b"]}, "'b'"),
    Refused("cases that may overlap", {"oneOf": [text(3), text(5)]}, "oneOf"),
    Refused(
        "references that may overlap",
        {"oneOf": [ref("a"), ref("b")], "$defs": {"a": obj({"k": {"const": 1}}), "b": obj({"k": {"const": 2}})}},
        "oneOf",
    ),
    Refused("a pattern that looks ahead", {"type": "string", "pattern": "^(?=.*[0-9]).{8,}$"}, "look"),
    Refused("a pattern that looks back", {"type": "string", "pattern": "^(a|b)\\1$"}, "backreference"),
    Refused("a pattern that does not close", {"type": "string", "pattern": "^(abc$"}, "unclosed"),
    Refused("an unknown type", {"type": "decimal"}, "decimal"),
    Refused("a length below zero", {"type": "string", "maxLength": -1}, "maxLength"),
    Refused("required is no list", {"type": "object", "required": "name"}, "required"),
    Refused("nothing is allowed", False, "false"),
    Refused("a list in place of a schema", [{"type": "string"}], "object"),
]
