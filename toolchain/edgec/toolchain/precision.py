"""How 32-bit floats are computed, where precision can be traded for speed."""

from enum import Enum

__all__ = ["F32", "Precision"]


class Precision(Enum):
    """What a program computes in; the value is what `--precision` takes."""

    DECLARED = "declared"
    F16 = "f16"


class F32(Enum):
    """What happens to f32 in products; the value is what `--f32` takes."""

    FULL = "full"
    TF32 = "tf32"

    @property
    def triton(self) -> str:
        """The same in Triton's words: `full` is three products of the matrix units."""
        return "tf32" if self is F32.TF32 else "tf32x3"
