"""A sort of rows, or the search for the largest few, by dispatches of the kernel that sorts parts.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Sequence
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.kernels.cuda.library import Launch, Library
from edgec.toolchain.kernels.gpu.rows_taken import taken
from edgec.toolchain.kernels.spec import Declined
from edgec.toolchain.match.ordering import Ordering

__all__ = ["order_rows"]

_FRACTIONS = {"f16": 10, "bf16": 7, "f32": 23}
_KINDS = (*_FRACTIONS, "i8", "i16", "i32")
_LEAST, _PART, _MOST = 32, 2048, 4096
"""Numbers that a program sorts: at least, where a row has parts, and at most."""
_EACH = 128
"""Numbers of a warp."""


def order_rows(
    found: Ordering, arrays: Sequence[Any], kept: Sequence[int], library: Library
) -> list[Any] | Declined:
    """What is kept of arrays whose last axis is sorted by the first, and the places (`Order`)."""
    source = arrays[0]
    kind, along = str(write.element(source)), write.shape(source)[-1]
    if kind not in _KINDS:
        return Declined(reason=f"a sort by {kind}")
    parts = 1 if along <= _MOST else math.ceil(along / _PART)
    if parts > 1 and (kept[-1] > _PART or parts * kept[-1] > _MOST):
        return Declined(reason=f"the first {kept[-1]} of {along}")
    rows = math.prod(kept[:-1])
    first = _launch(found, source, None, rows, kept[-1], parts)
    answer = library.call(first)
    if isinstance(answer, Declined):
        return answer
    if parts > 1:
        answer = library.call(_launch(found, source, answer[0], rows, kept[-1], 1))
        if isinstance(answer, Declined):
            return answer
    places, values = answer
    places = write.reshape(places, kept)
    others = [taken(array, places) for array in arrays[1:]]
    return [write.reshape(values, kept), *others, places]


def _launch(
    found: Ordering, source: Any, candidates: Any | None, rows: int, kept: int, parts: int
) -> Launch:
    """The call that sorts all parts of rows, or the candidates that came of these."""
    kind, along = write.element(source), write.shape(source)[-1]
    count = along if candidates is None else math.prod(write.shape(candidates)) // rows
    size = max(_LEAST, 1 << (count - 1).bit_length()) if parts == 1 else _PART
    i32 = ir.IntegerType.get_signless(32)
    sizes = [rows, parts * kept]
    constants: dict[str, Any] = {} if candidates is not None else {"p": None}
    writes = {"at": write.tensor(sizes, i32)}
    if parts == 1:
        writes["y"] = write.tensor(sizes, kind)
    else:
        constants["y"] = None
    return Launch(
        name=f"order_{size}_{kind}",
        source="order",
        grid=(parts, rows, 1),
        warps=min(32, max(1, size // _EACH)),
        stages=1,
        reads={"x": source, **({} if candidates is None else {"p": candidates})},
        writes=writes,
        folded={
            **{"length": along, "count": count, "kept": kept},
            "fraction": _FRACTIONS.get(str(kind), 0),
        },
        constants={
            **constants,
            **{"BN": size, "DESCENDING": found.order.descending},
            **{"UNSIGNED": found.order.is_unsigned, "BY_BITS": found.order.by_bits},
        },
    )
