"""The tokens of a `tokenizer.json`, their merges and how they are written, for apps."""

from collections.abc import Mapping, Sequence
from typing import Any

from edgec.toolchain.text.refusal import NotForApps
from edgec.toolchain.text.writing import Writer

__all__ = ["write_added", "write_decoder", "write_merges", "write_model", "write_tokens"]

Spec = Mapping[str, Any]

_SPECIAL, _LEFT, _RIGHT, _NORMALIZED = 1, 2, 4, 8


def _letters() -> dict[str, int]:
    """Letters that stand for bytes: printable Latin-1 for itself, others from 256 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(b): b for b in plain} | {chr(256 + at): b for at, b in enumerate(others)}


_BYTES = _letters()


def _spelt(text: str) -> bytes | None:
    """The bytes that a token of bytes stands for; None where it is written as it is."""
    try:
        return bytes(_BYTES[letter] for letter in text)
    except KeyError:
        return None


def write_tokens(writer: Writer, tokenizer: Spec, native: Any, *, by_bytes: bool) -> dict[str, int]:
    """All tokens in the order of their numbers; what is merged, by the name that merges use.

    Args:
        writer: where to.
        tokenizer: the `tokenizer.json`.
        native: the same as a `tokenizers.Tokenizer`.
        by_bytes: the letters of tokens stand for bytes.

    Raises:
        NotForApps: the model does not merge, or has a number twice.
    """
    model = tokenizer["model"]
    kind = model.get("type", "BPE")
    if kind != "BPE" or "merges" not in model:
        raise NotForApps(f"it is of the kind {kind}, and apps know BPE alone")
    for key in ("continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(key):
            raise NotForApps(f"it has a {key}")
    if model.get("dropout"):
        raise NotForApps("it leaves merges out at random")
    vocabulary: dict[str, int] = model["vocab"]
    tokens: dict[int, tuple[bytes, bool]] = {}
    spelt: set[bytes] = set()
    for text, number in vocabulary.items():
        data = _spelt(text) if by_bytes else text.encode()
        is_made = data is not None and data not in spelt and bool(data)
        if is_made and data is not None:
            spelt.add(data)
        if number in tokens:
            raise NotForApps(f"two of its tokens have the number {number}")
        tokens[number] = (text.encode() if data is None else data, not is_made)
    for added in tokenizer.get("added_tokens") or ():
        number = added["id"]
        text = native.id_to_token(number)  # a normalizer may have made another one of it
        data = _spelt(text) if by_bytes else None
        if number not in tokens:
            tokens[number] = (text.encode() if data is None else data, True)
    count = max(tokens, default=-1) + 1
    if count > 4 * len(tokens) + 1000:
        raise NotForApps(f"its {len(tokens)} tokens have numbers up to {count - 1}")
    writer.number(count)
    for number in range(count):
        data, is_only = tokens.get(number, (b"", False))
        writer.number(len(data) << 1 | is_only)
        writer.raw(data)
    return vocabulary


def write_merges(
    writer: Writer, model: Spec, vocabulary: Mapping[str, int], *, by_bytes: bool
) -> None:
    """The merges by rank: what they make, and where it is cut.

    Raises:
        NotForApps: one makes no token.
    """
    found: dict[tuple[str, str], int] = {}
    for rank, merge in enumerate(model["merges"]):
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        found[left, right] = rank
    writer.number(len(found))
    following = 0
    for left, right in sorted(found, key=lambda pair: found[pair]):
        made = vocabulary.get(left + right)
        cut = len(left) if by_bytes else len(left.encode())
        is_spelt = not by_bytes or _spelt(left + right) is not None
        if made is None or left not in vocabulary or right not in vocabulary or not is_spelt:
            raise NotForApps(f"its merge of {left!r} and {right!r} makes no token")
        writer.step(made - following)
        writer.number(cut)
        following = made + 1


def write_model(
    writer: Writer, model: Spec, vocabulary: Mapping[str, int], *, by_bytes: bool
) -> None:
    """How pieces are spelt."""
    unknown = model.get("unk_token")
    writer.byte(
        by_bytes
        | bool(model.get("byte_fallback")) << 1
        | bool(model.get("fuse_unk")) << 2
        | bool(model.get("ignore_merges")) << 3
    )
    writer.number(vocabulary[unknown] + 1 if unknown is not None else 0)


def write_added(writer: Writer, tokenizer: Spec, native: Any, *, space: int | None) -> None:
    """Tokens that are written out in a text, and those that it begins and ends with.

    Args:
        writer: where to.
        tokenizer: the `tokenizer.json`.
        native: the same as a `tokenizers.Tokenizer`.
        space: which class of the form holds white space.

    Raises:
        NotForApps: one of them is looked for in a way that is not known.
    """
    added = tokenizer.get("added_tokens") or ()
    writer.number(len(added))
    for token in added:
        if token["single_word"]:
            raise NotForApps(f"its token {token['content']!r} is looked for as a word")
        content = token["content"]
        if token["normalized"] and native.normalizer is not None:
            content = native.normalizer.normalize_str(content)
        if not content:
            raise NotForApps(f"its token {token['id']} has no letters")
        writer.number(token["id"])
        writer.text(content)
        writer.byte(
            _SPECIAL * token["special"]
            | _LEFT * token["lstrip"]
            | _RIGHT * token["rstrip"]
            | _NORMALIZED * token["normalized"]
        )
    writer.number(0 if space is None else space + 1)
    before, after = _around(tokenizer.get("post_processor"))
    writer.numbers(before)
    writer.numbers(after)


def _around(spec: Spec | None) -> tuple[Sequence[int], Sequence[int]]:
    """The tokens that are put before and behind a text."""
    if spec is None or spec["type"] == "ByteLevel":
        return (), ()
    if spec["type"] == "Sequence":
        before: list[int] = []
        after: list[int] = []
        for part in spec["processors"]:
            first, last = _around(part)
            before[:0] = first
            after += last
        return before, after
    if spec["type"] == "TemplateProcessing":
        sides: tuple[list[int], list[int]] = ([], [])
        side = 0
        for piece in spec["single"]:
            if "Sequence" in piece:
                side += 1
            else:
                name = piece["SpecialToken"]["id"]
                sides[min(side, 1)].extend(spec["special_tokens"][name]["ids"])
        if side == 1:
            return sides
    raise NotForApps(f"its post-processor {spec['type']} is not known")


def write_decoder(writer: Writer, spec: Spec | None, *, by_bytes: bool) -> None:
    """How tokens become text.

    Raises:
        NotForApps: the decoder is not known.
    """
    parts = [] if spec is None else spec["decoders"] if spec["type"] == "Sequence" else [spec]
    names = [part["type"] for part in parts]
    falls_back, stripped, replaced = False, 0, ("", "")
    for part in parts:
        if part["type"] == "Replace" and "String" in part["pattern"] and not replaced[0]:
            replaced = (part["pattern"]["String"], part["content"])
        elif part["type"] == "ByteFallback":
            falls_back = True
        elif part["type"] == "Strip" and (part["content"], part["stop"]) == (" ", 0):
            stripped = part["start"]
        elif part["type"] not in ("ByteLevel", "Fuse"):
            raise NotForApps(f"its decoder has {part['type']}")
    plain = ["Replace", "ByteFallback", "Fuse", "Strip"]
    if names != ["ByteLevel"] and [n for n in plain if n in names] != names:
        raise NotForApps(f"its decoder is {', '.join(names) or 'none'}")
    if "Fuse" not in names and names != ["ByteLevel"]:
        raise NotForApps("its decoder puts spaces between tokens")
    if by_bytes != (names == ["ByteLevel"]):
        raise NotForApps("its decoder does not undo what its pre-tokenizer does")
    writer.byte(falls_back)
    writer.number(stripped)
    writer.text(replaced[0])
    writer.text(replaced[1])
