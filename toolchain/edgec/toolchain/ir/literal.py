"""The numbers of a constant: the one place that reads its attribute.

The bindings fail on an attribute of complex numbers, wherever it is asked for; these are read from
the operation's text.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir.read import element_type, shape_of

__all__ = ["NUMPY", "attribute_of", "literal"]

_Array = np.ndarray[Any, np.dtype[Any]]
NUMPY: Mapping[str, Any] = {
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "i1": np.bool_,
    "i8": np.int8,
    "ui8": np.uint8,
    "i16": np.int16,
    "ui16": np.uint16,
    "i32": np.int32,
    "ui32": np.uint32,
    "i64": np.int64,
    "ui64": np.uint64,
    "complex<f32>": np.complex64,
    "complex<f64>": np.complex128,
}
"""NumPy's types by MLIR's names; it has no bf16."""
_PAIR = re.compile(r"\(([^,()]+),([^,()]+)\)")


def attribute_of(op: Any) -> Any | None:
    """A constant's `ir.DenseElementsAttr`; None of complex numbers and of other attributes."""
    if isinstance(element_type(op.results[0]), ir.ComplexType):
        return None
    attribute = op.attributes["value"]
    return attribute if isinstance(attribute, ir.DenseElementsAttr) else None


def literal(op: Any) -> _Array | None:
    """The numbers of a `stablehlo.constant`; what repeats one is a view of it (strides of zero).

    None of a type that NumPy does not have, and of numbers that are kept elsewhere.
    """
    (result,) = op.results
    kind, sizes = NUMPY.get(str(element_type(result))), [size or 0 for size in shape_of(result)]
    if kind is None:
        return None
    if issubclass(kind, np.complexfloating):
        return _complex(op, kind, sizes)
    attribute = attribute_of(op)
    if attribute is None:
        return None
    if attribute.is_splat:
        single = np.array(attribute.get_splat_value().value).astype(kind)
        return np.broadcast_to(single, sizes)
    if kind is np.bool_:
        return np.array([bool(flag) for flag in attribute], np.bool_).reshape(sizes)
    return np.array(attribute).astype(kind).reshape(sizes)


def _complex(op: Any, kind: Any, sizes: Sequence[int]) -> _Array | None:
    """Complex numbers from an operation's text: pairs, or the bytes of large ones."""
    found = re.search(r"dense<(.*)> : tensor<", op.get_asm(), re.DOTALL)
    if found is None:
        return None
    text = found[1]
    if text.startswith('"0x'):
        numbers = np.frombuffer(bytes.fromhex(text[3:-1]), kind)
    else:
        pairs = ((_part(a, kind), _part(b, kind)) for a, b in _PAIR.findall(text))
        numbers = np.array([complex(*pair) for pair in pairs], kind)
    if len(numbers) == 1:
        return np.broadcast_to(numbers[0], sizes)
    return numbers.reshape(sizes) if len(numbers) == math.prod(sizes) else None


def _part(text: str, kind: Any) -> float:
    """A number as MLIR writes it, or the bits of one."""
    text = text.strip()
    if not text.startswith("0x"):
        return float(text)
    real, bits = (np.float32, np.uint32) if kind is np.complex64 else (np.float64, np.uint64)
    return float(np.array(int(text, 16), bits).view(real))
