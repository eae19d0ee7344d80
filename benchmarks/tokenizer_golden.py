"""Write tests/models/data/smollm2_ids.json: a nasty corpus and the ids that llama.cpp gives it for the default model.

    python benchmarks/tokenizer_golden.py MODEL.gguf --peer PYTHON_WITH_LLAMA_CPP

llama.cpp's tokenizer is written independently of the library that we use, which makes it a witness. Where the two
differ, the definition of the model's authors counts (digits one by one, then GPT-2's rule, then the merges, in the
`tokenizers` library), and the entry is marked; the script prints those.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parent.parent / "tests" / "models" / "data" / "smollm2_ids.json"
_MAX_LISTED = 200

# (text, times it is repeated)
CORPUS: tuple[tuple[str, int], ...] = (
    ("", 1),
    (" ", 1),
    ("   ", 1),
    ("\n", 1),
    ("\n\n\n  \n", 1),
    ("\t\tx\t", 1),
    ("Hello, world!", 1),
    (" leading and trailing ", 1),
    ("It's we're I'VE they'll SHE'D don't", 1),
    ("two  spaces   three    four", 1),
    ("line one\r\nline two\r\n\r\nline four", 1),
    ("old mac\rline", 1),
    ("0123456789 3.14159 1,000,000 v1.2.3 2026-11-29", 1),
    ("x1y22z333 a1 1a", 1),
    ("١٢٣٤ ४५६ Ⅷ ½ ² ⑦ 一二三", 1),
    ("def f(x: int) -> int:\n    return x**2 if x > 0 else -x  # 100%\n", 1),
    ("for(int i=0;i<n;++i){a[i]^=0xFF&~b[i];}\n\t//\t∑", 1),
    ('{"key": [1, 2.5e-10, null, true], "s": "a\\"b"}', 1),
    ("<div class='x'>&nbsp;</div><!-- c -->", 1),
    ("SELECT * FROM t WHERE a='b' AND c IS NOT NULL;--", 1),
    ("中文字符测试，包括标点。日本語のテキスト、カタカナ。한국어 텍스트입니다", 1),
    ("مرحبا بالعالم، كيف حالك؟ שלום עולם", 1),
    ("Привет, мир! Γειά σου Κόσμε. नमस्ते दुनिया สวัสดีชาวโลก", 1),
    ("👩‍👩‍👧‍👦 👍🏽 🇫🇷🇩🇪 ❤️ 🏴󠁧󠁢󠁥󠁮󠁧󠁿 🤷🏻‍♀️", 1),
    ("😀😃😄😁", 1),
    ("e\u0301 a\u030a\u0323 n\u0303 \u0301alone \u0300\u0301\u0302", 1),
    ("Z͑ͫ̓ͪ̂ͫ̽͏̴̙A̴̵̜̰̔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘", 1),
    ("\u00a0nbsp\u2003em\u200bzero\u3000wide\u2028ls\u2029ps\ufeffbom\u0085nel", 1),
    ("\x00\x01\x02\x03\x05\x07\x08\x0b\x0c\x0e\x1b[31m\x7f", 1),
    ("nul\x00inside", 1),
    ("missing bytes: \x04 \x06 \x13.\x14. \x16x\x1dy", 1),
    ("\U0001f600\U000e0041\U0010ffff\ufffd\ufffe", 1),
    ("\U00040000 plane four \U000fffff", 1),
    ("ﬁ ﬂ Ａ Ｂ ㎏ ℌ ½ ǆ İ ı ß ẞ ſ", 1),
    ("<|im_start|>user\nhi<|im_end|>\n<|endoftext|>", 1),
    ("<|im_start|", 1),
    ("https://example.org/a_b-c/%7Eq?x=1&y=[2]#frag user@example.org", 1),
    ("!!!???...---___===***###@@@$$$", 1),
    ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 1),
    ("Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichen", 1),
    ("a", 5000),
    ("word ", 4000),
    ("ab1 ", 3000),
    (" ", 3000),
    ("\n", 2000),
    ("0", 3000),
    ("é", 3000),
    ("汉字", 2000),
    ("👍", 1500),
    ("=-", 3000),
    ("The quick brown fox jumps over the lazy dog. ", 500),
)


def _peer_side(model: str) -> None:
    """Runs in the peer's interpreter: texts on standard input, ids on standard output."""
    import llama_cpp

    llama_cpp.llama_backend_init()
    parameters = llama_cpp.llama_model_default_params()
    parameters.vocab_only = True
    loaded = llama_cpp.llama_model_load_from_file(model.encode(), parameters)
    vocabulary = llama_cpp.llama_model_get_vocab(loaded)
    answers = []
    for text in json.load(sys.stdin):
        raw = text.encode()
        room = (llama_cpp.llama_token * (len(raw) + 8))()
        count = llama_cpp.llama_tokenize(vocabulary, raw, len(raw), room, len(room), False, False)
        answers.append(list(room[:count]))
    json.dump(answers, sys.stdout)


def _entry(text: str, times: int, ours: list[int], peer: list[int]) -> dict[str, Any]:
    digest = hashlib.sha256(json.dumps(ours).encode()).hexdigest()
    ids: dict[str, Any] = {"ids": ours} if len(ours) <= _MAX_LISTED else {"count": len(ours), "sha256": digest}
    difference = {} if ours == peer else {"llama_cpp": peer[:_MAX_LISTED]}
    return {"text": text, "times": times, **ids, **difference}


def main() -> None:
    """Compare both tokenizers over the corpus and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--peer", help="an interpreter that has llama_cpp")
    arguments = parser.parse_args()
    if arguments.peer is None:
        _peer_side(arguments.model)
        return
    from outrider.models import gguf
    from outrider.models.tokenizer import Tokenizer

    tokenizer = Tokenizer(gguf.read(Path(arguments.model)).tokenizer)
    texts = [text * times for text, times in CORPUS]
    command = [arguments.peer, __file__, arguments.model]
    run = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=True)
    entries = []
    for (text, times), whole, peer in zip(CORPUS, texts, json.loads(run.stdout), strict=True):
        entry = _entry(text, times, tokenizer.encode(whole, special=False), peer)
        entries.append(entry)
        if "llama_cpp" in entry:
            print(f"llama.cpp differs: {text!r} x {times}")
            print(f"  definition {entry.get('ids')}\n  llama.cpp  {peer[:_MAX_LISTED]}")
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    TARGET.write_text(f"[\n{lines}\n]\n", "utf-8")
    print(f"{len(entries)} texts, {sum('llama_cpp' in entry for entry in entries)} differ")


if __name__ == "__main__":
    main()
