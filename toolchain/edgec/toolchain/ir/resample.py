"""The operation by which passes hand on a resampling along one axis, until it is placed.

It is a `stablehlo.custom_call` to `edgec.resample`; its attributes are the axis, and the places and
weights of the elements that each element of the result is the sum of.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir.read import call_target, integers
from edgec.toolchain.match.taps import Taps

__all__ = ["TARGET", "axis_attribute", "axis_of", "is_resample", "resample", "taps_of"]

TARGET = "edgec.resample"


def resample(value: Any, axis: int, taps: Taps) -> Any:
    """The operation, where the insertion point is; its result."""
    sizes = list(value.type.shape)
    sizes[axis] = len(taps.places)
    return ir.Operation.create(
        "stablehlo.custom_call",
        results=[ir.RankedTensorType.get(sizes, value.type.element_type)],
        operands=[value],
        attributes={
            "call_target_name": ir.StringAttr.get(TARGET),
            "edgec.axis": axis_attribute(axis),
            "edgec.places": ir.DenseElementsAttr.get(
                np.ascontiguousarray(taps.places, np.int32),
                type=_table(taps.places, ir.IntegerType.get_signless(32)),
            ),
            "edgec.weights": ir.DenseElementsAttr.get(
                np.ascontiguousarray(taps.weights, np.float64),
                type=_table(taps.weights, ir.F64Type.get()),
            ),
        },
    ).result


def _table(values: Any, kind: Any) -> Any:
    return ir.RankedTensorType.get(list(values.shape), kind)


def is_resample(op: Any) -> bool:
    """Whether an operation is a resampling along one axis."""
    return call_target(op) == TARGET


def axis_attribute(axis: int) -> Any:
    """How the axis is kept, under `edgec.axis`."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), axis)


def axis_of(op: Any) -> int:
    """The axis of an operation."""
    return integers(op, "edgec.axis")[0]


def taps_of(op: Any) -> Taps:
    """The places and weights of an operation."""
    places, weights = (_numbers(op, name) for name in ("edgec.places", "edgec.weights"))
    return Taps(size=op.operands[0].type.shape[axis_of(op)], places=places, weights=weights)


def _numbers(op: Any, name: str) -> Any:
    attribute = op.attributes[name]
    sizes: Sequence[int] = ir.RankedTensorType(attribute.type).shape
    if attribute.is_splat:
        return np.full(sizes, attribute.get_splat_value().value)
    return np.array(attribute).reshape(sizes)
