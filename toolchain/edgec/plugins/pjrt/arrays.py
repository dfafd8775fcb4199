"""What a program takes and gives, as the plugin is told: a list of whole numbers."""

from collections.abc import Iterable, Sequence

from edgec.runtime.dtypes import DType

__all__ = ["NARROW_NUMBERS", "NUMBERS", "arrays_as_numbers"]

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
NARROW_NUMBERS = {"i4": 21, "ui4": 22, "i2": 24, "ui2": 25}
"""Integers that are in bytes of their own, by MLIR's names, likewise."""


def arrays_as_numbers(
    arrays: Iterable[tuple[DType, Sequence[int]]], elements: Sequence[str] = ()
) -> tuple[int, ...]:
    """Each array's type as PJRT numbers it, rank and sizes, one after the other.

    Args:
        arrays: the type and sizes of each.
        elements: MLIR's names of what the elements of the last ones are, where these are narrower.
    """
    listed = list(arrays)
    names = [*[""] * (len(listed) - len(elements)), *elements]
    return tuple(
        number
        for (dtype, sizes), name in zip(listed, names, strict=True)
        for number in (NARROW_NUMBERS.get(name, NUMBERS[dtype]), len(sizes), *sizes)
    )
