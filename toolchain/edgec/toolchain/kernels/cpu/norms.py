"""Norms to calls of the CPU's kernels, or why not.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.kernels.cpu.library import Library
from edgec.toolchain.kernels.cpu.source.norm import (
    Axes,
    ColumnNorm,
    NormKernel,
    RowNorm,
)
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.spec import Answers, Declined, Kernel, Work
from edgec.toolchain.match.description import validate
from edgec.toolchain.match.norm import Norm, NotANorm, find_norms, longest

__all__ = ["place_norm"]

_FLOATS = ("f16", "bf16", "f32")
_LEAST_ROW = 32
_LEAST_LANES = 4
_WISHED_VECTORS = 4
_WISHED_JOBS = 8
_SHARE_OF_REGISTERS = 4
"""Of the registers, sums of columns take one part of so many; means and squares need the others."""


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
    f32 = ir.F32Type.get()
    value = norm.value
    with ir.InsertionPoint(value.owner.operation), op.location:
        columns = [each for each in (norm.scale, norm.shift) if each is not None]
        result = library.call(
            f"edgec_norm_{'x'.join(map(str, norm.sizes))}",
            kernel.text("NAME"),
            [write.convert(each, f32) for each in (norm.source, *(c.value for c in columns))],
            ir.RankedTensorType.get(value.type.shape, f32),
        )
        result = write.convert(result, value.type.element_type)
    value.replace_all_uses_with(result)


def _kernel(norm: Norm, unit: VectorUnit) -> NormKernel | Declined:
    """What computes a norm on a CPU with these registers."""
    values = (*norm.operands, norm.value)
    kinds = sorted({str(v.type.element_type) for v in values})
    if not set(kinds) <= set(_FLOATS):
        return Declined(reason=f"elements of {' and '.join(kinds)}")
    count = math.prod(norm.sizes[axis] for axis in norm.summed)
    if count < _LEAST_ROW:
        return Declined(reason=f"rows of {count} elements")
    return _rows(norm, count, unit) if norm.rows else _columns(norm, count, unit)


def _rows(norm: Norm, count: int, unit: VectorUnit) -> NormKernel | Declined:
    """A kernel for rows that lie in one piece each."""
    lanes = _lanes(norm.sizes[-1], unit)
    if lanes is None:
        return Declined(reason=f"scales that change every {norm.sizes[-1]} elements")
    return RowNorm(
        sizes=norm.sizes,
        outer=min(norm.summed),
        count=count,
        epsilon=norm.epsilon,
        mean=norm.mean,
        scale=None if norm.scale is None else norm.scale.axes,
        shift=None if norm.shift is None else norm.shift.axes,
        lanes=lanes,
        fused=unit.fused,
    )


def _columns(norm: Norm, count: int, unit: VectorUnit) -> NormKernel | Declined:
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
    cut = _cut(sizes[-1], part, unit)
    if cut is None:
        return Declined(reason=f"rows of {part} neighbours in {sizes[-1]} columns")
    lanes, vectors = cut
    outer = min(norm.summed)
    more = 1
    while (
        (more + 1) * vectors <= _WISHED_VECTORS
        and (more + 1) * vectors * lanes <= sizes[-1]
        and math.prod(sizes[:outer]) * sizes[-1] >= _WISHED_JOBS * (more + 1) * vectors * lanes
    ):
        more += 1
    return ColumnNorm(
        sizes=sizes,
        outer=outer,
        count=count,
        epsilon=norm.epsilon,
        mean=norm.mean,
        scale=scale,
        shift=shift,
        lanes=lanes,
        fused=unit.fused,
        part=part,
        vectors=more * vectors,
    )


def _merged(axes: Axes | None, first: int, rank: int) -> Axes | Declined | None:
    """Axes of which those from `first` on are one now."""
    if axes is None:
        return None
    last = [axis for axis in axes if axis >= first]
    if last and last != list(range(first, rank)):
        return Declined(reason="some of the columns")
    return (*(axis for axis in axes if axis < first), *([first] if last else []))


def _cut(columns: int, part: int, unit: VectorUnit) -> tuple[int, int] | None:
    """Elements of a vector, and how many vectors hold whole rows, as few as can be."""
    lanes = _lanes(columns, unit)
    while lanes is not None and lanes >= _LEAST_LANES:
        width = math.lcm(part, lanes)
        if width > columns and columns % lanes == 0:
            width = columns
        if width <= columns and width // lanes <= max(1, unit.registers // _SHARE_OF_REGISTERS):
            return lanes, width // lanes
        lanes //= 2
    return None


def _lanes(most: int, unit: VectorUnit) -> int | None:
    """Elements of a vector that has at most so many."""
    lanes = unit.lanes
    while lanes > most:
        lanes //= 2
    return lanes if lanes >= _LEAST_LANES else None
