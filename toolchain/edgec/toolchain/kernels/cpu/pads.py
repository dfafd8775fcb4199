"""Pads of images that stand between kernels to dispatches of a kernel, with what they join.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Sequence
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.fold import splat
from edgec.toolchain.ir.read import integers, shape_of
from edgec.toolchain.ir.standing import come_from
from edgec.toolchain.kernels.cpu.library import Library
from edgec.toolchain.kernels.cpu.source.pad import Padding, pad_kernel
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.turns import is_given, is_taken

__all__ = ["place_pad"]

_JOIN = "stablehlo.concatenate"
_MOST_PARTS = 24


def place_pad(op: Any, library: Library, unit: VectorUnit) -> None:
    """Put a kernel in place of a `stablehlo.pad` between kernels, or a kernel and the caller.

    What elementwise code of the compiler's own makes is left to it: that writes into the result.
    """
    value, result = op.operands[0], op.results[0]
    if not is_taken(result):
        return
    parts = _parts(value)
    padding = _read(op, parts)
    if padding is None or not all(map(is_given, parts)):
        parts = [value]
        padding = _read(op, parts)
    stands = is_given(value) or _is_join(value)  # a copy, which the compiler makes
    if padding is None or not (stands or len(parts) > 1):
        return
    sizes = "x".join(map(str, padding.sizes))
    with ir.InsertionPoint(op), op.location:
        output = library.call(
            f"edgec_pad_{sizes}", pad_kernel("NAME", padding, unit), parts, result.type
        )
    come_from(output, result)
    result.replace_all_uses_with(output)
    op.erase()


def _parts(value: Any) -> list[Any]:
    """What a value is joined of, if nothing else reads it; or itself alone."""
    if _is_join(value) and len(list(value.uses)) == 1:
        return list(value.owner.operation.operands)
    return [value]


def _is_join(value: Any) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.operation.name == _JOIN


def _read(op: Any, parts: Sequence[Any]) -> Padding | None:
    """The kernel's view of a pad of what some parts are, joined; None where it has none."""
    value, edge = op.operands[0], splat(op.operands[1])
    low, high, inner = (
        integers(op, name) for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    sizes = [size or 0 for size in shape_of(value)]
    if str(value.type.element_type) != "f32" or edge is None or not all(sizes):
        return None
    axes = [axis for axis in range(len(sizes)) if low[axis] or high[axis]]
    if any(inner) or min((*low, *high), default=0) < 0 or not axes or axes[-1] - axes[0] > 1:
        return None
    first, last = axes[0], axes[-1]
    if len(parts) > 1 and not _side_by_side(value.owner.operation, last + 1, len(parts)):
        return None
    counts = [math.prod(size or 0 for size in shape_of(part)[last + 1 :]) for part in parts]
    rows, above = sizes[first], (low[first], high[first])
    wide, beside = sizes[last], (low[last], high[last])
    if first == last and sum(counts) > 1:
        wide, beside = 1, (0, 0)
    elif first == last:
        rows, above = 1, (0, 0)
    return Padding(
        batch=math.prod(sizes[:first]),
        height=rows,
        width=wide,
        parts=tuple(counts),
        pad=(above, beside),
        edge=edge,
    )


def _side_by_side(join: Any, axis: int, count: int) -> bool:
    """Whether it joins along the first axis of what is in a pixel, and not too much."""
    return integers(join, "dimension") == [axis] and count <= _MOST_PARTS
