"""How numbers are computed, where a device or its user leaves a choice."""

from enum import Enum

__all__ = ["F32", "Integers", "Precision"]


class Precision(Enum):
    """What a program computes in; the value is what `--precision` takes."""

    DECLARED = "declared"
    F16 = "f16"


class Integers(Enum):
    """How 64-bit integers are computed on a device without them, in the order of trying."""

    DECLARED = ""
    """As the compiler emulates them."""
    NARROW = "narrow-integers"
    """In 32 bits, where no 64-bit result is made of a 64-bit argument; what does not fit wraps."""
    PAIRS = "pair-integers"
    """As two words of 32 bits."""
    WRAPPING = "narrow-integers, results too"
    """In 32 bits in any case."""

    @property
    def pass_name(self) -> str:
        """The pass that does it; none where they are computed as declared."""
        return self.value.partition(",")[0]


class F32(Enum):
    """What happens to f32 in products; the value is what `--f32` takes."""

    FULL = "full"
    TF32 = "tf32"

    @property
    def triton(self) -> str:
        """The same in Triton's words: `full` is three products of the matrix units."""
        return "tf32" if self is F32.TF32 else "tf32x3"
