"""ONNX operations of which the importer gets some forms wrong, written in ones that it gets right.

Each rule takes the forms in question alone; the others stay with the importer.
"""

from typing import Any

import numpy as np

from edgec.exporters.from_onnx.pools import least_of
from edgec.exporters.from_onnx.rewriting import Rewriting

__all__ = [
    "extreme",
    "mean_variance",
    "modulo",
    "reverse_sequence",
    "space_to_depth",
]

_BOOL, _I32 = 9, 6
"""ONNX' numbers of element types."""


def modulo(work: Rewriting, node: Any) -> bool:
    """The importer gives every remainder the number's sign, and ONNX' usual one has the other's.

    By infinity a number is its own remainder; the importer subtracts no times infinity from it.
    """
    value, by = node.input
    kind, plain = work.kinds.get(value), bool(work.attributes(node).get("fmod", 0))
    if kind is None:
        return False
    rest = work.node("Mod", value, by, fmod=1)
    if np.dtype(kind).kind == "f" and not np.isfinite(work.constants.get(by, np.inf)).all():
        infinity = work.constant(np.array(np.inf, kind))
        beyond = work.node("Equal", work.node("Abs", by), infinity)
        within = work.node("Less", work.node("Abs", value), infinity)
        rest = work.node("Where", work.node("And", beyond, within), value, rest)
    elif plain:
        return False
    if not plain:
        zero = work.constant(np.zeros((), kind))
        apart = work.node("Xor", work.node("Less", rest, zero), work.node("Less", by, zero))
        moved = work.node("And", apart, work.node("Not", work.node("Equal", rest, zero)))
        rest = work.node("Where", moved, work.node("Add", rest, by), rest)
    work.node("Identity", rest, output=node.output[0])
    return True


def extreme(work: Rewriting, node: Any) -> bool:
    """`ReduceMax` and `ReduceMin` of bools, and of nothing: then the least or the greatest."""
    kind, shape = work.kinds.get(node.input[0]), work.shapes.get(node.input[0])
    after = work.shapes.get(node.output[0])
    if kind is None:
        return False
    if shape is not None and 0 in shape and after is not None and 0 not in after:
        value = least_of(kind, negated=node.op_type == "ReduceMin")
        work.node("Identity", work.constant(np.full(after, value, kind)), output=node.output[0])
        return True
    if kind != np.bool_:
        return False
    number = work.node("Cast", node.input[0], to=_I32)
    found = work.node(node.op_type, number, *node.input[1:], **work.attributes(node))
    work.node("Cast", found, output=node.output[0], to=_BOOL)
    return True


def mean_variance(work: Rewriting, node: Any) -> bool:
    """`MeanVarianceNormalization`: less the mean, by the deviation."""
    kind = work.kinds.get(node.input[0])
    if kind is None:
        return False
    axes = work.attributes(node).get("axes", [0, 2, 3])

    def mean(value: str) -> str:
        if work.versions.get("", 0) < 18:
            return work.node("ReduceMean", value, axes=axes)
        return work.node("ReduceMean", value, work.numbers(*axes))

    centred = work.node("Sub", node.input[0], mean(node.input[0]))
    deviation = work.node("Sqrt", mean(work.node("Mul", centred, centred)))
    kept = work.node("Add", deviation, work.constant(np.array(1e-9, kind)))
    work.node("Div", centred, kept, output=node.output[0])
    return True


def reverse_sequence(work: Rewriting, node: Any) -> bool:
    """Each place takes the element as far from its sequence's end, behind that its own."""
    shape = work.shapes.get(node.input[0])
    if shape is None:
        return False
    given = work.attributes(node)
    along, batch = given.get("time_axis", 0), given.get("batch_axis", 1)
    spread = [shape[along] if axis == along else 1 for axis in range(len(shape))]
    place = work.constant(np.arange(shape[along], dtype=np.int64).reshape(spread))
    lengths = [shape[batch] if axis == batch else 1 for axis in range(len(shape))]
    length = work.reshape(node.input[1], lengths)
    last = work.node("Sub", length, work.constant(np.array(1, np.int64)))
    inside = work.node("Less", place, length)
    found = work.node("Where", inside, work.node("Sub", last, place), place)
    rows = work.node("Expand", found, work.numbers(*shape))
    work.node("GatherElements", node.input[0], rows, output=node.output[0], axis=along)
    return True


def space_to_depth(work: Rewriting, node: Any) -> bool:
    """Of mode CRD: the places of a block lie within a channel, not channels within a place."""
    shape, given = work.shapes.get(node.input[0]), work.attributes(node)
    if shape is None or given.get("mode", "DCR") != "CRD":
        return False
    (batch, channels, height, width), side = shape, given["blocksize"]
    parts = [batch, channels, height // side, side, width // side, side]
    split = work.reshape(node.input[0], parts)
    turned = work.node("Transpose", split, perm=[0, 1, 3, 5, 2, 4])
    whole = [batch, channels * side * side, height // side, width // side]
    work.reshape(turned, whole, output=node.output[0])
    return True
