"""The text of one `--input` or `--expected` to what it means; nothing is read or allocated.

[NAME=]@FILE                 .npy, .npz, .bin, .png or .jpg
[NAME=]@FILE.npz:KEY         one array of an archive
[NAME=]SHAPExTYPE=VALUES     1x3x224x224xf32=0.5, 4xi32=1,2,3,4, f32=1.0, 2x2xf32=[[1 2][3 4]]
[NAME=]SHAPExTYPE            zeros
[NAME=]SHAPExTYPE=@FILE.bin  raw bytes of that type
[NAME=]VALUES                type and shape as the function takes them
"""

import re
from dataclasses import dataclass
from pathlib import Path

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import UsageError

__all__ = ["FORMS", "FileValue", "InputSpec", "LiteralValue", "TypedShape", "parse_input"]

FORMS = "[NAME=]@FILE, [NAME=]1x3xf32=0.5 or [NAME=]2x2xi32=1,2,3,4"
"""What an input may look like, in one line, for messages."""


@dataclass(frozen=True, kw_only=True)
class TypedShape:
    """A shape and an element type, as in `1x28x28xf32`."""

    shape: tuple[int, ...]
    dtype: DType

    def __str__(self) -> str:
        return "x".join([*map(str, self.shape), self.dtype.value])

    @classmethod
    def parse(cls, text: str) -> "TypedShape | None":
        """Read `1x28x28xf32` or `f32`; None if the text is neither."""
        found = _TYPED.fullmatch(text)
        if not found:
            return None
        sizes = found["shape"]
        return cls(
            shape=tuple(_size(n) for n in sizes.split("x")[:-1]) if sizes else (),
            dtype=_TYPES[found["type"]],
        )


@dataclass(frozen=True, kw_only=True)
class FileValue:
    """An array in a file; `key` picks one of an archive, `typed` says what raw bytes are."""

    path: Path
    key: str | None = None
    typed: TypedShape | None = None


@dataclass(frozen=True, kw_only=True)
class LiteralValue:
    """Numbers on the command line: without `typed` as the function takes them; no text is zeros."""

    typed: TypedShape | None
    text: str | None


@dataclass(frozen=True, kw_only=True)
class InputSpec:
    """One `--input`: its name, or None where its position says which it is; and its value."""

    text: str
    name: str | None
    value: FileValue | LiteralValue


def parse_input(text: str) -> InputSpec:
    """Read one input.

    Raises:
        UsageError: it is in none of the forms.
    """
    value = _value(text)
    if value is not None:
        return InputSpec(text=text, name=None, value=value)
    name, equals, rest = text.partition("=")
    value = _value(rest) if equals and name.strip() else None
    if value is None:
        raise UsageError(f"{text!r} is no input", hint=f"write {FORMS}")
    return InputSpec(text=text, name=name.strip(), value=value)


def _value(text: str) -> FileValue | LiteralValue | None:
    if text.startswith("@"):
        return _file(text[1:], None)
    head, equals, tail = text.partition("=")
    typed = TypedShape.parse(head.strip())
    if typed is not None:
        if tail.startswith("@"):
            return _file(tail[1:], typed)
        return LiteralValue(typed=typed, text=tail if equals else None)
    if _are_numbers(text):
        return LiteralValue(typed=None, text=text)
    return None


def _file(text: str, typed: TypedShape | None) -> FileValue:
    if not text:
        raise UsageError("an input @ names no file", hint="write @FILE")
    if "\0" in text:
        raise UsageError("a file's name cannot hold a NUL byte")
    path, colon, key = text.rpartition(":")
    if colon and path.endswith(".npz") and key:
        return FileValue(path=Path(path), key=key, typed=typed)
    return FileValue(path=Path(text), typed=typed)


def _are_numbers(text: str) -> bool:
    words = [word for word in re.split(r"[\s,\[\]]+", text) if word]
    return bool(words) and all(_NUMBER.fullmatch(word) for word in words)


def _size(digits: str) -> int:
    if len(digits) > 18:
        raise UsageError(f"no dimension is as large as {digits[:18]}…", hint="check the shape")
    return int(digits)


_TYPES: dict[str, DType] = {
    **{dtype.value: dtype for dtype in DType},
    **{dtype.mlir: dtype for dtype in DType},
    "si8": DType.I8,
    "si16": DType.I16,
    "si32": DType.I32,
    "si64": DType.I64,
}
_TYPED = re.compile(rf"(?P<shape>(?:\d+x)*)(?P<type>{'|'.join(map(re.escape, _TYPES))})", re.ASCII)
_REAL = r"(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|nan|inf"
_NUMBER = re.compile(
    rf"true|false|[-+]?0x[0-9a-f]+|[-+]?(?:{_REAL})(?:[-+](?:{_REAL}))?j?", re.ASCII | re.IGNORECASE
)
