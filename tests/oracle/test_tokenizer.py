"""Ids and chat texts equal to those of the model's own definition, as the reference libraries run it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.oracle.passages import PASSAGES
from tokenizers import AddedToken
from tokenizers import Tokenizer as Library
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence

from outrider.models import gguf
from outrider.models.chat import ChatTemplate
from outrider.models.spec import TokenizerData
from outrider.models.tokenizer import Tokenizer

pytestmark = pytest.mark.model

GOLDEN = Path(__file__).parents[1] / "models" / "data" / "smollm2_ids.json"
NASTY = {
    "empty": "",
    "zero width joiners": "👨‍👩‍👧‍👦👩🏽‍🚀 🏳️‍🌈🏴‍☠️ 👁️‍🗨️ a‍b",
    "flags and modifiers": "🇩🇪🇫🇷🇯🇵🇺 👋🏿👋🏻 ☝🏽 ✊️",
    "digits": "1 12 123 1234567890 3.14159e-10 0x1F 1,000,000.00 ٣٤٥ ๔๕ 五六 ²³½ Ⅻ 1st2nd",
    "indented code": "if x:\n\tfor i in range(10):\n\t\t    print(f'{i:>08}')   # done\n\n\n",
    "operators": "a<=b&&c!=d||!e?f::g:h->i; x**=2; y//=3; z>>>=1 @decorator #include <a.h> $PATH `ls`",
    "markup": '<p class="a">x&amp;y</p>\n| a | b |\n|---|:-:|\n- [ ] **bold** _it_ ~~no~~ [l](http://e.x/?q=1&r=%20)',
    "chinese": "你好，世界！今天天气很好。「引号」《书名》……一二三",
    "japanese": "吾輩は猫である。名前はまだ無い。カタカナ ﾊﾝｶｸ ー〜々",
    "korean": "안녕하세요 세계! 한글 자모 ㄱㄴㄷ 뷁",
    "arabic": "السلام عليكم ورحمة الله؟ لا، شكرًا. ١٢٣ \u200f\u202bRTL\u202c",
    "mixed directions": "abc עברית 123 فارسی‌ها xyz",
    "combining": "é é ñ Å ắ q̣̇ Z̸̡͔̈́ क्षि ไม้ ཧཱུྃ",
    "control": "".join(map(chr, range(1, 32))) + "\x7f\x80\x85\x9f\x00end",
    "spaces": " a  b   c\u00a0d\u2003e\u3000f\u200bg\ufeffh\u2028i\u2029j \t k\t\t",
    "windows": "one\r\ntwo\r\n\r\nthree\r\r\n \r\n",
    "blank lines": "\n\n\n a\n \n  \n   b\n",
    "contractions": "don't DON'T we'll we’ll I'm y'all'd've 's 't 're rock'n'roll ''' 'S",
    "camel and snake": "parseHTTPResponseCode2xx my_var_name__ --long-option SCREAMING_CASE iPhone15ProMax",
    "rare planes": "𝕳𝖊𝖑𝖑𝖔 𝟙𝟚𝟛 𓀀𓂀 𐍈 🀄🃏 \U000e0041\U0010ffff\ufffd\ufffe",
    "a long word": "Rindfleischetikettierungsüberwachungsaufgabenübertragungsgesetz" * 20,
    "a long line": "the cat sat on the mat and " * 2000,
    "letters": "aB" * 4000,
    "long digits": "9876543210" * 400,
    "long spaces": "x" + " " * 3000 + "y",
    "long emoji": "🤖👾" * 700,
    "looks special": "<|im_start <|im_end|><|endoftext|> <|im_start|>user\nx<|im_end|>\n<|IM_END|> <repo_name>",
}


def corpus() -> dict[str, str]:
    """The nasty texts, the golden ones, ordinary ones, and random ones from every corner of Unicode."""
    golden = {f"golden {i}": entry["text"] * entry["times"] for i, entry in enumerate(json.loads(GOLDEN.read_text()))}
    chance = random.Random(3)
    ranges = ((1, 0x7F), (0x80, 0x24F), (0x300, 0x6FF), (0x900, 0x1FFF), (0x2000, 0x2BFF), (0x3000, 0xD7FF))
    planes = (*ranges, (0xE000, 0xFFFF), (0x10000, 0x1FBFF), (0x20000, 0x10FFFF))
    wild = {
        f"random {i}": "".join(
            chr(chance.randint(*chance.choice(planes))) if chance.random() < 0.5 else chance.choice(" \n\r\t'aZé0 ,.")
            for _ in range(200)
        )
        for i in range(50)
    }
    return {**NASTY, **golden, **PASSAGES, **wild}


def definition(data: TokenizerData, special: bool) -> Library:
    """SmolLM2's tokenizer.json, from the file's vocabulary: digits one by one, GPT-2's rule, the merges."""
    merges = [(left, right) for left, right in (merge.split(" ") for merge in data.merges)]
    library = Library(BPE({token: index for index, token in enumerate(data.tokens)}, merges))
    library.pre_tokenizer = Sequence(
        [Digits(individual_digits=True), ByteLevel(add_prefix_space=False, trim_offsets=True)]
    )
    if special:
        controls = [token for token, kind in zip(data.tokens, data.types, strict=True) if kind == 3]
        library.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in controls])
    return library


