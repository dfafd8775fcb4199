"""What a program takes and gives, as the plugin is told: a list of whole numbers."""

from collections.abc import Iterable, Sequence

from edgec.runtime.dtypes import DType

__all__ = ["NUMBERS", "arrays_as_numbers"]

NUMBERS = {
    each: number
    for number, each in enumerate(
        (
            *(DType.BOOL, DType.I8, DType.I16, DType.I32, DType.I64),
            *(DType.U8, DType.U16, DType.U32, DType.U64),
            *(DType.F16, DType.F32, DType.F64, DType.BF16, DType.C64, DType.C128),
        ),
        start=1,
    )
}
"""Types as PJRT numbers them (`runtime/pjrt/abi.h`)."""


def arrays_as_numbers(arrays: Iterable[tuple[DType, Sequence[int]]]) -> tuple[int, ...]:
    """Each array's type as PJRT numbers it, rank and sizes, one after the other."""
    return tuple(
        number for dtype, sizes in arrays for number in (NUMBERS[dtype], len(sizes), *sizes)
    )
