"""Types of elements as edgert.h numbers them."""

from functools import cache

from edgec.runtime.dtypes import DType

__all__ = ["BY_HAL", "dtype_of", "hal_type"]

# edgert tells signed and unsigned apart, where IREE's compiler has one kind for both.
_SIGNLESS, _SIGNED, _UNSIGNED = 0x10, 0x11, 0x12


@cache
def hal_type(dtype: DType) -> int:
    """An element type as edgert.h has it."""
    kind = dtype.hal >> 24
    if kind == _SIGNLESS:
        kind = _UNSIGNED if dtype.numpy.kind == "u" else _SIGNED
    return kind << 24 | dtype.hal & 0xFFFFFF


BY_HAL = {hal_type(dtype): dtype for dtype in DType}


def dtype_of(hal: int) -> DType:
    """An element type of edgert's; integers without a sign of their own are signed."""
    kind = hal >> 24
    return BY_HAL[(_SIGNED if kind == _SIGNLESS else kind) << 24 | hal & 0xFFFFFF]
