"""A grammar's state: masks against brute force, going back, forced text, and a grammar engine that gives up."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.constraints.vocabularies import END, JSON_OBJECT, OTHER_END, ids_in, push_all, pushable, small, spell, write

from outrider.api import Constraint, ConstraintKind
from outrider.constraints.base import Matcher
from outrider.constraints.compiler import Compiler
from outrider.errors import BackendError, UsageError

ENDS = {END, OTHER_END}
COMPILER = Compiler(small())
HERO = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 4},
        "ab": {"enum": ["abc", "ab", None, 12]},
        "n": {"type": ["integer", "null"], "minimum": -5, "maximum": 120},
        "é": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
    },
    "required": ["name", "ab"],
    "additionalProperties": False,
}
CONSTRAINTS = [
    JSON_OBJECT,
    Constraint(ConstraintKind.JSON_SCHEMA, json.dumps(HERO)),
    Constraint(ConstraintKind.JSON_SCHEMA, '{"const":{"a":[1,null,"abc"],"é€":true}}'),
    Constraint(
        ConstraintKind.JSON_SCHEMA, '{"$ref":"#/$defs/n","$defs":{"n":{"type":"array","items":{"$ref":"#/$defs/n"}}}}'
    ),
    Constraint(ConstraintKind.REGEX, "a(b|bc)*[0-9]{1,3}(é|è)?"),
    Constraint(ConstraintKind.REGEX, "(?s:.)*abc"),
    Constraint(ConstraintKind.REGEX, ""),
    Constraint(ConstraintKind.GRAMMAR, 'start: "(" start ")" | LOW\nLOW: /a+b?/'),
    Constraint(ConstraintKind.GRAMMAR, 'start: x "!"\nx[lazy]: /[abc]*c/'),
    Constraint(ConstraintKind.GRAMMAR, 'start: x "!"\nx[suffix="c"]: /[ab]*/'),
    Constraint(ConstraintKind.GRAMMAR, "start: X\nX: ~/abc/"),
]


def make(kind: ConstraintKind, text: str) -> Matcher:
    return COMPILER(Constraint(kind, text))


def state(matcher: Matcher) -> tuple[set[int], bool, tuple[int, ...]]:
    return ids_in(matcher), matcher.ended, matcher.forced(20)


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda constraint: constraint.text[:20])
@settings(max_examples=15)
@given(data=st.data())
def test_a_walk_back_and_forth_equals_a_fresh_matcher(constraint: Constraint, data: st.DataObject) -> None:
    """And in every state: mask == what can be pushed, `allows` agrees, `forced` can be pushed until it is a guess."""
    matcher = COMPILER(constraint)
    pushed: list[int] = []
    for _ in range(data.draw(st.integers(1, 12))):
        may = ids_in(matcher) - ENDS
        if not may or (pushed and data.draw(st.integers(0, 3)) == 0):
            count = data.draw(st.integers(0, len(pushed)))
            matcher.pop(count)
            del pushed[len(pushed) - count :]
            continue
        token = data.draw(st.sampled_from(sorted(may)))
        assert matcher.allows([token, token]) >= 1
        assert matcher.push(token)
        pushed.append(token)
    assert pushable(matcher) == ids_in(matcher) - ENDS
    fresh = COMPILER(constraint)
    assert fresh.allows(pushed) == len(pushed)
    push_all(fresh, pushed)
    assert state(fresh) == state(matcher)


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda constraint: constraint.text[:20])
@settings(max_examples=15)
@given(data=st.data())
def test_allows_is_push_without_a_trace(constraint: Constraint, data: st.DataObject) -> None:
    matcher, other = COMPILER(constraint), COMPILER(constraint)
    tokens: list[int] = []
    for _ in range(data.draw(st.integers(1, 8))):
        may = sorted(ids_in(other) - ENDS)
        token = data.draw(st.sampled_from(may) if may else st.integers(-1, 300))
        tokens.append(data.draw(st.sampled_from([token, token, token, data.draw(st.integers(-1, 300))])))
        if not other.push(tokens[-1]):
            break
    before = state(matcher)
    count = matcher.allows(tokens)
    assert state(matcher) == before
    for token in tokens[:count]:
        assert matcher.push(token)
    assert count == len(tokens) or not matcher.push(tokens[count])


def test_the_end_of_the_text() -> None:
    matcher = make(ConstraintKind.REGEX, "ab?")
    assert not ids_in(matcher) & ENDS
    assert matcher.push(ord("a"))
    assert ids_in(matcher) == {ord("b"), *ENDS}
    assert not matcher.ended
    assert matcher.push(ord("b"))
    assert matcher.ended
    assert ids_in(matcher) == ENDS
    assert not matcher.push(ord("b"))
    assert not matcher.push(END)
    assert matcher.allows([END]) == 0
    assert matcher.forced(5) == ()
    matcher.pop(1)
    assert not matcher.ended
    assert ids_in(matcher) == {ord("b"), *ENDS}


def test_an_empty_text_is_ended_at_once() -> None:
    matcher = make(ConstraintKind.REGEX, "")
    assert matcher.ended
    assert ids_in(matcher) == ENDS


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("{}", '{"a":[1,2,{}],"b":null}'),
        ("true", "12"),
        (json.dumps(HERO), '{"name":"b","ab":"abc","n":-3,"é":[true,false]}'),
        ('{"x-guidance":{"item_separator":", ","key_separator":": "}}', '{"a": [1, 2]}'),
        ('{"x-guidance":{"whitespace_flexible":true}}', '{ "a" :\n[1 , 2]}'),
    ],
)
def test_json_is_written_in_the_compact_form_unless_asked_otherwise(schema: str, text: str) -> None:
    matcher = make(ConstraintKind.JSON_SCHEMA, schema)
    whole, count = text.encode(), 0
    while count < len(whole):  # by the ids that the mask leaves
        token = max(
            (t for t in ids_in(matcher) - ENDS if whole.startswith(spell(t), count)), key=lambda t: len(spell(t))
        )
        assert matcher.push(token)
        count += len(spell(token))
    assert ids_in(matcher) >= ENDS
    assert json.loads(text) is not None


@pytest.mark.parametrize(
    "text", ['{"a": 1}', '{ "a":1}', '{"a":1 }', '{"a":1}\n', ' {"a":1}', '{"a":[1, 2]}', '["a"]', "1"]
)
def test_json_mode_is_one_object_without_a_blank(text: str) -> None:
    assert not write(COMPILER(JSON_OBJECT), text)


def test_forced_text_is_cut_as_the_tokenizer_does() -> None:
    matcher = make(ConstraintKind.JSON_SCHEMA, '{"const":{"a":[1,null,"abc"]}}')
    tokens = matcher.forced(100)
    assert [spell(token) for token in tokens] == [
        b'{"',
        b"a",
        b'":',
        *(bytes((c,)) for c in b"[1,"),
        b"null",
        b",",
        b'"',
        b"abc",
        b'"',
        b"]",
        b"}",
    ]
    for count in range(len(tokens)):
        assert matcher.forced(count) == tokens[:count]
    for token in tokens:
        assert ids_in(matcher) == {token}
        assert matcher.push(token)
    assert matcher.ended


def test_forced_goes_on_where_the_last_token_is_only_a_guess() -> None:
    matcher = make(ConstraintKind.REGEX, "12x?")
    assert matcher.forced(5) == (264,)
    matcher = make(ConstraintKind.JSON_SCHEMA, '{"type":"object","properties":{"a":{}},"required":["a"]}')
    assert [spell(token) for token in matcher.forced(9)] == [b'{"', b"a", b'":']
    assert matcher.forced(0) == ()
    assert matcher.forced(-1) == ()


def test_bytes_that_the_vocabulary_lacks_leave_no_token() -> None:
    compiler = Compiler(small(lacking=frozenset({ord("x")})))
    matcher = compiler(Constraint(ConstraintKind.REGEX, "b(1|2x2)"))
    push_all(matcher, b"b2")
    for _ in range(2):
        assert ids_in(matcher) == set()
        assert not matcher.ended
        assert pushable(matcher) == set()
        assert matcher.forced(5) == ()
    matcher.pop(1)
    assert ids_in(matcher) == {ord("1"), ord("2")}
    push_all(matcher, b"1")
    assert matcher.ended


def wide(kinds: int, keys: int) -> str:
    """After a string: alternatives that llguidance cannot follow side by side once the object begins."""
    alternatives = [
        {"type": "object", "properties": {f"p{key}": {"type": "string"} for key in range(kind, kind + keys)}}
        for kind in range(kinds)
    ]
    return json.dumps(
        {
            "properties": {"a": {"type": "string"}, "b": {"anyOf": alternatives}},
            "required": ["a", "b"],
            "type": "object",
        }
    )


def test_a_grammar_engine_that_gives_up_is_an_error_and_no_end() -> None:
    compiler = Compiler(small())
    constraint = Constraint(ConstraintKind.JSON_SCHEMA, wide(60, 30))
    matcher = compiler(constraint)
    push_all(matcher, (260, 97, 261, 34, 98))
    before = state(matcher)
    assert matcher.allows([98, 34, 44, 34]) == 2
    assert state(matcher) == before
    push_all(matcher, (98, 34))
    assert ord(",") in ids_in(matcher)
    with pytest.raises(BackendError, match=r"too complex after 7 tokens \(.*items.*\); simplify it"):
        matcher.push(ord(","))
    assert not matcher.ended
    with pytest.raises(BackendError):
        matcher.mask()
    with pytest.raises(BackendError):
        matcher.pop(1)
    assert compiler(constraint).push(260)


def test_more_cannot_be_popped_than_was_pushed() -> None:
    matcher = make(ConstraintKind.REGEX, "ab*")
    assert matcher.push(ord("a"))
    for count in (2, -1):
        with pytest.raises(UsageError, match=f"{count} tokens cannot be popped; 1 were pushed"):
            matcher.pop(count)
    matcher.pop(0)
    matcher.pop(1)
    assert ids_in(matcher) == pushable(matcher)
