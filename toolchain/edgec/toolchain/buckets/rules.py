"""What each operation of StableHLO needs so that filling does not reach what is live.

A rule is given an operation with an open axis, or with a number that follows the size, and writes
it for one size. An operation without a rule is refused by name: what it does with filling nobody
knows. A module imported only where it is needed; it takes the compiler's bindings.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from iree.compiler import ir

from edgec.toolchain.batches.rules import by_element
from edgec.toolchain.buckets import moves
from edgec.toolchain.buckets.constants import constant
from edgec.toolchain.buckets.filled import Filling, Step
from edgec.toolchain.buckets.holding import held_by
from edgec.toolchain.buckets.sizes import NotFilled
from edgec.toolchain.ir.fold import splat
from edgec.toolchain.ir.read import convolution_layout, numbers_of

__all__ = ["apply"]

Rule = Callable[[Filling, Step], list[Any]]


def apply(filling: Filling, step: Step) -> list[Any]:
    """The results of an operation for this size.

    Raises:
        NotFilled: it has no rule, or its rule does not hold.
    """
    op = step.op
    if by_element(op):
        return _by_element(filling, step)
    rule = _RULES.get(op.name)
    if rule is None:
        raise NotFilled(f"nothing is known of {op.name.partition('.')[2]} along it")
    return rule(filling, step)


def _by_element(filling: Filling, step: Step) -> list[Any]:
    if len(step.op.results) == 1:
        axes = [axis for axis, size in enumerate(step.results[0]) if size.is_open]
        filling.held[step.op.results[0]] = held_by(step.op, step.held, axes)
    return filling.clone(step)


_NEUTRAL: Mapping[str, Any] = {
    "stablehlo.add": 0,
    "stablehlo.multiply": 1,
    "stablehlo.or": 0,
    "stablehlo.xor": 0,
    "stablehlo.and": -1,
}


def _neutral(op: Any) -> list[Any]:
    """What changes nothing in a reduction, for each of its operands: a number, or its own first.

    Raises:
        NotFilled: its body is none that is known to begin with such.
    """
    half = len(op.operands) // 2
    inner = [each.operation.name for each in op.regions[0].blocks[0].operations]
    kind = op.operands[0].type.element_type
    if len(inner) == 2 and half == 1:
        if inner[0] in _NEUTRAL:
            return [_NEUTRAL[inner[0]]]
        if inner[0] in ("stablehlo.maximum", "stablehlo.minimum"):
            return [_end(kind, greatest=inner[0] == "stablehlo.minimum")]
    if half > 1 and "stablehlo.compare" in inner:
        return list(op.operands[half:])  # StableHLO: what it begins with changes nothing.
    raise NotFilled("nothing is known of what this reduction does with filling")


def _end(kind: Any, *, greatest: bool) -> float | int:
    """The greatest or the least number of a type."""
    if not isinstance(kind, ir.IntegerType):
        return math.inf if greatest else -math.inf
    if kind.width == 1:
        return int(greatest)
    if kind.is_unsigned:
        return (1 << int(kind.width)) - 1 if greatest else 0
    most = 1 << int(kind.width) - 1
    return most - 1 if greatest else -most


def _masked(filling: Filling, step: Step, number: int, axes: Sequence[int], filler: Any) -> Any:
    """An operand with what changes nothing behind what is live; itself if that is there already."""
    value, held = step.op.operands[number], step.held[number]
    if not isinstance(filler, ir.Value):
        same = [-1.0, 1.0] if filler == -1 else [float(filler)]
        axes = [axis for axis in axes if held.get(axis) not in same]
    else:
        known = splat(filler)
        axes = [axis for axis in axes if known is None or held.get(axis) != known]
        filler = filling.new[filler]
    return filling.masked(value, axes, filler) if axes else filling.new[value]


def _reduce(filling: Filling, step: Step) -> list[Any]:
    along, twins = step.numbers("dimensions")
    axes = [axis for axis in step.open_axes() if axis in along]
    if along != twins:
        raise NotFilled("the program changes with it")
    operands = filling.operands(step)
    if axes:
        for number, filler in enumerate(_neutral(step.op)):
            operands[number] = _masked(filling, step, number, axes, filler)
    return filling.clone(step, operands)


def _reduce_window(filling: Filling, step: Step) -> list[Any]:
    rank = len(step.operands[0])
    ones = [1] * rank
    strides, _ = step.numbers("window_strides", ones)
    base, _ = step.numbers("base_dilations", ones)
    pads, twins = step.numbers("padding", [0] * 2 * rank)
    axes = []
    for axis in step.open_axes():
        if base[axis] != 1:
            raise NotFilled("windows go between the elements along it")
        if strides[axis] != 1 and pads[2 * axis : 2 * axis + 2] != twins[2 * axis : 2 * axis + 2]:
            raise NotFilled("the padding of windows follows it")
        if pads[2 * axis + 1] > 0 or twins[2 * axis + 1] > 0:
            axes.append(axis)
    operands = filling.operands(step)
    if axes:
        for number, filler in enumerate(_neutral(step.op)):
            operands[number] = _masked(filling, step, number, axes, filler)
    return filling.clone(step, operands)


def _product(filling: Filling, step: Step) -> list[Any]:
    numbers = numbers_of(step.op.attributes["dot_dimension_numbers"])
    operands = []
    for number, side in enumerate(("lhs", "rhs")):
        summed = numbers.get(f"{side}_contracting_dimensions", [])
        axes = [axis for axis in step.open_axes(number) if axis in summed]
        operands.append(_masked(filling, step, number, axes, 0))
    return filling.clone(step, operands)


def _convolution(filling: Filling, step: Step) -> list[Any]:
    before, _, _ = convolution_layout(step.op)
    if step.open_axes(1) or step.numbers("batch_group_count", [1])[0] not in ([], [1]):
        raise NotFilled("a convolution's window follows it")
    rank = len(before) - 2
    base, _ = step.numbers("lhs_dilation", [1] * rank)
    pads, twins = step.numbers("padding", [0] * 2 * rank)
    axes = []
    for axis in step.open_axes():
        name = before[axis]
        if name == "f":
            raise NotFilled("a convolution sums over it")
        if name == "b":
            continue
        place = int(name)
        behind = (pads or [0] * 2 * rank)[2 * place + 1]
        if behind > 0 or (base or [1] * rank)[place] != 1:
            axes.append(axis)
    if pads != twins:
        raise NotFilled("a convolution's padding follows it")
    operands = filling.operands(step)
    operands[0] = _masked(filling, step, 0, axes, 0)
    return filling.clone(step, operands)


def _leading(filling: Filling, step: Step) -> list[Any]:
    """Of matrices: open before the last two axes alone."""
    for number, sizes in enumerate(step.operands):
        if any(axis >= len(sizes) - 2 for axis in step.open_axes(number)):
            raise NotFilled("matrices as large as it are worked on whole")
    return filling.clone(step)


def _off(*names: str) -> Rule:
    """Not along the axes that an attribute names; all others are alike."""

    def rule(filling: Filling, step: Step) -> list[Any]:
        along = {axis for name in names for axis in step.numbers(name)[0]}
        if along & set(step.open_axes()):
            raise NotFilled(f"{step.op.name.partition('.')[2]} goes along it")
        return filling.clone(step)

    return rule


def _last(filling: Filling, step: Step) -> list[Any]:
    if len(step.operands[0]) - 1 in step.open_axes():
        raise NotFilled(f"{step.op.name.partition('.')[2]} goes along it")
    return filling.clone(step)


_RULES: Mapping[str, Rule] = {
    "chlo.top_k": _last,
    "stablehlo.batch_norm_inference": _off("feature_index"),
    "stablehlo.broadcast_in_dim": moves.broadcast_in_dim,
    "stablehlo.cholesky": _leading,
    "stablehlo.concatenate": moves.concatenate,
    "stablehlo.constant": constant,
    "stablehlo.convolution": _convolution,
    "stablehlo.dot_general": _product,
    "stablehlo.dynamic_broadcast_in_dim": moves.broadcast_in_dim,
    "stablehlo.dynamic_iota": moves.iota,
    "stablehlo.dynamic_reshape": moves.reshape,
    "stablehlo.dynamic_slice": moves.dynamic_slice,
    "stablehlo.dynamic_update_slice": moves.dynamic_update,
    "stablehlo.gather": moves.gather,
    "stablehlo.iota": moves.iota,
    "stablehlo.pad": moves.pad,
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.reshape": moves.reshape,
    "stablehlo.reverse": _off("dimensions"),
    "stablehlo.slice": moves.slice_,
    "stablehlo.sort": _off("dimension"),
    "stablehlo.transpose": moves.transpose,
    "stablehlo.triangular_solve": _leading,
}
