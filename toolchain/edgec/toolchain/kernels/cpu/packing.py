"""Weights of a call to a kernel that packs them from the memory in which they lie.

The compiler turns them from layout to layout, reverses them element by element where they are
those of a gradient, and turns them into panels: each is a copy as large as the weights. Followed
back through all that only moves elements, it is one. A module imported only by a pass that runs;
it needs the compiler.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.read import integers, shape_of
from edgec.toolchain.ir.views import Strided, before, dense, identity
from edgec.toolchain.kernels.cpu.library import Library
from edgec.toolchain.kernels.cpu.source.packing import Inner, Packing
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit

__all__ = ["packed_by_kernel"]

_MOST_RUNS = 4


def packed_by_kernel(
    weights: Any, starts: Sequence[int], panel: int, library: Library, unit: VectorUnit
) -> Any | None:
    """Weights with their outputs last as panels x what an output sums x panel.

    Args:
        weights: a value that changes from call to call.
        starts: the first output of each panel.
        panel: outputs of a panel.
        library: where the kernel goes.
        unit: the vector registers of the target.

    Returns:
        None where the panels are not even, or a panel is no vectors.
    """
    lanes = math.gcd(panel, unit.lanes)
    view, turned = _furthest(weights)
    sizes = [size or 0 for size in shape_of(weights)]
    rows = dense(sizes[:-1])
    packing = Packing(
        size=math.prod(size or 0 for size in shape_of(view.value)),
        start=view.start,
        inner=tuple(
            Inner(size=run[0].size, step=run[0].step, row=row, is_turned=is_turned)
            for run, row, is_turned in zip(view.axes, rows, turned, strict=False)
            if run
        ),
        own=view.axes[-1][0].step if view.axes[-1] else 1,
        starts=tuple(starts),
        panel=panel,
        lanes=lanes,
    )
    if lanes < 2 or len(packing.runs) > _MOST_RUNS:
        return None
    kind = ir.RankedTensorType.get([len(starts), packing.rows, panel], ir.F32Type.get())
    name = f"edgec_pack_{packing.rows}x{sizes[-1]}"
    return library.call(name, packing.text("NAME"), [view.value], kind)


def _furthest(weights: Any) -> tuple[Strided, tuple[bool, ...]]:
    """Weights in the furthest value back in which each axis has one step, and axes turned round."""
    view = identity(weights)
    turned = (False,) * len(view.axes)
    best = view, turned
    while True:
        if _is(view.value, "stablehlo.reverse"):
            found = _turned(view, turned)
            if found is None:
                return best
            view, turned = found
        else:
            further = before(view)
            if further is None:
                return best
            view = further
        if all(len(run) < 2 for run in view.axes) and not turned[-1]:
            best = view, turned


def _turned(view: Strided, turned: tuple[bool, ...]) -> tuple[Strided, tuple[bool, ...]] | None:
    """The same before a reversal; None where an axis that it turns is none of the view's."""
    op = view.value.owner.operation
    sizes = [size or 0 for size in shape_of(view.value)]
    found = list(turned)
    for axis in integers(op, "dimensions"):
        if sizes[axis] == 1:
            continue
        run = (sizes[axis], dense(sizes)[axis])
        places = [
            place
            for place, digits in enumerate(view.axes)
            if [(digit.size, digit.step) for digit in digits] == [run]
        ]
        if view.start or len(places) != 1:
            return None
        found[places[0]] = not found[places[0]]
    return replace(view, value=op.operands[0]), tuple(found)


def _is(value: Any, name: str) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.operation.name == name
