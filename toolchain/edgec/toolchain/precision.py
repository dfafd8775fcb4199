"""How products of 32-bit floats are computed, where a device can trade precision for speed."""

from enum import Enum

__all__ = ["F32"]


class F32(Enum):
    """What happens to f32 in products; the value is what `--f32` takes."""

    FULL = "full"
    TF32 = "tf32"

    @property
    def triton(self) -> str:
        """The same in Triton's words: `full` is three products of the matrix units."""
        return "tf32" if self is F32.TF32 else "tf32x3"
