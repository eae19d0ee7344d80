"""What is refused, and how it is said; what is kept, and shared between threads."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading

import pytest
from tests.constraints.vocabularies import END, JSON_OBJECT, OTHER_END, SIZE, ids_in, push_all, small, spell, write

from outrider.api import Constraint, ConstraintKind
from outrider.constraints import guidance
from outrider.constraints.base import Matcher
from outrider.constraints.compiler import Compiler
from outrider.constraints.vocabulary import Vocabulary
from outrider.errors import UsageError

COMPILER = Compiler(small())
ENDS = {END, OTHER_END}


def nested(depth: int) -> str:
    return '{"properties":{"a":' * depth + "{}" + "}}" * depth


def chained(length: int) -> str:
    definitions = {f"d{i}": {"properties": {"a": {"$ref": f"#/$defs/d{i + 1}"}}} for i in range(length)}
    return json.dumps({"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{length}": {"type": "string"}}})


SCHEMAS = [
    ("", "JSON schema is not valid JSON: Expecting value: line 1 column 1"),
    ('{"a":1', "not valid JSON: Expecting ',' delimiter: line 1 column 7"),
    ('{"a":NaN}', "not valid JSON: expected value at line 1 column 6"),
    ('{"minimum":1e999}', "not valid JSON: number out of range at line 1 column 16"),
    ('{"a":"\ud800"}', "the JSON schema has a lone surrogate at character 6; replace it"),
    ("[1]", r"the JSON schema is '\[1\]'; a schema is an object, or true"),
    ("null", "the JSON schema is 'null'; a schema is an object, or true"),
    ("false", "the JSON schema is false, which no JSON text satisfies"),
    (nested(100), "the JSON schema is nested too deeply; use references to definitions"),
    (nested(5000), "the JSON schema is nested too deeply; use references to definitions"),
    ('{"x-guidance":[1]}', r'"x-guidance" of the JSON schema is \[1\]; it may be an object'),
    ('{"x-guidance":{"indent":2}}', "unknown field `indent`, expected one of .*; correct it"),
    ('{"not":{"type":"string"}}', r'Unimplemented keys: \["not"\]; leave them out, or set "x-guidance"'),
    ('{"type":"array","uniqueItems":true}', r'Unimplemented keys: \["uniqueItems"\]'),
    ('{"if":{"type":"string"},"then":{"maxLength":3}}', r'Unimplemented keys: \["if", "then"\]'),
    ('{"type":"string","format":"foo"}', "Unknown format: foo; leave it out"),
    ('{"oneOf":[{"type":"string"},{"maxLength":3}]}', 'use anyOf, or set "x-guidance": {"coerce_one_of": true}'),
    ('{"type":"strang"}', "Invalid type: strang; correct it"),
    (
        '{"type":"integer","minimum":5,"maximum":3}',
        r"minimum \(5\) is greater than maximum \(3\); no JSON text satisfies",
    ),
    ('{"enum":[]}', "Unsatisfiable schema: .*; no JSON text satisfies it; loosen it"),
    ('{"type":"object","properties":{"a":false},"required":["a"]}', "required property 'a' is unsatisfiable"),
    ('{"$ref":"#"}', "the JSON schema can never end"),
    ('{"$ref":"https://example.com/a.json"}', "files and URLs are not read; put the definition into the schema"),
    ('{"$ref":"file:///etc/passwd"}', "files and URLs are not read; put the definition into the schema"),
    ('{"$ref":"#/$defs/x"}', r"Pointer '/\$defs/x' does not exist"),
    ('{"type":"string","pattern":"a(b"}', "cannot be used: unclosed group; correct it"),
    ('{"type":"string","pattern":"(?!a)b"}', "look-around, .*; say it without looking ahead or behind"),
    (json.dumps({"enum": [f"value {i}" for i in range(10**6)]}), "has 15888900 bytes; at most 262144 are allowed"),
    (json.dumps({"const": "x" * 10**5}), "leaves no choice about its first 100002 bytes; at most 65536"),
    (json.dumps({"allOf": [{"required": [f"a{i}"]} for i in range(5000)]}), "schema too large; simplify it"),
    ('{"type":"integer","multipleOf":1000000007}', "fuel exhausted .*; simplify it"),
]
REGEXES = [
    (r"[^\s\S]", "the regular expression allows no text at all"),
    ("a(b", "the regular expression cannot be used: unclosed group at character 2; correct it"),
    ("ab[", "unclosed character class at character 3"),
    (r"(a)\1", "backreferences are not supported at character 4"),
    ("(?=a)b", "look-around, .* at character 1; say it without"),
    ("a^b", "lookarounds not supported.*; say it without"),
    ("ab\\", "the regular expression ends in a lone backslash"),
    ("(" * 5000 + ")" * 5000, r"nested parentheses/brackets \(250\) at character 251"),
    ("a{1000000}", r"leaves no choice about its first \d+ bytes; at most 65536 are allowed"),
    ("x\ud800", "the regular expression has a lone surrogate at character 1"),
    ("x" * 300_000, "has 300000 bytes; at most 262144 are allowed"),
]
GRAMMARS = [
    ("", "the grammar cannot be used: no start rule found; correct it"),
    ('rule: "a"', "no start rule found"),
    ('start: "a"\nx: )', "at line 2, column 4; correct it"),
    ('start: "a', "lexer error at line 1, column 10"),
    ("start: nowhere", 'unknown name: "nowhere" at line 1, column 8'),
    ("start: start", "the grammar allows no text at all"),
    ("start: X\nX: /a(b/", "unclosed group at line 2, column 4"),
    ('start: "a" <|im_start|> "b"', r"names the special token <\|im_start\|>; .* or let constrain_after name it"),
    ('start: "a" <[268]>', r"names the special token <\[268\]>"),
    ('start: x "b"\nx[stop="c"]: /a*/', "sets stop for a rule, which is not supported; leave it out"),
    ("start: x\nx[capture, max_tokens=3]: /a*/", "sets max_tokens for a rule"),
    ("start: x\nx[ temperature = 0.5]: /a*/", "sets temperature for a rule"),
    ('{"grammars":[{"regex":"a"}]}', "the grammar cannot be used: expecting rule"),
    ('start: "ab" x{1000000}\nx: "a"', "too complex after 0 tokens .*; simplify it"),
    ("start: " + "(" * 5000 + '"a"' + ")" * 5000, "too deeply nested .*; simplify it"),
    ("start: @other", "unknown grammar @other"),
    ('start: %json {"not":{}}', r'Unimplemented keys: \["not"\] at line 1, column 8; leave them out'),
]
REFUSED = [
    *((ConstraintKind.JSON_SCHEMA, *case) for case in SCHEMAS),
    *((ConstraintKind.REGEX, *case) for case in REGEXES),
    *((ConstraintKind.GRAMMAR, *case) for case in GRAMMARS),
]


@pytest.mark.parametrize(("kind", "text", "message"), REFUSED, ids=lambda value: ascii(value)[:25])
def test_refused_before_the_first_token(kind: ConstraintKind, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        COMPILER(Constraint(kind, text))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("text", [chained(4000), nested(50), '{"type":"array","minItems":1000000000}'])
def test_large_schemas_that_are_fine(text: str) -> None:
    assert ids_in(COMPILER(Constraint(ConstraintKind.JSON_SCHEMA, text)))


def test_a_long_chain_of_rules_is_fine_even_in_a_thread_with_a_small_stack() -> None:
    """llguidance's compiler recurses; the process would die."""
    rules = "\n".join(f"r{i}: r{i + 1}" for i in range(9000))
    made: list[Matcher] = []
    text = f'start: r0\n{rules}\nr9000: "ab"'
    thread = threading.Thread(target=lambda: made.append(COMPILER(Constraint(ConstraintKind.GRAMMAR, text))))
    before = threading.stack_size(2**18)
    try:
        thread.start()
        thread.join()
    finally:
        assert threading.stack_size(before) == 2**18
    assert made[0].forced(3) == (258,)


