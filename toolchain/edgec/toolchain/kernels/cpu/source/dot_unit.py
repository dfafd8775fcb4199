"""A CPU target to its instruction that multiplies bytes four by four and sums them in i32."""

from dataclasses import dataclass

from edgec.targets import Target
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit, first_of, vector_unit

__all__ = ["DotUnit", "dot_unit"]

_X86 = {16: "512", 8: "256", 4: "128"}


@dataclass(frozen=True, kw_only=True)
class DotUnit:
    """How a processor multiplies bytes.

    Attributes:
        vectors: its vector registers.
        signed: whether activations are bytes from -128 to 127; otherwise from 0 to 255. Weights
            are always signed.
    """

    vectors: VectorUnit
    signed: bool

    @property
    def low(self) -> int:
        """The least byte of an activation."""
        return -128 if self.signed else 0

    @property
    def lanes(self) -> tuple[int, ...]:
        """Sums in a vector, for each width that the instruction has."""
        widths = (16, 8, 4)
        return tuple(n for n in widths if n <= self.vectors.lanes)

    def multiply(self, result: str, total: str, values: str, weights: str, lanes: int) -> str:
        """`result`: `total` and the sums of four products, each lane its own.

        `values` and `weights` are vectors of four times as many bytes.
        """
        sums, many = f"vector<{lanes}xi32>", f"vector<{4 * lanes}xi8>"
        name = f"llvm.x86.avx512.vpdpbusd.{_X86[lanes]}"
        if self.signed:  # the last operand may be a lane, and is a pixel's
            name = "llvm.aarch64.neon.sdot.v4i32.v16i8"
            values, weights = weights, values
        return (
            f'{result} = llvm.call_intrinsic "{name}"({total}, {values}, {weights}) '
            f": ({sums}, {many}, {many}) -> {sums}"
        )


def dot_unit(target: Target) -> DotUnit | None:
    """The target's instruction; None where it has none, or it is not known."""
    unit = vector_unit(target)
    found = first_of(target.cpu.byte_products, target) if target.cpu else None
    return None if unit is None or found is None else DotUnit(vectors=unit, signed=found.signed)
