"""Products and convolutions that sum very many elements, in chunks: for GPUs."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["SplitProducts"]

_THREADS = 4096
"""Sums at once that a GPU is kept busy with, where there are so many."""
_LEAST, _LARGEST = 256, 8192
"""Elements of one of them, at least and at most."""


@dataclass(frozen=True, kw_only=True)
class SplitProducts:
    """A product or convolution that sums more than 32,768 elements sums chunks, and these.

    What no kernel of edgec's own takes, iree-compile 3.13 gives to a thread for each result on
    devices whose subgroups it does not count on, and that thread reads all of a vector alone. That
    is slow, and on Mesa's llvmpipe wrong, which ends every loop after 65,535 rounds. The chunks of
    a product become one more axis of its batch; a convolution becomes one for each part of its
    window or of its inputs.

    Measured on llvmpipe, two cores: the product of two vectors of 60,000 numbers takes 0.49 ms,
    1.23 without; that of 200,000 is off by two thirds without.
    """

    name = "split-products"
    purpose = Purpose.RIGHT
    most: int = 32768
    """Elements that one result may be summed of at once."""

    @classmethod
    def plan(cls, situation: Situation) -> "SplitProducts | None":
        """For programs in StableHLO with products that become SPIR-V."""
        found = {"stablehlo.dot_general", "stablehlo.convolution"}
        if not situation.target.is_spirv or not situation.operations & found:
            return None
        return cls()

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many were split."""
        product = partial(_split_product, most=self.most)
        convolution = partial(_split_convolution, most=self.most)
        products = rewrite_each(module, ["stablehlo.dot_general"], product)
        return products + rewrite_each(module, ["stablehlo.convolution"], convolution)


