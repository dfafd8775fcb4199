"""Numbers written on the command line to an array, each checked to fit its type."""

import re

import numpy as np

from edgec.cli.input_spec import TypedShape
from edgec.cli.memory import refuse_too_big
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import InputError

__all__ = ["parse_values"]

_BOOLS = {"true": True, "1": True, "false": False, "0": False}


def parse_values(text: str | None, typed: TypedShape) -> np.ndarray:
    """The array; one number fills it, no text makes zeros, brackets are only for the eye.

    Numbers are separated by commas or blanks. Integers are decimal or `0x…`; bools `true`,
    `false`, `1`, `0`; complex numbers as Python writes them (`1+2j`).

    Raises:
        InputError: too many or too few numbers, one that is none or does not fit the type,
            unbalanced brackets, or an array larger than this machine's memory.
    """
    refuse_too_big(str(typed), typed.shape, typed.dtype)
    if text is None:
        return np.zeros(typed.shape, typed.dtype.numpy)
    words = _words(text, typed)
    count = 1
    for size in typed.shape:
        count *= size
    numbers = np.array([_number(word, typed) for word in words], dtype=_wide(typed.dtype))
    _refuse_overflow(numbers, typed, text)
    values = numbers.astype(typed.dtype.numpy)
    if len(words) == 1 and "[" not in text:
        return np.full(typed.shape, values[0], typed.dtype.numpy)
    if len(words) != count:
        raise InputError(
            f"{typed} needs {count} numbers and got {len(words)}",
            hint="give all of them, or one that fills the array",
        )
    return values.reshape(typed.shape)


def _words(text: str, typed: TypedShape) -> list[str]:
    depth = 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if depth < 0 or depth > len(typed.shape):
            break
    if depth != 0:
        raise InputError(
            f"the brackets in {_short(text)} do not fit {typed}",
            hint="balance them, or leave them out: they are only for the eye",
        )
    return re.sub(r"[\[\],]", " ", text).split()


def _number(word: str, typed: TypedShape) -> bool | int | float | complex:
    dtype = typed.dtype
    try:
        if dtype is DType.BOOL:
            return _BOOLS[word.lower()]
        if dtype in (DType.C64, DType.C128):
            return complex(word)
        if dtype.is_float:
            return float(word)
        value = int(word, 16 if re.match(r"[+-]?0[xX]", word) else 10)
        low, high = np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max
        if not low <= value <= high:
            raise InputError(f"{_short(word)} does not fit {dtype.value}: {low} to {high}")
        return value
    except (ValueError, KeyError) as error:
        raise InputError(
            f"{_short(word)} is no {dtype.value} number", hint=f"it was given for {typed}"
        ) from error


def _wide(dtype: DType) -> np.dtype:
    """A type that holds every number of the text before it is made smaller."""
    if not dtype.is_float:
        return dtype.numpy
    return np.dtype(np.complex128 if dtype in (DType.C64, DType.C128) else np.float64)


def _refuse_overflow(numbers: np.ndarray, typed: TypedShape, text: str) -> None:
    if not typed.dtype.is_float:
        return
    with np.errstate(over="ignore"):
        small = numbers.astype(typed.dtype.numpy).astype(numbers.dtype)
    if np.any(np.isinf(small) & ~np.isinf(numbers)):
        raise InputError(f"a number in {_short(text)} is too large for {typed.dtype.value}")


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:39]}…")
