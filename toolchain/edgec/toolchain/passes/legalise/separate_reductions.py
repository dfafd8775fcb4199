"""Sums and products kept apart from what uses their results in another order, for GPUs."""

import math
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.functions import blocks_inside
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["SeparateReductions"]

_ELEMENTWISE = frozenset(
    f"stablehlo.{name}"
    for name in (  # noqa: SIM905 - a list of words
        "abs add and atan2 bitcast_convert cbrt ceil clamp compare complex convert cosine "
        "count_leading_zeros divide exponential exponential_minus_one floor imag is_finite log "
        "log_plus_one logistic maximum minimum multiply negate not or popcnt power real "
        "reduce_precision remainder round_nearest_afz round_nearest_even rsqrt select shift_left "
        "shift_right_arithmetic shift_right_logical sign sine sqrt subtract tan tanh xor"
    ).split()
)

_PRODUCTS = frozenset({"stablehlo.dot_general", "stablehlo.convolution", "stablehlo.reduce_window"})


@dataclass(frozen=True)
class _Rows:
    """The axes of a value that the threads of the kernel that makes it run over, by position.

    Attributes:
        axes: those, without any of one element, which are nobody's.
        whole: whether each thread makes its own elements (a product) and not a row with others (a
            reduction).
    """

    axes: tuple[int, ...]
    whole: bool = False


@dataclass(frozen=True, kw_only=True)
class SeparateReductions:
    """A sum's or product's result that is used along other axes comes from a kernel of its own.

    iree-compile 3.13 makes one kernel of `x / sum(x)` whose threads run over the rows that were
    summed, and hand the sums to each other through workgroup memory. Where the sums are not the
    leading axes of what uses them (a softmax or a norm over any axis but the last, a sum beside a
    transposed array) a thread reads sums that others write, and there is no barrier between: wrong
    numbers, other ones at each call. Only sizes that fit its tiles go another way. Products,
    convolutions and pooling likewise, where what uses them runs over another axis, too (a broadcast
    product) or over the same in another order (a transposed one, as in gradients). A barrier
    before such a use keeps the two apart; softmax and norms over the last axis stay one kernel, and
    so does a product with what is computed with it element by element. What a convolution reads
    has a kernel of its own, too, where it is computed: weights that are converted are shared by
    threads in the same way.

    The barrier is the compiler's own between kernels: StableHLO's ends a piece of work, and the
    host waits for it in the middle of a call.

    Measured on llvmpipe: of 27 softmaxes, norms and quotients over each axis of four small shapes
    12 are wrong without it and none with it. On an H200 a ConvNeXt-T in f32 waited four times in a
    call of IREE's driver with StableHLO's barrier: 12.3 ms, where 4.5 had been.
    """

    name = "separate-reductions"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "SeparateReductions | None":
        """For programs in StableHLO with sums or products that become SPIR-V."""
        if not situation.target.is_spirv:
            return None
        return cls() if situation.operations & {"stablehlo.reduce", *_PRODUCTS} else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many values were fenced."""
        with module.context:
            return sum(_fence_block(block) for block in blocks_inside(module.operation))


def _fence_block(block: Any) -> int:
    from edgec.toolchain.ir import write as graph

    count = 0
    rows: dict[Any, _Rows] = {}
    behind: dict[Any, Any] = {}
    for op in [each.operation for each in block.operations]:
        if not graph.is_static(*op.operands, *op.results):
            continue
        if op.name == graph.FENCE:
            continue
        for index, value in enumerate(op.operands):
            if value in behind:
                op.operands[index] = behind[value]
        if op.name == "stablehlo.convolution":
            for index in [n for n, value in enumerate(op.operands) if _is_computed(value)]:
                behind[op.operands[index]] = _fence(op, index)
                count += 1
        known = [rows.get(value) for value in op.operands]
        after, apart = _followed(op, known)
        for index in apart:
            value = op.operands[index]
            if value not in rows:
                continue
            fenced = _fence(op, index)
            if rows[value].whole:
                # One kernel makes a product; what else uses it does not make it again.
                behind[value] = fenced
            count += 1
        if after is not None:
            rows.update(dict.fromkeys(op.results, after))
    return count


def _is_computed(value: Any) -> bool:
    """Whether a value comes from an operation on each element, seen through reshapes."""
    from iree.compiler import ir

    while not isinstance(value.owner, ir.Block):
        maker = value.owner.operation
        if maker.name != "stablehlo.reshape":
            return maker.name in _ELEMENTWISE
        value = maker.operands[0]
    return False


def _followed(op: Any, known: list[_Rows | None]) -> tuple[_Rows | None, list[int]]:
    """The rows of an operation's results, and which operands must come from kernels before."""
    from edgec.toolchain.ir import write as graph

    if op.name == "stablehlo.reduce":
        return _reduced(op, known)
    if op.name in _PRODUCTS:
        return _all_of(op.results[0]), []
    first = next((each for each in known if each is not None), None)
    if first is None or not op.results:
        return None, []
    value, result = op.operands[0], op.results[0]
    if op.name == "stablehlo.broadcast_in_dim":
        placed = graph.integers(op, "broadcast_dimensions")
        mapped = _Rows(tuple(placed[axis] for axis in first.axes), first.whole)
        wanted = _leading(result, None if first.whole else len(mapped.axes))
        return (mapped, []) if mapped.axes == wanted else (None, [0])
    if op.name == "stablehlo.reshape":
        reshaped = _all_of(result) if first.whole else _reshaped(value, result, first.axes)
        return (reshaped, []) if reshaped is not None else (None, [0])
    if op.name == "stablehlo.transpose":
        order = graph.integers(op, "permutation")
        counted = [axis for axis in order if graph.shape(value)[axis] != 1]
        if counted != sorted(counted):
            return None, [0]
        return _Rows(tuple(order.index(axis) for axis in first.axes), first.whole), []
    if op.name in _ELEMENTWISE:
        return first, [n for n, each in enumerate(known) if each not in (None, first)]
    return None, []


