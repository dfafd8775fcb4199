"""A sort of rows on a GPU by kernels that sort parts of them: all at once, or the first few.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.kernels.spec import Declined

__all__ = ["Parts", "order_parts"]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """One call of a kernel: what it sorts of each row.

    Attributes:
        source: the numbers; the last axis is sorted.
        candidates: places that are sorted, [rows, count], -1 for none; None for all of a row.
        rows, length: of the numbers.
        count: candidates of a row.
        parts: of how many parts, each by itself.
        size: of how many candidates; a power of two.
        kept: how many of each part are wanted.
    """

    source: Any
    candidates: Any | None
    rows: int
    length: int
    count: int
    parts: int
    size: int
    kept: int

    @property
    def is_last(self) -> bool:
        """Whether it gives the numbers, too, and not their places alone."""
        return self.parts == 1


def order_parts(
    arrays: Sequence[Any],
    kept: Sequence[int],
    sort: Callable[[Parts], Sequence[Any] | Declined],
    *,
    least: int,
    part: int,
    most: int,
) -> list[Any] | Declined:
    """What is kept of arrays whose last axis is sorted by the first, and the places (`OrderRows`).

    Args:
        arrays, kept: see `OrderRows`.
        sort: calls the kernel: the places (i32) of the first ones of each part, in order, and of
            the last call these numbers, too.
        least: candidates that a kernel sorts, at least.
        part: candidates of a part where there are several.
        most: candidates of the only part.
    """
    source = arrays[0]
    along, rows, wanted = write.shape(source)[-1], math.prod(kept[:-1]), kept[-1]
    candidates, count = None, along
    while True:
        parts = 1 if count <= most else math.ceil(count / part)
        if parts > 1 and (wanted > part or 2 * parts * wanted > count):
            return Declined(reason=f"the first {wanted} of {along}")
        size = part if parts > 1 else max(least, 1 << (count - 1).bit_length())
        found = sort(
            Parts(
                source=source,
                candidates=candidates,
                rows=rows,
                length=along,
                count=count,
                parts=parts,
                size=size,
                kept=wanted,
            )
        )
        if isinstance(found, Declined):
            return found
        if parts == 1:
            break
        candidates, count = found[0], parts * wanted
    places = write.reshape(found[0], kept)
    others = [_taken(array, places) for array in arrays[1:]]
    return [write.reshape(found[1], kept), *others, places]


def _taken(array: Any, places: Any) -> Any:
    """Elements along the last axis: `array` is [..., length], `places` (i32) [..., kept]."""
    sizes, kept = write.shape(array), write.shape(places)
    rows, i32 = math.prod(sizes[:-1]), ir.IntegerType.get_signless(32)
    line = write.binary(
        "multiply",
        write.iota([rows, kept[-1]], 0, i32),
        write.fill(sizes[-1], [rows, kept[-1]], i32),
    )
    at = write.binary("add", line, write.reshape(places, [rows, kept[-1]]))
    whole = write.reshape(array, [math.prod(sizes)])
    found = write.taken(whole, write.reshape(at, [math.prod(kept)]))
    return write.reshape(found, kept)
