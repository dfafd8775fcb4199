"""Writes weights in blocks out as floats, in the form that `match/blocks.py` reads.

A module imported only by what rewrites programs; it needs the compiler.
"""

import math
from collections.abc import Sequence
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write

__all__ = ["floats_of_blocks", "rows_of_blocks"]


def floats_of_blocks(
    codes: Any,
    scale: Any,
    least: Any | None,
    *,
    sizes: tuple[int, int],
    group: int,
    bits: int,
    span: int,
    zero: float,
    scale_factor: Any | None = None,
    least_factor: Any | None = None,
) -> Any:
    """`(code - zero) * scale + least` in f32, outputs x inner.

    Args:
        codes: signed bytes in any sizes; of four bits each holds two codes.
        scale, least: for each group, in any sizes; None for nothing that is added.
        sizes: outputs and inner.
        group: neighbours along inner that share numbers.
        bits: of a code, 8 or 4.
        span: of four bits, how many neighbours lie in half as many bytes.
        zero: what is taken from every code.
        scale_factor, least_factor: in f32, what integers among these are multiplied with, one for
            some neighbouring groups; None where they are floats.
    """
    outputs, inner = sizes

    def by_output(part: Any | None) -> Any | None:
        if part is None or write.shape(part)[0] == outputs:
            return part
        return write.reshape(part, (outputs, math.prod(write.shape(part)) // outputs))

    return rows_of_blocks(
        by_output(codes),
        by_output(scale),
        by_output(least),
        lead=1,
        inner=inner,
        group=group,
        bits=bits,
        span=span,
        zero=zero,
        scale_factor=by_output(scale_factor),
        least_factor=by_output(least_factor),
    )


def rows_of_blocks(
    codes: Any,
    scale: Any,
    least: Any | None,
    *,
    lead: int,
    inner: int,
    group: int,
    bits: int,
    span: int,
    zero: float,
    scale_factor: Any | None = None,
    least_factor: Any | None = None,
) -> Any:
    """`(code - zero) * scale + least` in f32 of rows along some axes, whose sizes may be open.

    Args:
        codes, scale, least, scale_factor, least_factor: as of `floats_of_blocks`, each with those
            axes first.
        lead: how many axes count rows.
        inner: weights of a row.
        group, bits, span, zero: as there.
    """
    f32 = ir.F32Type.get()

    def cut(value: Any, sizes: Sequence[int]) -> Any:
        return _sized("reshape", value, (*write.shape(value)[:lead], *sizes))

    def repeated(value: Any, count: int) -> Any:
        return _sized("broadcast_in_dim", value, (*write.shape(value), count))

    if bits == 4:
        codes = _unpacked(cut(codes, (inner // span, span // 2)))
    whole = (inner,) if group == inner else (inner // group, group)
    value = write.convert(cut(codes, whole), f32)
    if zero:
        value = write.binary("subtract", value, write.fill_like(value, zero, f32))

    def spread(part: Any, factor: Any | None) -> Any:
        part = write.convert(cut(part, whole[:-1]), f32)
        if factor is not None:
            count = math.prod(write.shape(factor)[lead:])
            shared = math.prod(whole[:-1]) // count
            factor = cut(repeated(cut(factor, (count,)), shared), whole[:-1])
            part = write.binary("multiply", part, factor)
        return repeated(part, whole[-1])

    value = write.binary("multiply", value, spread(scale, scale_factor))
    if least is not None:
        value = write.binary("add", value, spread(least, least_factor))
    return cut(value, (inner,))


def _sized(name: str, value: Any, sizes: Sequence[int]) -> Any:
    """A value in other sizes; open ones are those of its own axes at the same places.

    Args:
        name: `reshape`, or `broadcast_in_dim` along new last axes.
        value: what is given them.
        sizes: of the result.
    """
    old, open_ = write.shape(value), ir.ShapedType.get_dynamic_size()
    if old == tuple(sizes):
        return value
    axes = range(len(old))
    if open_ not in sizes:
        is_moved = name == "reshape"
        return write.reshape(value, sizes) if is_moved else write.broadcast(value, sizes, axes)
    whole = ir.IntegerType.get_signless(32)
    parts = []
    for axis, size in enumerate(sizes):
        if size != open_:
            parts.append(write.fill(size, (1,), whole))
            continue
        number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), axis)
        own = write.create(
            "stablehlo.get_dimension_size", write.tensor((), whole), [value], {"dimension": number}
        )
        parts.append(write.create("stablehlo.reshape", write.tensor((1,), whole), [own]))
    attributes = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get(list(axes))}
    return write.create(
        f"stablehlo.dynamic_{name}",
        write.tensor(sizes, write.element(value)),
        [value, write.concatenate(parts, 0)],
        attributes if name == "broadcast_in_dim" else {},
    )


def _unpacked(codes: Any) -> Any:
    """Codes of four bits, run by run, from bytes of two each."""
    byte = write.element(codes)
    low = write.binary("and", codes, write.fill_like(codes, 15, byte))
    high = write.binary("shift_right_logical", codes, write.fill_like(codes, 4, byte))
    return write.concatenate([low, high], len(write.shape(codes)) - 1)
