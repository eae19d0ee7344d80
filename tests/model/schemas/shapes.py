"""Single features and their combinations: values that are no objects, unions, recursion, other scripts, depth."""

from __future__ import annotations

from tests.model.schemas.build import (
    FLAG,
    NULL,
    Case,
    arr,
    either,
    form,
    like,
    maybe,
    obj,
    real,
    ref,
    text,
    whole,
    word,
)

_COERCED = {"x-guidance": {"coerce_one_of": True}}

CASES = [
    Case("a string", "Say hello in one word.", text(12)),
    Case("an exact length", "Write a three letter word.", text(3, 3)),
    Case("an enum", "Which season is the coldest?", word("spring", "summer", "autumn", "winter")),
    Case("an integer", "How many legs has a spider?", whole(0, 100)),
    Case("a negative integer", "How cold is it at the pole, in Celsius?", whole(-90, -1)),
    Case("a number", "What is pi, roughly?", real(3, 4)),
    Case(
        "an open interval",
        "Pick a number between zero and one.",
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "multipleOf": 0.01},
    ),
    Case("quarters", "How many hours is 75 minutes?", real(0, 24, 0.25)),
    Case("a multiple", "Name a multiple of seven below a hundred.", whole(0, 99, 7)),
    Case("any integer", "In which year did the second world war end?", obj({"year": {"type": "integer"}})),
    Case("a boolean", "Is the sky blue?", FLAG),
    Case("only null", "Nothing to say.", NULL),
    Case("only true", "Agree with me.", {"const": True}),
    Case(
        "a constant object",
        "Acknowledge the message.",
        {"const": {"ok": True, "code": 200, "tags": ["a", "b"], "note": None}},
    ),
    Case("mixed constants", "One of these, please.", {"enum": [1, "one", None, True, {"one": 1}, [1]]}),
    Case(
        "a union of types",
        "What is your favourite number or word?",
        {"type": ["string", "integer"], "maxLength": 16, "minimum": 0, "maximum": 999},
    ),
    Case("one of two types", "Give a name or nothing.", {"oneOf": [text(20), NULL]}),
    Case("a list of words", "Name three colours.", arr(text(12), 3, 3)),
    Case("a list without end", "Name some rivers.", arr(text(20))),
    Case("an empty list or more", "Which of these is a fruit: stone, brick?", arr(word("stone", "brick"), 0, 2)),
    Case("a list of booleans", "Are these true: 1 < 2, 3 < 2, 5 < 9?", arr(FLAG, 3, 3)),
    Case("lists of lists of lists", "A small cube of zeros and ones.", arr(arr(arr(whole(0, 1), 2, 2), 2, 2), 2, 2)),
    Case("ragged lists", "Group the numbers one to six.", arr(arr(whole(1, 6), 0, 3), 1, 3)),
    Case(
        "a pair",
        "A country and its population in millions.",
        {"type": "array", "prefixItems": [text(16), whole(0, 1500)], "items": False, "minItems": 2},
    ),
    Case(
        "a head and a tail",
        "A title, then numbers.",
        {"type": "array", "prefixItems": [text(16)], "items": whole(0, 9), "minItems": 2, "maxItems": 4},
    ),
    Case(
        "a sum of cases",
        "A circle with radius two.",
        {
            "oneOf": [
                obj({"circle": obj({"r": real(0, 9)})}),
                obj({"square": obj({"side": real(0, 9)})}),
                obj({"text": text(9)}),
            ]
        },
    ),
    Case("overlapping cases", "A number that may be small.", {"oneOf": [whole(0, 9), whole(100, 999)]} | _COERCED),
    Case(
        "a tagged union by reference",
        "Describe a cat.",
        {
            "$defs": {
                "Cat": {
                    "type": "object",
                    "properties": {"kind": {"const": "cat", "type": "string"}, "lives": whole(1, 9)},
                    "required": ["kind", "lives"],
                    "additionalProperties": False,
                },
                "Dog": {
                    "type": "object",
                    "properties": {"kind": {"const": "dog", "type": "string"}, "barks": FLAG},
                    "required": ["kind", "barks"],
                    "additionalProperties": False,
                },
            },
            "oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}],
            "discriminator": {"propertyName": "kind", "mapping": {"cat": "#/$defs/Cat", "dog": "#/$defs/Dog"}},
            **_COERCED,
        },
    ),
    Case(
        "all of two",
        "A named thing with a price.",
        {
            "allOf": [
                {"$ref": "#/$defs/named"},
                {"type": "object", "properties": {"price": real(0, 99)}, "required": ["price"]},
            ],
            "$defs": {"named": {"type": "object", "properties": {"name": text(16)}, "required": ["name"]}},
        },
    ),
    Case(
        "all of three bounds",
        "A number between ten and twenty.",
        {"type": "integer", "allOf": [{"minimum": 10}, {"maximum": 20}, {"multipleOf": 2}]},
    ),
    Case(
        "anyOf beside properties",
        "A parcel with a code or a name.",
        {
            "type": "object",
            "properties": {"kg": whole(1, 9)},
            "required": ["kg"],
            "anyOf": [
                {"properties": {"code": like("^[0-9]{4}$")}, "required": ["code"]},
                {"properties": {"name": text(16)}, "required": ["name"]},
            ],
        },
    ),
    Case(
        "a linked list",
        'Like {"n":1,"next":{"n":2,"next":null}}, but with 3 and 4.',
        {"$ref": "#/$defs/stop", "$defs": {"stop": obj({"n": whole(0, 9), "next": either(ref("stop"), NULL)})}},
    ),
    Case(
        "a tree",
        'Copy this tree: {"value":1,"left":{"value":2,"left":null,"right":null},"right":null}',
        {
            "$ref": "#/$defs/tree",
            "$defs": {
                "tree": obj(
                    {"value": whole(0, 9), "left": either(NULL, ref("tree")), "right": either(NULL, ref("tree"))}
                )
            },
        },
    ),
    Case(
        "an expression",
        'Copy this tree: ["*",["+",1,2],3]',
        {
            "$ref": "#/$defs/e",
            "$defs": {
                "e": {
                    "type": "array",
                    "prefixItems": [word("+", "*"), ref("o"), ref("o")],
                    "items": False,
                    "minItems": 3,
                },
                "o": either(whole(0, 9), ref("e")),
            },
        },
    ),
    Case(
        "two that need each other",
        'Copy this: {"name":"a","entries":[{"name":"b","entries":[{"file":"c"}]}]}',
        {
            "$ref": "#/$defs/folder",
            "$defs": {
                "folder": obj({"name": text(8), "entries": arr(ref("entry"), 0, 2)}),
                "entry": either(obj({"file": text(10)}), ref("folder")),
            },
        },
    ),
    Case(
        "a reference to the root",
        'Copy this: {"name":"animals","children":[{"name":"cats","children":[]}]}',
        {
            "type": "object",
            "properties": {"name": text(12), "children": {"type": "array", "items": {"$ref": "#"}, "maxItems": 2}},
            "required": ["name", "children"],
            "additionalProperties": False,
        },
    ),
    Case(
        "definitions of draft 7",
        "Use metres and seconds.",
        {
            "type": "object",
            "properties": {
                "length": {"$ref": "#/definitions/length"},
                "time": {"$ref": "#/definitions/time"},
                "round": {"type": "integer", "minimum": 0, "maximum": 6},
            },
            "required": ["length", "time"],
            "additionalProperties": False,
            "definitions": {"length": {"enum": ["m", "ft"]}, "time": {"enum": ["s", "h"]}},
        },
    ),
    Case(
        "chinese keys",
        "介绍一下北京。",
        obj({"名称": text(12), "类型": word("城市", "国家", "河流"), "人口": maybe(whole(0, 99999999))}),
    ),
    Case(
        "german words",
        "Beschreibe das Wetter in Köln.",
        obj({"Größe": word("groß", "klein"), "Straße": text(20), "schön": FLAG}),
    ),
    Case(
        "signs and symbols",
        "Rate the soup.",
        obj({"⭐": whole(1, 5), "mood": word("😀", "😐", "😡"), "price": word("€", "€€", "€€€")}),
    ),
    Case(
        "keys that need escapes",
        "Fill in the fields.",
        obj({'say "hi"': FLAG, "back\\slash": whole(0, 9), "new\nline": word("a\tb", 'c"d')}),
    ),
    Case(
        "arabic and russian",
        "Choose a greeting.",
        obj({"сообщение": word("привет", "пока"), "الرد": word("مرحبا", "شكرا")}),
    ),
    Case(
        "six levels deep",
        "Put a seed into boxes inside boxes.",
        obj({"a": obj({"b": obj({"c": obj({"d": obj({"e": obj({"seed": word("oak", "elm")})})})})})}),
    ),
    Case(
        "many choices",
        "Which month is it when leaves fall?",
        obj(
            {
                "month": word(
                    "January",
                    "February",
                    "March",
                    "April",
                    "May",
                    "June",
                    "July",
                    "August",
                    "September",
                    "October",
                    "November",
                    "December",
                )
            }
        ),
    ),
    Case(
        "many flags",
        "Which of the properties hold for water?",
        obj(dict.fromkeys(("wet", "solid", "flammable", "drinkable", "sweet", "clear", "magnetic", "heavy"), FLAG)),
    ),
    Case(
        "one optional of many",
        "Set exactly what is asked: width 300.",
        {
            "type": "object",
            "properties": {"width": whole(0, 999), "height": whole(0, 999), "depth": whole(0, 999)},
            "additionalProperties": False,
            "minProperties": 1,
            "maxProperties": 1,
        },
    ),
    Case(
        "all formats",
        "Fill in an identity card of a machine.",
        obj(
            {
                "id": form("uuid"),
                "made": form("date"),
                "seen": form("date-time", 30),
                "at": form("time", 14),
                "for": form("duration", 8),
                "ip": form("ipv4"),
                "host": form("hostname", 20),
                "mail": form("email", 30),
            }
        ),
    ),
    Case("a pattern anywhere", "A password with a digit in it.", like("[0-9]", 10)),
    Case("alternatives in a pattern", "A version tag.", like("^v[0-9]{1,2}\\.[0-9]{1,2}(-(alpha|beta|rc[0-9]))?$")),
    Case("a long text", "Tell a short story about a bear.", obj({"story": text(400, 100)})),
    Case("anything in an object", "A fact about cats.", obj({"fact": text(60), "extra": {}}, optional=("extra",))),
]
