"""Convolutions whose window is larger than their result, as products of windows as they lie.

The gradient of a convolution's weights is one: an image is summed with what came back for each of
its pixels, once for each place of the window and each pair of channels. No kernel whose tile is
some pixels by some channels has anything to do there: its result has few pixels, what is summed is
long. It is a product of one channel by another, over all pixels, for each place of the window; and
both sides lie in memory as it needs them, whatever their layout. Where each channel has a window
of its own (or groups are narrower than a vector), neighbouring groups share vectors.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write as graph
from edgec.toolchain.ir.erase import erase_unused
from edgec.toolchain.ir.functions import inside
from edgec.toolchain.ir.standing import stand_for
from edgec.toolchain.ir.views import Digit, Strided, dense, joined
from edgec.toolchain.ir.weights import Weights
from edgec.toolchain.kernels.cpu.library import Library
from edgec.toolchain.kernels.cpu.source.product import Matrices, ProductKernel
from edgec.toolchain.kernels.cpu.source.rows import lanes_of
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.window_sides import image_of, step_of, window_of
from edgec.toolchain.kernels.spec import Answers, Declined, Kernel
from edgec.toolchain.match.convolution import Convolution, read_convolution
from edgec.toolchain.match.description import validate
from edgec.toolchain.match.indices import Index, fewest, refined
from edgec.toolchain.match.results import moved_result

__all__ = ["place_window_products"]

_ENOUGH_ROWS = 12


@dataclass(frozen=True, kw_only=True)
class _Row:
    """One index of the result beside its columns: its size, its steps left, right and in the end.

    Attributes:
        size: how many values it has.
        left, right: steps in the sides.
        final: step in the value that holds the result at last.
    """

    size: int
    left: int
    right: int
    final: int


def place_window_products(
    module: Any, library: Library, unit: VectorUnit, answers: Answers
) -> dict[Any, Declined]:
    """Put kernels in place of convolutions whose window is larger than their result.

    Args:
        module: the program.
        library: where the kernels go.
        unit: the vector registers of the target.
        answers: where the answer to each is kept.

    Returns:
        Those left, with the reason.
    """
    refused: dict[Any, Declined] = {}
    weights = Weights(module)
    for op in list(inside(module.operation)):
        conv = read_convolution(op) if op.name == "stablehlo.convolution" else None
        if conv is None or not conv.is_wide or weights.holds(conv.weight):
            continue
        outcome = _place(conv, library, unit)
        if isinstance(outcome, Declined):
            refused[op] = outcome
            continue
        answers.record(op, str(conv), conv.work, outcome)
    erase_unused(module)
    return refused


def _place(conv: Convolution, library: Library, unit: VectorUnit) -> Kernel | Declined:
    """Write a convolution as a call of a kernel, and let its users take that."""
    if set(conv.elements) != {"f32"} or 0 in graph.shape(conv.value):
        return Declined(reason=f"{conv.elements[0]} by {conv.elements[1]}, or nothing to compute")
    if any(axis.spread > 1 for axis in conv.axes):
        return Declined(reason="a large window over zeros between pixels")
    groups = conv.groups * conv.batch_groups
    columns = conv.outputs // groups
    lanes = lanes_of(columns, unit)
    by_group = lanes is None
    if lanes is None:
        lanes, columns = lanes_of(groups, unit), groups
    if lanes is None:
        return Declined(reason=f"{conv.outputs // groups} results of a place")
    op = conv.value.owner.operation
    with ir.InsertionPoint(op), op.location:
        image, weight = (side(conv, by_group=by_group) for side in (image_of, window_of))
        if image is None or weight is None:
            return Declined(reason="an image or a window without single steps in memory")
        validate(conv, "convolution")
        last = moved_result(conv.value, lambda view: all(len(run) < 2 for run in view.axes))
        rows, column = _rows(conv, image, weight, last, by_group=by_group)
        rows, own = _ordered(rows)
        direct = column == 1 and _is_one_run(rows, own)
        sizes = [row.size for row in rows]
        lies = dense([*sizes, columns])[:-1]
        steps = [row.final for row in rows] if direct else lies
        batch = [at for at in range(len(rows)) if at not in own]
        kernel = ProductKernel(
            batch=tuple(sizes[at] for at in batch),
            m=math.prod(sizes[at] for at in own),
            n=columns,
            inner=_inner(conv, image, weight),
            left=Matrices(
                size=math.prod(graph.shape(image.value)),
                start=image.start,
                batch=tuple(rows[at].left for at in batch),
                own=rows[own[-1]].left,
            ),
            right=Matrices(
                size=math.prod(graph.shape(weight.value)),
                start=weight.start,
                batch=tuple(rows[at].right for at in batch),
                own=1 if by_group else step_of(weight.axes[1]),
            ),
            out=Matrices(
                size=math.prod(sizes) * columns,
                start=last.start if direct else 0,
                batch=tuple(steps[at] for at in batch),
                own=steps[own[-1]],
            ),
            lanes=lanes,
            unit=unit,
            across=by_group,
        )
        kind = last.value.type
        if not direct:
            kind = ir.RankedTensorType.get([*sizes, columns], kind.element_type)
        result = library.call(
            f"edgec_windows_{math.prod(kernel.batch)}x{kernel.m}x{kernel.k}x{kernel.n}",
            kernel.text("NAME"),
            [image.value, weight.value],
            kind,
        )
        if not direct:
            finals = [*(row.final for row in rows), column]
            order = sorted(range(len(finals)), key=lambda at: -finals[at])
            result = graph.reshape(graph.transpose(result, order), graph.shape(last.value))
        stand_for(last.value, result)
    return Kernel(name="windows")


def _rows(
    conv: Convolution, image: Strided, weight: Strided, last: Strided, *, by_group: bool
) -> tuple[list[_Row], int]:
    """The indices of the result beside its columns, and the final step of these.

    Columns are the outputs of a group, or groups.
    """
    first, output, *places = (step_of(last.axes[place]) for place in conv.value_order)
    groups = conv.groups * conv.batch_groups
    each = conv.outputs // groups
    group = output * each
    rows = [
        _Row(
            size=conv.batch // conv.batch_groups,
            left=step_of(image.axes[1]),
            right=0,
            final=first,
        )
    ]
    for axis, run, final in zip(conv.axes, image.axes[4:], places, strict=True):
        rows.append(_Row(size=axis.out, left=axis.stride * step_of(run), right=0, final=final))
    if by_group:
        rows.append(_Row(size=each, left=0, right=step_of(weight.axes[1]), final=output))
    else:
        for size, run in ((conv.batch_groups, image.axes[0]), (conv.groups, image.axes[2])):
            step = step_of(weight.axes[0])
            rows.append(_Row(size=size, left=step_of(run), right=step, final=group))
    # One at least is of the left side alone: the rows of a product.
    alone = max((row for row in rows if not row.right), key=lambda row: row.size)
    kept = [row for row in rows if row.size > 1 or row is alone]
    return kept, group if by_group else output


def _ordered(rows: list[_Row]) -> tuple[list[_Row], list[int]]:
    """Rows in the order in which the result holds them, and which of them are one index of rows.

    The largest that has one step by itself; neighbours in the left side together where that is
    hardly a tile.
    """
    rows = sorted(rows, key=lambda row: -row.final)
    own = max(range(len(rows)), key=lambda at: (rows[at].right == 0, rows[at].size))
    if rows[own].size >= _ENOUGH_ROWS:
        return rows, [own]
    near = sorted(rows, key=lambda row: -row.left)
    runs = [[0]]
    for at in range(1, len(near)):
        outer, inner = near[at - 1], near[at]
        one = outer.left == inner.left * inner.size and not outer.right and not inner.right
        runs = [*runs[:-1], [*runs[-1], at]] if one else [*runs, [at]]
    best = max(runs, key=lambda run: (near[run[-1]].right == 0, _count(near, run)))
    return (near, best) if _count(near, best) > rows[own].size else (rows, [own])


def _is_one_run(rows: list[_Row], own: list[int]) -> bool:
    """Whether rows that are one index in the left side are one in the end, too."""
    runs = [Digit(size=rows[at].size, step=rows[at].final) for at in own]
    return len(joined(runs)) == 1


def _inner(conv: Convolution, image: Strided, weight: Strided) -> tuple[Index, ...]:
    """What is summed, as indices with a step in the image and in the window."""
    found: list[Index] = refined(conv.inner, [image.axes[3], weight.axes[2]]) or []
    for axis, run, place in zip(conv.axes, image.axes[4:], weight.axes[3:], strict=True):
        step = -step_of(place) if axis.turned else step_of(place)
        found.append(Index(size=axis.window, steps=(axis.dilation * step_of(run), step)))
    return tuple(fewest(found)) or (Index(size=1, steps=(1, 1)),)


def _count(rows: list[_Row], run: list[int]) -> int:
    return math.prod(rows[at].size for at in run)
