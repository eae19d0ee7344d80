"""Forms that people fill in: accounts, orders, surveys, bookings."""

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
        "sign up",
        "Create an account for Kim, born in 1990.",
        obj(
            {
                "username": like("^[a-z][a-z0-9_]{2,11}$"),
                "email": form("email", 40),
                "birth_date": form("date"),
                "newsletter": FLAG,
            }
        ),
    ),
    Case(
        "checkout",
        "Two books for 24.90, standard delivery to Berlin.",
        obj(
            {
                "cart": arr(obj({"sku": like("^[A-Z]{2}-[0-9]{4}$"), "count": whole(1, 10)}), 1, 2),
                "delivery": word("standard", "express", "pickup"),
                "gift_note": maybe(text(60)),
                "coupon": like("^[A-Z0-9]{5,8}$"),
            },
            optional=("coupon",),
        ),
    ),
    Case(
        "survey",
        "Answer the survey: how did you like the workshop?",
        obj(
            {
                "overall": whole(1, 10),
                "would_recommend": FLAG,
                "liked": arr(word("speaker", "topic", "venue", "food"), 0, 2),
                "comment": text(100),
            }
        ),
    ),
    Case(
        "hotel booking",
        "A double room in Lisbon for three nights from 9 September 2025.",
        obj(
            {
                "city": text(20),
                "check_in": form("date"),
                "nights": whole(1, 30),
                "room": word("single", "double", "suite"),
                "guests": arr(obj({"name": text(24), "child": FLAG}), 1, 3),
            }
        ),
    ),
    Case(
        "job application",
        "Apply for a job as a gardener.",
        obj(
            {
                "position": text(30),
                "start": form("date"),
                "salary": either(whole(20000, 90000, 500), {"const": "negotiable"}),
                "references": arr(obj({"name": text(20), "email": form("email", 30)}), 0, 1),
            }
        ),
    ),
    Case(
        "insurance claim",
        "A branch fell on my car on Tuesday.",
        obj(
            {
                "kind": word("storm", "theft", "fire", "collision"),
                "amount": real(0, 50000, 0.5),
                "injured": FLAG,
                "police_report": {"anyOf": [like("^PR[0-9]{6}$"), NULL], "default": None},
            }
        ),
    ),
    Case(
        "tax form",
        "Fill in the form for Alex, single, no children.",
        obj(
            {
                "id": like("^[0-9]{3}-[0-9]{2}-[0-9]{4}$"),
                "status": word("single", "married", "widowed"),
                "children": whole(0, 12),
                "income": whole(0, 1000000, 10),
            }
        ),
    ),
    Case(
        "library card",
        "Renew my library card for two years.",
        obj({"card": like("^L[0-9]{7}$"), "years": {"enum": [1, 2, 5]}, "send_by": word("post", "mail", "none")}),
    ),
    Case(
        "feedback",
        "The delivery was late but the food was hot.",
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "Feedback",
            "type": "object",
            "properties": {
                "rating": {"type": "integer", "minimum": 1, "maximum": 5, "examples": [4]},
                "text": {"type": "string", "description": "In the customer's words", "maxLength": 120},
                "contact_me": {"type": "boolean", "default": False},
            },
            "required": ["rating", "text", "contact_me"],
            "additionalProperties": False,
        },
    ),
    Case(
        "payment",
        "Pay the bill with my card.",
        {
            "type": "object",
            "properties": {
                "method": {
                    "oneOf": [
                        obj(
                            {
                                "kind": {"const": "card"},
                                "last4": like("^[0-9]{4}$"),
                                "expires": like("^[0-9]{2}/[0-9]{2}$"),
                            }
                        ),
                        obj({"kind": {"const": "iban"}, "iban": like("^[A-Z]{2}[0-9]{14}$")}),
                        obj({"kind": {"const": "cash"}}),
                    ]
                },
                "amount_cents": whole(1, 1000000),
            },
            "required": ["method", "amount_cents"],
            "additionalProperties": False,
        },
    ),
    Case(
        "visa",
        "Apply for a visa for a trip to Japan in October.",
        obj(
            {
                "passport": like("^[A-Z][0-9]{7}$"),
                "nationality": like("^[A-Z]{3}$"),
                "purpose": word("tourism", "business", "study"),
                "stay_days": whole(1, 90),
                "earlier_visits": arr(obj({"country": text(16), "year": whole(1990, 2025)}), 0, 2),
            }
        ),
    ),
    Case(
        "donation",
        "Give ten dollars a month to the animal shelter.",
        obj({"amount": real(1, 500), "monthly": FLAG, "anonymous": FLAG, "message": maybe(text(50))}),
    ),
    Case(
        "appointment",
        "I need to see the dentist on a morning next week.",
        obj(
            {
                "doctor": word("dentist", "gp", "optician"),
                "day": word("mon", "tue", "wed", "thu", "fri"),
                "time": like("^(0[89]|1[0-7]):(00|30)$"),
            }
        ),
    ),
    Case(
        "event ticket",
        "Deux places au rang F pour le concert.",
        obj({"places": arr(like("^[A-J][1-9][0-9]?$"), 1, 4), "catégorie": {"type": "integer", "enum": [1, 2, 3]}}),
    ),
    Case(
        "car rental",
        "Rent a small car in Nice from Monday to Thursday with a child seat.",
        obj(
            {
                "pickup": form("date-time"),
                "days": whole(1, 28),
                "class": word("mini", "compact", "van"),
                "extras": obj({"child_seat": FLAG, "gps": FLAG, "second_driver": maybe(text(20))}),
            }
        ),
    ),
    Case(
        "pet registration",
        "Register my dog Rex, a four year old beagle.",
        obj(
            {
                "name": text(16),
                "species": word("dog", "cat", "rabbit"),
                "age": whole(0, 30),
                "chip": maybe(like("^[0-9]{15}$")),
            }
        ),
    ),
    Case(
        "exam",
        "Question: which planet is the largest? A Mars, B Jupiter, C Venus, D Earth.",
        obj({"choice": word("A", "B", "C", "D"), "explanation": text(100)}),
    ),
    Case(
        "preferences",
        "I like dark mode and large text.",
        obj(
            {
                "theme": word("light", "dark", "system"),
                "font_size": whole(8, 32, 2),
                "language": like("^[a-z]{2}-[A-Z]{2}$"),
            },
            optional=("font_size", "language"),
        ),
    ),
    Case(
        "loan",
        "I would like to borrow 12,000 for a kitchen over five years.",
        obj(
            {
                "principal": whole(500, 100000, 100),
                "months": whole(6, 120, 6),
                "rate": {"type": "number", "exclusiveMinimum": 0, "maximum": 20},
            }
        ),
    ),
    Case(
        "school enrolment",
        "Enrol Mia in the second grade; she is allergic to nuts.",
        obj(
            {
                "child": obj({"first": text(16), "last": text(16), "grade": whole(1, 12)}),
                "guardians": arr(obj({"name": text(24), "phone": like("^[0-9]{6,9}$")}), 1, 2),
                "allergies": arr(text(16), 0, 3),
            }
        ),
    ),
    Case(
        "gym",
        "Un abono anual, por favor.",
        obj({"plan": word("día", "mes", "año"), "precio": {"const": 299}, "taquilla": maybe(FLAG)}),
    ),
    Case(
        "complaint",
        "My train was cancelled and nobody told us.",
        obj({"subject": text(50, 8), "body": text(200, 20), "wants": arr(word("refund", "apology", "voucher"), 1, 2)}),
    ),
    Case(
        "profile",
        "Write a profile for a traveller who likes mountains.",
        obj({"bio": text(120), "interests": arr(text(16), 1, 4), "website": maybe(form("uri", 40))}),
    ),
    Case(
        "vote",
        "Rank the three proposals.",
        obj(
            {"ranking": {"type": "array", "prefixItems": [ref("p"), ref("p"), ref("p")], "items": False, "minItems": 3}}
        )
        | {"$defs": {"p": word("park", "pool", "library")}},
    ),
    Case(
        "shipment",
        "Send a 2.5 kg parcel to Vienna.",
        obj(
            {
                "weight_kg": {"type": "number", "exclusiveMinimum": 0, "maximum": 30, "multipleOf": 0.1},
                "size_cm": arr(whole(1, 200), 3, 3),
                "to": obj({"city": text(20), "zip": like("^[0-9]{4,5}$")}),
                "insured": FLAG,
            }
        ),
    ),
    Case(
        "subscription",
        "Pause my subscription for a month.",
        obj({"id": form("uuid"), "action": word("pause", "cancel", "resume"), "until": maybe(form("date"))}),
    ),
    Case(
        "lost and found",
        "I lost a blue umbrella on bus 42.",
        obj(
            {
                "item": text(24),
                "color": text(12),
                "line": either(whole(1, 999), text(6)),
                "lost_at": maybe(form("time", 12)),
            }
        ),
    ),
    Case(
        "catering",
        "Lunch for twelve people, three of them vegetarian.",
        obj(
            {
                "people": whole(1, 200),
                "diets": {
                    "type": "object",
                    "properties": {"vegetarian": whole(0, 200), "vegan": whole(0, 200), "halal": whole(0, 200)},
                    "additionalProperties": False,
                    "minProperties": 1,
                },
            }
        ),
    ),
]