def test_special_signs_in_strings_comments_and_expressions_are_no_special_tokens() -> None:
    grammar = 'start: "<a>" /<b>[stop=1]/ "\\"<" x // <c> [stop=1]\nx: "[stop=1]" # <d>\n'
    matcher = COMPILER(Constraint(ConstraintKind.GRAMMAR, grammar))
    assert write(matcher, '<a><b>s"<[stop=1]')
    assert matcher.ended


@pytest.mark.parametrize(
    ("regex", "text"),
    [
        ("a/b", "a/b"),
        (r"a\/b", "a/b"),
        ('a"\nb', 'a"\nb'),
        ("^12$", "12"),
        (r"a\\", "a\\"),
        (r"\u00e8", "è"),
        ("(?i)x", "X"),
    ],
)
def test_the_whole_text_matches_the_expression(regex: str, text: str) -> None:
    matcher = COMPILER(Constraint(ConstraintKind.REGEX, regex))
    push_all(matcher, matcher.forced(99) or text.encode())
    assert matcher.ended


def test_lenient_schemas_are_what_was_asked_for() -> None:
    schema = '{"x-guidance":{"lenient":true},"type":"array","uniqueItems":true,"items":{"enum":[1]}}'
    assert write(COMPILER(Constraint(ConstraintKind.JSON_SCHEMA, schema)), "[1,1]")


