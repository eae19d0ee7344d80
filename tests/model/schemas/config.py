"""Configuration files that people ask a model to write."""

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

_PORT = whole(1, 65535)

CASES = [
    Case(
        "server",
        "Configure a web server on port 8080 with four workers.",
        obj(
            {
                "host": form("hostname", 30),
                "port": _PORT,
                "workers": whole(1, 64),
                "tls": maybe(obj({"cert": text(30), "key": text(30)})),
            }
        ),
    ),
    Case(
        "ci job",
        "A job that runs pytest on Linux.",
        obj(
            {
                "name": text(24),
                "runs_on": word("linux", "macos", "windows"),
                "steps": arr(
                    either(obj({"run": text(40)}), obj({"uses": like("^[a-z]+/[a-z]+@v[0-9]$", 24)})),
                    1,
                    3,
                ),
            }
        ),
    ),
    Case(
        "containers",
        "A web app and a database.",
        obj(
            {
                "services": {
                    "type": "object",
                    "patternProperties": {
                        "^[a-z]{2,8}$": obj(
                            {
                                "image": like("^[a-z]+:[0-9a-z.]+$", 20),
                                "ports": arr(like("^[0-9]{2,4}:[0-9]{2,4}$"), 0, 2),
                            }
                        )
                    },
                    "additionalProperties": False,
                    "minProperties": 1,
                    "maxProperties": 2,
                }
            }
        ),
    ),
    Case(
        "lint rules",
        "Forbid tabs, warn about long lines.",
        obj(
            {
                "rules": {
                    "type": "object",
                    "patternProperties": {"^[a-z]{2,8}(-[a-z]{2,8})?$": word("off", "warn", "error")},
                    "additionalProperties": False,
                    "minProperties": 1,
                    "maxProperties": 4,
                },
                "root": {"const": True},
            }
        ),
    ),
    Case(
        "logging",
        "Log warnings to a file that is rotated at ten megabytes.",
        obj(
            {
                "level": word("debug", "info", "warning", "error"),
                "file": maybe(like("^/var/log/[a-z]{1,12}\\.log$")),
                "rotate": obj({"megabytes": whole(1, 1000), "keep": whole(0, 30)}),
            }
        ),
    ),
    Case(
        "cron",
        "Run the backup every night at three.",
        obj({"schedule": like("^([0-9*]{1,2} ){4}[0-9*]$"), "command": text(50)}),
    ),
    Case(
        "feature flags",
        "Switch the new menu on for a tenth of the users.",
        arr(obj({"flag": like("^[a-z]+(_[a-z]+)*$", 20), "enabled": FLAG, "percent": whole(0, 100, 10)}), 1, 3),
    ),
    Case(
        "deployment",
        "Three replicas of the shop with 256 megabytes each.",
        obj(
            {
                "apiVersion": {"const": "apps/v1"},
                "kind": {"const": "Deployment"},
                "metadata": obj(
                    {
                        "name": like("^[a-z]{1,12}$"),
                        "labels": {"type": "object", "additionalProperties": text(12), "maxProperties": 2},
                    }
                ),
                "spec": obj(
                    {
                        "replicas": whole(0, 20),
                        "template": obj(
                            {
                                "spec": obj(
                                    {"containers": arr(obj({"name": text(12), "memory": like("^[0-9]{1,4}Mi$")}), 1, 1)}
                                )
                            }
                        ),
                    }
                ),
            }
        ),
    ),
    Case(
        "colour theme",
        "A calm green theme.",
        obj(
            {
                "name": text(20),
                "background": like("^#[0-9A-F]{6}$"),
                "accents": arr(like("^#[0-9A-F]{6}$"), 2, 3),
                "opacity": real(0, 1, 0.125),
            }
        ),
    ),
    Case(
        "package",
        "A package called kite that needs left-pad.",
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {
                "name": {"type": "string", "pattern": "^[a-z][a-z-]{0,14}$"},
                "version": {"type": "string", "pattern": "^[0-9]{1,2}\\.[0-9]{1,2}\\.[0-9]{1,2}$"},
                "private": {"type": "boolean"},
                "dependencies": {
                    "type": "object",
                    "additionalProperties": {"type": "string", "pattern": "^\\^[0-9]\\.[0-9]\\.[0-9]$"},
                    "maxProperties": 3,
                },
            },
            "required": ["name", "version", "dependencies"],
            "additionalProperties": False,
        },
    ),
    Case(
        "variables",
        "Variables for two machines in Frankfurt.",
        obj(
            {
                "region": like("^[a-z]{2}-[a-z]+-[1-3]$", 16),
                "machines": arr(obj({"type": word("small", "large"), "disk_gb": whole(10, 2000, 10)}), 1, 2),
            }
        ),
    ),
    Case(
        "editor",
        "Four spaces, trim blanks, format on save.",
        obj(
            {
                "tabSize": {"enum": [2, 4, 8]},
                "insertSpaces": FLAG,
                "trim": FLAG,
                "rulers": arr(whole(40, 200, 10), 0, 2),
            }
        ),
    ),
    Case(
        "routes",
        "Send /api to the backend and the rest to the pages.",
        arr(obj({"match": like("^/[a-z]{0,10}$"), "to": form("uri", 40), "strip": FLAG}, optional=("strip",)), 1, 2),
    ),
    Case(
        "retry",
        "Try three times, waiting twice as long each time.",
        obj(
            {
                "attempts": whole(1, 10),
                "backoff": {
                    "oneOf": [
                        obj({"kind": {"const": "fixed"}, "ms": whole(1, 60000)}),
                        obj({"kind": {"const": "exponential"}, "factor": real(1, 10)}),
                    ]
                },
            }
        ),
    ),
    Case(
        "cache",
        "Cache pages for five minutes, at most a thousand.",
        obj(
            {
                "ttl_s": either(whole(1, 86400), {"const": "forever"}),
                "entries": maybe(whole(1, 100000)),
                "evict": word("lru", "lfu", "fifo"),
            }
        ),
    ),
    Case(
        "database",
        "Connect to the database shop on the local machine.",
        obj(
            {
                "url": like("^postgres://[a-z]{1,8}@[a-z]{1,12}/[a-z]{1,10}$"),
                "pool": obj({"min": whole(0, 10), "max": whole(1, 100)}),
                "ssl": FLAG,
            }
        ),
    ),
    Case(
        "training run",
        "Train for three epochs with a small learning rate.",
        obj(
            {
                "epochs": whole(1, 100),
                "learning_rate": {"type": "number", "exclusiveMinimum": 0, "maximum": 0.1},
                "batch": {"enum": [8, 16, 32, 64]},
                "schedule": maybe(word("cosine", "linear")),
            }
        ),
    ),
    Case(
        "access rules",
        "Editors may write articles, everybody may read them.",
        arr(
            obj(
                {
                    "role": word("admin", "editor", "guest"),
                    "can": arr(word("read", "write", "delete"), 1, 3),
                    "on": text(16),
                }
            ),
            1,
            3,
        ),
    ),
    Case(
        "keyboard",
        "Save with control and S.",
        arr(
            obj(
                {
                    "key": like("^(ctrl\\+)?(shift\\+)?[a-z]$"),
                    "command": like("^[a-z]+(\\.[a-z]+)?$", 20),
                    "when": maybe(text(20)),
                }
            ),
            1,
            2,
        ),
    ),
    Case(
        "firewall",
        "Allow web traffic, block the rest.",
        obj(
            {
                "default": word("allow", "deny"),
                "rules": arr(
                    obj(
                        {
                            "port": either(_PORT, {"const": "*"}),
                            "proto": word("tcp", "udp"),
                            "from": maybe(form("ipv4")),
                        }
                    ),
                    0,
                    2,
                ),
            }
        ),
    ),
    Case(
        "menu",
        'Copy this: {"menu":[{"label":"File","items":[{"label":"Open","shortcut":"O"}]},{"label":"Edit"}]}',
        {
            "$defs": {
                "item": obj(
                    {"label": text(12), "shortcut": text(8), "items": arr(ref("item"), 0, 2)},
                    optional=("shortcut", "items"),
                )
            },
            "type": "object",
            "properties": {"menu": arr(ref("item"), 1, 2)},
            "required": ["menu"],
            "additionalProperties": False,
        },
    ),
    Case(
        "dashboard",
        "A dashboard with one chart of sales.",
        obj(
            {
                "title": text(24),
                "widgets": arr(
                    obj({"kind": word("line", "bar", "pie"), "grid": arr(whole(0, 12), 4, 4), "query": text(40)}),
                    1,
                    2,
                ),
            }
        ),
    ),
    Case(
        "proxy",
        "No proxy for local addresses.",
        obj({"http": maybe(form("uri", 30)), "bypass": arr(either(form("ipv4"), {"const": "localhost"}), 0, 3)}),
    ),
    Case(
        "locale",
        "German, with the week starting on Monday.",
        obj(
            {
                "language": {"const": "de"},
                "first_day": {"const": 1},
                "decimal": {"const": ","},
                "date": word("DD.MM.YYYY", "YYYY-MM-DD"),
            }
        ),
    ),
    Case(
        "open settings",
        "Settings of a small text game.",
        {
            "type": "object",
            "properties": {
                "volume": {"type": "integer", "minimum": 0, "maximum": 10},
                "difficulty": {"enum": ["easy", "normal", "hard"]},
            },
            "required": ["volume", "difficulty"],
            "additionalProperties": {"type": ["boolean", "integer"], "minimum": 0, "maximum": 99},
            "maxProperties": 4,
        },
    ),
    Case(
        "pipeline",
        "Read a file, keep the long lines, count them.",
        obj(
            {
                "stages": arr(
                    either(obj({"read": text(16)}), obj({"filter": text(20), "invert": FLAG}), obj({"count": NULL})),
                    1,
                    3,
                )
            }
        ),
    ),
    Case(
        "limits",
        "At most a hundred requests a minute for each user.",
        obj(
            {
                "per": word("user", "ip", "key"),
                "window_s": whole(1, 3600),
                "burst": {"type": ["integer", "null"], "minimum": 0, "exclusiveMaximum": 1000},
            }
        ),
    ),
    Case(
        "permissions",
        "The owner may read and write, others may read.",
        obj({"owner": ref("bits"), "group": ref("bits"), "others": ref("bits")})
        | {"$defs": {"bits": obj({"r": FLAG, "w": FLAG, "x": FLAG})}},
    ),
]
