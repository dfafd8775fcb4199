"""What a caller gives for one input to an array of exactly the input's type, or a clear refusal.

NumPy arrays and DeviceArrays must have the input's element type already: nothing is converted that
could lose a digit unseen. Python numbers and nested lists of them have no element type, so they
get the input's, if every value fits.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from edgec.runtime.array import DeviceArray
from edgec.runtime.device import Device
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import InputError
from edgec.runtime.signature import TensorSpec

__all__ = ["check_input"]

_NUMBERS = (bool, int, float, complex)


def check_input(
    spec: TensorSpec, value: Any, device: Device, sizes: dict[str, int]
) -> np.ndarray | DeviceArray:
    """The value as an array for `spec`; `sizes` collects what the named dimensions stand for.

    Raises:
        InputError: another element type or shape, another device, or no array at all.
    """
    array = _as_array(spec, value, device)
    got = array.dtype if isinstance(array, DeviceArray) else _dtype_of(spec, array)
    if got is not spec.dtype:
        raise InputError(
            f"{spec.name} takes {spec.dtype.value} and got {got.value}",
            hint=f"convert it yourself: {spec.name}.astype({_spelling(spec.dtype)})",
        )
    spec.check(array.shape, sizes)
    return array


def _as_array(spec: TensorSpec, value: Any, device: Device) -> np.ndarray | DeviceArray:
    if isinstance(value, DeviceArray):
        if value.device is not device:
            raise InputError(
                f"{spec.name} is on {value.device.uri} and the module is on {device.uri}",
                hint="pass x.numpy(), or put it on the module's device",
            )
        if value.host is None:
            _ = value.view
        return value
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    if isinstance(value, (*_NUMBERS, list, tuple)):
        return _from_python(spec, value)
    if hasattr(value, "__dlpack__"):
        return device.from_dlpack(value)
    if hasattr(value, "__array__"):
        return np.asarray(value)
    raise InputError(
        f"{spec.name} takes {spec.dtype.value} values and got {type(value).__name__}",
        hint="give a NumPy array",
    )


def _dtype_of(spec: TensorSpec, array: np.ndarray) -> DType:
    try:
        return DType.of(array.dtype)
    except InputError:
        raise InputError(
            f"{spec.name} takes {spec.dtype.value} and got {array.dtype}",
            hint=f"convert it yourself: {spec.name}.astype({_spelling(spec.dtype)})",
        ) from None


def _spelling(dtype: DType) -> str:
    return "ml_dtypes.bfloat16" if dtype is DType.BF16 else f"np.{dtype.numpy.name}"


def _from_python(spec: TensorSpec, value: Any) -> np.ndarray:
    """Numbers without an element type, in the input's: every one of them must fit."""
    dtype = spec.dtype
    kind = _KINDS[dtype.numpy.kind if dtype is not DType.BF16 else "f"]
    for leaf in _leaves(spec, value):
        if not isinstance(leaf, kind) or (isinstance(leaf, bool) and dtype is not DType.BOOL):
            raise InputError(
                f"{spec.name} takes {dtype.value} and got {leaf!r} ({type(leaf).__name__})",
                hint="give numbers of that kind",
            )
    try:
        with np.errstate(over="ignore"):
            array = np.asarray(value, dtype=dtype.numpy)
    except (ValueError, OverflowError, TypeError) as error:
        raise InputError(
            f"{spec.name} takes {dtype.value} and got values that do not fit: {error}",
            hint="give a NumPy array of that type",
        ) from error
    if dtype.is_float and not np.isfinite(array).all():
        wide = np.asarray(value, dtype=np.complex128)
        if np.isfinite(wide[~np.isfinite(array)]).any():
            raise InputError(f"{spec.name} takes {dtype.value} and got a number beyond its range")
    return array


# NumPy's kind of an element type to the Python numbers that stand for it.
_KINDS: dict[str, tuple[type, ...]] = {
    "b": (bool,),
    "i": (int, np.integer),
    "u": (int, np.integer),
    "f": (int, float, np.integer, np.floating),
    "c": (int, float, complex, np.number),
}


def _leaves(spec: TensorSpec, value: Any, depth: int = 0) -> Iterator[Any]:
    if depth > 32:
        raise InputError(f"{spec.name} is nested more than 32 levels deep")
    if isinstance(value, list | tuple):
        for child in value:
            yield from _leaves(spec, child, depth + 1)
    else:
        yield value
