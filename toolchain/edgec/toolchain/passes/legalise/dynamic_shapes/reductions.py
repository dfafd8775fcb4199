"""Reductions and sorts on dynamic shapes that the compiler takes, and gets wrong or too large.

A module imported only by a pass that runs; it needs the compiler.
"""

from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.read import element_type, shape_of
from edgec.toolchain.passes.legalise.dynamic_shapes.emit import Emitter

__all__ = ["reduce", "sort"]

_ON_INTEGERS = {"stablehlo.or": "stablehlo.maximum", "stablehlo.and": "stablehlo.minimum"}


def reduce(e: Emitter) -> bool:
    """`any` and `all` are computed on i32: in booleans they come out wrong on Vulkan."""
    op = e.op
    body = list(op.regions[0].blocks[0].operations)
    truth = ir.IntegerType.get_signless(1)
    if len(op.results) != 1 or len(body) != 2 or element_type(op.results[0]) != truth:
        return False
    name = _ON_INTEGERS.get(body[0].operation.name)
    if name is None:
        return False
    i32 = ir.IntegerType.get_signless(32)
    values = [_as(e, v, i32) for v in op.operands]
    total = ir.Operation.create(
        op.name,
        results=[e.tensor(shape_of(op.results[0]), i32)],
        operands=values,
        attributes={"dimensions": op.attributes["dimensions"]},
        regions=1,
    )
    scalar = e.tensor([], i32)
    block = total.regions[0].blocks.append(scalar, scalar)
    with ir.InsertionPoint(block):
        combined = e.create(name, scalar, list(block.arguments))
        ir.Operation.create("stablehlo.return", operands=[combined])
    e.finish(_as(e, total.results[0], truth))
    return True


def _as(e: Emitter, value: Any, kind: Any) -> Any:
    return e.create("stablehlo.convert", e.tensor(shape_of(value), kind), [value])


def sort(e: Emitter) -> bool:
    """It sorts in place, memory of its own; a result that nobody reads is kept alive.

    Otherwise the compiler gives that result a place on the stack, of a size it does not know.
    """
    for i, value in enumerate(e.op.operands):
        e.op.operands[i] = e.owned(value, always=True)
    unread = [r for r in e.op.results if not any(True for _ in r.uses)]
    if not unread or len(unread) == len(e.op.results):
        return False
    with ir.InsertionPoint.after(e.op):
        for result in unread:
            ir.Operation.create(
                "util.optimization_barrier", results=[result.type], operands=[result]
            )
    return False
