"""What programs send one another: API bodies, events, messages, measurements."""

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

_POINT = arr(real(-180, 180, 0.0001), 2, 2)

CASES = [
    Case(
        "user",
        "Return the user with id 7.",
        {
            "allOf": [{"$ref": "#/$defs/entity"}, obj({"login": like("^[a-z]{3,10}$"), "admin": FLAG}, extra=True)],
            "$defs": {"entity": obj({"id": whole(1), "version": whole(0, 99)}, extra=True)},
            "maxProperties": 4,
        },
    ),
    Case(
        "page of users",
        "Return the first page of users.",
        obj(
            {
                "data": arr(obj({"id": whole(1, 9999), "name": text(20)}), 1, 3),
                "next": maybe(like("^[A-Za-z0-9]{8}$")),
                "total": whole(0, 100000),
            }
        ),
    ),
    Case(
        "problem",
        "The account has too little money. Report the problem.",
        {
            "type": "object",
            "properties": {
                "type": {"type": "string", "format": "uri", "maxLength": 50},
                "title": {"type": "string", "maxLength": 50},
                "status": {"type": "integer", "minimum": 400, "maximum": 599},
                "detail": {"type": "string", "maxLength": 100},
            },
            "required": ["title", "status"],
            "additionalProperties": False,
        },
    ),
    Case(
        "point on a map",
        "Give the position of Rome as GeoJSON.",
        obj(
            {
                "type": {"const": "Feature"},
                "geometry": obj({"type": {"const": "Point"}, "coordinates": _POINT}),
                "properties": either(obj({"name": text(20)}), NULL),
            }
        ),
    ),
    Case(
        "polygon",
        "Draw a triangle on the map.",
        obj({"type": {"const": "Polygon"}, "coordinates": arr(arr(arr(whole(-90, 90), 2, 2), 4, 4), 1, 1)}),
    ),
    Case(
        "json patch",
        "Rename the title to Hello and drop the draft flag.",
        arr(
            {
                "oneOf": [
                    obj({"op": {"const": "replace"}, "path": like("^/[a-z]{1,12}$"), "value": text(20)}),
                    obj({"op": {"const": "remove"}, "path": like("^/[a-z]{1,12}$")}),
                ]
            },
            1,
            2,
        ),
    ),
    Case(
        "webhook",
        "Payment 12 of 30 dollars has succeeded.",
        obj(
            {
                "id": form("uuid"),
                "event": word("payment.succeeded", "payment.failed", "refund.created"),
                "created": whole(1600000000, 1900000000),
                "data": obj({"amount": whole(0, 100000), "currency": word("usd", "eur")}),
            }
        ),
    ),
    Case(
        "graphql answer",
        "The query for the user failed.",
        obj(
            {
                "data": maybe(obj({"user": maybe(obj({"id": text(8), "friends": arr(obj({"id": text(8)}), 0, 1)}))})),
                "errors": arr(obj({"message": text(50), "path": arr(either(text(10), whole(0, 99)), 1, 3)}), 0, 1),
            }
        ),
    ),
    Case(
        "log record",
        "The disk is 91 percent full. Log it.",
        obj(
            {
                "time": form("date-time"),
                "level": word("DEBUG", "INFO", "WARNING", "ERROR"),
                "message": text(80),
                "context": {
                    "type": "object",
                    "additionalProperties": either(text(20), whole(0, 9999), FLAG),
                    "maxProperties": 2,
                },
            }
        ),
    ),
    Case(
        "metric",
        "Report the processor load of web-1.",
        obj(
            {
                "name": like("^[a-z]+(\\.[a-z]+){1,2}$", 24),
                "value": real(0, 100, 0.1),
                "tags": {
                    "type": "object",
                    "patternProperties": {"^[a-z]{2,6}$": like("^[a-z0-9-]{1,8}$")},
                    "additionalProperties": False,
                    "maxProperties": 3,
                },
            }
        ),
    ),
    Case(
        "push message",
        "Tell the user that her parcel is here.",
        obj(
            {"title": text(40), "body": text(100), "badge": maybe(whole(0, 99)), "sound": {"const": "default"}},
            optional=("sound",),
        ),
    ),
    Case(
        "chat message",
        "Say hello in the channel general.",
        obj(
            {
                "channel": like("^#[a-z]{3,12}$"),
                "blocks": arr(
                    either(
                        obj({"type": {"const": "section"}, "text": text(60)}),
                        obj({"type": {"const": "divider"}}),
                    ),
                    1,
                    2,
                ),
            }
        ),
    ),
    Case(
        "sensor batch",
        "Three temperature readings from the greenhouse.",
        obj(
            {"sensor": like("^[a-z]+-[0-9]{2}$", 16), "unit": {"const": "C"}, "readings": arr(real(-40, 60, 0.5), 3, 3)}
        ),
    ),
    Case(
        "health check",
        "Is the service well?",
        obj(
            {
                "status": word("up", "degraded", "down"),
                "checks": {
                    "type": "object",
                    "additionalProperties": word("ok", "fail"),
                    "minProperties": 1,
                    "maxProperties": 3,
                },
            }
        ),
    ),
    Case(
        "token answer",
        "Issue a token that lives for an hour.",
        obj(
            {
                "access_token": like("^[A-Za-z0-9_-]{20}$"),
                "token_type": {"const": "Bearer"},
                "expires_in": whole(60, 86400),
                "scope": text(30),
            },
            optional=("scope",),
        ),
    ),
    Case(
        "weather report",
        "Forecast for Cairo for two days.",
        obj(
            {
                "city": text(20),
                "days": arr(
                    obj(
                        {
                            "date": form("date"),
                            "high": whole(-50, 60),
                            "low": whole(-50, 60),
                            "rain": {"type": "number", "minimum": 0, "maximum": 1, "multipleOf": 0.05},
                        }
                    ),
                    2,
                    2,
                ),
            }
        ),
    ),
    Case(
        "git push",
        "Two commits were pushed to main.",
        obj(
            {
                "ref": {"const": "refs/heads/main"},
                "forced": {"const": False},
                "commits": arr(
                    obj({"id": like("^[0-9a-f]{12}$"), "message": text(50), "added": arr(text(20), 0, 2)}), 1, 2
                ),
            }
        ),
    ),
    Case(
        "order",
        "Two coffees and a croissant for table 5.",
        {
            "$defs": {
                "Item": {
                    "title": "Item",
                    "type": "object",
                    "properties": {
                        "name": {"title": "Name", "type": "string", "maxLength": 20},
                        "quantity": {
                            "title": "Quantity",
                            "type": "integer",
                            "exclusiveMinimum": 0,
                            "exclusiveMaximum": 50,
                        },
                    },
                    "required": ["name", "quantity"],
                }
            },
            "title": "Order",
            "type": "object",
            "properties": {
                "table": {"title": "Table", "type": "integer", "minimum": 1, "maximum": 40},
                "items": {
                    "title": "Items",
                    "type": "array",
                    "items": {"$ref": "#/$defs/Item"},
                    "minItems": 1,
                    "maxItems": 3,
                },
            },
            "required": ["table", "items"],
            "additionalProperties": False,
        },
    ),
    Case(
        "comment thread",
        'Copy this: [{"author":"Ann","text":"Good cake","replies":[{"author":"Bob","text":"Yes","replies":[]}]}]',
        {
            "$defs": {"comment": obj({"author": text(12), "text": text(40), "replies": arr(ref("comment"), 0, 1)})},
            "type": "array",
            "items": ref("comment"),
            "minItems": 1,
            "maxItems": 2,
        },
    ),
    Case(
        "diff",
        "Line 3 changes from cat to dog.",
        obj(
            {
                "file": like("^[a-z_]{1,12}\\.py$"),
                "hunks": arr(obj({"line": whole(1, 500), "old": maybe(text(30)), "new": maybe(text(30))}), 1, 2),
            }
        ),
    ),
    Case(
        "coordinates",
        "Give four grid points.",
        arr({"type": "array", "prefixItems": [whole(0, 99), whole(0, 99)], "items": False, "minItems": 2}, 4, 4),
    ),
    Case(
        "trade",
        "Buy 50 shares of ACME at no more than 12.25.",
        obj(
            {
                "side": word("buy", "sell"),
                "symbol": like("^[A-Z]{1,5}$"),
                "quantity": whole(1, 10000),
                "limit": maybe(real(0, 5000, 0.25)),
            }
        ),
    ),
    Case(
        "network",
        "Describe a host in the office network.",
        obj(
            {
                "host": form("hostname", 30),
                "ip": form("ipv4"),
                "ports": arr(whole(1, 65535), 0, 3),
                "ipv6": maybe(form("ipv6")),
            }
        ),
    ),
    Case(
        "subtitle",
        "Two subtitle lines for a greeting.",
        arr(
            obj(
                {"from": like("^00:[0-5][0-9]:[0-5][0-9]$"), "to": like("^00:[0-5][0-9]:[0-5][0-9]$"), "text": text(40)}
            ),
            1,
            2,
        ),
    ),
    Case(
        "search hits",
        "Search results for 'red shoes'.",
        obj(
            {
                "took_ms": whole(0, 10000),
                "hits": arr(obj({"score": real(0, 1), "title": text(30), "highlights": arr(text(20))}), 0, 2),
            }
        ),
    ),
    Case(
        "inventory",
        "There are six chairs and no tables left.",
        {
            "type": "object",
            "additionalProperties": {"type": "integer", "minimum": 0, "maximum": 1000},
            "minProperties": 1,
            "maxProperties": 5,
        },
    ),
    Case(
        "matrix",
        "Give the identity matrix of size three.",
        obj({"rows": {"const": 3}, "values": arr(arr(whole(0, 1), 3, 3), 3, 3)}),
    ),
    Case(
        "any value",
        "Store the colour blue under the key favourite.",
        {
            "type": "object",
            "properties": {
                "key": {"type": "string", "maxLength": 20},
                "value": {"type": ["string", "number", "boolean", "null"], "maxLength": 20},
            },
            "required": ["key", "value"],
            "additionalProperties": False,
        },
    ),
    Case(
        "rpc error",
        "The method is unknown. Answer with an error.",
        obj(
            {
                "jsonrpc": {"const": "2.0"},
                "id": either(whole(0, 999), text(8), NULL),
                "error": obj({"code": whole(-32700, -32000), "message": text(40)}),
            }
        ),
    ),
    Case(
        "playlist",
        "A short playlist for rain.",
        obj(
            {
                "name": text(30),
                "tracks": arr(obj({"title": text(24), "seconds": whole(30, 900)}), most=4),
                "public": FLAG,
            }
        ),
    ),
]
