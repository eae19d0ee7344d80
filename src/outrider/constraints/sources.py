"""A constraint's text in the form that llguidance reads, and its complaints in our words."""

from __future__ import annotations

import json
import re

from llguidance import LLMatcher

from outrider.api import Constraint, ConstraintKind
from outrider.constraints import endless
from outrider.errors import UsageError

# llguidance's compiler recurses; within this size no chain of definitions is too deep for the stack it is given.
MOST_BYTES = 2**18
_TOO_DEEP = "the JSON schema is nested too deeply; use references to definitions"
NAMES = {
    ConstraintKind.JSON_SCHEMA: "the JSON schema",
    ConstraintKind.REGEX: "the regular expression",
    ConstraintKind.GRAMMAR: "the grammar",
}

# Strings, comments and regular expressions of a Lark grammar, where < and [ mean nothing.
_QUOTED = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|#[^\n]*|/(?:\\.|[^/\\\n])+/')
_SPECIAL = re.compile(r"<[^\s<>]*>?")
_ATTRIBUTE = re.compile(r"\[[^\]]*\b(stop|max_tokens|temperature)\s*=")
_PLACE = re.compile(r"(?:at )?(\d+)\((\d+)\): ")
_CARET = re.compile(r"^( *)\^", re.MULTILINE)
_ERROR = re.compile(r"^error: (.*)", re.MULTILINE)
_REMEDIES = (
    ("Unimplemented keys", 'leave them out, or set "x-guidance": {"lenient": true} in the schema to ignore them'),
    ("Unknown format", 'leave it out, or set "x-guidance": {"lenient": true} in the schema to ignore it'),
    ("oneOf constraints", 'use anyOf, or set "x-guidance": {"coerce_one_of": true} in the schema'),
    ("Unsatisfiable", "no JSON text satisfies it; loosen it"),
    ("retriev", 'files and URLs are not read; put the definition into the schema, under "$defs"'),
    ("look", "say it without looking ahead or behind"),
    ("too big", "simplify it"),
    ("too large", "simplify it"),
    ("limit", "simplify it"),
    ("fuel", "simplify it"),
    ("deep", "simplify it"),
    ("max is", "simplify it"),
)


def source(constraint: Constraint) -> str:
    """The constraint for LLMatcher. Raises UsageError for what can be seen to be wrong without compiling it."""
    text = constraint.text
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        place = f"a lone surrogate at character {error.start}"
        raise UsageError(f"{NAMES[constraint.kind]} has {place}; replace it") from None
    if size > MOST_BYTES:
        raise UsageError(f"{NAMES[constraint.kind]} has {size} bytes; at most {MOST_BYTES} are allowed")
    match constraint.kind:
        case ConstraintKind.JSON_SCHEMA:
            return _json_schema(text)
        case ConstraintKind.REGEX:
            _check_regex(text)
            return LLMatcher.grammar_from_regex(text)
        case ConstraintKind.GRAMMAR:
            _check_lark(text)
            # Spelt out, so that a text that begins with a brace is not taken for llguidance's own JSON form.
            return json.dumps({"grammars": [{"lark_grammar": text}]})


def explained(kind: ConstraintKind, complaint: str) -> UsageError:
    """llguidance's complaint about a constraint as one sentence: where, what, and the way out."""
    complaint = complaint.removeprefix("panic: ")
    place = _PLACE.match(complaint)
    where = ""
    reason = complaint.partition("\n")[0]
    if place is not None:
        reason = reason[place.end() :]
        if kind is not ConstraintKind.REGEX:  # which llguidance wraps into a grammar of its own
            where = f" at line {place[1]}, column {place[2]}"
    error, caret = _ERROR.search(complaint), _CARET.search(complaint)
    if error is not None:  # the regular expression parser's own message: its pattern, a caret below, the reason
        reason = error[1]
        if caret is not None and kind is ConstraintKind.REGEX:
            where = f" at character {len(caret[1]) - 3}"  # printed with an indent of 4
    remedy = next((remedy for sign, remedy in _REMEDIES if sign in reason), "correct it")
    return UsageError(f"{NAMES[kind]} cannot be used: {reason[:300].rstrip(' .:')}{where}; {remedy}")


def _json_schema(text: str) -> str:
    try:
        schema = json.loads(text)
    except RecursionError:
        raise UsageError(_TOO_DEEP) from None
    except ValueError as error:
        raise UsageError(f"the JSON schema is not valid JSON: {error}; correct it") from None
    if schema is False:
        raise UsageError("the JSON schema is false, which no JSON text satisfies; true allows any")
    if schema is True:
        text = "{}"
    elif not isinstance(schema, dict):
        raise UsageError(f"the JSON schema is {text!r:.60}; a schema is an object, or true")
    elif not isinstance(schema.get("x-guidance", {}), dict):
        raise UsageError(f'"x-guidance" of the JSON schema is {schema["x-guidance"]!r:.60}; it may be an object')
    elif endless.is_endless(schema):
        raise UsageError(
            "the JSON schema can never end: each value would hold another like itself; leave a way out, such as null"
        )
    try:
        return LLMatcher.grammar_from_json_schema(text, defaults={"whitespace_flexible": False})
    except ValueError as error:
        reason = str(error).partition("\n")[0]
        if reason.startswith("recursion limit"):
            raise UsageError(_TOO_DEEP) from None
        raise UsageError(f"the JSON schema is not valid JSON: {reason}; correct it") from None


def _check_regex(text: str) -> None:
    """Refuse the one mistake that llguidance mends in silence."""
    if (len(text) - len(text.rstrip("\\"))) % 2:
        raise UsageError("the regular expression ends in a lone backslash; double it, or leave it out")


def _check_lark(text: str) -> None:
    """Refuse what llguidance would read and this engine could not honour."""
    bare = _QUOTED.sub('""', text)
    special = _SPECIAL.search(bare)
    if special is not None:
        raise UsageError(
            f"the grammar names the special token {special[0]:.60}; it may only describe text, and the answer ends "
            "where it ends; leave the token out, or let constrain_after name it"
        )
    attribute = _ATTRIBUTE.search(bare)
    if attribute is not None:
        raise UsageError(f"the grammar sets {attribute[1]} for a rule, which is not supported; leave it out")
