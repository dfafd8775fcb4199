"""A `transpose` of a weight, as it lies in a file, to a dispatch that runs once, at load.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.ir.weights import Weights, is_constant
from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.spec import Declined, Kernel, Origin, Work
from edgec.toolchain.kernels.vulkan import shaders
from edgec.toolchain.kernels.vulkan.laid_out import LaidOut, find_laid_out, write_laid_out
from edgec.toolchain.kernels.vulkan.library import Library

__all__ = ["place_turned_weight"]

_LEAST = 1 << 14
"""Bytes of a result; below, the compiler's code is as good and one kernel more."""
_MOVES = ("stablehlo.reshape", "stablehlo.transpose", "stablehlo.slice")


def place_turned_weight(op: Any, library: Library, weights: Weights) -> None:
    """Replace `op` by a kernel, if what it turns is known at load; keep the answer."""
    (value,) = op.results
    if library.shares or not write.is_static(value) or str(write.element(value)) != "f32":
        return
    size = 4 * math.prod(write.shape(value))
    if size < _LEAST or not weights.holds(value) or _moves_on(value):
        return
    found = find_laid_out(value)
    if found is None or is_constant(value):
        return
    origin = Origin(name=op.name, location=op.location)
    library.answers.record(origin, "a weight, turned", Work(), _place(op, found, library))


def _place(op: Any, found: LaidOut, library: Library) -> Kernel | Declined:
    (value,) = op.results
    with ir.InsertionPoint(op), op.location:
        made = write_laid_out(shaders.turn, found, found.joined, write.shape(value), library)
        if isinstance(made, Declined):
            return made
        replace(value, made)
    return Kernel(name=shaders.turn(found.factor is not None).name)


def _moves_on(value: Any) -> bool:
    """Whether a further transpose alone reads what it turns."""
    users = [use.owner.operation for use in value.uses]
    moved = all(user.name in _MOVES for user in users)
    return moved and all(
        user.name == "stablehlo.transpose" or _moves_on(user.results[0]) for user in users
    )
