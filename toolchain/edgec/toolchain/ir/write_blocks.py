"""Writes weights in blocks out as floats, in the form that `match/blocks.py` reads.

A module imported only by what rewrites programs; it needs the compiler.
"""

import math
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write

__all__ = ["floats_of_blocks"]


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
    f32 = ir.F32Type.get()
    if bits == 4:
        codes = _unpacked(write.reshape(codes, (outputs, inner // span, span // 2)))
    whole = (outputs, inner) if group == inner else (outputs, inner // group, group)
    value = write.convert(write.reshape(codes, whole), f32)
    if zero:
        value = write.binary("subtract", value, write.fill(zero, whole, f32))

    def spread(part: Any, factor: Any | None) -> Any:
        part = write.convert(write.reshape(part, whole[:-1]), f32)
        if factor is not None:
            count = math.prod(write.shape(factor)) // outputs
            together = (outputs, count, math.prod(whole[1:-1]) // count)
            factor = write.broadcast(write.reshape(factor, together[:-1]), together, (0, 1))
            part = write.binary("multiply", part, write.reshape(factor, whole[:-1]))
        return write.broadcast(part, whole, range(len(whole) - 1))

    value = write.binary("multiply", value, spread(scale, scale_factor))
    if least is not None:
        value = write.binary("add", value, spread(least, least_factor))
    return write.reshape(value, sizes)


def _unpacked(codes: Any) -> Any:
    """Codes of four bits, run by run, from bytes of two each."""
    sizes, byte = write.shape(codes), write.element(codes)
    low = write.binary("and", codes, write.fill(15, sizes, byte))
    high = write.binary("shift_right_logical", codes, write.fill(4, sizes, byte))
    return write.concatenate([low, high], len(sizes) - 1)