def test_text_that_the_vocabulary_cannot_spell_is_refused() -> None:
    compiler = Compiler(small(lacking=frozenset(b"xy")))
    with pytest.raises(UsageError, match="begins with b'axb', which this model's vocabulary cannot spell"):
        compiler(Constraint(ConstraintKind.REGEX, "axb"))
    with pytest.raises(UsageError, match="allows no text at all"):
        compiler(Constraint(ConstraintKind.REGEX, "xa|yb"))


def test_a_vocabulary_without_an_end_of_text_is_refused() -> None:
    vocabulary = Vocabulary(256, 256, spell, lambda _: False, frozenset(), lambda text: list(text.encode()))
    with pytest.raises(UsageError, match="has no end of text, which a constraint needs"):
        Compiler(vocabulary)(JSON_OBJECT)
    with pytest.raises(UsageError, match="has no end of text, which a constraint needs"):
        Compiler(vocabulary).prepare()


def test_what_was_prepared_is_not_prepared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler(small())
    compiler.prepare()
    monkeypatch.setattr(guidance, "tokenizer", lambda vocabulary: pytest.fail("the vocabulary was prepared twice"))
    compiler.prepare()
    assert compiler(JSON_OBJECT).mask().any()


def test_the_mask_covers_the_padding_of_the_backend() -> None:
    whole = COMPILER(Constraint(ConstraintKind.REGEX, "(?s:.)*"))
    assert len(whole.mask()) == (SIZE + 31) // 32
    assert max(ids_in(whole)) == OTHER_END


def test_matchers_of_one_constraint_share_nothing_but_the_grammar() -> None:
    constraint = Constraint(ConstraintKind.REGEX, "a(b|c)12")
    first, second = COMPILER(constraint), COMPILER(constraint)
    mask = second.mask().copy()
    push_all(first, [ord("a"), ord("c"), 264])
    assert first.ended
    assert (second.mask() == mask).all()


def test_only_the_latest_constraints_are_kept() -> None:
    compiler = Compiler(small())
    for index in range(40):
        text = f"{index:06b}".replace("0", "q").replace("1", "z")
        matcher = compiler(Constraint(ConstraintKind.REGEX, f"{text}!", after=f"{text}:"))
        push_all(matcher, f"{text}:{text}!".encode())
        assert matcher.ended
    assert len(compiler._compiled) == len(compiler._markers) == 32
    push_all(compiler(Constraint(ConstraintKind.REGEX, "qqqqqq!", after="z:")), b"z:qqqqqq!")


def walk(matcher: Matcher, seed: int) -> list[tuple[int, int, tuple[int, ...]]]:
    chance = random.Random(seed)
    steps: list[tuple[int, int, tuple[int, ...]]] = []
    while len(steps) < 60 and not matcher.ended:
        may = sorted(ids_in(matcher) - ENDS)
        token = chance.choice(may)
        assert matcher.allows([token]) == 1
        assert matcher.push(token)
        steps.append((token, len(may), matcher.forced(4)))
    return steps


def test_threads_that_compile_and_walk_at_once_see_what_one_alone_sees() -> None:
    """Copies of a parser share what it learns about its grammar, behind llguidance's lock."""
    schema = {
        "type": "object",
        "properties": {f"p{i}": {"type": "string", "pattern": f"^[a-z]{{1,{i + 2}}}(-[0-9]+)?$"} for i in range(6)},
        "required": ["p0", "p3"],
        "additionalProperties": False,
    }
    constraint = Constraint(ConstraintKind.JSON_SCHEMA, json.dumps(schema))
    alone = {seed: walk(Compiler(small())(constraint), seed) for seed in range(8)}
    compiler, together = Compiler(small()), dict[int, list[tuple[int, int, tuple[int, ...]]]]()

    def work(first: int) -> None:
        for seed in range(first, 8, 4):
            together[seed] = walk(compiler(constraint), seed)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def test_llguidance_is_imported_with_the_first_constraint() -> None:
    program = (
        "import sys, outrider.constraints.compiler, outrider.constraints.marker, outrider.drafters.grammar\n"
        "assert not any('llguidance' in name for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
