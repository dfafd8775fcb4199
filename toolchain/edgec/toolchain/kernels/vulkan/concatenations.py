"""A `concatenate` of two tensors to a dispatch of the kernel that lays their rows side by side.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.spec import Declined, Kernel, Origin, Work
from edgec.toolchain.kernels.vulkan import shaders
from edgec.toolchain.kernels.vulkan.forms import MOST_GROUPS
from edgec.toolchain.kernels.vulkan.library import Library

__all__ = ["place_concatenation"]

_PIECE = 16
"""Bytes that a thread copies."""
_LEAST = 1 << 18
"""Bytes of a result below which the compiler's copies take as long as a launch."""
_MOVES = ("stablehlo.reshape",)
_KERNEL = "flow.dispatch"


def place_concatenation(op: Any, library: Library) -> None:
    """Replace `op` by a kernel, if that is worth it; keep the answer.

    What the compiler computes it writes to where it belongs; what a kernel of edgec's own has
    computed it copies there, a few elements a workgroup.
    """
    (value,) = op.results
    if not write.is_static(*op.operands, value) or not any(map(_is_made, op.operands)):
        return
    width = int(write.element(value).width) if hasattr(write.element(value), "width") else 0
    size = math.prod(write.shape(value)) * width // 8
    if size < _LEAST or not library.shares:
        return
    origin = Origin(name=op.name, location=op.location)
    what = f"concatenation: {' and '.join('x'.join(map(str, write.shape(v))) for v in op.operands)}"
    library.answers.record(origin, what, Work(bytes=2 * size), _place(op, library, width))


def _place(op: Any, library: Library, width: int) -> Kernel | Declined:
    (value,) = op.results
    if len(op.operands) != 2:
        return Declined(reason=f"{len(op.operands)} tensors")
    axis = int(op.attributes["dimension"])
    rows = math.prod(write.shape(value)[:axis])
    sides = [math.prod(write.shape(each)[axis:]) * width // 8 for each in op.operands]
    if width % 8 or any(side % _PIECE for side in sides):
        return Declined(reason=f"rows of {' and '.join(map(str, sides))} bytes")
    first, second = (side // _PIECE for side in sides)
    shader = shaders.concatenate()
    groups = math.ceil(rows * (first + second) / shader.threads)
    if groups > MOST_GROUPS:
        return Declined(reason=f"{groups} workgroups")
    values = {"rows": rows, "first": first, "second": second}
    with ir.InsertionPoint(op), op.location:
        made = library.call(shader, (groups, 1, 1), values, list(op.operands), value.type)
        if isinstance(made, Declined):
            return made
        replace(value, made)
    return Kernel(name=shader.name)


def _is_made(value: Any) -> bool:
    """Whether a kernel of edgec's own has computed it."""
    while not isinstance(value.owner, ir.Block) and value.owner.operation.name in _MOVES:
        (value,) = value.owner.operation.operands
    return not isinstance(value.owner, ir.Block) and value.owner.operation.name == _KERNEL
