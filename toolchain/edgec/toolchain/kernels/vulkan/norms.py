"""A norm over any axes to a dispatch of Vulkan's kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.ir.views import dense
from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.gpu.norms import kind_of, place_norm
from edgec.toolchain.kernels.gpu.numbers import bits
from edgec.toolchain.kernels.spec import Declined, Kernel
from edgec.toolchain.kernels.vulkan import shaders
from edgec.toolchain.kernels.vulkan.forms import MOST_GROUPS, NORM_FORMS
from edgec.toolchain.kernels.vulkan.library import Library
from edgec.toolchain.match.description import validate
from edgec.toolchain.match.norm import Column, Norm

__all__ = ["rewrite_norm"]

_ELEMENTS = ("f16", "f32")
_FOUR = 4
_LEAST_ROW = 8


@dataclass(frozen=True)
class _Axis:
    """One axis: how many there are, and how far apart in the tensor, the scale and the shift."""

    size: int
    steps: tuple[int, int, int]


def rewrite_norm(op: Any, library: Library) -> None:
    """Replace what ends after `op`, a root, by a kernel, if it is a norm that one takes."""
    place_norm(op, library.answers, lambda norm: _placed(norm, library))


def _placed(norm: Norm, library: Library) -> Kernel | Declined:
    """Its place taken by a kernel, or why there is none."""
    reason, axes = _refused(norm), _axes(norm)
    if reason is not None:
        return reason
    if isinstance(axes, Declined):
        return axes
    call = _call(norm, *axes)
    rows, rooms = call.values["m"], call.values["n"]
    validate(norm, "norm")
    f32 = ir.F32Type.get()
    found = Declined(reason=f"{rows} rows")
    with ir.InsertionPoint(norm.value.owner.operation), norm.value.owner.operation.location:
        columns = [
            # What is not there is not read, whatever stands in its place.
            norm.source if each is None else write.convert(each.value, f32)
            for each in (norm.scale, norm.shift)
        ]
        last = ir.RankedTensorType.get(write.shape(norm.value), norm.value.type.element_type)
        for word, form in NORM_FORMS.items():
            groups = math.ceil(rows / (form.threads // form.lanes))
            fits = library.fits(threads=form.threads, shared=form.shared)
            if not fits or not form.fits(rooms, beside=call.beside) or groups > MOST_GROUPS:
                continue
            shader = shaders.norm(
                word,
                form,
                kind_of(norm.source),
                single=call.single,
                subgroups=library.together(form.lanes) and form.keep > 0 and not form.beside,
            )
            reads = [norm.source, *columns]
            result = library.call(shader, (groups, 1, 1), call.values, reads, last)
            if not isinstance(result, Declined):
                replace(norm.value, result)
                return Kernel(name=shader.name)
            found = result
    return found


@dataclass(frozen=True, kw_only=True)
class _Call:
    """What a kernel is told.

    Attributes:
        beside: rows lie side by side.
        single: elements do not lie in fours.
        values: its integers by name.
    """

    beside: bool
    single: bool
    values: dict[str, int]


def _call(norm: Norm, over: tuple[_Axis, _Axis], along: tuple[_Axis, _Axis]) -> _Call:
    """How the kernel does a norm, by the axes over its rows and those along a row."""
    (outer, inner), (rooms, run) = over, along
    beside = inner.steps[0] == 1
    packed = inner if beside else run
    single = packed.size % _FOUR != 0
    each = 1 if single else _FOUR
    # From here on by rooms: of the axis whose elements lie side by side there are fewer.
    x, a, b = packed.steps
    held = _Axis(packed.size // each, (x * each, a * each, b * each))
    inner, run = (held, run) if beside else (inner, held)
    count = math.prod(norm.sizes[axis] for axis in norm.summed)
    what = (norm.scale is not None) | (norm.shift is not None) << 1
    what |= (kind_of(norm.value) == "f32") << 2 | (not norm.mean) << 3
    values = {
        **{"m": outer.size * inner.size, "n": rooms.size * run.size, "what": what},
        **{"share_bits": bits(1 / count), "epsilon_bits": bits(norm.epsilon)},
        **{"beside": inner.size, "run": run.size},
        **{"row_far": outer.steps[0] // each, "row_near": inner.steps[0] // each},
        **{"room_far": rooms.steps[0] // each, "room_near": run.steps[0] // each},
    }
    for number, name in ((1, "a"), (2, "b")):
        values |= {
            f"{name}_row_far": outer.steps[number],
            f"{name}_row_near": inner.steps[number],
            f"{name}_room_far": rooms.steps[number],
            f"{name}_room_near": run.steps[number],
            f"{name}_each": packed.steps[number],
        }
    return _Call(beside=beside, single=single, values=values)


def _refused(norm: Norm) -> Declined | None:
    """Why the kernel does not take it, whatever its axes are."""
    source, last = kind_of(norm.source), kind_of(norm.value)
    columns = [kind_of(each.value) for each in (norm.scale, norm.shift) if each is not None]
    if not {source, last, *columns} <= set(_ELEMENTS):
        return Declined(reason=f"elements of {' and '.join(sorted({source, last, *columns}))}")
    if last not in (source, "f32"):
        return Declined(reason=f"{source} to {last}")
    count = math.prod(norm.sizes[axis] for axis in norm.summed)
    if count < _LEAST_ROW:
        return Declined(reason=f"rows of {count} elements")
    return Declined(reason="2^31 elements or more") if math.prod(norm.sizes) >= 2**31 else None


def _axes(norm: Norm) -> tuple[tuple[_Axis, _Axis], tuple[_Axis, _Axis]] | Declined:
    """Two axes over the rows and two along a row, the outer first, as far as that is enough."""
    columns = [_steps(each, norm.sizes) for each in (norm.scale, norm.shift)]
    steps = list(zip(dense(norm.sizes), *columns, strict=True))
    both: list[tuple[_Axis, _Axis]] = []
    for inside in (False, True):
        found = _merged(
            _Axis(norm.sizes[axis], steps[axis])
            for axis in range(len(norm.sizes))
            if (axis in norm.summed) == inside
        )
        if len(found) > 2:
            of = "elements of a row" if inside else "rows"
            return Declined(reason=f"{of} by {len(found)} indices")
        whole = [_Axis(1, (0, 0, 0))] * (2 - len(found)) + found
        both.append((whole[0], whole[1]))
    return both[0], both[1]


def _steps(column: Column | None, sizes: Sequence[int]) -> list[int]:
    """How far a scale's numbers are apart along each axis; 0 where it is repeated."""
    found = [0] * len(sizes)
    if column is not None:
        inner = dense([sizes[axis] for axis in column.axes])
        for axis, step in zip(column.axes, inner, strict=True):
            found[axis] = step
    return found


def _merged(axes: Iterator[_Axis]) -> list[_Axis]:
    """The same places by as few axes as can be."""
    found: list[_Axis] = []
    for axis in axes:
        if axis.size == 1:
            continue
        wide = tuple(step * axis.size for step in axis.steps)
        if found and found[-1].steps == wide:
            found[-1] = _Axis(found[-1].size * axis.size, axis.steps)
        else:
            found.append(axis)
    return found
