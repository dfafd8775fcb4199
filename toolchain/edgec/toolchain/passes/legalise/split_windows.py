"""Windows of very many elements as windows of windows, for GPUs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["SplitWindows"]

_WORTH = 0.5
"""Of the steps that a window takes as it is: what windows of windows may take."""


@dataclass(frozen=True, kw_only=True)
class SplitWindows:
    """A window of more than 1024 elements is one of neighbours, and one over these far apart.

    iree-compile 3.13 gives each place of a window to one thread, which reads all of it. Along an
    axis a window of w elements is the reduction of about sqrt(w) windows of sqrt(w) neighbours;
    StableHLO allows any order, and the initial value any number of times. Windows over all that
    went before (`cumsum`) the compiler computes one after another, in one thread; those of more
    than 32,768 elements are taken in rows, to which is added what the rows before them make: on
    Mesa's llvmpipe, which ends every loop after 65,535 rounds, they are wrong without.

    Measured on llvmpipe, two cores: sums over 2,000 neighbours of 16,384 numbers take 4.9 ms,
    53 without; the cumulative sum of 70,000 numbers is wrong without it.
    """

    name = "split-windows"
    purpose = Purpose.RIGHT
    most: int = 1024
    """Elements of a window that stays as it is."""
    rounds: int = 32768
    """Elements beyond which it is not a matter of speed."""

    @classmethod
    def plan(cls, situation: Situation) -> "SplitWindows | None":
        """For programs in StableHLO with windows that become SPIR-V."""
        if not situation.target.is_spirv:
            return None
        return cls() if "stablehlo.reduce_window" in situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many were split."""
        return rewrite_each(module, ["stablehlo.reduce_window"], partial(_split, step=self))


@dataclass(frozen=True, kw_only=True)
class _Way:
    """How a window runs along one axis."""

    size: int
    stride: int = 1
    far: int = 1


def _split(op: Any, *, step: SplitWindows) -> Sequence[Any] | None:
    from edgec.toolchain.ir import write as graph

    if not graph.is_static(*op.operands, *op.results):
        return None
    count = len(op.operands) // 2
    values, firsts = list(op.operands)[:count], list(op.operands)[count:]
    rank = len(graph.shape(values[0]))
    sizes, strides, fars, between = (
        graph.integers(op, name, [1] * rank)
        for name in (
            *("window_dimensions", "window_strides"),
            *("window_dilations", "base_dilations"),
        )
    )
    padding = graph.integers(op, "padding", [0] * (2 * rank))
    if math.prod(sizes) <= step.most:
        return None
    axis = sizes.index(max(sizes))
    if _is_running(op, axis, sizes, padding):
        plain = strides + fars + between == [1] * 3 * rank
        return _running(op, values, axis) if plain and sizes[axis] > step.rounds else None
    full = [
        graph.pad(value, first, padding[::2], padding[1::2], [n - 1 for n in between])
        for value, first in zip(values, firsts, strict=True)
    ]
    ways = [
        _Way(size=size, stride=stride, far=far)
        for size, stride, far in zip(sizes, strides, fars, strict=True)
    ]
    # First along the axis that leaves least for the others.
    order = sorted(range(rank), key=lambda axis: -strides[axis])
    steps, shape = 0, list(graph.shape(full[0]))
    for axis in order:
        near, many, left = _pieces(ways[axis])
        inner, shape[axis] = math.prod(shape), graph.shape(op.results[0])[axis]
        steps += inner * near + math.prod(shape) * (many + left) if many > 1 else inner
    direct = math.prod(sizes) * math.prod(graph.shape(op.results[0]))
    if steps > _WORTH * direct and math.prod(sizes) <= step.rounds:
        return None
    for axis in order:
        full = _along(op, full, axis, ways[axis])
    return full


def _is_running(op: Any, axis: int, sizes: Sequence[int], padding: Sequence[int]) -> bool:
    """Whether a window reaches from the beginning of an axis to where it stands."""
    from edgec.toolchain.ir import write as graph

    length = graph.shape(op.operands[0])[axis]
    before = [length - 1 if at == 2 * axis else 0 for at in range(len(padding))]
    return math.prod(sizes) == sizes[axis] == length and list(padding) == before


