"""Which convolutions and products are computed in bytes, and what each reads and writes.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.fold import Constants
from edgec.toolchain.ir.functions import inside
from edgec.toolchain.ir.read import integers
from edgec.toolchain.ir.weights import Weights as Parameters
from edgec.toolchain.kernels.cpu.plans import Pad, Plan, plan_of
from edgec.toolchain.kernels.cpu.quantised_dequantised import (
    Bytes,
    Dequantised,
    Weights,
    as_bytes,
    dequantised,
    weights,
)
from edgec.toolchain.kernels.cpu.source import Frames
from edgec.toolchain.kernels.cpu.source.dot_unit import DotUnit
from edgec.toolchain.kernels.cpu.tails import Tail, find_tail
from edgec.toolchain.kernels.spec import Answers, Declined, Work

__all__ = ["BytePlan", "find_byte_plans"]

_MOST_TAPS = 64
"""Of a window of one channel, which the kernel writes out one by one."""


@dataclass(frozen=True, kw_only=True)
class BytePlan:
    """One operation that is computed in bytes.

    Attributes:
        plan: its sizes, as for a kernel of f32; its `pad` and `tail` are not those meant here.
        source: its input in bytes.
        moves: what is still to be done to the input's bytes before the kernel reads them.
        pad: zeros that the input wants around it after that.
        sizes: rows and columns of the input with them.
        weights: its weights in bytes.
        tail: what follows it in registers.
        reads: for each other tensor that the tail reads, what it is in bytes, or None.
        result: the tail's value, if that is in bytes; otherwise the kernel writes f32.
    """

    plan: Plan
    source: Dequantised
    moves: tuple[Any, ...]
    pad: Pad
    sizes: tuple[int, int]
    weights: Weights
    tail: Tail
    reads: tuple[Dequantised | None, ...]
    result: Bytes | None

    @property
    def last(self) -> Any:
        """The operation that the kernel takes the place of."""
        return self.tail.operations[-1] if self.tail.operations else self.plan.op


def find_byte_plans(
    module: Any, unit: DotUnit, known: Constants, answers: Answers
) -> list[BytePlan]:
    """Every operation whose operands are bytes times scales, in the order of their results.

    Why one is not computed in bytes is kept in `answers`.
    """
    operations = list(inside(module.operation))
    order = {op: place for place, op in enumerate(operations)}
    taken: set[Any] = set()
    found: list[BytePlan] = []
    constants = Parameters(module)
    for op in operations:
        operands = _operands(op, known)
        plan = None if operands is None else plan_of(op, taken, constants)
        if operands is None or not isinstance(plan, Plan):
            continue
        made = _plan(plan, operands, unit, known, taken)
        if isinstance(made, Declined):
            answers.record(op, "a convolution in bytes", Work(), made)
        else:
            found.append(made)
            taken.update(made.tail.operations)
    return sorted(found, key=lambda each: order[each.last])


def _operands(op: Any, known: Constants) -> tuple[Dequantised, Weights] | None:
    """Both sides of a convolution or product in bytes; None of any other operation."""
    if op.name not in ("stablehlo.convolution", "stablehlo.dot_general"):
        return None
    source = dequantised(op.operands[0], known)
    bytes_ = None if source is None else weights(op.operands[1], known, _turn(op))
    return None if source is None or bytes_ is None else (source, bytes_)


def _plan(
    plan: Plan,
    operands: tuple[Dequantised, Weights],
    unit: DotUnit,
    known: Constants,
    taken: set[Any],
) -> BytePlan | Declined:
    """How one operation of bytes is computed in them, or why not."""
    source, bytes_ = operands
    if plan.groups > 1 and not plan.depthwise:
        return Declined(reason=f"bytes in {plan.groups} groups of channels: computed in f32")
    if plan.frames != Frames():
        return Declined(reason="bytes in a window of three axes: computed in f32")
    if plan.depthwise and math.prod(plan.window) > _MOST_TAPS:
        return Declined(reason=f"bytes in a window of {math.prod(plan.window)}: computed in f32")
    if plan.out_channels < min(unit.lanes):
        return Declined(reason=f"bytes to {plan.out_channels} channels: computed in f32")
    result = plan.op.results[0]
    product = plan.op.name == "stablehlo.dot_general"  # whose rows may be counted in other axes

    def is_bytes(value: Any) -> bool:
        return as_bytes(value, known) is not None

    tail = find_tail(result, taken, lambda found: is_bytes(found.value), reshaped=product)
    end = as_bytes(tail.value, known) if tail.operations else None
    if end is None:
        # Bytes on the way may be what another kernel reads.
        tail = find_tail(
            result,
            taken,
            lambda found: not any(is_bytes(op.results[0]) for op in found.operations),
            reshaped=product,
        )
    reads = (dequantised(value, known) for value in tail.tensors)
    moves, pad, sizes = _padding(plan, source)
    return BytePlan(
        plan=plan,
        source=source,
        moves=moves,
        pad=pad,
        sizes=sizes,
        weights=bytes_,
        tail=tail,
        reads=tuple(None if read is None or read.moves else read for read in reads),
        result=end,
    )


def _turn(op: Any) -> bool:
    """Whether the weights are a matrix of output x input channels."""
    if op.name != "stablehlo.dot_general":
        return False
    return "rhs_contracting_dimensions = [1]" in str(op.attributes["dot_dimension_numbers"])


def _padding(plan: Plan, source: Dequantised) -> tuple[tuple[Any, ...], Pad, tuple[int, int]]:
    """The moves that the kernel does not do; zeros around what it reads; its rows and columns.

    A border of zeros is the kernel's own where it is all that is between it and the bytes; and it
    need not be told that the end of its input was cut off, which no window reached.
    """
    sizes = (plan.height + sum(plan.pad[0]), plan.width + sum(plan.pad[1]))
    rank = len(plan.op.operands[0].type.shape)
    if not source.moves or rank not in (3, 4) or plan.op.name != "stablehlo.convolution":
        return source.moves, plan.pad, sizes
    pad = [list(pair) for pair in plan.pad]
    for op in source.moves:
        if op.name == "stablehlo.slice" and _cuts_the_end(op) and not any(p[1] for p in pad):
            continue
        if op.name != "stablehlo.pad":
            return source.moves, plan.pad, sizes
        low, high = (integers(op, f"edge_padding_{end}") for end in ("low", "high"))
        if any((low[0], low[-1], high[0], high[-1])):
            return source.moves, plan.pad, sizes
        for axis in range(1, rank - 1):
            pad[axis + 3 - rank][0] += low[axis]
            pad[axis + 3 - rank][1] += high[axis]
    whole = source.bytes.value.type.shape
    rows, columns = (1 if rank == 3 else whole[1], whole[rank - 2])
    border: Pad = ((pad[0][0], pad[0][1]), (pad[1][0], pad[1][1]))
    return (), border, (rows + sum(border[0]), columns + sum(border[1]))


def _cuts_the_end(op: Any) -> bool:
    """Whether a slice takes rows and columns off the end alone."""
    before, after = op.operands[0].type.shape, op.results[0].type.shape
    return (
        not any(integers(op, "start_indices"))
        and set(integers(op, "strides")) == {1}
        and (before[0], before[-1]) == (after[0], after[-1])
    )
