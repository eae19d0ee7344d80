"""Arguments of tool calls, as assistants send them."""

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

_IATA = like("^[A-Z]{3}$")


def _call(name: str, arguments: dict[str, object]) -> dict[str, object]:
    """A call that names its tool."""
    return obj({"name": {"const": name}, "arguments": arguments})


CASES = [
    Case(
        "weather",
        "What is the weather in Oslo, in degrees Celsius?",
        obj({"location": text(40), "unit": word("celsius", "fahrenheit")}),
    ),
    Case(
        "calendar event",
        "Plan a review with ann@example.com on 3 May 2025 at 14:00 for 45 minutes.",
        obj(
            {
                "title": text(50),
                "start": form("date-time"),
                "duration_minutes": whole(5, 480, 5),
                "attendees": arr(form("email", 40), most=3),
            }
        ),
    ),
    Case(
        "send mail",
        "Write to bob@example.com that the parcel has arrived.",
        obj({"to": arr(form("email", 40), 1, 2), "cc": maybe(arr(form("email", 40), most=1)), "body": text(160)}),
    ),
    Case(
        "web search",
        "Find recent news about solar power.",
        {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to search for", "maxLength": 80},
                "recency": {"type": "string", "enum": ["day", "week", "month", "year"], "default": "week"},
                "max_results": {"type": "integer", "minimum": 1, "maximum": 20, "default": 10},
            },
            "required": ["query"],
            "additionalProperties": False,
        },
    ),
    Case(
        "run sql",
        "How many orders were placed in March? Use the tool run_sql.",
        _call("run_sql", obj({"query": like("^SELECT [^;]{1,80};$"), "read_only": {"const": True}})),
    ),
    Case(
        "one of three tools",
        "Turn the music up a little.",
        either(
            _call("set_volume", obj({"percent": whole(0, 100)})),
            _call("play", obj({"track": text(40)})),
            _call("pause", obj({})),
        ),
    ),
    Case(
        "discriminated tools",
        "Remove the file notes.txt.",
        {
            "oneOf": [
                obj({"tool": {"const": "read"}, "path": text(40)}),
                obj({"tool": {"const": "delete"}, "path": text(40), "force": FLAG}),
                obj({"tool": {"const": "move"}, "from": text(40), "to": text(40)}),
            ]
        },
    ),
    Case(
        "parallel calls",
        "Get the price of apples and of pears.",
        arr(
            obj(
                {
                    "id": like("^call_[a-z0-9]{6}$"),
                    "type": {"const": "function"},
                    "function": obj({"name": word("get_price", "get_stock"), "arguments": obj({"item": text(20)})}),
                }
            ),
            1,
            2,
        ),
    ),
    Case(
        "set light",
        "Make the kitchen light warm and half as bright.",
        obj(
            {
                "room": word("kitchen", "bedroom", "hall"),
                "on": FLAG,
                "brightness": maybe(whole(0, 100)),
                "color": like("^#[0-9a-f]{6}$"),
            }
        ),
    ),
    Case(
        "write file",
        "Save the word hello in /tmp/greeting.txt.",
        obj(
            {
                "path": like("^/[a-z]+(/[a-z]+)?\\.txt$", 30),
                "content": text(120),
                "mode": word("overwrite", "append"),
            }
        ),
    ),
    Case(
        "convert currency",
        "How much is 120 euros in dollars?",
        obj(
            {
                "amount": {"type": "number", "exclusiveMinimum": 0, "maximum": 1000000},
                "from": _IATA,
                "to": _IATA,
            }
        ),
    ),
    Case(
        "translate",
        "Translate 'good morning' into French.",
        obj({"text": text(60), "source": maybe(word("en", "de", "es")), "target": word("en", "fr", "it")}),
    ),
    Case(
        "calculate",
        "What is 17 times 23?",
        obj({"op": word("add", "sub", "mul", "div"), "operands": arr(real(-1000, 1000), 2, 2)}),
    ),
    Case(
        "remind me",
        "Remind me in twenty minutes to turn off the oven.",
        obj({"when": either(form("date-time"), obj({"in_minutes": whole(1, 1440)})), "what": text(60)}),
    ),
    Case(
        "move robot",
        "Drive in a small square.",
        obj({"waypoints": arr(arr(whole(-9, 9), 2, 2), 2, 5), "speed": real(0, 2, 0.25)}),
    ),
    Case(
        "play music",
        "Play something by Nina Simone.",
        obj(
            {"artist": text(40), "track": text(40), "album": text(40), "shuffle": FLAG},
            optional=("track", "album", "shuffle"),
        ),
    ),
    Case(
        "book flight",
        "Book a flight from Oslo to Rome for two people on 12 June 2025, one way.",
        obj(
            {
                "origin": _IATA,
                "destination": _IATA,
                "depart": form("date"),
                "return": maybe(form("date")),
                "passengers": whole(1, 9),
                "class": word("economy", "business", "first"),
            }
        ),
    ),
    Case(
        "open issue",
        "The login page crashes on Firefox. Open an issue.",
        obj(
            {
                "title": text(60, 5),
                "labels": arr(word("bug", "feature", "docs", "security"), 1, 3),
                "assignee": maybe(text(20)),
                "priority": {"enum": [1, 2, 3, 4]},
            }
        ),
    ),
    Case(
        "shell",
        "List the files of the current directory with details.",
        obj(
            {
                "argv": arr(text(20), 1, 4),
                "env": {"type": "object", "additionalProperties": text(20), "maxProperties": 2},
                "timeout_s": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 600},
            }
        ),
    ),
    Case(
        "http request",
        "Fetch https://example.com/users as JSON.",
        obj(
            {
                "method": word("GET", "POST", "PUT", "DELETE"),
                "url": like("^https://[a-z.]+(/[a-z0-9]*)*$", 50),
                "headers": {
                    "type": "object",
                    "patternProperties": {"^[A-Z][a-z]+(-[A-Z][a-z]+)?$": text(30)},
                    "additionalProperties": False,
                    "maxProperties": 2,
                },
                "body": either(obj({"data": text(30)}), NULL),
            }
        ),
    ),
    Case("no arguments", "What time is it?", obj({"tool": {"const": "now"}, "arguments": obj({})})),
    Case("nothing at all", "Call the tool that takes no arguments.", obj({})),
    Case(
        "filter",
        'Copy this: {"and":[{"field":"age","op":"gt","value":30},{"field":"city","op":"eq","value":"Paris"}]}',
        {
            "$ref": "#/$defs/filter",
            "$defs": {
                "filter": either(
                    obj(
                        {"field": word("age", "city"), "op": word("eq", "gt", "lt"), "value": either(whole(), text(20))}
                    ),
                    obj({"and": arr(ref("filter"), 1, 2)}),
                    obj({"or": arr(ref("filter"), 1, 2)}),
                )
            },
        },
    ),
    Case("thermostat", "It is cold in here, make it 21.5 degrees.", obj({"target_celsius": real(5, 30, 0.5)})),
    Case(
        "draw",
        "Draw a red fox in the snow.",
        obj(
            {
                "prompt": text(100),
                "size": word("256x256", "512x512", "1024x1024"),
                "n": whole(1, 4),
                "style": maybe(word("vivid", "natural")),
            }
        ),
    ),
    Case(
        "think, then act",
        "Who wrote Hamlet?",
        obj({"thought": text(120), "action": word("search", "lookup", "finish"), "input": text(40)}),
    ),
    Case("final answer", "What is the capital of Italy?", obj({"answer": text(), "confidence": real(0, 1)})),
    Case(
        "order pizza",
        "A large pizza with mushrooms and olives, please.",
        obj(
            {
                "size": word("small", "medium", "large"),
                "toppings": arr(word("mushrooms", "olives", "ham", "onions"), 0, 4),
                "notes": maybe(text(40)),
            }
        ),
    ),
    Case(
        "commit",
        "Commit the fix of the date parser.",
        {
            "title": "CommitArguments",
            "type": "object",
            "properties": {
                "message": {"title": "Message", "type": "string", "minLength": 10, "maxLength": 72},
                "amend": {"title": "Amend", "type": "boolean", "default": False},
                "sign_off": {"title": "Sign Off", "anyOf": [{"type": "string", "maxLength": 30}, {"type": "null"}]},
            },
            "required": ["message", "sign_off"],
        },
    ),
    Case("timer", "Set a tea timer of four minutes.", obj({"label": text(20), "duration": form("duration", 8)})),
]
