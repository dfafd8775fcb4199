"""An array to the element type that a function takes, if no number is lost on the way."""

import numpy as np

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import InputError
from edgec.runtime.signature import TensorSpec

__all__ = ["convert"]


def convert(array: np.ndarray, spec: TensorSpec) -> tuple[np.ndarray, str | None]:
    """The array in the spec's type, and a note on what was converted, if anything was.

    Integers become wider or narrower integers or floats, floats narrower or wider floats; floats
    never become integers.

    Raises:
        InputError: the types do not go together, or a number does not fit.
    """
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    have, want = DType.of(native.dtype), spec.dtype
    if have is want:
        return native, None
    if not _goes_together(have, want):
        raise InputError(
            f"{spec.name} takes {want.value} and got {have.value}",
            hint=f"convert it: numpy.save(path, array.astype({want.numpy.name!r}))",
        )
    with np.errstate(over="ignore", invalid="ignore"):
        converted = native.astype(want.numpy)
    if want.is_float:
        lost = bool(
            np.any(np.isinf(converted))
            and not np.array_equal(np.isinf(converted), np.isinf(native))
        )
    else:
        lost = not np.array_equal(converted, native)
    if lost:
        raise InputError(
            f"{spec.name} takes {want.value} and got {have.value} with numbers that do not fit"
        )
    return converted, f"{spec.name} was converted from {have.value} to {want.value}"


def _goes_together(have: DType, want: DType) -> bool:
    if want in (DType.C64, DType.C128):
        return True
    if have in (DType.C64, DType.C128):
        return False
    return want.is_float or not have.is_float
