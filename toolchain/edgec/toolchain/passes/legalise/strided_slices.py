"""Slices whose elements do not lie one behind the other, where they are read in another order."""

from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["StridedSlices"]

_READING = ("stablehlo.gather", "stablehlo.reverse")
_CONVOLUTION = "stablehlo.convolution"
_MOVES = ("stablehlo.reshape", "stablehlo.transpose")


@dataclass(frozen=True, kw_only=True)
class StridedSlices:
    """A slice with gaps between its elements is an array of its own where it is gathered from.

    So it is where it is reversed, and on CUDA where it is a filter. Slices with strides have gaps,
    and one column of many. iree-compile 3.13 reads such a slice where it lies, and has no code for
    vectors gathered from elements with gaps between them ("LLVM Translation failed for operation:
    builtin.unrealized_conversion_cast"): `x[::-2]`, `x[..., 0].flip(-1)` and `x[..., 0][rows]` are
    refused. On CUDA and ROCm rows with gaps between them are enough: vectors gathered from some
    columns of an array are read as if its rows were no longer than these, without a word, where the
    gather is part of a larger kernel. JAX's `svd` and `polyfit` of an odd number of columns were
    wrong. There, too, the filter of a convolution of halves is joined along its axes, which rows
    with gaps cannot be ("failed to bufferize op"); what `split-phases` makes of transposed
    convolutions has such filters, so this comes behind it.

    Measured on the CPU: of 11 such programs (columns and strides, reversed, transposed, gathered
    from by rows and columns), 7 are refused without it, and none with it. On an H200, of 14 gathers
    from slices by rows and columns, alone and in larger kernels, 4 are wrong without it
    (`x[2:8, 3:11][rows]` among them) and none with it. Of 24 transposed convolutions of PyTorch in
    f16 and bf16 drawn at random (1 to 64 channels) CUDA's compiler refuses 7 without it, and none
    with it.
    """

    by_rows: bool = False
    """Whether gaps between rows count, too."""

    name = "strided-slices"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "StridedSlices | None":
        """For programs in StableHLO with slices, and gathers or reversals.

        For CUDA and ROCm those with convolutions, too.
        """
        operations, by_rows = situation.operations, situation.target.is_llvm_gpu
        reading = {*_READING, _CONVOLUTION} if by_rows else {*_READING}
        if "stablehlo.slice" not in operations or not operations & reading:
            return None
        return cls(by_rows=by_rows)

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many slices."""
        from iree.compiler import ir

        from edgec.toolchain.ir import write as graph

        found = 0
        with module.context, ir.Location.name(f"edgec.{self.name}"):
            for op in list(inside(module.operation)):
                at = self._operand(op)
                if at is None:
                    continue
                value = op.operands[at]
                if not _has_gaps(value, by_rows=self.by_rows):
                    continue
                with ir.InsertionPoint(op):
                    if self.by_rows:
                        own = graph.fence(value)
                    else:
                        own = graph.create("stablehlo.optimization_barrier", value.type, [value])
                op.operands[at] = own
                found += 1
        return found

    def _operand(self, op: Any) -> int | None:
        """Which operand must have no gaps."""
        if op.name in _READING:
            return 0
        return 1 if self.by_rows and op.name == _CONVOLUTION else None


def _has_gaps(value: Any, *, by_rows: bool) -> bool:
    """Whether a value is a slice, moved or not, with other elements between its own."""
    from edgec.toolchain.ir.read import integers, maker, shape_of

    while maker(value) in _MOVES:
        value = value.owner.operation.operands[0]
    if maker(value) != "stablehlo.slice":
        return False
    op = value.owner.operation
    if any(stride > 1 for stride in integers(op, "strides")):
        return True
    sizes, whole = shape_of(op.results[0]), shape_of(op.operands[0])
    if by_rows:
        first = next((axis for axis, size in enumerate(sizes) if size != 1), len(sizes))
        return sizes[first + 1 :] != whole[first + 1 :]
    sizes = shape_of(value)
    return bool(sizes) and sizes[-1] == 1 != whole[-1]
