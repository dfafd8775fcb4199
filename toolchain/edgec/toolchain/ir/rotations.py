"""Concatenations that turn a value along an axis, as `roll` is written.

A module imported only by a pass that runs; it needs the compiler.
"""

from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.read import integers, shape_of

__all__ = ["Rotation", "rotation"]


@dataclass(frozen=True, kw_only=True)
class Rotation:
    """A value turned in itself: index i of an axis is index (i + shift) % size of the source's.

    Attributes:
        source: the value that is turned.
        axis: along which.
        shift: by how much.
    """

    source: Any
    axis: int
    shift: int


def rotation(op: Any) -> Rotation | None:
    """The rotation that a `stablehlo.concatenate` is: a value's end, and then its beginning."""
    if len(op.operands) != 2 or any(isinstance(value.owner, ir.Block) for value in op.operands):
        return None
    parts = [value.owner.operation for value in op.operands]
    if any(part.name != "stablehlo.slice" for part in parts):
        return None
    source = parts[0].operands[0]
    if parts[1].operands[0] != source:
        return None
    axis = int(op.attributes["dimension"])
    sizes = list(shape_of(source))
    shift = integers(parts[0], "start_indices")[axis]
    wanted = ((shift, sizes[axis]), (0, shift))
    for part, (first, last) in zip(parts, wanted, strict=True):
        starts, ends = [0] * len(sizes), list(sizes)
        starts[axis], ends[axis] = first, last
        bounds = integers(part, "start_indices"), integers(part, "limit_indices")
        if bounds != (starts, ends) or set(integers(part, "strides")) != {1}:
            return None
    return Rotation(source=source, axis=axis, shift=shift)
