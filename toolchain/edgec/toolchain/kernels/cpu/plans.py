"""Which operations become kernels, with their sizes, and what each takes along.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from dataclasses import dataclass, field
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.ir.read import (
    element_type,
    numbers_of,
    shape_of,
)
from edgec.toolchain.kernels.cpu.source import Frames
from edgec.toolchain.kernels.cpu.tails import Tail, find_tail
from edgec.toolchain.kernels.spec import Answers, Declined, Kernel
from edgec.toolchain.match.convolution import Axis, Convolution, read_convolution
from edgec.toolchain.match.description import validate

__all__ = ["Pad", "Plan", "find_plans", "plan_of"]

_VIEWS = (
    "stablehlo.reshape",
    "stablehlo.transpose",
    "stablehlo.convert",
    "stablehlo.reverse",
    "stablehlo.slice",
    "stablehlo.concatenate",
    "stablehlo.broadcast_in_dim",
    "stablehlo.multiply",
    "stablehlo.add",
    "stablehlo.subtract",
    "stablehlo.divide",
    "stablehlo.rsqrt",
    "stablehlo.sqrt",
    "stablehlo.negate",
)
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


def find_plans(module: Any, answers: Answers) -> list[Plan]:
    """Every operation that a kernel can do, in order; what became of convolutions is kept."""
    plans: list[Plan] = []
    taken: set[Any] = set()
    operations = list(inside(module.operation))
    for op in operations:
        plan = plan_of(op, taken)
        conv = read_convolution(op) if op.name == "stablehlo.convolution" else None
        if conv is not None:
            if isinstance(plan, Plan):
                validate(conv, "convolution")
            outcome = plan if isinstance(plan, Declined) else Kernel(name="convolution")
            answers.record(op, str(conv), conv.work, outcome)
        if isinstance(plan, Plan):
            plans.append(plan)
            taken.update(plan.tail.operations)
    return plans


def plan_of(op: Any, taken: set[Any]) -> Plan | Declined:
    """The plan of one operation, or why not; `taken` are operations of others."""
    if op.name == "stablehlo.convolution":
        return _convolution(op, taken)
    if op.name == "stablehlo.dot_general":
        return _product(op, taken) or Declined(reason="no product by weights")
    return Declined(reason=op.name)


def _is_plain(op: Any) -> bool:
    """Whether everything is f32 of fixed sizes and the weights are known before the first call."""
    values = [*op.operands, *op.results]
    return (
        all(isinstance(element_type(v), ir.F32Type) for v in values)
        and all(None not in shape_of(v) and 0 not in shape_of(v) for v in values)
        and _is_weight(op.operands[1])
        and not _is_weight(op.operands[0])
    )


def _is_weight(value: Any) -> bool:
    """Whether a value comes from constants and the module's own parameters alone."""
    if isinstance(value.owner, ir.Block):
        return False
    op = value.owner.operation
    if op.name in ("stablehlo.constant", "util.global.load"):
        return op.name != "util.global.load" or _is_immutable(op)
    return op.name in _VIEWS and all(_is_weight(operand) for operand in op.operands)


def _is_immutable(load: Any) -> bool:
    top = load
    while top.parent is not None:
        top = top.parent
    symbol = ir.FlatSymbolRefAttr(load.attributes["global"]).value
    for op in top.regions[0].blocks[0].operations:
        attributes = op.operation.attributes
        if op.operation.name != "util.global":
            continue
        if ir.StringAttr(attributes["sym_name"]).value == symbol:
            return "is_mutable" not in attributes
    return False


def _convolution(op: Any, taken: set[Any]) -> Plan | Declined:
    conv = read_convolution(op)
    if conv is None:
        return Declined(reason="sizes that are known only when it runs")
    reason = _why_not(conv)
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


def _why_not(conv: Convolution) -> str | None:
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
    if not _is_weight(conv.weight):
        return "weights that are not known before it runs"
    return "an image of constants" if _is_weight(conv.image) else None


def _product(op: Any, taken: set[Any]) -> Plan | None:
    """A product of anything by a matrix of weights, contracted over one dimension."""
    if not _is_plain(op):
        return None
    numbers = numbers_of(op.attributes["dot_dimension_numbers"])
    if numbers.get("lhs_batching_dimensions"):
        return None
    left, right = shape_of(op.operands[0]), shape_of(op.operands[1])
    if numbers.get("lhs_contracting_dimensions") != [len(left) - 1] or len(right) != 2:
        return None
    if len(numbers.get("rhs_contracting_dimensions", ())) != 1:
        return None
    rows = math.prod(_known(s) for s in left[:-1])
    channels = _known(left[-1])
    out_channels = _known(right[1 - numbers["rhs_contracting_dimensions"][0]])
    if channels * out_channels < _LEAST_PRODUCTS:
        return None
    return Plan(
        op=op,
        width=rows,
        channels=channels,
        out_width=rows,
        out_channels=out_channels,
        tail=find_tail(op.results[0], taken, reshaped=True),
    )


def _known(size: int | None) -> int:
    """A size that was checked to be fixed."""
    return -1 if size is None else size
