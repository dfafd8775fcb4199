"""Plans to dispatches: weights packed, padding handed to whoever writes, kernels written once.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.read import shape_of
from edgec.toolchain.ir.standing import come_from
from edgec.toolchain.kernels.cpu.borders import Border, border_of_window, hand_over
from edgec.toolchain.kernels.cpu.library import Library
from edgec.toolchain.kernels.cpu.plans import Pad, Plan
from edgec.toolchain.kernels.cpu.source import (
    Convolution,
    Form,
    KernelKey,
    Result,
    VectorUnit,
    convolution_kernel,
    grouped_kernel,
    grouped_tiling,
    tiling,
    winograd_kernel,
    winograd_tiling,
)
from edgec.toolchain.kernels.cpu.turns import turn_padded
from edgec.toolchain.kernels.cpu.weights import PackedWeights

__all__ = ["emit"]

_NONE: Pad = ((0, 0), (0, 0))


def emit(plans: Sequence[Plan], library: Library, unit: VectorUnit) -> None:
    """Replace every plan's operations by a dispatch, in place."""
    work = _Emission(library, unit, _borders_written(plans))
    for plan in plans:
        work.replace(plan)
    # Only now: until here a plan may hold a value of an operation that another one replaced.
    for plan in reversed(plans):
        for op in reversed(plan.tail.operations):
            op.erase()
    for plan in reversed(plans):
        plan.op.erase()


def _borders_written(plans: Sequence[Plan]) -> dict[Any, Border]:
    """For values that a kernel writes: what all their users want around them."""
    wanted: dict[Any, Border] = {}
    of_op = {plan.op: plan for plan in plans}
    for plan in plans:
        if plan.tail.value.type != plan.op.results[0].type:
            continue
        borders = {_border(use, of_op) for use in plan.tail.value.uses}
        if len(borders) == 1 and (border := borders.pop()).pad != _NONE:
            wanted[plan.tail.value] = border
    return wanted


def _border(use: Any, of_op: Mapping[Any, Plan]) -> Border:
    """What one user wants around a value."""
    plan = of_op.get(use.owner.operation)
    if plan is None:
        return border_of_window(use) or Border()
    taken = use.operand_number == 0 and len(shape_of(plan.op.operands[0])) == 4
    return Border(pad=plan.pad if taken else _NONE)


class _Emission:
    """What was written so far: values with zeros around them, and what took whose place."""

    def __init__(self, library: Library, unit: VectorUnit, wanted: dict[Any, Border]) -> None:
        self.library = library
        self.unit = unit
        self.wanted = wanted
        self.padded: set[Any] = set()
        self.turned: dict[Any, Any] = {}  # what was turned and bordered at once, by value and pad
        self.now: dict[Any, Any] = {}
        self.weights = PackedWeights(library, unit)

    def replace(self, plan: Plan) -> None:
        """Put a dispatch where the plan's last operation stands."""
        value = plan.tail.value
        border = self.wanted.get(value, Border())
        last = plan.tail.operations[-1] if plan.tail.operations else plan.op
        with ir.InsertionPoint(last), plan.op.location:
            source, weights = plan.op.operands
            if source not in self.padded:
                source = self._bordered(source, plan)
            result = Result(
                batch=plan.batch,
                height=plan.out_height,
                width=plan.out_width,
                channels=plan.out_channels,
                pad=border.pad,
                edge=border.edge,
                epilogue=plan.tail.epilogue,
            )
            name, text, packed = self._kernel(plan, result, weights)
            kind = value.type
            if border.pad != _NONE:
                kind = ir.RankedTensorType.get(result.shape, kind.element_type)
            read = [self.now.get(v, v) for v in (*plan.tail.channels, *plan.tail.tensors)]
            output = self.library.call(name, text, [source, packed, *read], kind)
        come_from(output, value)
        if border.pad != _NONE:
            self.padded.add(output)
            for use in list(value.uses):
                hand_over(use, output)
        else:
            value.replace_all_uses_with(output)
            self.now[value] = output

    def _bordered(self, source: Any, plan: Plan) -> Any:
        """A plan's input with the zeros that it wants around it."""
        if plan.pad != _NONE and not any(plan.frame_pad):
            key = (source, plan.pad)
            if key not in self.turned:
                self.turned[key] = turn_padded(source, plan.pad, self.library, self.unit)
            if self.turned[key] is not None:
                return self.turned[key]
        return _pad(source, (plan.frame_pad, *plan.pad))

    def _kernel(self, plan: Plan, result: Result, weights: Any) -> tuple[str, str, Any]:
        """The name and text of the plan's kernel, and its weights as that kernel wants them."""
        height = plan.height + sum(plan.pad[0])
        width = plan.width + sum(plan.pad[1])
        product = plan.op.name == "stablehlo.dot_general"
        kind = "depthwise" if plan.depthwise else "product" if product else "convolution"
        key = KernelKey(
            kind=kind,
            window=plan.window,
            height=result.height,
            width=result.width,
            channels=plan.channels,
            out_channels=result.channels,
            groups=1 if plan.depthwise else plan.groups,
            stride=plan.stride,
            dilation=plan.dilation,
        )
        conv = Convolution(
            height=height,
            width=width,
            channels=plan.channels,
            groups=plan.groups,
            result=result,
            window=plan.window,
            stride=plan.stride,
            dilation=plan.dilation,
            frames=plan.frames,
        )
        wanted, plain = self.library.cuts.get(str(key)), key.symbol(Form.PLAIN)
        narrow = grouped_tiling(conv, self.unit, wanted)
        if narrow is not None:
            return plain, grouped_kernel("NAME", conv, narrow, self.unit), weights
        fast = winograd_tiling(conv, self.unit, wanted)
        turned = (
            None
            if fast is None
            else self.weights.turn(plan.op, fast.starts(result.channels), fast.panel)
        )
        if fast is not None and turned is not None:
            text = winograd_kernel("NAME", conv, fast, self.unit)
            return key.symbol(Form.WINOGRAD), text, turned
        tiles = tiling(conv, self.unit, wanted, self.weights.panels(plan.op))
        text = convolution_kernel("NAME", conv, tiles, self.unit)
        return plain, text, self.weights.pack(plan.op, tiles.starts, tiles.panel)


def _pad(value: Any, pad: tuple[tuple[int, int], ...]) -> Any:
    """A value with zeros around it; `pad` is that of its last axes but the channels."""
    kind = value.type
    sizes = list(kind.shape)
    rank = len(sizes)
    if not any(any(pair) for pair in pad):
        return value
    pairs = [(0, 0), *pad[5 - rank :], (0, 0)]
    zero = ir.Operation.create(
        "stablehlo.constant",
        results=[ir.RankedTensorType.get([], kind.element_type)],
        attributes={
            "value": ir.DenseElementsAttr.get_splat(
                ir.RankedTensorType.get([], kind.element_type),
                ir.FloatAttr.get(kind.element_type, 0.0),
            )
        },
    ).result
    wide = [size + sum(pair) for size, pair in zip(sizes, pairs, strict=True)]
    return ir.Operation.create(
        "stablehlo.pad",
        results=[ir.RankedTensorType.get(wide, kind.element_type)],
        operands=[value, zero],
        attributes={
            "edge_padding_low": ir.DenseI64ArrayAttr.get([low for low, _ in pairs]),
            "edge_padding_high": ir.DenseI64ArrayAttr.get([high for _, high in pairs]),
            "interior_padding": ir.DenseI64ArrayAttr.get([0] * rank),
        },
    ).result
