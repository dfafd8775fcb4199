"""Norms to calls of the CPU's kernels, or why not.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from dataclasses import replace
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.ir.order import put_behind
from edgec.toolchain.ir.standing import come_from
from edgec.toolchain.kernels.cpu.library import Library
from edgec.toolchain.kernels.cpu.source.by_column import ByColumn
from edgec.toolchain.kernels.cpu.source.by_row import ByRow
from edgec.toolchain.kernels.cpu.source.norm import NormFormula
from edgec.toolchain.kernels.cpu.source.rows import Axes, RowsKernel, lanes_of
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.spec import Answers, Declined, Kernel, Work
from edgec.toolchain.match.description import validate
from edgec.toolchain.match.norm import Norm, NotANorm, find_norms, longest
from edgec.toolchain.match.norm_sums import sums_read_within

__all__ = ["place_norm"]

_FLOATS = ("f16", "bf16", "f32")
_LEAST_ROW = 32


def place_norm(op: Any, library: Library, unit: VectorUnit, answers: Answers) -> None:
    """Put a kernel in place of what ends after `op`, if it is the root of a norm's variance."""
    found = find_norms(op)
    if found is None:
        return
    if isinstance(found, NotANorm):
        answers.record(op, "norm", Work(), Declined(reason=found.reason), found.sums)
        return
    norm = longest(found)
    kernel = _kernel(norm, unit)
    if isinstance(kernel, Declined):
        answers.record(op, str(norm), norm.work, kernel, norm.operations)
        return
    answers.record(op, str(norm), norm.work, Kernel(name="norm"))
    validate(norm, "norm")
    sums = _sums(norm, kernel)
    kernel = replace(kernel, kept=tuple(sums))
    f32 = ir.F32Type.get()
    value = norm.value
    end = value.owner.operation
    with ir.InsertionPoint(end), op.location:
        columns = [each for each in (norm.scale, norm.shift) if each is not None]
        kinds = [value.type.shape, *[kernel.row_sizes] * len(sums)]
        result, *totals = library.call_all(
            f"edgec_norm_{'x'.join(map(str, norm.sizes))}",
            kernel.text("NAME"),
            [write.convert(each, f32) for each in (norm.source, *(c.value for c in columns))],
            [ir.RankedTensorType.get(sizes, f32) for sizes in kinds],
        )
        come_from(result, value)
        result = write.convert(result, value.type.element_type)
    for old, total in zip(sums.values(), totals, strict=True):
        with ir.InsertionPoint(end), op.location:
            new = write.reshape(total, write.shape(old))
        put_behind(old, end)
        old.replace_all_uses_with(new)
    value.replace_all_uses_with(result)


def _sums(norm: Norm, kernel: RowsKernel) -> dict[int, Any]:
    """Sums that the kernel gives, too, since others read them: by their place in its formula."""
    if isinstance(kernel, ByColumn) and kernel.part > 1:
        return {}
    found = sums_read_within(norm)
    is_f32 = all(str(each.type.element_type) == "f32" for each in found.values())
    return found if is_f32 else {}


def _kernel(norm: Norm, unit: VectorUnit) -> RowsKernel | Declined:
    """What computes a norm on a CPU with these registers."""
    values = (*norm.operands, norm.value)
    kinds = sorted({str(v.type.element_type) for v in values})
    if not set(kinds) <= set(_FLOATS):
        return Declined(reason=f"elements of {' and '.join(kinds)}")
    count = math.prod(norm.sizes[axis] for axis in norm.summed)
    if count < _LEAST_ROW:
        return Declined(reason=f"rows of {count} elements")
    return _rows(norm, count, unit) if norm.rows else _columns(norm, count, unit)


def _rows(norm: Norm, count: int, unit: VectorUnit) -> RowsKernel | Declined:
    """A kernel for rows that lie in one piece each."""
    lanes = lanes_of(norm.sizes[-1], unit)
    if lanes is None:
        return Declined(reason=f"scales that change every {norm.sizes[-1]} elements")
    scale, shift = (None if each is None else each.axes for each in (norm.scale, norm.shift))
    return ByRow(
        formula=_formula(norm, count, scale, shift, unit),
        sizes=norm.sizes,
        outer=min(norm.summed),
        lanes=lanes,
    )


def _formula(
    norm: Norm, count: int, scale: Axes | None, shift: Axes | None, unit: VectorUnit
) -> NormFormula:
    return NormFormula(
        count=count,
        epsilon=norm.epsilon,
        mean=norm.mean,
        scale=scale,
        shift=shift,
        fused=unit.fused,
    )


def _columns(norm: Norm, count: int, unit: VectorUnit) -> RowsKernel | Declined:
    """A kernel for rows that lie side by side: all elements of each, or some neighbours."""
    first = next(
        (axis for axis in range(min(norm.summed), len(norm.sizes)) if axis not in norm.summed),
        len(norm.sizes),
    )
    inner = [axis for axis in norm.summed if axis > first]
    part = math.prod(norm.sizes[axis] for axis in inner)
    if inner != list(range(len(norm.sizes) - len(inner), len(norm.sizes))):
        return Declined(reason="rows whose elements lie apart")
    scale, shift = (
        _merged(None if each is None else each.axes, first, len(norm.sizes))
        for each in (norm.scale, norm.shift)
    )
    if isinstance(scale, Declined) or isinstance(shift, Declined):
        return Declined(reason="scales of some of the columns")
    sizes = (*norm.sizes[:first], math.prod(norm.sizes[first:]))
    outer = min(norm.summed)
    cut = ByColumn.cut(sizes, outer, part, unit)
    if cut is None:
        return Declined(reason=f"rows of {part} neighbours in {sizes[-1]} columns")
    lanes, vectors = cut
    return ByColumn(
        formula=_formula(norm, count, scale, shift, unit),
        sizes=sizes,
        outer=outer,
        lanes=lanes,
        part=part,
        vectors=vectors,
    )


def _merged(axes: Axes | None, first: int, rank: int) -> Axes | Declined | None:
    """Axes of which those from `first` on are one now."""
    if axes is None:
        return None
    last = [axis for axis in axes if axis >= first]
    if last and last != list(range(first, rank)):
        return Declined(reason="some of the columns")
    return (*(axis for axis in axes if axis < first), *([first] if last else []))
