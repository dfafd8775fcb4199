"""A sort of rows, or the search for the largest few, by dispatches of the kernel that sorts parts.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.kernels.gpu.orderings import Parts, order_parts
from edgec.toolchain.kernels.spec import Declined
from edgec.toolchain.kernels.vulkan import shaders
from edgec.toolchain.kernels.vulkan.forms import MOST_GROUPS
from edgec.toolchain.kernels.vulkan.library import Library
from edgec.toolchain.match.order import Order
from edgec.toolchain.match.ordering import Ordering

__all__ = ["order_rows"]

_WORD = 32
_MOST = 1024
"""Numbers that a workgroup sorts: 8 bytes of shared memory each, of which any device has 16 KB."""
_THREADS = 128


def order_rows(
    found: Ordering, arrays: Sequence[Any], kept: Sequence[int], library: Library
) -> list[Any] | Declined:
    """What is kept of arrays sorted along the last axis by the first, and places (`OrderRows`)."""
    if not library.compiles:
        return Declined(reason="a kernel that needs edgec[vulkan] to be compiled")
    source = arrays[0]
    kind = write.element(source)
    order = found.order
    if kind.width > _WORD:
        return Declined(reason=f"a sort by {kind}")
    wide = source
    if kind.width < _WORD:
        if order.by_bits or order.is_unsigned:
            return Declined(reason=f"a sort by the bits of {kind}")
        floats = isinstance(kind, ir.FloatType)
        word = ir.F32Type.get() if floats else ir.IntegerType.get_signless(_WORD)
        wide = write.convert(source, word)
    sort = partial(_sort, order=order, library=library)
    made = order_parts([wide, *arrays[1:]], kept, sort, least=2 * _WORD, part=_MOST, most=_MOST)
    if isinstance(made, Declined):
        return made
    return [write.convert(made[0], kind), *made[1:]]


def _sort(call: Parts, order: Order, library: Library) -> list[Any] | Declined:
    if max(call.parts, call.rows) > MOST_GROUPS:
        return Declined(reason=f"{call.rows} rows of {call.parts} parts")
    kind = write.element(call.source)
    reads = [call.source, *([] if call.candidates is None else [call.candidates])]
    sizes = [call.rows, call.parts * call.kept]
    results = [write.tensor(sizes, ir.IntegerType.get_signless(_WORD))]
    if call.is_last:
        results.append(write.tensor(sizes, kind))
    shader = shaders.order(
        call.size,
        min(_THREADS, call.size // 2),
        {
            "FLOATS": isinstance(kind, ir.FloatType),
            "BY_BITS": order.by_bits,
            "UNSIGNED": order.is_unsigned,
            "DESCENDING": order.descending,
            "CANDIDATES": call.candidates is not None,
            "LAST": call.is_last,
        },
    )
    numbers = {"length": call.length, "count": call.count, "kept": call.kept}
    return library.call_all(shader, (call.parts, call.rows, 1), numbers, reads, results)
