"""Which operations become kernels, with their sizes, and what each takes along.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.ir.read import (
    element_type,
    numbers_of,
    shape_of,
)
from edgec.toolchain.ir.weights import Weights
from edgec.toolchain.kernels.cpu.source import Frames
from edgec.toolchain.kernels.cpu.tails import Tail, find_tail
from edgec.toolchain.kernels.longest import say_cut_short
from edgec.toolchain.kernels.spec import Answers, Declined, Kernel
from edgec.toolchain.match.convolution import Axis, Convolution, read_convolution
from edgec.toolchain.match.description import validate
from edgec.toolchain.match.matrix_product import MatrixProduct, read_product

__all__ = ["Pad", "Plan", "find_plans", "plan_of", "why_not_by_weights"]

_LEAST_PRODUCTS = 512

Pad = tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One operation that becomes a kernel.

    Attributes:
        op: the convolution or product.
        batch, height, width, channels: the input's sizes, without padding.
        out_height, out_width, out_channels: the result's sizes.
        window, stride, dilation: rows and columns of each.
        pad: zeros that the input wants around it.
        groups: equal parts of the channels, each of which makes one part of the result's.
        frames: the window's third axis, the outermost; its padding is that of `frame_pad`.
        frame_pad: frames of zeros that the input wants before and after.
        tail: what follows it in registers.
    """

    op: Any
    batch: int = 1
    height: int = 1
    width: int
    channels: int
    out_height: int = 1
    out_width: int
    out_channels: int
    window: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pad: Pad = ((0, 0), (0, 0))
    groups: int = 1
    frames: Frames = field(default_factory=Frames)
    frame_pad: tuple[int, int] = (0, 0)
    tail: Tail

    @property
    def depthwise(self) -> bool:
        """Whether each channel has a window of its own."""
        return 1 < self.groups == self.channels == self.out_channels


def find_plans(
    module: Any, answers: Answers, refused: Mapping[Any, Declined] | None = None
) -> list[Plan]:
    """Every operation that a kernel can do, in order; what became of each is kept.

    Args:
        module: the program.
        answers: where it is kept.
        refused: those that kernels asked before did not take, and why; said of what is left.
    """
    plans: list[Plan] = []
    taken: set[Any] = set()
    weights = Weights(module)
    for op in list(inside(module.operation)):
        plan = plan_of(op, taken, weights)
        if plan is None:
            continue
        if isinstance(plan, Declined):
            plan = (refused or {}).get(op, plan)
        found = read_product(op) if op.name == "stablehlo.dot_general" else read_convolution(op)
        what = "product" if op.name == "stablehlo.dot_general" else "convolution"
        if isinstance(found, Convolution | MatrixProduct):
            if isinstance(plan, Plan):
                validate(found, what)
            outcome = plan if isinstance(plan, Declined) else Kernel(name=what)
            answers.record(op, str(found), found.work, outcome)
        if isinstance(plan, Plan):
            plans.append(plan)
            taken.update(plan.tail.operations)
            say_cut_short(plan.tail.value, plan.tail.why, answers)
    return plans


def plan_of(op: Any, taken: set[Any], weights: Weights) -> Plan | Declined | None:
    """The plan of one operation, or why not; None for what is no product and no convolution.

    Args:
        op: any operation.
        taken: operations of others.
        weights: what is known before the first call.
    """
    if op.name == "stablehlo.convolution":
        return _convolution(op, taken, weights)
    return _product(op, taken, weights) if op.name == "stablehlo.dot_general" else None


def _convolution(op: Any, taken: set[Any], weights: Weights) -> Plan | Declined:
    conv = read_convolution(op)
    if conv is None:
        return Declined(reason="sizes that are known only when it runs")
    reason = _why_not(conv, weights)
    if reason is not None:
        return Declined(reason=reason)
    one = Axis(size=1, out=1, window=1)
    depth, down, across = (*[one] * (3 - len(conv.axes)), *conv.axes)
    return Plan(
        op=op,
        batch=conv.batch * depth.out,
        height=down.size,
        width=across.size,
        channels=conv.channels,
        out_height=down.out,
        out_width=across.out,
        out_channels=conv.outputs,
        window=(down.window, across.window),
        stride=(down.stride, across.stride),
        dilation=(down.dilation, across.dilation),
        pad=((down.low, down.high), (across.low, across.high)),
        groups=conv.groups,
        frames=Frames(
            size=depth.size + depth.low + depth.high,
            out=depth.out,
            window=depth.window,
            stride=depth.stride,
            dilation=depth.dilation,
        ),
        frame_pad=(depth.low, depth.high),
        tail=find_tail(op.results[0], taken),
    )


def _why_not(conv: Convolution, weights: Weights) -> str | None:
    """Why no kernel takes a convolution; None where one does."""
    if set(conv.elements) != {"f32"}:
        return f"{conv.elements[0]} by {conv.elements[1]} summed in {conv.elements[2]}"
    if any(0 in shape_of(v) for v in (*conv.operands, conv.value)):
        return "nothing to compute"
    if conv.batch_groups > 1:
        return "groups of images"
    if not conv.channels_last or not 1 <= len(conv.axes) <= 3:
        return "an image whose channels are not last"
    if not all(axis.plain for axis in conv.axes):
        return "zeros between pixels, or a cut"
    return "an image of constants" if weights.holds(conv.image) else None


def _product(op: Any, taken: set[Any], weights: Weights) -> Plan | Declined:
    """A product of anything by a matrix of weights, contracted over one dimension."""
    found = read_product(op)
    if isinstance(found, str):
        return Declined(reason=found)
    reason = why_not_by_weights(op, found, weights)
    if reason is not None:
        return Declined(reason=reason)
    # Which side is which in a product of one row or column is no matter to what describes it.
    rows = math.prod(size or 0 for size in shape_of(op.operands[0])[:-1])
    return Plan(
        op=op,
        width=rows,
        channels=found.k,
        out_width=rows,
        out_channels=found.m * found.n // rows,
        tail=find_tail(op.results[0], taken, reshaped=True),
    )


def why_not_by_weights(op: Any, found: MatrixProduct, weights: Weights) -> str | None:
    """Why the kernels of products by weights do not take one; None where they do.

    Args:
        op: the `stablehlo.dot_general`.
        found: what it is.
        weights: what is known before the first call.
    """
    kinds = sorted({str(element_type(v)) for v in (*op.operands, *op.results)})
    if kinds != ["f32"]:
        return f"elements of {' and '.join(kinds)}"
    if not weights.holds(op.operands[1]):
        return "a right side that is not known before it runs"
    if weights.holds(op.operands[0]):
        return "a left side of constants"
    numbers = numbers_of(op.attributes["dot_dimension_numbers"])
    if numbers.get("lhs_batching_dimensions"):
        return "a batch of products"
    left, right = (shape_of(operand) for operand in op.operands)
    summed = [numbers.get(f"{side}_contracting_dimensions", []) for side in ("lhs", "rhs")]
    if summed[0] != [len(left) - 1] or len(right) != 2 or len(summed[1]) != 1:
        return "rows that do not lie in one piece"
    if found.k * (right[1 - summed[1][0]] or 0) < _LEAST_PRODUCTS:
        return "too little to do"
    return None
