"""A softmax by itself to a call of the CPU's kernel, or why not.

A module imported only by a pass that runs; it needs the compiler.
"""

from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.ir.standing import come_from
from edgec.toolchain.kernels.cpu.library import Library
from edgec.toolchain.kernels.cpu.source.by_column import ByColumn
from edgec.toolchain.kernels.cpu.source.by_row import ByRow
from edgec.toolchain.kernels.cpu.source.rows import RowsKernel, lanes_of
from edgec.toolchain.kernels.cpu.source.softmax import SoftmaxFormula
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.spec import Answers, Declined, Kernel
from edgec.toolchain.match.description import validate
from edgec.toolchain.match.softmax_along import SoftmaxAlong, read_softmax_along

__all__ = ["place_softmax"]

_FLOATS = ("f16", "bf16", "f32")


def place_softmax(op: Any, library: Library, unit: VectorUnit, answers: Answers) -> None:
    """Put a kernel in place of the softmax that `op`, a `stablehlo.divide`, ends."""
    found = read_softmax_along(op)
    if found is None:
        return
    kernel = _kernel(found, unit)
    if isinstance(kernel, Declined):
        answers.record(op, str(found), found.work, kernel, found.operations)
        return
    answers.record(op, str(found), found.work, Kernel(name="softmax"))
    validate(found, "softmax")
    value, f32 = found.value, ir.F32Type.get()
    with ir.InsertionPoint(value.owner.operation), op.location:
        result = library.call(
            f"edgec_softmax_{'x'.join(map(str, found.sizes))}",
            kernel.text("NAME"),
            [write.convert(found.source, f32)],
            ir.RankedTensorType.get(value.type.shape, f32),
        )
        come_from(result, value)
        result = write.convert(result, value.type.element_type)
    value.replace_all_uses_with(result)


def _kernel(softmax: SoftmaxAlong, unit: VectorUnit) -> RowsKernel | Declined:
    """What computes it on a CPU with these registers."""
    kind = str(softmax.value.type.element_type)
    if kind not in _FLOATS:
        return Declined(reason=f"elements of {kind}")
    formula = SoftmaxFormula(safe=softmax.safe)
    before, along, after = softmax.sizes
    if after == 1:
        lanes = lanes_of(along, unit)
        if lanes is None:
            return Declined(reason=f"rows of {along} elements")
        return ByRow(formula=formula, sizes=(before, along), outer=1, lanes=lanes)
    cut = ByColumn.cut((before, along, after), 1, 1, unit)
    if cut is None:
        return Declined(reason=f"{after} neighbours")
    lanes, vectors = cut
    return ByColumn(
        formula=formula,
        sizes=(before, along, after),
        outer=1,
        lanes=lanes,
        part=1,
        vectors=vectors,
    )
