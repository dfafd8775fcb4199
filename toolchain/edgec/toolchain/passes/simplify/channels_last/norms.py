"""Norms of images written anew for images with their channels last.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write as graph
from edgec.toolchain.match.description import validate
from edgec.toolchain.match.norm import ROOTS, Column, Norm, find_norms, longest
from edgec.toolchain.match.norm_sums import is_read_within

__all__ = ["image_norms", "turned_norm"]


def image_norms(block: Any) -> list[Norm]:
    """The norms of a block whose results have the shape of what is normalised.

    Without those of which others read the mean or the deviation: a step of training keeps them.
    What they are made of is turned itself, so that it is not computed once more for the others.
    """
    found = []
    for each in block.operations:
        norms = find_norms(each.operation) if each.operation.name in ROOTS else None
        if isinstance(norms, list):
            upto = norms[: norms.index(longest(norms)) + 1]
            fit = [n for n in upto if graph.shape(n.value) == graph.shape(n.source)]
            found += [norm for norm in fit[-1:] if not is_read_within(norm)]
    return found


def turned_norm(norm: Norm, image: Any) -> Any | None:
    """The result of a norm with the channels last, written where the insertion point is.

    Args:
        norm: of an image whose channels come second.
        image: the same image with its channels last.

    Returns:
        None where axes of the norm go over more than channels or more than pixels.
    """
    first, channels, *pixels = graph.shape(norm.source)
    parts = norm.split((first, channels, math.prod(pixels)))
    if parts is None:
        return None
    validate(norm, "a norm of an image")
    ends = _ends(parts.sizes, (first, channels, math.prod(pixels)))
    order = [*range(ends[0]), *range(ends[1], len(parts.sizes)), *range(*ends)]
    f32 = ir.F32Type.get()
    sizes = [parts.sizes[axis] for axis in order]
    x = graph.convert(graph.reshape(image, sizes), f32)
    summed = [place for place, axis in enumerate(order) if axis in parts.summed]
    if parts.mean:
        x = graph.binary("subtract", x, _mean(x, summed))
    epsilon = graph.fill(parts.epsilon, sizes, f32)
    variance = graph.binary("add", _mean(graph.binary("multiply", x, x), summed), epsilon)
    x = graph.binary("multiply", x, graph.unary("rsqrt", variance))
    for column, name in ((parts.scale, "multiply"), (parts.shift, "add")):
        if column is not None:
            x = graph.binary(name, x, _wide(column, parts.sizes, order))
    return graph.reshape(graph.convert(x, graph.element(norm.value)), graph.shape(image))


def _ends(sizes: tuple[int, ...], blocks: tuple[int, int, int]) -> tuple[int, int]:
    """How many axes make up the first block, and the first two."""
    ends, product = [], 1
    wanted = [blocks[0], blocks[0] * blocks[1]]
    places = [1]
    for size in sizes:
        product *= size
        places.append(product)
    ends = [places.index(each) for each in wanted]
    return ends[0], ends[1]


def _mean(value: Any, axes: list[int]) -> Any:
    """The mean over some axes, as wide as the value."""
    sizes = graph.shape(value)
    kind = graph.element(value)

    def add(values: Any) -> list[Any]:
        return [graph.binary("add", values[0], values[1])]

    (total,) = graph.reduce([value], [graph.fill(0.0, (), kind)], axes, add)
    count = math.prod(sizes[axis] for axis in axes)
    mean = graph.binary("divide", total, graph.fill(float(count), graph.shape(total), kind))
    return graph.broadcast(mean, sizes, [axis for axis in range(len(sizes)) if axis not in axes])


def _wide(column: Column, sizes: tuple[int, ...], order: list[int]) -> Any:
    """Scales or shifts repeated over all axes in their new order."""
    value = graph.convert(column.value, ir.F32Type.get())
    value = graph.reshape(value, [sizes[axis] for axis in column.axes])
    turn = sorted(range(len(column.axes)), key=lambda i: order.index(column.axes[i]))
    value = graph.transpose(value, turn)
    places = [order.index(column.axes[i]) for i in turn]
    return graph.broadcast(value, [sizes[axis] for axis in order], places)
