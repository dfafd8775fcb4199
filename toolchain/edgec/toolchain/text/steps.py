"""A tokenizer's normalizer and pre-tokenizer, as `tokenizers` writes them, to steps for apps."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from edgec.toolchain.text.characters import Ranges
from edgec.toolchain.text.normal_forms import FORMS
from edgec.toolchain.text.patterns import Instruction, compile_pattern, literal
from edgec.toolchain.text.refusal import NotForApps
from edgec.toolchain.text.writing import Writer

__all__ = ["Steps", "read_steps"]

_REPLACE, _PREPEND, _FORM, _PIECES = range(1, 5)
_ALWAYS, _UNLESS_THERE, _FIRST = range(3)
_CUTS = {
    "Removed": 0,
    "Isolated": 1,
    "MergedWithPrevious": 2,
    "MergedWithNext": 3,
    "Contiguous": 4,
}
_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""How GPT-2 cuts a text, which `ByteLevel` does by itself."""

Spec = Mapping[str, Any]


@dataclass(kw_only=True)
class Steps:
    """What happens to a text before its pieces are merged.

    Attributes:
        classes: the sets of characters that patterns know.
        patterns: their programs.
        normalizers: steps for all of a text, each as it is written.
        cutters: steps that cut it.
        form: the normal form that one of them makes.
        by_bytes: pieces are spelt in bytes.
    """

    classes: list[Ranges] = field(default_factory=list)
    patterns: list[list[Instruction]] = field(default_factory=list)
    normalizers: list[bytes] = field(default_factory=list)
    cutters: list[bytes] = field(default_factory=list)
    form: str | None = None
    by_bytes: bool = False

    def write(self, writer: Writer) -> None:
        """The steps."""
        writer.number(len(self.normalizers) + len(self.cutters))
        writer.number(len(self.normalizers))
        for step in (*self.normalizers, *self.cutters):
            writer.raw(step)

    def write_patterns(self, writer: Writer) -> None:
        """The programs of the patterns."""
        writer.number(len(self.patterns))
        for program in self.patterns:
            writer.number(len(program))
            for operation, *numbers in program:
                writer.byte(operation)
                for number in numbers:
                    writer.number(number)


def read_steps(tokenizer: Spec) -> Steps:
    """The steps of a `tokenizer.json`.

    Raises:
        NotForApps: one of them is not known in apps.
    """
    steps = Steps()
    for spec in _each(tokenizer.get("normalizer"), "normalizers"):
        _known(_NORMALIZERS, spec, "normalizer")(steps, spec)
    for spec in _each(tokenizer.get("pre_tokenizer"), "pretokenizers"):
        if steps.by_bytes:
            raise NotForApps(f"its pre-tokenizer has {spec['type']} behind ByteLevel")
        _known(_CUTTERS, spec, "pre-tokenizer")(steps, spec)
    return steps


def _each(spec: Spec | None, parts: str) -> list[Spec]:
    """The steps of a step: those of a sequence, in order."""
    if spec is None:
        return []
    if spec["type"] != "Sequence":
        return [spec]
    return [one for part in spec[parts] for one in _each(part, parts)]


Reader = Callable[[Steps, Spec], None]


def _known(readers: Mapping[str, Reader], spec: Spec, what: str) -> Reader:
    reader = readers.get(spec["type"])
    if reader is None:
        raise NotForApps(
            f"its {what} is {spec['type']}, and apps know {', '.join(sorted(readers))}"
        )
    return reader


def _replacing(found: str, by: str) -> bytes:
    writer = Writer()
    writer.byte(_REPLACE)
    writer.byte(0)
    writer.text(found)
    writer.text(by)
    return writer.data


def _prepending(text: str, when: int) -> bytes:
    writer = Writer()
    writer.byte(_PREPEND)
    writer.byte(when)
    writer.text(text)
    return writer.data


def _cutting(steps: Steps, pattern: str, behavior: str, *, inverted: bool = False) -> None:
    writer = Writer()
    writer.byte(_PIECES)
    writer.byte(_CUTS[behavior])
    writer.byte(int(inverted))
    writer.number(len(steps.patterns))
    steps.patterns.append(compile_pattern(pattern, steps.classes))
    steps.cutters.append(writer.data)


def _replace(steps: Steps, spec: Spec) -> None:
    found = spec["pattern"].get("String")
    if found is None:
        raise NotForApps("its normalizer replaces what a pattern finds")
    if found:
        steps.normalizers.append(_replacing(found, spec["content"]))


def _prepend(steps: Steps, spec: Spec) -> None:
    if spec["prepend"]:
        steps.normalizers.append(_prepending(spec["prepend"], _ALWAYS))


def _form(steps: Steps, spec: Spec) -> None:
    if steps.form not in (None, spec["type"]):
        raise NotForApps(f"its normalizer has two forms, {steps.form} and {spec['type']}")
    steps.form = spec["type"]
    steps.normalizers.append(bytes((_FORM, int(FORMS[steps.form][1]))))


def _byte_level(steps: Steps, spec: Spec) -> None:
    if spec["add_prefix_space"]:
        steps.cutters.append(_prepending(" ", _UNLESS_THERE))
    if spec.get("use_regex", True):
        _cutting(steps, _WORDS, "Isolated")
    steps.by_bytes = True


def _split(steps: Steps, spec: Spec) -> None:
    pattern = spec["pattern"]
    text = pattern["Regex"] if "Regex" in pattern else literal(pattern["String"])
    _cutting(steps, text, spec["behavior"], inverted=bool(spec["invert"]))


def _digits(steps: Steps, spec: Spec) -> None:
    _cutting(steps, r"\p{N}", "Isolated" if spec["individual_digits"] else "Contiguous")


def _white_space(steps: Steps, spec: Spec) -> None:
    del spec
    _cutting(steps, r"\s", "Removed")


def _metaspace(steps: Steps, spec: Spec) -> None:
    mark = spec["replacement"]
    when = {"always": _UNLESS_THERE, "first": _FIRST, "never": None}[spec["prepend_scheme"]]
    steps.cutters.append(_replacing(" ", mark))
    if when is not None:
        steps.cutters.append(_prepending(mark, when))
    if spec.get("split", True):
        _cutting(steps, literal(mark), "MergedWithNext")


_NORMALIZERS: Mapping[str, Reader] = {
    "Replace": _replace,
    "Prepend": _prepend,
    **dict.fromkeys(FORMS, _form),
}
_CUTTERS: Mapping[str, Reader] = {
    "ByteLevel": _byte_level,
    "Split": _split,
    "Digits": _digits,
    "WhitespaceSplit": _white_space,
    "Metaspace": _metaspace,
}
