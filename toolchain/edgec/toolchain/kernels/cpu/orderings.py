"""A sort, or the search for the largest few, by a call of the CPU's kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Sequence
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.kernels.cpu.library import Library
from edgec.toolchain.kernels.cpu.source.ordering import Keys, ordering_kernel
from edgec.toolchain.kernels.cpu.source.ordering import Ordering as Rows
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.spec import Declined
from edgec.toolchain.match.ordering import Ordering

__all__ = ["order_rows"]

_KINDS = ("i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64")


def order_rows(
    found: Ordering, arrays: Sequence[Any], kept: Sequence[int], library: Library, unit: VectorUnit
) -> list[Any] | Declined:
    """What is kept of arrays sorted along the last axis by the first, and places (`OrderRows`)."""
    kinds = [write.element(array) for array in arrays]
    odd = sorted({str(kind) for kind in kinds}.difference(_KINDS))
    if odd:
        return Declined(reason=f"a sort of {' and '.join(odd)}")
    along = write.shape(arrays[0])[-1]
    rows = Rows(
        rows=math.prod(kept[:-1]),
        length=along,
        kept=kept[-1],
        keys=Keys(kind=str(kinds[0]), order=found.order),
        others=tuple(map(str, kinds[1:])),
    )
    text, own = ordering_kernel("NAME", rows, unit)
    i32 = ir.IntegerType.get_signless(32)
    buffers = (ir.IntegerType.get_signless(int(rows.keys.word[1:])), i32)
    made = library.call_all(
        f"edgec_{'sort' if kept[-1] == along else f'first_{kept[-1]}'}_{rows.rows}x{along}",
        text,
        arrays,
        [
            *(write.tensor(kept, kind) for kind in (*kinds, i32)),
            *(write.tensor([size], kind) for size, kind in zip(own, buffers, strict=False)),
        ],
    )
    return made[: len(kinds) + 1]
