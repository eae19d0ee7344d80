"""Facts pulled out of texts, and texts put into classes."""

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

CASES = [
    Case(
        "person",
        "Extract the person: Maria Lopez, a 41 year old baker from Lima.",
        obj({"name": text(40), "age": maybe(whole(0, 130)), "occupation": maybe(text(30))}),
    ),
    Case(
        "three heroes",
        "Give me three heroes as JSON, wrapped in a code fence",
        obj(
            {
                "heroes": arr(
                    obj({"name": text(24), "kind": word("hero", "villain", "sidekick"), "weakness": maybe(text(24))}),
                    3,
                    3,
                )
            }
        ),
    ),
    Case(
        "invoice",
        "Invoice INV-2024-017 of 2 March 2024: three chairs at 49.50 euros.",
        obj(
            {
                "number": like("^INV-[0-9]{4}-[0-9]{3}$"),
                "date": form("date"),
                "currency": word("EUR", "USD", "GBP"),
                "lines": arr(obj({"item": text(20), "quantity": whole(1, 99), "price": real(0, 10000, 0.01)}), 1, 3),
                "total": real(0, 100000, 0.01),
            }
        ),
    ),
    Case(
        "address",
        "Extract the address: 12 High Street, Leeds LS1 4AB, United Kingdom.",
        obj(
            {"street": text(40), "city": text(30), "postcode": text(10, 3), "country": like("^[A-Z]{2}$")},
            optional=("postcode",),
        ),
    ),
    Case(
        "receipt",
        "Coffee 3.20, cake 4.10, paid by card.",
        obj(
            {
                "items": {
                    "type": "object",
                    "additionalProperties": real(0, 100),
                    "minProperties": 1,
                    "maxProperties": 4,
                },
                "paid_by": word("cash", "card", "other"),
            }
        ),
    ),
    Case("sentiment", "I love this phone!", obj({"sentiment": word("positive", "neutral", "negative")})),
    Case(
        "topics",
        "The bank raised its rates while the team lost again.",
        obj({"topics": arr(word("finance", "sports", "politics", "science", "health"), 1, 3)}),
    ),
    Case(
        "spam",
        "Win a free cruise now! Is this spam?",
        obj({"is_spam": FLAG, "reason": text(80), "score": real(0, 1)}),
    ),
    Case(
        "entities",
        "Find the names: Ada Lovelace met Charles Babbage in London.",
        arr(obj({"text": text(30), "label": word("PERSON", "PLACE", "ORG"), "start": whole(0, 200)}), 0, 4),
    ),
    Case(
        "relations",
        "Paris is in France. The Seine flows through Paris.",
        obj(
            {
                "triples": arr(
                    {
                        "type": "array",
                        "prefixItems": [text(20), word("is_in", "flows_through", "borders"), text(20)],
                        "items": False,
                        "minItems": 3,
                    },
                    1,
                    3,
                )
            }
        ),
    ),
    Case("dates", "The fair runs from 1 July 2023 to 4 July 2023.", obj({"dates": arr(form("date"), 0, 4)})),
    Case(
        "phone numbers",
        "Call +44 20 7946 0000 or +1 202 555 0143.",
        arr(like("^\\+[1-9][0-9]{6,12}$"), 1, 3),
    ),
    Case(
        "resume",
        "Jane worked at Acme from 2015 to 2019 and at Initech since then. She knows Python and SQL.",
        {
            "type": "object",
            "properties": {
                "experience": {
                    "type": "array",
                    "maxItems": 2,
                    "items": {
                        "type": "object",
                        "properties": {
                            "employer": {"type": "string", "maxLength": 24},
                            "from": {"type": "integer", "minimum": 1950, "maximum": 2030},
                            "to": {"anyOf": [{"type": "integer", "minimum": 1950, "maximum": 2030}, {"type": "null"}]},
                        },
                        "required": ["employer", "from", "to"],
                        "additionalProperties": False,
                    },
                },
                "skills": {"type": "array", "items": {"type": "string", "maxLength": 16}, "maxItems": 4},
            },
            "required": ["experience", "skills"],
            "additionalProperties": False,
        },
    ),
    Case(
        "product",
        "A green mug, sold out, price on request.",
        obj({"name": text(30), "color": text(12), "in_stock": FLAG, "price": either(real(0, 9999), NULL)}),
    ),
    Case(
        "recipe",
        "How do I make pancakes?",
        obj(
            {
                "title": text(40),
                "minutes": whole(1, 240),
                "ingredients": arr(
                    obj({"name": text(20), "amount": real(0, 1000), "unit": word("g", "ml", "piece")}), 2, 4
                ),
                "steps": arr(text(80), 1, 3),
            }
        ),
    ),
    Case(
        "minutes of a meeting",
        "We agreed to ship on Friday. Tom writes the notes.",
        obj(
            {
                "decisions": arr(text(60), 0, 2),
                "actions": arr(obj({"task": text(40), "owner": maybe(text(20)), "due": maybe(form("date"))}), 0, 2),
            }
        ),
    ),
    Case(
        "film review",
        "A slow start, but what an ending. Four stars.",
        obj({"stars": real(0.5, 5, 0.5), "pros": arr(text(40), most=2), "cons": arr(text(40), most=2)}),
    ),
    Case(
        "language",
        "Which language is this: Guten Tag, wie geht es Ihnen?",
        obj({"code": like("^[a-z]{2}$"), "confidence": {"type": "number", "minimum": 0, "exclusiveMaximum": 1}}),
    ),
    Case(
        "moderation",
        "Is this message harmful: have a nice day!",
        obj({"categories": obj({"hate": FLAG, "violence": FLAG, "self_harm": FLAG}), "flagged": FLAG}),
    ),
    Case("severity", "The site is down for everybody. How severe is it, from 1 to 5?", {"enum": [1, 2, 3, 4, 5]}),
    Case(
        "contact",
        "Reach Lee at lee@example.org.",
        obj({"email": maybe(form("email", 40)), "phone": maybe(like("^[0-9]{7,10}$")), "name": text(20)}),
    ),
    Case("quotes", "List famous first words of two novels.", arr(text(90, 10), 1, 2)),
    Case(
        "place",
        "Where is the Eiffel Tower?",
        obj({"latitude": real(-90, 90), "longitude": real(-180, 180), "place": text(40)}),
    ),
    Case(
        "table",
        "Make a table of two fruits and their colours.",
        obj({"columns": arr(text(12), 2, 2), "rows": arr(arr(text(12), 2, 2), 1, 3)}),
    ),
    Case(
        "questions and answers",
        "Write two quiz questions about the sea.",
        arr(obj({"question": text(80), "answer": text(40), "hint": text(40)}, optional=("hint",)), 1, 2),
    ),
    Case("keywords", "Keywords of a text about bees and honey?", arr(like("^[a-z]{3,12}$"), 2, 5)),
    Case("summary", "Summarise: the cat sat on the mat all day long.", obj({"summary": text()})),
    Case(
        "timeline",
        "When did people first fly, and first reach the Moon?",
        obj({"events": arr(obj({"year": like("^(19|20)[0-9]{2}$"), "event": text(50)}), 1, 3)}),
    ),
    Case(
        "dosage",
        "Take 200 mg of ibuprofen every eight hours.",
        obj(
            {
                "drug": text(24),
                "dose": obj(
                    {"value": {"type": "number", "exclusiveMinimum": 0, "maximum": 5000}, "unit": word("mg", "ml")}
                ),
                "every_hours": {"type": "integer", "enum": [4, 6, 8, 12, 24]},
            }
        ),
    ),
    Case(
        "paper",
        "Cite a paper about deep learning by LeCun and Hinton.",
        {
            "type": "object",
            "properties": {
                "doi": {"type": ["string", "null"], "pattern": "^10\\.[0-9]{4}/[a-z0-9.]{1,12}$"},
                "authors": {"type": "array", "items": {"$ref": "#/$defs/author"}, "minItems": 1, "maxItems": 3},
                "editor": {"$ref": "#/$defs/author"},
            },
            "required": ["doi", "authors"],
            "additionalProperties": False,
            "$defs": {"author": obj({"family": text(16), "given": text(16)})},
        },
    ),
    Case("chess", "Which opening move would you play?", obj({"move": like("^[a-h][1-8][a-h][1-8]$"), "check": FLAG})),
    Case(
        "intent",
        "I want to cancel my order number 5512.",
        {
            "oneOf": [
                obj({"intent": {"const": "cancel"}, "order": like("^[0-9]{4}$")}),
                obj({"intent": {"const": "track"}, "order": like("^[0-9]{4}$")}),
                obj({"intent": {"const": "other"}, "text": text(60)}),
            ]
        },
    ),
    Case(
        "syntax tree",
        'Copy this tree: {"root":{"tag":"S","word":null,"parts":[{"tag":"N","word":"dogs","parts":[]}]}}',
        {
            "$defs": {
                "node": obj(
                    {"tag": word("S", "NP", "VP", "N", "V"), "word": maybe(text(10)), "parts": arr(ref("node"), 0, 2)}
                )
            },
            "type": "object",
            "properties": {"root": ref("node")},
            "required": ["root"],
            "additionalProperties": False,
        },
    ),
]
