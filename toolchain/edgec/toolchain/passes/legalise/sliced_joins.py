"""Slices of what is joined, read from the parts that they are of."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["SlicedJoins"]

_JOIN, _UPDATE = "stablehlo.concatenate", "stablehlo.dynamic_update_slice"
_PIPELINE = "builtin.module(cse)"


@dataclass(frozen=True, kw_only=True)
class SlicedJoins:
    """A slice of arrays that are joined, or put into another at a known place, is of these alone.

    The parts of a concatenation along its outermost axis are written one after the other into one
    memory, and so are arrays that are put into another. Two of them that lie side by side need not
    wait for each other. iree-compile 3.13 asks of who reads a piece of that memory whether it meets
    what was written last, and not whether it meets what was written before: a slice of an earlier
    part is read at the time when that part is computed. Where a device does both at once, or the
    reading first, the answer is wrong. A framework that writes into a view (`x[0, 1::3] = y`) makes
    such slices of joined slices. Read from the part itself, a slice waits for it.

    Measured: `x = concatenate(-f(y), y)`, a slice of its first part joined again, is wrong on
    edgert's CPU without it, and so were Qwen3.5's rotary embeddings of three positions.
    """

    name = "sliced-joins"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "SlicedJoins | None":
        """For programs in StableHLO with slices and arrays that are put together."""
        found = situation.operations
        needed = situation.is_stablehlo and "stablehlo.slice" in found and found & {_JOIN, _UPDATE}
        return cls() if needed else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many slices were changed."""
        from iree.compiler import ir, passmanager

        from edgec.toolchain.ir.erase import erase_unused
        from edgec.toolchain.ir.functions import inside

        count = 0
        with module.context, ir.Location.name(f"edgec.{self.name}"):
            # In order, so that what a slice is of has been looked at before.
            for op in list(inside(module.operation)):
                count += op.name == "stablehlo.slice" and _read_from_part(op)
            if count:
                erase_unused(module)
                passmanager.PassManager.parse(_PIPELINE).run(module.operation)
        return count


def _read_from_part(op: Any) -> bool:
    """Read a slice from the part that it is of, if it is one piece of one."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write

    (result,) = op.results
    whole = op.operands[0]
    if not (write.is_static(whole) and write.is_static(result)):
        return False
    if any(step != 1 for step in write.integers(op, "strides", [1] * len(write.shape(whole)))):
        return False
    first = _place(write.shape(whole), write.shape(result), write.integers(op, "start_indices"))
    count = math.prod(write.shape(result))
    if first is None or not count:
        return False
    found = _part(whole, first, count)
    if found is None:
        return False
    part, first = found
    with ir.InsertionPoint(op), op.location:
        flat = write.reshape(part, (math.prod(write.shape(part)),))
        piece = write.slice_(flat, [first], [first + count])
        result.replace_all_uses_with(write.reshape(piece, write.shape(result)))
    op.erase()
    return True


def _part(whole: Any, first: int, count: int) -> tuple[Any, int] | None:
    """The innermost array that elements of another are of, and where they begin in it.

    None where they are of several, or of no array that was put into it.
    """
    from iree.compiler import ir

    from edgec.toolchain.ir import write

    found = None
    while not isinstance(whole.owner, ir.Block):
        op = whole.owner.operation
        if op.name == "stablehlo.reshape" and write.is_static(op.operands[0]):
            (whole,) = op.operands
            continue
        if op.name not in (_JOIN, _UPDATE):
            break
        pieces = _pieces(op)
        if pieces is None:
            break
        for array, start, size in pieces:
            if start <= first and first + count <= start + size:
                whole, first = array, first - start
                break
            if first < start + size and start < first + count:
                return found
        else:
            whole = op.operands[0]  # it is of what the update leaves alone
        found = whole, first
    return found


def _pieces(op: Any) -> list[tuple[Any, int, int]] | None:
    """What is put together, and from which element to which; None unless each is one piece."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write
    from edgec.toolchain.ir.fold import splat

    sizes = write.shape(op.results[0])
    if None in sizes:
        return None
    if op.name == _UPDATE:
        known = [splat(start) for start in op.operands[2:]]
        if any(start is None for start in known):
            return None
        inner = write.shape(op.operands[1])
        # As StableHLO has it, an update lies inside of what it is put into.
        starts = [
            min(max(int(start or 0), 0), size - own)
            for start, size, own in zip(known, sizes, inner, strict=True)
        ]
        first = _place(sizes, inner, starts)
        return None if first is None else [(op.operands[1], first, math.prod(inner))]
    axis = ir.IntegerAttr(op.attributes["dimension"]).value
    if math.prod(sizes[:axis]) != 1:
        return None
    found, start = [], 0
    for array in op.operands:
        size = math.prod(write.shape(array))
        found.append((array, start, size))
        start += size
    return found


def _place(sizes: Sequence[int], inner: Sequence[int], starts: Sequence[int]) -> int | None:
    """The first element of a part of an array; None unless the part is one piece of it."""
    outermost = next((axis for axis, size in enumerate(inner) if size != 1), len(inner))
    if tuple(sizes[outermost + 1 :]) != tuple(inner[outermost + 1 :]):
        return None
    return sum(start * math.prod(sizes[axis + 1 :]) for axis, start in enumerate(starts))
