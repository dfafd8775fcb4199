"""How far an answer may be off, by its element type and by how far its values lie apart."""

from dataclasses import dataclass

import numpy as np

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import UsageError

__all__ = ["SMALLEST_NORMAL", "Tolerance", "root_mean_square", "spread_of", "widened"]

_SINGLE_NORMAL, _DOUBLE_NORMAL = (float(np.finfo(kind).tiny) for kind in (np.float32, np.float64))
SMALLEST_NORMAL = {
    DType.BF16: _SINGLE_NORMAL,
    DType.F32: _SINGLE_NORMAL,
    DType.C64: _SINGLE_NORMAL,
    DType.F64: _DOUBLE_NORMAL,
    DType.C128: _DOUBLE_NORMAL,
}
"""By type, the size below which a number may come out as 0.

IREE's threads on CPUs and most GPUs compute without denormal numbers. Those of f16 are left out:
they are not that small, and devices keep them.
"""


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """How far an answer may be off.

    `|actual - expected| <= absolute + relative * |expected| + spread * S`, where S is how far the
    expected values of the output lie apart: their standard deviation, and at least a tenth of
    their root mean square. Where `spread` counts, all differences together (their root mean
    square) may be a third of that.
    """

    absolute: float = 0.0
    relative: float = 0.0
    spread: float = 0.0

    def __post_init__(self) -> None:
        if not (self.absolute >= 0 and self.relative >= 0 and self.spread >= 0):
            raise UsageError(f"a tolerance cannot be negative: {self}")

    @classmethod
    def of(cls, dtype: DType) -> "Tolerance":
        """The default for an element type: exact for integers and bool.

        Floats get about ten times the error that another order of summation makes in a network of
        some dozen layers, as a part of the output's own spread: a probability of 0.001 is not
        right because it is near 0. 16-bit floats have 11 (f16) and 8 (bf16) significant bits.
        Numbers too small to be normal ones may be 0.
        """
        return _DEFAULTS.get(dtype, cls())

    def limits(self, expected: np.ndarray) -> tuple[float, float]:
        """What a value of `expected` may be off by, and by what part of its size on top of that."""
        if expected.dtype.kind in "biu" or not expected.size:
            return self.absolute, self.relative
        return self.absolute + self.spread * spread_of(widened(expected)), self.relative


_SINGLE = Tolerance(absolute=SMALLEST_NORMAL[DType.F32], relative=1e-5, spread=5e-4)
_DOUBLE = Tolerance(absolute=SMALLEST_NORMAL[DType.F64], relative=1e-9, spread=5e-8)
_DEFAULTS = {
    DType.F16: Tolerance(relative=5e-3, spread=2e-2),
    DType.BF16: Tolerance(absolute=SMALLEST_NORMAL[DType.BF16], relative=4e-2, spread=1e-1),
    DType.F32: _SINGLE,
    DType.F64: _DOUBLE,
    DType.C64: _SINGLE,
    DType.C128: _DOUBLE,
}
_LEAST_SPREAD = 0.1
"""Of the root mean square; and of 1 for an output of zeros, which has no size of its own."""


def spread_of(expected: np.ndarray) -> float:
    """How far the finite values of an array lie apart."""
    values = expected[np.isfinite(expected)]
    size = root_mean_square(values)
    if not size:
        return _LEAST_SPREAD
    return max(root_mean_square(values - values.mean()), _LEAST_SPREAD * size)


def root_mean_square(values: np.ndarray) -> float:
    """The root mean square, of numbers of any size; where not all are finite, it is not either."""
    sizes = np.abs(values)
    most = float(sizes.max(initial=0.0))
    if not np.isfinite(most):
        return most
    return most * float(np.sqrt(np.mean((sizes / most) ** 2))) if most else 0.0


def widened(array: np.ndarray) -> np.ndarray:
    """Real numbers as f64, others as c128."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