def _running(op: Any, values: list[Any], axis: int) -> list[Any]:
    """The same in rows: within each, and what all before it make."""
    from edgec.toolchain.ir import write as graph

    firsts = list(op.operands)[len(values) :]
    sizes = list(graph.shape(values[0]))
    length = sizes[axis]
    count = math.isqrt(length)
    width = -(-length // count)
    end = _only(axis, count * width - length, len(sizes))
    zeros = [0] * len(sizes)
    rows, totals = [], []
    for value, first in zip(values, firsts, strict=True):
        full = graph.pad(value, first, zeros, end)
        rows.append(graph.reshape(full, [*sizes[:axis], count, width, *sizes[axis + 1 :]]))
    rows = _running_along(op, rows, axis + 1)
    for row, first in zip(rows, firsts, strict=True):
        # A row begins with what the rows before it have come to; the first with nothing.
        last = graph.reshape(
            graph.cut(row, axis + 1, width - 1, width), [*sizes[:axis], count, *sizes[axis + 1 :]]
        )
        end, begin = (_only(axis, number, len(sizes)) for number in (-1, 1))
        totals.append(graph.pad(last, first, begin, end))
    totals = _running_along(op, totals, axis)
    axes = [at + (at > axis) for at in range(len(sizes))]
    spread = [graph.broadcast(each, graph.shape(rows[0]), axes) for each in totals]
    made = _both(op, spread, rows)
    flat = [
        graph.reshape(each, [*sizes[:axis], count * width, *sizes[axis + 1 :]]) for each in made
    ]
    return [graph.cut(each, axis, 0, length) for each in flat]


def _running_along(op: Any, values: list[Any], axis: int) -> list[Any]:
    """The reduction of each element along an axis with all before it."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    sizes = graph.shape(values[0])
    attributes = {
        "window_dimensions": ir.DenseI64ArrayAttr.get(
            [n if at == axis else 1 for at, n in enumerate(sizes)]
        ),
        "padding": ir.Attribute.parse(
            f"dense<{[[sizes[axis] - 1 if at == axis else 0, 0] for at in range(len(sizes))]}>"
            f" : tensor<{len(sizes)}x2xi64>"
        ),
    }
    return _like(op, "stablehlo.reduce_window", values, [v.type for v in values], attributes)


def _only(axis: int, number: int, rank: int) -> list[int]:
    return [number if at == axis else 0 for at in range(rank)]


def _like(
    op: Any, name: str, values: list[Any], types: list[Any], attributes: dict[str, Any]
) -> list[Any]:
    """Another kind of reduction of other values by the same function."""
    from iree.compiler import ir

    firsts = list(op.operands)[len(values) :]
    new = ir.Operation.create(
        name, results=types, operands=[*values, *firsts], attributes=attributes, regions=1
    )
    copy = op.clone()
    copy.regions[0].blocks[0].append_to(new.regions[0])
    copy.erase()
    return list(new.results)


def _pieces(way: _Way) -> tuple[int, int, int]:
    """Neighbours, how many windows of these, and what is left."""
    near = math.isqrt(way.size) if way.size > 3 else way.size
    return near, way.size // near, way.size % near


def _along(op: Any, values: list[Any], axis: int, way: _Way) -> list[Any]:
    """The reduction along one axis of what is padded."""
    from edgec.toolchain.ir import write as graph

    near, many, left = _pieces(way)
    if way.size == 1 and way.stride == 1:
        return values
    if many == 1:
        return _window(op, values, axis, way)
    inner = _window(op, values, axis, _Way(size=near, far=way.far))
    outer = _window(op, inner, axis, _Way(size=many, stride=way.stride, far=near * way.far))
    whole = graph.shape(values[0])[axis] - (way.size - 1) * way.far
    count = -(-whole // way.stride)
    outer = [graph.cut(value, axis, 0, count) for value in outer]
    if not left:
        return outer
    begin, end = near * many * way.far, graph.shape(values[0])[axis]
    behind = [graph.cut(value, axis, begin, end) for value in values]
    rest = _window(op, behind, axis, _Way(size=left, stride=way.stride, far=way.far))
    rest = [graph.cut(value, axis, 0, count) for value in rest]
    return _both(op, outer, rest)


def _window(op: Any, values: list[Any], axis: int, way: _Way) -> list[Any]:
    """The same reduction of other values by a window along one axis alone."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    sizes = list(graph.shape(values[0]))
    rank = len(sizes)
    sizes[axis] = (sizes[axis] - (way.size - 1) * way.far - 1) // way.stride + 1
    attributes = {
        name: ir.DenseI64ArrayAttr.get([number if at == axis else 1 for at in range(rank)])
        for name, number in (
            *(("window_dimensions", way.size), ("window_strides", way.stride)),
            ("window_dilations", way.far),
        )
    }
    types = [graph.tensor(sizes, graph.element(value)) for value in values]
    return _like(op, "stablehlo.reduce_window", values, types, attributes)


def _both(op: Any, left: list[Any], right: list[Any]) -> list[Any]:
    """What the reduction makes of each pair of elements."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    joined = [
        graph.concatenate([graph.reshape(each, [1, *graph.shape(each)]) for each in pair], 0)
        for pair in zip(left, right, strict=True)
    ]
    first = {"dimensions": ir.DenseI64ArrayAttr.get([0])}
    return _like(op, "stablehlo.reduce", joined, [each.type for each in left], first)
