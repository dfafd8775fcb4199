"""Reductions kept apart from what uses their results in another order, for GPUs."""

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

# The axes of a value that the threads of a reduction run over, by position; None where there is
# no reduction behind it. An axis of one element is nobody's.
_Rows = tuple[int, ...] | None


@dataclass(frozen=True, kw_only=True)
class SeparateReductions:
    """A reduction's result that is used along other axes than its own comes from its own kernel.

    iree-compile 3.13 makes one kernel of `x / sum(x)` whose threads run over the rows that were
    summed, and hand the sums to each other through workgroup memory. Where the sums are not the
    leading axes of what uses them (a softmax or a norm over any axis but the last, a sum beside a
    transposed array) a thread reads sums that others write, and there is no barrier between: wrong
    numbers, other ones at each call. Only sizes that fit its tiles go another way. A barrier
    before such a use keeps the two apart; softmax and norms over the last axis stay one kernel.

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
        """For programs in StableHLO with a reduction that become SPIR-V."""
        if not situation.target.is_spirv:
            return None
        return cls() if "stablehlo.reduce" in situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many values were fenced."""
        with module.context:
            return sum(_fence_block(block) for block in blocks_inside(module.operation))


def _fence_block(block: Any) -> int:
    from edgec.toolchain.ir import write as graph

    count = 0
    rows: dict[Any, _Rows] = {}
    for op in [each.operation for each in block.operations]:
        if not graph.is_static(*op.operands, *op.results):
            continue
        if op.name == graph.FENCE:
            continue
        known = [rows.get(value) for value in op.operands]
        after, apart = _followed(op, known)
        for index in apart:
            if rows.get(op.operands[index]) is None:
                continue
            _fence(op, index, rows)
            count += 1
        if after is not None:
            rows.update(dict.fromkeys(op.results, after))
    return count


def _followed(op: Any, known: list[_Rows]) -> tuple[_Rows, list[int]]:
    """The rows of an operation's results, and which operands must come from kernels before."""
    from edgec.toolchain.ir import write as graph

    if op.name == "stablehlo.reduce":
        return _reduced(op, known)
    if all(each is None for each in known):
        return None, []
    value = op.operands[0]
    if op.name == "stablehlo.broadcast_in_dim":
        placed = graph.integers(op, "broadcast_dimensions")
        mapped = tuple(placed[axis] for axis in known[0] or ())
        leads = mapped == _leading(op.results[0], len(mapped))
        return (mapped, []) if leads else (None, [0])
    if op.name == "stablehlo.reshape":
        mapped_ = _reshaped(value, op.results[0], known[0] or ())
        return (mapped_, []) if mapped_ is not None else (None, [0])
    if op.name == "stablehlo.transpose":
        order = graph.integers(op, "permutation")
        counted = [axis for axis in order if graph.shape(value)[axis] != 1]
        if counted != sorted(counted):
            return None, [0]
        return tuple(order.index(axis) for axis in known[0] or ()), []
    if op.name in _ELEMENTWISE:
        first = next(each for each in known if each is not None)
        return first, [n for n, each in enumerate(known) if each not in (None, first)]
    return None, []


def _reduced(op: Any, known: list[_Rows]) -> tuple[_Rows, list[int]]:
    """A reduction goes on in the kernel of another one where both have the same rows."""
    from edgec.toolchain.ir import write as graph

    away = graph.integers(op, "dimensions")
    value = op.operands[0]
    kept = [axis for axis in range(len(graph.shape(value))) if axis not in away]
    rows = tuple(axis for axis in kept if graph.shape(value)[axis] != 1)
    apart = [n for n, each in enumerate(known) if each not in (None, rows)]
    return tuple(kept.index(axis) for axis in rows), apart


def _leading(value: Any, count: int) -> tuple[int, ...]:
    """The first axes of more than one element."""
    from edgec.toolchain.ir import write as graph

    return tuple(axis for axis, size in enumerate(graph.shape(value)) if size != 1)[:count]


def _reshaped(before: Any, after: Any, rows: tuple[int, ...]) -> _Rows:
    """Where the rows are in a reshaped value; None if they are no axes of their own there."""
    from edgec.toolchain.ir import write as graph

    wanted = math.prod(graph.shape(before)[axis] for axis in rows)
    leading = _leading(after, len(graph.shape(after)))
    for count in range(len(leading) + 1):
        if math.prod(graph.shape(after)[axis] for axis in leading[:count]) == wanted:
            return leading[:count]
    return None


def _fence(op: Any, index: int, rows: dict[Any, _Rows]) -> None:
    """Put a barrier before one operand."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    value = op.operands[index]
    with op.location, ir.InsertionPoint(op):
        op.operands[index] = graph.fence(value)
