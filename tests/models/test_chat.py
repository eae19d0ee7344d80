"""Chat templates: what they render, what they refuse, and what a hostile one cannot do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outrider.errors import ModelFileError, UsageError
from outrider.models import chat, gguf
from outrider.models.chat import ChatTemplate
from outrider.models.spec import TokenizerData


def test_a_prompt_is_one_user_message(tiny_data: TokenizerData) -> None:
    template = ChatTemplate(tiny_data.chat_template)
    expected = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert template.render("hi") == template.render([{"role": "user", "content": "hi"}]) == expected


def test_without_the_generation_prompt(tiny_data: TokenizerData) -> None:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": ""}]
    rendered = ChatTemplate(tiny_data.chat_template).render(messages, add_generation_prompt=False)
    assert rendered == "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\n<|im_end|>\n"


def test_the_messages_of_the_caller_are_not_changed(tiny_data: TokenizerData) -> None:
    messages = [{"role": "user", "content": "hi"}]
    ChatTemplate(tiny_data.chat_template).render(messages)
    assert messages == [{"role": "user", "content": "hi"}]


def test_content_is_never_taken_for_template_or_escaped() -> None:
    content = "{{ 7*7 }} {% if %} <b>&amp;'\"</b> \x00 \r\n"
    assert ChatTemplate("{{ messages[0].content }}").render(content) == content


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ bos_token }}{{ messages[0]['content'] }}{{ eos_token }}", "<s>hi</s>"),
        ("{% if true %}\n  a\n{% endif %}\nb", "  a\nb"),
        ("  {% if true %}a{% endif %}", "a"),
        ("{{ messages | tojson }}", '[{"role": "user", "content": "hi"}]'),
        ("{{ {'é': '<>'} | tojson(indent=1) }}", '{\n "é": "<>"\n}'),
        ("{% for m in [1, 2, 3] %}{% if m == 2 %}{% break %}{% endif %}{{ m }}{% endfor %}", "1"),
        ("{% set n = namespace(x=1) %}{% for i in range(3) %}{% set n.x = n.x * 2 %}{% endfor %}{{ n.x }}", "8"),
        (
            "{{ 'ab' * 3 }}{{ 2 ** 10 }}{{ 7 % 4 }}{{ 'x'.strip() | upper }}{{ 'a\nb' | indent(2) }}",
            "ababab10243Xa\n  b",
        ),
        ("{{ 'defined' if strftime_now is defined else 'none' }}", "none"),
        ("", ""),
    ],
)
def test_what_templates_may_use(source: str, expected: str) -> None:
    assert ChatTemplate(source, bos="<s>", eos="</s>").render("hi") == expected


def test_no_template_says_what_to_do() -> None:
    with pytest.raises(UsageError, match="no chat template; use raw=True"):
        ChatTemplate(None)


def test_a_template_may_refuse_messages() -> None:
    template = ChatTemplate("{{ raise_exception('roles must alternate') }}")
    with pytest.raises(UsageError, match=r"refuses these messages: roles must alternate.*raw=True"):
        template.render("hi")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("a\n{% if %}", "line 2"),
        ("{{ x | nosuchfilter }}", "nosuchfilter"),
        ("{% include 'x' %}", "raw=True"),
        ("{{" + "(" * 5000, "nested too deeply"),
        ("{{ absent.field }}", "UndefinedError"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError"),
        ("{{ ''.__class__.__mro__ }}", "SecurityError"),
        ("{{ messages.append(1) }}", "SecurityError"),
        ("{{ cycler.__init__.__globals__ }}", "SecurityError|UndefinedError"),
        ("{% for i in range(100001) %}{% endfor %}", "Range too big"),
        ("{{ 'x' * 10000000000 }}", "a repetition is over"),
        ("{{ [1] * 10000 * 10000 }}", "a repetition is over"),
        ("{{ 10000000000 * 'x' }}", "a repetition is over"),
        ("{{ 9 ** 9 ** 9 }}", "an exponent is over|a base is over"),
        ("{{ 2 ** 1000000 }}", "an exponent is over"),
        ("{{ 'x'.ljust(10000000000) }}", "an argument is over"),
        ("{{ 'x'.center(width=10000000000) }}", "TypeError|an argument is over"),
        ("{{ '%10000000000d' % 1 }}", "formatting with %"),
        ("{{ '{:>10000000000}'.format(1) }}", r"str\.format is not supported"),
        ("{{ ('{:>10000000000}'|attr('format'))(1) }}", r"str\.format is not supported"),
        ("{{ 'a' | center(10000000000) }}", "center"),
        ("{{ '%10000000000s' | format('a') }}", "format"),
        ("{{ 'a' | indent(10000000000) }}", "an indent is over"),
        ("{{ lipsum(10000) }}", "lipsum"),
    ],
)
def test_a_broken_or_hostile_template_is_one_clear_error(source: str, words: str) -> None:
    with pytest.raises(ModelFileError, match=words):
        ChatTemplate(source).render("hi")


def test_a_template_that_writes_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "_GROWTH_CHARACTERS", 10_000)
    source = "{% for i in range(9999) %}{% for j in range(9999) %}aaaaaaaa{% endfor %}{% endfor %}"
    with pytest.raises(ModelFileError, match="writes over 10004 characters"):
        ChatTemplate(source).render("hi")


def test_long_messages_are_no_explosion(tiny_data: TokenizerData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "_GROWTH_CHARACTERS", 100)
    assert len(ChatTemplate(tiny_data.chat_template).render("x" * 100_000)) > 100_000


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "messages is empty"),
        (["hi"], "message 0 is 'hi'"),
        ([{"role": "user", "content": "a"}, 7], "message 1 is 7"),
        ([{"role": "user"}], "message 0 has content None"),
        ([{"content": "a"}], "message 0 has role None"),
        ([{"role": "user", "content": ["a"]}], r"message 0 has content \['a'\]"),
        ([{"role": "", "content": "a"}], "message 0 has an empty role"),
        ([{"role": "user", "content": "a", "name": "b"}], "message 0 has 'name'"),
    ],
)
def test_malformed_messages_are_named(messages: list[Any], words: str, tiny_data: TokenizerData) -> None:
    with pytest.raises(UsageError, match=words):
        ChatTemplate(tiny_data.chat_template).render(messages)


@pytest.mark.model
def test_the_default_model_adds_its_own_system_message(default_model: Path) -> None:
    template = ChatTemplate(gguf.read(default_model).tokenizer.chat_template)
    assert template.render("hi") == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )
