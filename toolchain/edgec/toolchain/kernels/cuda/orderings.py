"""A sort of rows, or the search for the largest few, by dispatches of the kernel that sorts parts.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.kernels.cuda.library import Launch, Library
from edgec.toolchain.kernels.gpu.orderings import Parts, order_parts
from edgec.toolchain.kernels.spec import Declined
from edgec.toolchain.match.order import Order
from edgec.toolchain.match.ordering import Ordering

__all__ = ["order_rows"]

_FRACTIONS = {"f16": 10, "bf16": 7, "f32": 23}
_KINDS = (*_FRACTIONS, "i8", "i16", "i32")
_EACH = 128
"""Numbers of a warp."""


def order_rows(
    found: Ordering, arrays: Sequence[Any], kept: Sequence[int], library: Library
) -> list[Any] | Declined:
    """What is kept of arrays sorted along the last axis by the first, and places (`OrderRows`)."""
    kind = str(write.element(arrays[0]))
    if kind not in _KINDS:
        return Declined(reason=f"a sort by {kind}")
    sort = partial(_sort, order=found.order, library=library)
    return order_parts(arrays, kept, sort, least=32, part=2048, most=4096)


def _sort(call: Parts, order: Order, library: Library) -> list[Any] | Declined:
    kind = write.element(call.source)
    sizes = [call.rows, call.parts * call.kept]
    writes = {"at": write.tensor(sizes, ir.IntegerType.get_signless(32))}
    reads = {"x": call.source}
    constants: dict[str, Any] = {}
    if call.candidates is None:
        constants["p"] = None
    else:
        reads["p"] = call.candidates
    if call.is_last:
        writes["y"] = write.tensor(sizes, kind)
    else:
        constants["y"] = None
    return library.call(
        Launch(
            name=f"order_{call.size}_{kind}",
            source="order",
            grid=(call.rows, call.parts, 1),
            warps=min(32, max(1, call.size // _EACH)),
            stages=1,
            reads=reads,
            writes=writes,
            folded={
                **{"length": call.length, "count": call.count, "kept": call.kept},
                "fraction": _FRACTIONS.get(str(kind), 0),
            },
            constants={
                **constants,
                **{"BN": call.size, "DESCENDING": order.descending},
                **{"UNSIGNED": order.is_unsigned, "BY_BITS": order.by_bits},
            },
        )
    )
