"""Windowed reductions with dynamic shapes: running sums as scans, the rest as `linalg.generic`.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.read import (
    element_type,
    integers,
    is_float,
    is_unsigned,
    shape_of,
)
from edgec.toolchain.passes.legalise.dynamic_shapes.emit import Emitter, axes
from edgec.toolchain.passes.legalise.dynamic_shapes.moves import padded
from edgec.toolchain.passes.legalise.dynamic_shapes.sizes import Size, constant

__all__ = ["dynamic_reduce_window", "reduce_window"]


@dataclass(frozen=True, kw_only=True)
class _Window:
    """What a windowed reduction does along every axis, and the block that combines two elements."""

    window: Sequence[Size]
    stride: Sequence[int]
    base: Sequence[int]
    spread: Sequence[int]
    low: Sequence[Size]
    high: Sequence[Size]
    combine: Any


def reduce_window(e: Emitter) -> bool:
    """`reduce_window` whose windows slide over a dynamic axis with padding or dilation."""
    rank = len(shape_of(e.op.results[0]))
    one = [1] * rank
    window = integers(e.op, "window_dimensions")
    padding = integers(e.op, "padding", [0] * 2 * rank)
    return _rewrite(
        e,
        _Window(
            window=[constant(n) for n in window],
            stride=integers(e.op, "window_strides", one),
            base=integers(e.op, "base_dilations", one),
            spread=integers(e.op, "window_dilations", one),
            low=[constant(n) for n in padding[::2]],
            high=[constant(n) for n in padding[1::2]],
            combine=e.op.regions[0].blocks[0],
        ),
    )


def dynamic_reduce_window(e: Emitter) -> bool:
    """The custom call by which JAX says `reduce_window` with sizes known at run time."""
    count = len(e.op.results)
    window, stride, base, spread, padding = (
        e.sizes.elements(v) for v in list(e.op.operands)[2 * count :]
    )
    fixed = [[s.number for s in sizes] for sizes in (stride, base, spread)]
    if any(n is None for numbers in fixed for n in numbers):
        return False
    reducer = ir.FlatSymbolRefAttr(e.op.attributes["called_computations"][0]).value
    function = e.function(reducer)
    if function is None:
        return False
    steps = [[n or 1 for n in numbers] for numbers in fixed]
    return _rewrite(
        e,
        _Window(
            window=window,
            stride=steps[0],
            base=steps[1],
            spread=steps[2],
            low=padding[::2],
            high=padding[1::2],
            combine=function.regions[0].blocks[0],
        ),
    )


def _rewrite(e: Emitter, how: _Window) -> bool:
    count = len(e.op.results)
    if not _is_convertible(how.combine):
        return False
    inputs = [e.operand(i) for i in range(count)]
    initial = [e.scalar(e.operand(count + i)) for i in range(count)]
    unsigned = [is_unsigned(element_type(r)) for r in e.op.results]
    axis = _running_axis(e.sizes.of(inputs[0]), how)
    if axis is not None and count == 1:
        backwards = how.low[axis] == constant(0)
        e.finish(_scan(e, inputs[0], initial[0], how.combine, axis, backwards, unsigned))
        return True
    interior = [constant(n - 1) for n in how.base]
    spaced = [
        padded(e, value, how.low, how.high, interior, scalar)
        for value, scalar in zip(inputs, initial, strict=True)
    ]
    shape = e.sizes.of(e.op.results[0])
    rank = len(shape)
    at = axes(range(2 * rank))
    read = [at[i] * how.stride[i] + at[rank + i] * how.spread[i] for i in range(rank)]
    frame = e.empty(how.window, ir.F32Type.get())
    e.finish(
        *e.generics(
            [*spaced, frame],
            [*[read] * count, at[rank:]],
            [e.filled(shape, scalar) for scalar in initial],
            [at[:rank]] * count,
            2 * rank,
            lambda arguments: _combined(
                e, how.combine, [*arguments[count + 1 :], *arguments[:count]], unsigned * 2
            ),
            reduced=rank,
        )
    )
    return True


def _running_axis(shape: Sequence[Size], how: _Window) -> int | None:
    """The axis of a running reduction: its window is the whole axis, to one side."""
    one, zero = constant(1), constant(0)
    if any(n != 1 for n in (*how.stride, *how.base, *how.spread)):
        return None
    wide = [i for i, size in enumerate(how.window) if size != one]
    if len(wide) != 1:
        return None
    axis = wide[0]
    before, after = how.low[axis], how.high[axis]
    if how.window[axis] != shape[axis] or any(
        s != zero for s in (*how.low, *how.high) if s not in (before, after)
    ):
        return None
    rest = shape[axis] - one
    return axis if (before, after) in ((rest, zero), (zero, rest)) else None


def _scan(
    e: Emitter,
    value: Any,
    initial: Any,
    combine: Any,
    axis: int,
    backwards: bool,
    unsigned: Sequence[bool],
) -> Any:
    shape = e.sizes.of(value)
    kind = element_type(value)
    turn = {"dimensions": ir.DenseI64ArrayAttr.get([axis])}
    if backwards:
        value = e.create("stablehlo.reverse", value.type, [value], turn)
    carried = [s for i, s in enumerate(shape) if i != axis]
    outputs = [e.empty(shape, kind), e.filled(carried, initial)]
    op = ir.Operation.create(
        "iree_linalg_ext.scan",
        results=[v.type for v in outputs],
        operands=[value, *outputs],
        attributes={
            "dimension": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), axis),
            "inclusive": ir.BoolAttr.get(True),
        },
        regions=1,
    )
    block = op.regions[0].blocks.append(kind, kind)
    with ir.InsertionPoint(block):
        yielded = _combined(e, combine, list(block.arguments), [unsigned[0]] * 2)
        ir.Operation.create("iree_linalg_ext.yield", operands=yielded)
    result = op.results[0]
    return e.create("stablehlo.reverse", result.type, [result], turn) if backwards else result


# From a StableHLO block on tensors of rank 0 to scalars ------------------------------------

# name -> (float operation, signed, unsigned); None where there is none
_BINARY: Mapping[str, tuple[str | None, str | None, str | None]] = {
    "stablehlo.add": ("arith.addf", "arith.addi", "arith.addi"),
    "stablehlo.subtract": ("arith.subf", "arith.subi", "arith.subi"),
    "stablehlo.multiply": ("arith.mulf", "arith.muli", "arith.muli"),
    "stablehlo.divide": ("arith.divf", None, None),
    "stablehlo.maximum": ("arith.maximumf", "arith.maxsi", "arith.maxui"),
    "stablehlo.minimum": ("arith.minimumf", "arith.minsi", "arith.minui"),
    "stablehlo.and": (None, "arith.andi", "arith.andi"),
    "stablehlo.or": (None, "arith.ori", "arith.ori"),
    "stablehlo.xor": (None, "arith.xori", "arith.xori"),
}
_UNARY: Mapping[str, str] = {
    "stablehlo.abs": "math.absf",
    "stablehlo.exponential": "math.exp",
    "stablehlo.exponential_minus_one": "math.expm1",
    "stablehlo.log": "math.log",
    "stablehlo.log_plus_one": "math.log1p",
    "stablehlo.negate": "arith.negf",
}
# direction -> (float predicate, signed, unsigned), the numbers of arith's enumerations
_PREDICATES: Mapping[str, tuple[int, int, int]] = {
    "EQ": (1, 0, 0),
    "NE": (13, 1, 1),
    "LT": (4, 2, 6),
    "LE": (5, 3, 7),
    "GT": (2, 4, 8),
    "GE": (3, 5, 9),
}
_OTHERS = ("stablehlo.compare", "stablehlo.select", "stablehlo.constant")


def _is_convertible(block: Any) -> bool:
    """Whether every operation of a block has a scalar form here."""
    *body, _ = block.operations
    for op in body:
        if any(shape_of(v) for v in (*op.operands, *op.results)):
            return False
        kind = element_type(op.results[0])
        if op.operation.name in _BINARY:
            if _BINARY[op.operation.name][_column(kind)] is None:
                return False
        elif op.operation.name in _UNARY:
            if not is_float(kind):
                return False
        elif op.operation.name not in _OTHERS:
            return False
    return True


def _column(kind: Any) -> int:
    if is_float(kind):
        return 0
    return 2 if is_unsigned(kind) or str(kind) == "i1" else 1


def _combined(
    e: Emitter, block: Any, arguments: Sequence[Any], unsigned: Sequence[bool]
) -> list[Any]:
    """The block's operations on scalars at the insertion point; what it returns."""
    values = dict(zip(block.arguments, arguments, strict=True))
    *body, end = block.operations
    for each in body:
        op = each.operation
        operands = [values[v] for v in op.operands]
        values[op.results[0]] = _scalar_operation(e, op, operands)
    return [values[v] for v in end.operands]


def _scalar_operation(e: Emitter, op: Any, operands: Sequence[Any]) -> Any:
    if op.name in _BINARY:
        name = _BINARY[op.name][_column(element_type(op.operands[0]))]
        return e.create(str(name), operands[0].type, operands)
    if op.name in _UNARY:
        return e.create(_UNARY[op.name], operands[0].type, operands)
    if op.name == "stablehlo.select":
        return e.create("arith.select", operands[1].type, operands)
    if op.name == "stablehlo.constant":
        kind = element_type(op.results[0])
        value = op.attributes["value"].get_splat_value()
        if is_unsigned(kind):
            kind = ir.IntegerType.get_signless(ir.IntegerType(kind).width)
            value = ir.IntegerAttr.get(kind, value.value)
        return e.create("arith.constant", kind, [], {"value": value})
    column = _column(element_type(op.operands[0]))
    direction = next(d for d in _PREDICATES if d in str(op.attributes["comparison_direction"]))
    number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), _PREDICATES[direction][column])
    name = "arith.cmpf" if column == 0 else "arith.cmpi"
    truth = ir.IntegerType.get_signless(1)
    return e.create(name, truth, operands, {"predicate": number})