@pytest.fixture(scope="module")
def data(default_model: Path) -> TokenizerData:
    return gguf.read(default_model).tokenizer


@pytest.fixture(scope="module")
def own(data: TokenizerData) -> Tokenizer:
    return Tokenizer(data)


@pytest.fixture(scope="module")
def from_gguf(default_model: Path) -> Any:
    """What transformers itself makes of the file."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(default_model.parent, gguf_file=default_model.name)


@pytest.mark.parametrize("special", [False, True])
def test_ids_are_the_definitions(special: bool, data: TokenizerData, own: Tokenizer) -> None:
    library = definition(data, special)
    texts = corpus()
    different = [
        name
        for name, text in texts.items()
        if own.encode(text, special=special) != library.encode(text, add_special_tokens=False).ids
    ]
    assert len(texts) > 100
    assert different == []


def test_ids_are_those_of_transformers_where_it_knows_the_rule(own: Tokenizer, from_gguf: Any) -> None:
    """It takes every byte-level file for GPT-2's: the same as ours as long as nothing in a text counts as a digit."""
    texts = {name: text for name, text in corpus().items() if not any(map(str.isnumeric, text))}
    different = [
        name
        for name, text in texts.items()
        if own.encode(text, special=True) != from_gguf(text, add_special_tokens=False).input_ids
    ]
    assert len(texts) > 40
    assert different == []


@pytest.mark.parametrize("special", [False, True])
def test_text_is_the_librarys(special: bool, own: Tokenizer, from_gguf: Any) -> None:
    for name, text in corpus().items():
        ids = own.encode(text, special=special)
        # The library writes U+FFFD for each broken piece as we do; clean-up of spaces would be an invention of its own.
        expected = from_gguf.decode(ids, skip_special_tokens=not special, clean_up_tokenization_spaces=False)
        assert own.decode(ids, skip_special=not special) == expected, name


CHATS: dict[str, list[dict[str, str]]] = {
    "one message": [{"role": "user", "content": "Why is the sky blue?"}],
    "own system message": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
    "several turns": [
        {"role": "user", "content": "2+2?"},
        {"role": "assistant", "content": "4"},
        {"role": "user", "content": "and twice that?\n"},
    ],
    "assistant last": [{"role": "user", "content": "Say it"}, {"role": "assistant", "content": "It"}],
    "nasty contents": [{"role": "user", "content": text} for text in NASTY.values()],
    "template in a message": [{"role": "user", "content": "{{ 7 * 7 }}{% raw %}<b>&amp;</b> \t\r\n"}],
    "an unknown role": [{"role": "tool", "content": "{}"}, {"role": "user", "content": ""}],
}


@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize("opened", [False, True])
def test_chat_texts_are_those_of_transformers(chat: str, opened: bool, data: TokenizerData, from_gguf: Any) -> None:
    expected = from_gguf.apply_chat_template(CHATS[chat], tokenize=False, add_generation_prompt=opened)
    assert data.chat_template
    assert ChatTemplate(data.chat_template).render(CHATS[chat], add_generation_prompt=opened) == expected