def _split_product(op: Any, *, most: int) -> Sequence[Any] | None:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.read import numbers_of

    result = op.results[0]
    kind = graph.element(result)
    if not graph.is_static(*op.operands, result) or not isinstance(
        kind, ir.IntegerType | ir.FloatType
    ):
        return None
    named = numbers_of(op.attributes["dot_dimension_numbers"])
    batches, summed = (
        [list(named.get(f"{side}_{what}_dimensions", [])) for side in ("lhs", "rhs")]
        for what in ("batching", "contracting")
    )
    sizes = [graph.shape(op.operands[0])[axis] for axis in summed[0]]
    if math.prod(sizes) <= most:
        return None
    each = math.prod(sizes) * math.prod(graph.shape(result)) // _THREADS
    wanted = -(-math.prod(sizes) // min(max(each, _LEAST), _LARGEST, most))
    largest = sizes.index(max(sizes))
    chunks = _divisor(sizes[largest], wanted)
    operands = []
    for value, batch, axes in zip(op.operands, batches, summed, strict=True):
        at = axes[largest]
        operands.append(_in_chunks(value, at, chunks))
        batch[:] = [*(axis + (axis > at) for axis in batch), at]
        axes[:] = [axis + (axis >= at) for axis in axes]
    numbers = ir.Attribute.parse(
        f"#stablehlo.dot<lhs_batching_dimensions = {batches[0]}, "
        f"rhs_batching_dimensions = {batches[1]}, lhs_contracting_dimensions = {summed[0]}, "
        f"rhs_contracting_dimensions = {summed[1]}>"
    )
    attributes = dict(op.attributes.items())
    last = len(batches[0]) - 1
    before = graph.shape(result)
    type_ = graph.tensor([*before[:last], chunks, *before[last:]], kind)
    attributes["dot_dimension_numbers"] = numbers
    parts = graph.create(op.name, type_, operands, attributes)
    parts = _again(parts, partial(_split_product, most=most))
    zero = graph.fill(0, (), kind)
    return graph.reduce([parts], [zero], [last], lambda v: [graph.binary("add", v[0], v[1])])


def _again(value: Any, split: Callable[[Any], Sequence[Any] | None]) -> Any:
    """The same value, split further where it must be."""
    made = split(value.owner)
    if made is None:
        return value
    value.owner.erase()
    return made[0]


def _divisor(size: int, wanted: int) -> int:
    """How many chunks: about so many, and the size's divisor if there is one near."""
    near = [n for n in range(wanted, 2 * wanted) if size % n == 0]
    return min([*near, size]) if near or size <= wanted else wanted


def _in_chunks(value: Any, axis: int, chunks: int) -> Any:
    """One axis as two, filled up with zeros."""
    from edgec.toolchain.ir import write as graph

    sizes = list(graph.shape(value))
    each = -(-sizes[axis] // chunks)
    high = [each * chunks - n if at == axis else 0 for at, n in enumerate(sizes)]
    if any(high):
        none = [0] * len(sizes)
        value = graph.pad(value, graph.fill(0, (), graph.element(value)), none, high)
    return graph.reshape(value, [*sizes[:axis], chunks, each, *sizes[axis + 1 :]])


@dataclass(frozen=True, kw_only=True)
class _Axis:
    """An axis of a convolution's kernel that is summed over, and its own on the image."""

    kernel: int
    image: int
    spatial: int | None


def _split_convolution(op: Any, *, most: int) -> Sequence[Any] | None:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    image, kernel = op.operands
    if not graph.is_static(image, kernel, op.results[0]):
        return None
    named = re.findall(r"\[([^\]]*)\]", str(op.attributes["dimension_numbers"]))
    inputs, kernels, outputs = ([axis.strip() for axis in names.split(",")] for names in named)
    sizes = graph.shape(kernel)
    total = math.prod(n for n, name in zip(sizes, kernels, strict=True) if name != "o")
    if total <= most:
        return None
    groups = max(
        ir.IntegerAttr(op.attributes[f"{what}_group_count"]).value for what in ("feature", "batch")
    )
    axes = [
        _Axis(
            kernel=kernels.index(name),
            image=inputs.index("f" if name == "i" else name),
            spatial=None if name == "i" else int(name),
        )
        for name in kernels
        if name.isdigit() or (name == "i" and groups == 1)
    ]
    axis = max(axes, key=lambda each: sizes[each.kernel])
    size = sizes[axis.kernel]
    count = min(-(-total // most), size)
    if count == 1:
        return None
    ends = [size * n // count for n in range(count + 1)]
    made = None
    for begin, end in pairwise(ends):
        if axis.spatial is None:
            part = _along(op, axis, begin, end)
        else:
            steps = graph.shape(op.results[0])[outputs.index(str(axis.spatial))]
            part = _window(op, axis, axis.spatial, (begin, end), steps)
        part = _again(part, partial(_split_convolution, most=most))
        made = part if made is None else graph.binary("add", made, part)
    return [made]


def _along(op: Any, axis: _Axis, begin: int, end: int) -> Any:
    """The convolution of some of the inputs."""
    from edgec.toolchain.ir import write as graph

    image, kernel = op.operands
    operands = [
        graph.cut(image, axis.image, begin, end),
        graph.cut(kernel, axis.kernel, begin, end),
    ]
    attributes = dict(op.attributes.items())
    return graph.create(op.name, op.results[0].type, operands, attributes)


def _window(op: Any, axis: _Axis, at: int, places: tuple[int, int], steps: int) -> Any:
    """The convolution by a part of the window, `steps` results long."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    image, kernel = op.operands
    rank, (begin, end) = len(graph.shape(image)), places
    ones = [1] * (rank - 2)
    stride, far, dilated = (
        graph.integers(op, name, ones)[at]
        for name in ("window_strides", "rhs_dilation", "lhs_dilation")
    )
    padding = graph.integers(op, "padding", [0, 0] * (rank - 2))
    low, high, apart = (
        [number if each == axis.image else 0 for each in range(rank)]
        for number in (*padding[2 * at : 2 * at + 2], dilated - 1)
    )
    wide = graph.pad(image, graph.fill(0, (), graph.element(image)), low, high, apart)
    last = (steps - 1) * stride + (end - 1 - begin) * far + 1
    size = graph.shape(kernel)[axis.kernel]
    chosen = (size - end, size - begin) if _reversed(op, at) else (begin, end)
    operands = [
        graph.cut(wide, axis.image, begin * far, begin * far + last),
        graph.cut(kernel, axis.kernel, *chosen),
    ]
    attributes = dict(op.attributes.items())
    padding[2 * at : 2 * at + 2] = [0, 0]
    dilations = graph.integers(op, "lhs_dilation", ones)
    dilations[at] = 1
    pairs = [padding[n : n + 2] for n in range(0, len(padding), 2)]
    attributes["padding"] = ir.Attribute.parse(f"dense<{pairs}> : tensor<{len(pairs)}x2xi64>")
    attributes["lhs_dilation"] = ir.DenseI64ArrayAttr.get(dilations)
    return graph.create(op.name, op.results[0].type, operands, attributes)


def _reversed(op: Any, at: int) -> bool:
    if "window_reversal" not in op.attributes:
        return False
    return bool(list(op.attributes["window_reversal"])[at])
