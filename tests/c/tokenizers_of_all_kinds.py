"""Tokenizers of the kinds that language models have, trained on a few texts in a moment."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from edgec.runtime.text.facts import TextFacts, packed

__all__ = ["KINDS", "facts_of", "tokenizer"]

_ROOT = Path(__file__).resolve().parents[2]
_TEXTS = ("docs/text.md", "docs/architecture.md", "runtime/c/src/json.c")
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LLAMA3 = (
    rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace("{1,3}", "")
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED = (  # as GPT-4o's and Phi-4's cut words at changes of case
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTIONS}?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTIONS}?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_ONCE = (  # nothing that was taken is given back
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s*[\r\n]|\s+(?!\S)|(?:\s\s?){2,3}|(?>\s+)|\s"
)
_SAYINGS = (
    "Grüße, señor! Ça va? Привет, мир. 你好,世界。 こんにちは 안녕하세요 สวัสดี 👋🏽 don't I'VE\n"
)


@cache
def _corpus() -> list[str]:
    texts = [(_ROOT / name).read_text(encoding="utf-8") for name in _TEXTS]
    return [line for text in texts for line in text.splitlines(keepends=True)] + [_SAYINGS] * 40


def _by_bytes(*cutters: Any, prefix: bool = False, regex: bool = False, **settings: Any) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    made = Tokenizer(models.BPE(**settings))
    last = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)
    made.pre_tokenizer = pre_tokenizers.Sequence([*cutters, last]) if cutters else last
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(
        _corpus(),
        trainers.BpeTrainer(
            vocab_size=1200,
            show_progress=False,
            special_tokens=["<|begin|>", "<|im_start|>", "<|im_end|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    made.post_processor = processors.TemplateProcessing(
        single="<|begin|> $A", special_tokens=[("<|begin|>", 0)]
    )
    return made


def _split(pattern: str) -> Any:
    from tokenizers import Regex, pre_tokenizers

    return pre_tokenizers.Split(Regex(pattern), "isolated")


def _by_characters(*, normalizer: Any, cutter: Any, strip: int, fuse: bool = True) -> Any:
    """As SentencePiece makes them: spaces are marks, and what is unknown is spelt in bytes."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, trainers

    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    learner = Tokenizer(models.BPE(unk_token="<unk>"))
    learner.normalizer = normalizer
    if cutter is not None:
        learner.pre_tokenizer = cutter
    trainer = trainers.BpeTrainer(
        vocab_size=900, show_progress=False, special_tokens=tokens, limit_alphabet=120
    )
    # Words by themselves: a whole line would be one.
    learner.train_from_iterator((w for line in _corpus() for w in line.split(" ")), trainer)
    spec = json.loads(learner.to_str())
    spec["added_tokens"] = []
    spec["model"] |= {"byte_fallback": True, "fuse_unk": fuse}
    made = Tokenizer.from_str(json.dumps(spec))
    made.add_special_tokens(["<unk>", "<s>", "</s>"])
    made.add_special_tokens([AddedToken("<|user|>", special=True, normalized=False, rstrip=True)])
    made.add_tokens(
        [
            AddedToken("<tool>", normalized=False, lstrip=True),
            AddedToken("Ünïcode", normalized=True),
        ]
    )
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    made.decoder = decoders.Sequence([*parts, *([decoders.Strip(" ", 1, 0)] if strip else [])])
    return made


def _gpt2() -> Any:
    return _by_bytes(regex=True)


def _roberta() -> Any:
    return _by_bytes(regex=True, prefix=True)


def _smollm() -> Any:
    from tokenizers import pre_tokenizers

    return _by_bytes(pre_tokenizers.Digits(individual_digits=True), regex=True)


def _llama3() -> Any:
    return _by_bytes(_split(_LLAMA3), ignore_merges=True)


def _qwen2() -> Any:
    from tokenizers import AddedToken, normalizers

    made = _by_bytes(_split(_QWEN2))
    made.normalizer = normalizers.NFC()
    made.add_tokens(
        [AddedToken("<tool_call>", normalized=False), AddedToken("é!", normalized=True)]
    )
    return made


def _cased() -> Any:
    from tokenizers import normalizers

    made = _by_bytes(_split(_CASED))
    made.normalizer = normalizers.NFKC()
    return made


def _once() -> Any:
    return _by_bytes(_split(_ONCE))


def _llama2() -> Any:
    from tokenizers import normalizers, processors

    made = _by_characters(
        normalizer=normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
        cutter=None,
        strip=1,
    )
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return made


def _metaspace() -> Any:
    from tokenizers import normalizers, pre_tokenizers

    return _by_characters(
        normalizer=normalizers.Sequence([]),
        cutter=pre_tokenizers.Metaspace(prepend_scheme="first", split=True),
        strip=1,
    )


def _gemma() -> Any:
    from tokenizers import normalizers, pre_tokenizers

    return _by_characters(
        normalizer=normalizers.Replace(" ", "▁"),
        cutter=pre_tokenizers.Split(" ", "merged_with_previous"),
        strip=0,
        fuse=False,
    )


KINDS = {
    "gpt2": _gpt2,
    "roberta": _roberta,
    "smollm": _smollm,
    "llama3": _llama3,
    "qwen2": _qwen2,
    "cased": _cased,
    "once": _once,
    "llama2": _llama2,
    "metaspace": _metaspace,
    "gemma": _gemma,
}


@cache
def tokenizer(kind: str) -> Any:
    """A `tokenizers.Tokenizer` of a kind."""
    return KINDS[kind]()


def facts_of(made: Any, *, template: str = "", prefill: tuple[int, ...] = (8, 16)) -> TextFacts:
    """What a module would say of a tokenizer."""
    return TextFacts(
        context=64,
        prefill=prefill,
        vocabulary=made.get_vocab_size(),
        stop=(2,),
        packed=packed(made.to_str()),
        template=template,
    )
