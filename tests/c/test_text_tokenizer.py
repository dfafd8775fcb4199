"""Tokenizers in C: the tokens and texts that Python's `tokenizers` has, whatever it is given."""

import random
from typing import Any

import pytest

from edgec.toolchain.text import NotForApps, text_form
from edgec.toolchain.text.patterns import compile_pattern
from tests.c import text_library
from tests.c.text_library import AppTokenizer, TextError
from tests.c.tokenizers_of_all_kinds import KINDS, facts_of, tokenizer

ROUNDS = 150
INVALID_ARGUMENT, DAMAGED, UNSUPPORTED = -2, -4, -5
PLACES = (
    *((0x20, 0x7F), (0x20, 0x7F), (0x20, 0x7F), (0x9, 0xE), (0xA0, 0x250), (0x300, 0x370)),
    *((0x370, 0x600), (0x900, 0x980), (0xE00, 0xE80), (0x1100, 0x1200), (0x1E00, 0x2070)),
    *((0x2100, 0x2400), (0x3000, 0x3100), (0x4E00, 0x9FFF), (0xAC00, 0xD7A4), (0xF900, 0xFB07)),
    *((0xFE00, 0x10000), (0x1D100, 0x1D200), (0x1F300, 0x1FA00), (0xE0000, 0xE0080)),
)
SAID = (
    *("I'll", " don't", "WE'VE", "'\u017ft", "  ", "\n\n", "\r\n", " \t ", "1234567", "½Ⅷ五", "éÀ"),
    *("e\u0301", "a\u0323\u0307\u0308", "\u1100\u1161\u11a8", "각\u11a8", "\u0958", "\u212b", "ﬁ"),
    *(
        "👩‍👩‍👧",
        "👋🏽",
        "🇩🇪",
        "नमस्ते",
        "สวัสดี",
        "你好,世界。",
        "ﷺ",
        "\u200b",
        "\ufeff",
        "\x00",
        "\x1f",
    ),
    *("<|im_start|>", "<|im_end|>", "<|begin|>", "<s>", "</s>", "<unk>", " <tool> ", "<|user|>\n "),
    *("<tool_call>", "é!", "e\u0301!", "Ünïcode", "U\u0308nïcode", "<0x41>", "▁", "▁▁the", "<|im_"),
    *("the function", "snake_case(x);", "CamelCaseWord", "// --- */", "http://a.b/c?d=e#f"),
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return text_library.build(tmp_path_factory.mktemp("text"))


def _text(chance: random.Random) -> str:
    """Words of a corpus, texts that are hard on tokenizers, and characters of everywhere."""
    parts = []
    for _ in range(chance.randrange(12)):
        if chance.random() < 0.6:
            parts.append(chance.choice(SAID))
        else:
            first, last = chance.choice(PLACES)
            count = 1 + chance.randrange(6)
            parts.append("".join(chr(chance.randrange(first, last)) for _ in range(count)))
        parts.append(chance.choice(("", " ", "")))
    return "".join(parts)


@pytest.mark.sweep(fast=4)
@pytest.mark.parametrize("kind", KINDS)
def test_any_text_and_any_tokens_come_out_as_python_has_them(kind: str, library: Any) -> None:
    theirs = tokenizer(kind)
    ours = AppTokenizer(library, text_form(facts_of(theirs)))
    chance = random.Random(kind)
    for _ in range(ROUNDS):
        text = _text(chance)
        special = chance.random() < 0.5
        tokens = theirs.encode(text, add_special_tokens=special).ids
        assert ours.encode(text, special=special) == tokens, repr(text)
        said = theirs.decode(tokens)
        assert ours.decode(tokens) == said, repr(text)
        assert "".join(ours.pieces(tokens)) == said, repr(text)
    for _ in range(ROUNDS):
        # Of tokens of bytes alone some are text, of others none is.
        most = 259 if chance.random() < 0.5 else theirs.get_vocab_size()
        tokens = [chance.randrange(most) for _ in range(chance.randrange(9))]
        assert ours.decode(tokens) == theirs.decode(tokens), tokens
    ours.close()


@pytest.fixture(scope="module")
def plain(library: Any) -> AppTokenizer:
    return AppTokenizer(library, text_form(facts_of(tokenizer("smollm"))))


@pytest.mark.parametrize(
    "text", [b"ab\xff", b"\xc3", b"x\xe2\x82", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80"]
)
def test_what_is_no_utf8_is_refused_with_its_place(plain: AppTokenizer, text: bytes) -> None:
    place = len(text) - len(text.lstrip(b"abx"))
    with pytest.raises(TextError, match=f"no UTF-8 at byte {place}") as caught:
        plain.encode(text)
    assert caught.value.status == INVALID_ARGUMENT


def test_a_form_that_is_cut_short_or_of_another_version_is_refused(library: Any) -> None:
    form = text_form(facts_of(tokenizer("smollm")))
    for wrong in ("", "?", form[: len(form) // 2], form[:-4], form + "AAAA"):
        with pytest.raises(TextError) as caught:
            AppTokenizer(library, wrong)
        assert caught.value.status in (DAMAGED, UNSUPPORTED)
    with pytest.raises(TextError, match="another version"):
        AppTokenizer(library, "A" + form[1:])


def test_a_tokenizer_that_apps_do_not_know_is_refused_by_name(library: Any) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    pieces = Tokenizer(models.Unigram([("a", 0.0), ("b", -1.0)], unk_id=0))
    cut = tokenizer("gpt2").from_str(tokenizer("gpt2").to_str())
    cut.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    told: list[str] = []
    for made, why in ((pieces, "of the kind Unigram"), (cut, "pre-tokenizer is BertPreTokenizer")):
        with pytest.raises(TextError, match=why) as caught:
            AppTokenizer(library, text_form(facts_of(made), told.append))
        assert caught.value.status == UNSUPPORTED
    assert ["get no text" in each for each in told] == [True, True]
    assert "of the kind Unigram" in told[0]


def test_a_template_that_apps_cannot_follow_is_told_and_leaves_the_tokenizer(library: Any) -> None:
    told: list[str] = []
    loud = "{% for m in messages %}{{ m['role'] }}{{ m['content'] | upper }}{% endfor %}"
    form = text_form(facts_of(tokenizer("smollm"), template=loud), told.append)
    assert ["get no chat" in each for each in told] == [True]
    assert not form.startswith("!")
    told.clear()
    text_form(facts_of(tokenizer("smollm")), told.append)
    assert told == []


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"\bword", "has '.*b', which"),
        (r"(?<=a)b", "apps cannot match"),
        (r"a*", "a match of no characters"),
        (r"a+?", "behind a repetition"),
        (r"(a?)+b", "what may take nothing"),
        (r"^a", "at 0"),
        (r"(?i:straß|ss)", "one character stands for"),
    ],
)
def test_a_pattern_that_apps_cannot_match_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(NotForApps, match=why):
        compile_pattern(pattern, [])
