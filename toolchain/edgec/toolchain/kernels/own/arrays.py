"""The arrays of a kernel: what its compiler is told of them, and the types that they travel in.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Sequence
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.read import shape_of

__all__ = ["definitions", "from_memory", "memory_type", "to_memory", "unfit"]

_FLOATS = ("f16", "bf16", "f32", "f64")
_WIDTHS = (8, 16, 32, 64)


def unfit(value: Any) -> str:
    """Why an array cannot be handed to a kernel; empty where it can."""
    kind = value.type
    if any(size is None or size < 0 for size in shape_of(value)):
        return f"{kind} has dimensions that change from call to call"
    element = kind.element_type
    if str(element) in _FLOATS or _is_truth(element):
        return ""
    if isinstance(element, ir.IntegerType) and element.width in _WIDTHS:
        return ""
    return f"elements of {element}"


def definitions(reads: Sequence[Any], writes: Sequence[Any]) -> dict[str, str]:
    """The sizes of arrays by name: `IN0_SIZE`, `IN0_DIM0`, `OUT0_SIZE` …"""
    found = {}
    for word, values in (("IN", reads), ("OUT", writes)):
        for number, value in enumerate(values):
            sizes = shape_of(value)
            total = 1
            for axis, size in enumerate(sizes):
                found[f"{word}{number}_DIM{axis}"] = str(size)
                total *= size or 0
            found[f"{word}{number}_SIZE"] = str(total)
    return found


def memory_type(kind: Any) -> Any:
    """The type in which an array lies in memory: truths are bytes, integers have no sign."""
    element = kind.element_type
    if _is_truth(element):
        element = ir.IntegerType.get_signless(8)
    elif isinstance(element, ir.IntegerType):
        element = ir.IntegerType.get_signless(element.width)
    return ir.RankedTensorType.get(kind.shape, element)


def to_memory(value: Any) -> Any:
    """An array as it lies in memory, at the insertion point."""
    return _turned(value, memory_type(value.type))


def from_memory(value: Any, kind: Any) -> Any:
    """An array of a type, of what a kernel has written, at the insertion point."""
    return _turned(value, kind)


def _turned(value: Any, kind: Any) -> Any:
    if value.type == kind:
        return value
    either = (value.type.element_type, kind.element_type)
    name = "convert" if any(_is_truth(each) for each in either) else "bitcast_convert"
    return ir.Operation.create(f"stablehlo.{name}", results=[kind], operands=[value]).result


def _is_truth(element: Any) -> bool:
    return isinstance(element, ir.IntegerType) and element.width == 1