def _reduced(op: Any, known: list[_Rows | None]) -> tuple[_Rows, list[int]]:
    """A reduction goes on in the kernel of another one where both have the same rows."""
    from edgec.toolchain.ir import write as graph

    away = graph.integers(op, "dimensions")
    value = op.operands[0]
    kept = [axis for axis in range(len(graph.shape(value))) if axis not in away]
    rows = tuple(axis for axis in kept if graph.shape(value)[axis] != 1)
    apart = [n for n, each in enumerate(known) if each not in (None, _Rows(rows))]
    return _Rows(tuple(kept.index(axis) for axis in rows)), apart


def _all_of(value: Any) -> _Rows:
    """Where each thread makes its own elements of a value."""
    return _Rows(_leading(value, None), whole=True)


def _leading(value: Any, count: int | None) -> tuple[int, ...]:
    """The first axes of more than one element, or all of them."""
    from edgec.toolchain.ir import write as graph

    return tuple(axis for axis, size in enumerate(graph.shape(value)) if size != 1)[:count]


def _reshaped(before: Any, after: Any, rows: tuple[int, ...]) -> _Rows | None:
    """Where the rows are in a reshaped value; None if they are no axes of their own there."""
    from edgec.toolchain.ir import write as graph

    wanted = math.prod(graph.shape(before)[axis] for axis in rows)
    leading = _leading(after, None)
    for count in range(len(leading) + 1):
        if math.prod(graph.shape(after)[axis] for axis in leading[:count]) == wanted:
            return _Rows(leading[:count])
    return None


def _fence(op: Any, index: int) -> Any:
    """Put a barrier before one operand; what is behind it."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    with op.location, ir.InsertionPoint(op):
        op.operands[index] = fenced = graph.fence(op.operands[index])
    return fenced
