"""Convolutions and products of f32 to ones of bytes, written as a program does.

A value is divided by a scale, rounded and clamped to a byte's range, and multiplied with the scale
again; weights are bytes times a scale for each output. Kernels of bytes know this form
(`quantised-kernels`), whoever wrote it; where there are none, f32 computes the same.

A module imported only by what rewrites programs; it needs the compiler.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.quantising.layers import Layer
from edgec.quantising.ranges import ByteRange
from edgec.quantising.rounding import round_weights, upright
from edgec.quantising.scheme import Scheme
from edgec.quantising.sites import Site, moved_from
from edgec.toolchain.ir import write
from edgec.toolchain.ir.fold import Constants

__all__ = ["put_bytes"]

_LOW, _HIGH = -128.0, 127.0
_EIGHT = Scheme(bits=8)
_ENDS = ("func.return", "stablehlo.return")


def put_bytes(
    sites: Sequence[Site], ranges: Mapping[Any, ByteRange], tables: Sequence[Layer]
) -> dict[int, int]:
    """Write both sides of the sites in bytes, in place.

    Args:
        sites: of one module.
        ranges: of their values.
        tables: what is kept in bytes by row anyhow: a site that multiplies by one reads those.

    Returns:
        Bytes of each site's weights now, by its number; none where they are a table's.
    """
    sizes: dict[int, int] = {}
    made: set[Any] = set()
    for site in sites:
        value = site.value
        if value not in made:
            made.add(value)
            with value.context:
                _in_bytes(value, ranges[value])
        if any(_is_by(site, table) for table in tables):
            sizes[site.number] = 0
            continue
        with ir.InsertionPoint(site.op), site.op.location:
            site.op.operands[1], sizes[site.number] = _weights(site)
    return sizes


def _is_by(site: Site, table: Layer) -> bool:
    """Whether a site's outputs are a table's rows, in whose memory they are."""
    if moved_from(site.op.operands[1], Constants()) not in table.values:
        return False
    outputs = np.moveaxis(site.weights, site.axis, 0)
    return np.array_equal(outputs.reshape(len(outputs), -1), table.matrix)


def _in_bytes(value: Any, found: ByteRange) -> None:
    """Put a value as bytes stand for it in its place, wherever the program reads it.

    All who read it read bytes, so that a kernel writes them once; results stay what they were.
    """
    uses = [
        (use.owner.operation, use.operand_number)
        for use in value.uses
        if use.owner.operation.name not in _ENDS
    ]
    owner = value.owner
    if isinstance(owner, ir.Block):
        point, location = ir.InsertionPoint.at_block_begin(owner), ir.Location.unknown()
    else:
        point, location = ir.InsertionPoint.after(owner.operation), owner.operation.location
    sizes, f32 = write.shape(value), ir.F32Type.get()
    with point, location:
        scale = write.fill(found.scale, sizes, f32)
        whole = write.unary("round_nearest_even", write.binary("divide", value, scale))
        zero = write.fill(float(found.zero), sizes, f32) if found.zero else None
        if zero is not None:
            whole = write.binary("add", whole, zero)
        bounds = [write.fill(bound, (), f32) for bound in (_LOW, _HIGH)]
        whole = write.clamp(bounds[0], whole, bounds[1])
        if zero is not None:
            whole = write.binary("subtract", whole, zero)
        instead = write.binary("multiply", whole, scale)
    for op, number in uses:
        op.operands[number] = instead


def _weights(site: Site) -> tuple[Any, int]:
    """The weights as bytes times a scale for each output, and how many bytes that takes."""
    moved = np.moveaxis(site.weights, site.axis, 0)
    rounded = upright(round_weights(np.ascontiguousarray(moved.reshape(len(moved), -1)), _EIGHT))
    codes = np.moveaxis(rounded.codes.reshape(moved.shape), 0, site.axis)
    scale = rounded.scale.reshape(-1)
    f32, byte = ir.F32Type.get(), ir.IntegerType.get_signless(8)
    integers = write.convert(write.constant(np.ascontiguousarray(codes), byte), f32)
    factors = write.broadcast(write.constant(scale, f32), site.weights.shape, [site.axis])
    return write.binary("multiply", integers, factors), codes.nbytes + scale.nbytes
