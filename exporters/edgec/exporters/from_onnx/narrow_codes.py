"""What the bytes of small floats stand for, and which byte a number becomes."""

from dataclasses import dataclass

import numpy as np

__all__ = ["Codes", "bits", "codes_of", "values_of"]


@dataclass(frozen=True, kw_only=True)
class Codes:
    """How the size of a number, by the bounds that it passes, becomes a code.

    Attributes:
        above: bounds that a size passes which is greater.
        from_there: bounds that a size passes which is no less.
        positive: the code by how many bounds were passed, of a number above zero.
        negative: that of a number below.
        none: the code of NaN.
    """

    above: np.ndarray
    from_there: np.ndarray
    positive: np.ndarray
    negative: np.ndarray
    none: int


def codes_of(dtype: np.dtype, *, saturate: bool, rounding: str) -> Codes | None:
    """The codes of a type; None where it is not known how ONNX rounds to it.

    Args:
        dtype: a small float.
        saturate: whether what is too large becomes the greatest number.
        rounding: of powers of two alone: up, down or nearest. Others are rounded to the nearest.
    """
    values = values_of(dtype)
    usual = np.flatnonzero(np.isfinite(values) & ~np.signbit(values))
    sizes = values[usual]
    if sizes.size > 1 and sizes[0] > 0 and (sizes[1:] == 2 * sizes[:-1]).all():
        return _powers(sizes, saturate=saturate, rounding=rounding)
    if sizes.size < 2 or sizes[0] != 0 or (np.diff(sizes) <= 0).any():
        return None
    below = np.flatnonzero(np.signbit(values) & np.isfinite(values))
    by_size = {float(-values[code]): int(code) for code in below}
    negative = np.array([by_size.get(float(size), 0) for size in sizes])
    nans, infinite = np.flatnonzero(np.isnan(values)), np.flatnonzero(np.isinf(values))
    with np.errstate(invalid="ignore"):
        none = int(np.array(np.nan, np.float32).astype(dtype).view(np.uint8))
    middles = (sizes[:-1] + sizes[1:]) / 2
    if not saturate:
        beyond = int(infinite[0]) if infinite.size else none
        lower = int(infinite[-1]) if infinite.size else int(nans[-1]) if nans.size else 0
        middles = np.append(middles, sizes[-1] + (sizes[-1] - sizes[-2]) / 2)
        usual, negative = np.append(usual, beyond), np.append(negative, lower)
    # Of two that are as near, the one whose last bit is 0.
    return Codes(
        above=middles[0::2],
        from_there=middles[1::2],
        positive=usual,
        negative=negative,
        none=none,
    )


def _powers(sizes: np.ndarray, *, saturate: bool, rounding: str) -> Codes | None:
    """Codes of a type that has powers of two alone, and no sign: a number's exponent in f32.

    As ONNX has it, f32's denormals count as zero, and infinity is no number.
    """
    normal = sizes[1:]
    if rounding == "up":
        above, from_there = np.append(np.float32(0), normal), normal[:0]
    elif rounding == "down":
        above, from_there = normal[:0], normal
    elif rounding == "nearest":
        above, from_there = sizes[:1], np.float32(1.5) * normal
    else:
        return None
    if saturate and rounding != "down":
        above, from_there = (bounds[bounds < sizes[-1]] for bounds in (above, from_there))
    none = sizes.size
    table = np.append(np.arange(none), [none, none])
    from_there = np.append(from_there, np.float32(np.inf))
    return Codes(above=above, from_there=from_there, positive=table, negative=table, none=none)


def values_of(dtype: np.dtype) -> np.ndarray:
    """What each code of a small float stands for."""
    with np.errstate(invalid="ignore"):
        return np.arange(1 << bits(dtype), dtype=np.uint8).view(dtype).astype(np.float32)


def bits(dtype: np.dtype) -> int:
    """How many bits a small float has."""
    import ml_dtypes

    return int(ml_dtypes.finfo(dtype).bits)
