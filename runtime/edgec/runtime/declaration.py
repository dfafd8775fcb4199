"""`iree.abi.declaration`, the compiler's text on a function, to a flat signature.

It looks like `sync func @f(%input0: tensor<?x4xf32>) -> (%output0: tensor<3xi8>
{iree.abi.encoding = tensor<3xui8>})`; every module has it, edgec's or not.
"""

import re

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import InputError, ModuleError
from edgec.runtime.signature import Dim, Signature, TensorSpec

__all__ = ["parse_declaration"]

_OPEN, _CLOSE = "(<[{", ")>]}"


def parse_declaration(name: str, text: str) -> Signature:
    """The signature that a declaration spells; a dimension `?` gets a name of its own.

    Raises:
        ModuleError: the function takes or gives something else than tensors, or is asynchronous.
    """
    found = re.match(r"\s*(sync|async) func @", text)
    start = text.find("(")
    if not found or start < 0:
        raise ModuleError(f"{name} has a declaration that edgec does not read: {text[:200]!r}")
    if found[1] == "async":
        raise ModuleError(
            f"{name} is asynchronous (it takes fences)",
            hint=f"call its synchronous form, {name.removesuffix('$async')}",
        )
    takes, end = _group(text, start)
    arrow = text.find("->", end)
    gives = ""
    if arrow >= 0:
        rest = text[arrow + 2 :].strip()
        gives = _group(rest, 0)[0] if rest.startswith("(") else rest
    return Signature.flat(
        name,
        [_spec(name, part, f"input{i}") for i, part in enumerate(_split(takes))],
        [_spec(name, part, f"output{i}") for i, part in enumerate(_split(gives))],
    )


def _group(text: str, start: int) -> tuple[str, int]:
    """What stands between the bracket at `start` and its partner, and where the partner is."""
    depth = 0
    quoted = False
    for at in range(start, len(text)):
        char = text[at]
        if char == '"':
            quoted = not quoted
        if quoted:
            continue
        if char in _OPEN:
            depth += 1
        elif char in _CLOSE and not (char == ">" and text[at - 1] == "-"):
            depth -= 1
            if depth == 0:
                return text[start + 1 : at], at
    raise ModuleError(f"damaged declaration: {text[:200]!r}")


def _split(text: str) -> list[str]:
    """The parts of a list, cut at commas outside all brackets."""
    parts: list[str] = []
    depth, start, quoted = 0, 0, False
    for at, char in enumerate(text):
        if char == '"':
            quoted = not quoted
        if quoted:
            continue
        if char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def _spec(function: str, text: str, fallback: str) -> TensorSpec:
    """One argument or result: `%name: type {attributes}` or a bare type."""
    label, colon, rest = text.partition(":")
    if not label.startswith("%") or not colon:
        label, rest = f"%{fallback}", text
    kind, _, attributes = rest.strip().partition("{")
    kind = kind.strip()
    encoding = re.search(r"iree\.abi\.encoding = (tensor<.*>)\s*\}?\s*$", attributes)
    if encoding:
        kind = encoding[1]
    name = label.removeprefix("%").strip()
    tensor = re.fullmatch(r"tensor<((?:(?:\d+|\?)x)*)([^x].*)>", kind)
    if not tensor:
        raise ModuleError(
            f"{function} has an argument or result of type {kind}, and edgec handles tensors only",
            hint="run it with iree-run-module, or export the model with edgec",
        )
    try:
        dtype = DType.from_mlir(tensor[2])
    except InputError as error:
        raise ModuleError(f"{function}: {error.what}") from None
    shape: list[int | Dim] = [
        Dim(name=f"{name}_{axis}", minimum=0) if size == "?" else int(size)
        for axis, size in enumerate(tensor[1].split("x")[:-1])
    ]
    return TensorSpec(name=name, shape=tuple(shape), dtype=dtype)
